package service

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/token"
)

// fillToken says how long a token is good, and leaves out what nobody but we can say of it.
func fillToken(o domain.Object) {
	t := o.(*domain.TenantToken)
	if t.Spec.ExpiresAfter == "" {
		t.Spec.ExpiresAfter = fmt.Sprintf("%.0fh", domain.DefaultTokenLife.Hours())
	}
	t.Status = domain.TokenStatus{}
}

// issueToken makes the token. Its text is in the answer, and in no store.
func (s *Service) issueToken(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	if err := s.room(ctx, c.to, limits.TenantTokens, 1); err != nil {
		return err
	}
	t := c.to.(*domain.TenantToken)
	t.Credential = domain.Credential{Expires: s.now().UTC().Add(t.Spec.Life()).Truncate(time.Millisecond)}
	t.Status.Token, t.Hash = token.New(string(domain.KeyOf(t)))
	return nil
}

// issuedToken looks again for others.
func (s *Service) issuedToken(ctx context.Context, c change) error {
	if c.to == nil {
		return nil
	}
	return s.room(ctx, c.to, limits.TenantTokens, 0)
}

func showToken(o domain.Object) { o.(*domain.TenantToken).Show() }

// Speaker is who speaks for a tenant on a connection, and for how long.
type Speaker struct {
	// Until is when the certificate or the token expires, zero for never.
	Until time.Time
	// token is the key of the token, "" for none, with its hash: another one may come to have its name.
	token domain.Key
	hash  []byte
}

// usedEvery is how much older the last use of a token is when it is noted anew.
const usedEvery = 5 * time.Minute

// errUnknownToken does not say what is wrong with a token: who has none learns nothing.
func errUnknownToken() error {
	return fail.New(fail.Unauthorized, "the bearer token is not known: it was revoked, or it is none")
}

// SpeakerBy says who speaks by a bearer token. Unauthorized when it is none, was revoked or has expired; Forbidden when it is
// another tenant's.
func (m *Matcher) SpeakerBy(ctx context.Context, tenant, bearer string) (*Speaker, error) {
	of, hash, ok := token.Parse(bearer)
	if !ok {
		return nil, errUnknownToken()
	}
	names, ok := domain.TenantTokens.Split(domain.Key(of))
	if !ok {
		return nil, errUnknownToken()
	}
	s := &Speaker{token: domain.Key(of), hash: hash}
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
		o, err := m.store.Get(ctx, domain.TenantTokens, s.token)
		if fail.Is(err, fail.NotFound) {
			return errUnknownToken()
		}
		if err != nil {
			return err
		}
		t := o.(*domain.TenantToken)
		if !token.Same(t.Hash, s.hash) {
			return errUnknownToken()
		}
		s.Until = t.Expires
		if now := m.now(); now.Before(t.Expires) && now.Sub(t.LastUsed) >= usedEvery {
			_ = m.store.NoteUse(ctx, domain.TenantTokens, s.token, s.hash, now.UTC().Truncate(time.Millisecond)) // the next use notes it too
		}
	}
	switch {
	case s.Until.IsZero() || m.now().Before(s.Until):
		return nil
	case s.token != "":
		return fail.New(fail.Unauthorized, "the bearer token has expired")
	default:
		return fail.New(fail.Unauthorized, "the client certificate has expired")
	}
}
