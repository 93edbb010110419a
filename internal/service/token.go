package service

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/token"
)

// fillToken says how long a token is good, and leaves out what nobody but we can say of it.
func fillToken(o domain.Object) {
	spec, status, _ := o.(domain.Bearer).Parts()
	if spec.ExpiresAfter == "" {
		spec.ExpiresAfter = fmt.Sprintf("%.0fh", domain.DefaultTokenLife.Hours())
	}
	*status = domain.TokenStatus{}
}

// issueToken makes the token. Its text is in the answer, and in no store. Who revokes one needs the same rights.
func (s *Service) issueToken(ctx context.Context, c change) error {
	if c.to == nil { // who could take away what others come in by could lock them out
		return s.mayBe(ctx, c.from.Base().Parent)
	}
	if err := s.mayBe(ctx, c.to.Base().Parent); err != nil {
		return err
	}
	if err := s.room(ctx, c.to, limits.Tokens, 1); err != nil {
		return err
	}
	spec, status, kept := c.to.(domain.Bearer).Parts()
	*kept = domain.Credential{Expires: s.now().UTC().Add(spec.Life()).Truncate(time.Millisecond)}
	status.Token, kept.Hash = token.New(string(domain.KeyOf(c.to)))
	return nil
}

// changeAccount refuses to make the first service account again, which is admin of the fleet without a binding, by who is not, and
// to delete an account by who has less rights than it has.
func (s *Service) changeAccount(ctx context.Context, c change) error {
	switch {
	case c.from == nil:
		return s.mayBe(ctx, domain.KeyOf(c.to))
	case c.to == nil:
		return s.mayBe(ctx, domain.KeyOf(c.from))
	default:
		return nil
	}
}

// mayBe refuses that the caller becomes a service account that has a right that the caller has not. Others than service accounts
// have no rights to get.
func (s *Service) mayBe(ctx context.Context, account domain.Key) error {
	granted := rights.Of(ctx)
	if _, ok := domain.ServiceAccounts.Split(account); !ok || granted.Everything() {
		return nil
	}
	book, err := s.Rights(ctx)
	if err != nil {
		return err
	}
	if lacks := granted.LacksOf(account, book); lacks != "" {
		return fail.New(fail.Forbidden, "you cannot speak as %s, or end what speaks as it: it has a right that you have not, %s", describe(domain.ServiceAccounts, account), lacks)
	}
	return nil
}

// issuedToken looks again for others.
func (s *Service) issuedToken(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	return s.room(ctx, c.to, limits.Tokens, 0)
}

func showToken(o domain.Object) { domain.ShowToken(o.(domain.Bearer)) }

// Speaker is who speaks for a tenant on a connection, and for how long.
type Speaker struct {
	// By is by what it speaks, in words for people, as caller.Identity has it.
	By string
	// Until is when the certificate or the token expires, zero for never.
	Until time.Time
	// Stands says whether the CA of the certificate is still trusted: Unauthorized when it is not. nil where there is none.
	Stands func() error
	// token is the key of the token, "" for none, with its hash: another one may come to have its name.
	token domain.Key
	hash  []byte
}

// SpeakerBy says who speaks by a bearer token. Unauthorized when it is none, was revoked or has expired; Forbidden when it is
// another tenant's.
func (m *Matcher) SpeakerBy(ctx context.Context, tenant, bearer string) (*Speaker, error) {
	of, hash, ok := token.Parse(bearer)
	if !ok {
		return nil, authn.Unknown()
	}
	names, ok := domain.TenantTokens.Split(domain.Key(of))
	if !ok {
		return nil, authn.Unknown()
	}
	s := &Speaker{By: "token " + of, token: domain.Key(of), hash: hash}
	if err := m.speaks(ctx, s); err != nil {
		return nil, err
	}
	if names["tenant"] != tenant {
		return nil, fail.New(fail.Forbidden, "the bearer token does not speak for tenant %q", tenant)
	}
	return s, nil
}

// speaks refuses a speaker whose time is over, or whose token was revoked, and notes that the token is used.
func (m *Matcher) speaks(ctx context.Context, s *Speaker) error {
	// Of one whose time is known to be over nobody needs to be asked, who may not answer.
	if over := !s.Until.IsZero() && !m.now().Before(s.Until); s.token != "" && !over {
		until, err := authn.Tokens{Store: m.store, Now: m.now}.Look(ctx, domain.TenantTokens, s.token, s.hash)
		if !until.IsZero() {
			s.Until = until
		}
		return err
	}
	switch {
	case s.Until.IsZero() || m.now().Before(s.Until):
		if s.Stands != nil {
			return s.Stands()
		}
		return nil
	case s.token != "":
		return authn.Expired()
	default:
		return fail.New(fail.Unauthorized, "the client certificate has expired")
	}
}
