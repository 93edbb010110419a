// Package authn says who calls: a chain of those who can tell, each by one thing that a call shows. What is shown and proves nothing
// is refused, never passed over: somebody who sends a revoked token is told so, instead of being let in by something else. Edges ask
// before they read anything of a request, and the door answers with what was found (decision 0049).
package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// Shown is what a call shows of who it is from, as it came.
type Shown struct {
	// Authorization are the values of the header, or of the member of a call's metadata.
	Authorization []string
	// Chain is the client's certificate with those that vouch for it, verified up to a client CA; nil for none.
	Chain []*x509.Certificate
	// Session is the secret of a session, as a browser shows it for a page of ours; "" for none.
	Session string
	// User and Groups are the values of X-Forwarded-User and X-Forwarded-Groups.
	User, Groups []string
	// Metrics says that nothing but metrics is asked for.
	Metrics bool
}

// Proof is who calls, and a look whether that is still so, nil where nothing can be withdrawn but by time.
type Proof struct {
	caller.Identity
	Still caller.Look
}

// Prover says who calls by what a call shows; nil when that says nothing to it. Errors are Unauthorized for what is shown and proves
// nothing, and Unavailable when it cannot be told now.
type Prover func(ctx context.Context, s *Shown) (*Proof, error)

// Chain asks provers one after the other; the first who can tell decides.
func Chain(provers ...Prover) Prover {
	return func(ctx context.Context, s *Shown) (*Proof, error) {
		for _, prove := range provers {
			if proof, err := prove(ctx, s); proof != nil || err != nil {
				return proof, err
			}
		}
		return nil, nil
	}
}

// Off asks nobody: everybody may do everything.
func Off(context.Context, *Shown) (*Proof, error) {
	return &Proof{Identity: caller.Identity{Kind: caller.Open}}, nil
}

// MaxName bounds the name of a caller and of a group, in bytes: they are in operations and in audit.
const MaxName = 256

// Into is ctx with who calls, or why that is not known. Who proves nothing is anonymous; so is everybody without a prover.
func (p Prover) Into(ctx context.Context, s *Shown) context.Context {
	if p == nil {
		return ctx
	}
	bounded, cancel := context.WithTimeout(ctx, policy.Prove)
	defer cancel()
	proof, err := p(bounded, s)
	if err == nil && proof != nil {
		err = proof.check()
	}
	switch {
	case err != nil:
		return caller.WithIdentity(ctx, caller.Identity{}, refusal(err))
	case proof == nil:
		return caller.WithIdentity(ctx, caller.Identity{}, nil)
	case proof.Still == nil:
		return caller.WithIdentity(ctx, proof.Identity, nil)
	default:
		return caller.WithLook(ctx, proof.Identity, proof.Still)
	}
}

// refusal is an error as the caller is told: what is not Unauthorized is no fault of the caller's, who may come again.
func refusal(err error) error {
	if fail.Is(err, fail.Unauthorized) || fail.Is(err, fail.Unavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return fail.Wrap(err, fail.Unavailable, "who calls cannot be told at the moment; try again later")
}

// check refuses names that nobody can read.
func (p *Proof) check() error {
	if p.Kind == caller.Open {
		return nil
	}
	if p.Name == "" || len(p.Name) > MaxName || !printable(p.Name) {
		return fail.New(fail.Unauthorized, "the name of the caller needs 1 to %d bytes, all of them printable", MaxName)
	}
	p.Groups = slices.DeleteFunc(slices.Clone(p.Groups), func(g string) bool { return g == "" })
	for _, g := range p.Groups {
		if len(g) > MaxName || !printable(g) {
			return fail.New(fail.Unauthorized, "the name of a group of the caller needs 1 to %d bytes, all of them printable", MaxName)
		}
	}
	return nil
}

// printable says whether a text has neither control characters nor bytes that are none.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' || r >= 0x80 && r < 0xa0 })
}

// Bearer is the token that a call shows, "" for none. No error says what was sent.
func (s *Shown) Bearer() (string, error) {
	switch len(s.Authorization) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", fail.New(fail.Unauthorized, "Authorization is there %d times, and may be there once", len(s.Authorization))
	}
	scheme, text, _ := strings.Cut(s.Authorization[0], " ")
	if text = strings.TrimSpace(text); !strings.EqualFold(scheme, "Bearer") || text == "" {
		return "", fail.New(fail.Unauthorized, "Authorization must be Bearer and a token")
	}
	return text, nil
}
