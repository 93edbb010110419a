package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// A session that has ended is first marked so, which is all that its user waits for in any case. Then the provider is told that its refresh
// token is not needed any more (RFC 7009), and then the session is forgotten. Whoever dies in between, and a provider that does not
// answer, leave one that is marked: Sweep of any process goes on with it.

// End ends a session, in all processes within policy.Standing, and has the provider take back what it has given. It says what stays good
// there, "" when nothing does: a provider that does not answer is no reason not to end it.
func (s *Sessions) End(ctx context.Context, secret string) (left string, err error) {
	now := s.Now().UTC().Truncate(time.Millisecond)
	x, err := s.close(ctx, authn.SessionID(secret), now.Add(policy.Renew))
	switch {
	case fail.Is(err, fail.NotFound):
		return "", nil // it has ended before
	case errors.Is(err, domain.ErrUnreadable):
		return "what the provider has given for this session cannot be read, and stays good there until it expires", s.Store.DeleteSession(ctx, authn.SessionID(secret))
	case err != nil:
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.GiveBack) // also when its user has left
	defer cancel()
	switch err := s.finish(ctx, x); {
	case err == nil:
		return "", nil
	case fail.KindOf(err).Retryable():
		return fmt.Sprintf("the session has ended here, but its provider has not been told: %s; it is told again for %s", fail.TextOf(err), policy.SessionKept), nil
	default:
		return fmt.Sprintf("the session has ended here, but what its provider has given stays good there until it expires: %s", fail.TextOf(err)), nil
	}
}

// close marks a session as ended, and who does that as at giving back what it has until a time. NotFound when there is none that goes on.
func (s *Sessions) close(ctx context.Context, id string, busy time.Time) (*domain.Session, error) {
	for {
		x, err := s.Store.Session(ctx, id)
		if err != nil {
			return nil, err
		}
		if !x.Ended.IsZero() {
			return nil, fail.New(fail.NotFound, "the session has ended before")
		}
		x.Ended, x.Renewing = s.Now().UTC().Truncate(time.Millisecond), busy
		if x.Ended.Before(x.Expires) {
			x.Expires = x.Ended
		}
		if mine, err := s.Store.ReplaceSession(ctx, x); err != nil || mine {
			return x, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// finish gives back what a session has that is this process's to end, and forgets it. When the provider does not answer the session is
// left to a later sweep.
func (s *Sessions) finish(ctx context.Context, x *domain.Session) error {
	err := s.giveBack(ctx, x)
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Renew)
	defer cancel()
	if err == nil || !fail.KindOf(err).Retryable() {
		return errors.Join(err, s.Store.DeleteSession(storing, x.ID))
	}
	x.Renewing = s.Now().UTC().Truncate(time.Millisecond).Add(policy.SessionRetry)
	if _, failed := s.Store.ReplaceSession(storing, x); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// giveBack has the provider of a session take back its refresh token, if there is one.
func (s *Sessions) giveBack(ctx context.Context, x *domain.Session) error {
	if x.Refresh == "" {
		return nil
	}
	issuer, _ := issuerOf(x.Token)
	p := s.Providers.by[issuer]
	if p == nil || p.Browser == nil {
		return fail.New(fail.Precondition, "the issuer %s is not configured any more", issuer)
	}
	ctx, cancel := context.WithTimeout(ctx, policy.Keys)
	defer cancel()
	return p.giveBack(ctx, x.Refresh)
}

// unused gives back what a provider has given for a session that has no use for it: it was ended meanwhile.
func (s *Sessions) unused(ctx context.Context, p *provider, x *domain.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.GiveBack)
	defer cancel()
	_ = p.giveBack(ctx, x.Refresh) // nobody has it: it expires
}

// sweepAtOnce is how many sessions are read at a time, and sweepProviders how many providers are asked.
const (
	sweepAtOnce    = 100
	sweepProviders = 8
)

// Sweep ends sessions whose time is over, and goes on with those that were ended and are not forgotten yet. Providers are asked beside each other, each
// for one session after the other, so that a slow one does not delay others. Of one that does not answer no more is asked than once, and of a slow one
// no more than policy.SessionSweep has time for; what others take is not counted. Any number of processes may sweep.
func (s *Sessions) Sweep(ctx context.Context) error { return s.sweepFor(ctx, policy.SessionSweep) }

// sweepFor is Sweep with a time for each provider.
func (s *Sessions) sweepFor(ctx context.Context, most time.Duration) error {
	begun := s.Now().UTC().Truncate(time.Millisecond)
	asked := map[string]*asking{} // by issuer
	for after := ""; ; {
		ended, err := s.Store.EndedSessions(ctx, begun, after, sweepAtOnce)
		unreadable, err := domain.UnreadableOf(err) // what nobody can read is dropped when it is old
		if err != nil {
			return err
		}
		if len(ended)+len(unreadable) == 0 {
			break
		}
		for _, x := range ended {
			after = max(after, x.ID)
		}
		for _, id := range unreadable { // a page may have nothing else
			after = max(after, id)
		}
		of := map[string][]*domain.Session{}
		for _, x := range ended {
			issuer, _ := issuerOf(x.Token)
			of[issuer] = append(of[issuer], x)
		}
		providers := panics.New(ctx)
		providers.SetLimit(sweepProviders)
		for issuer, sessions := range of {
			if asked[issuer] == nil {
				asked[issuer] = &asking{left: most}
			}
			at := asked[issuer]
			providers.Go(func() error { return s.sweepOf(ctx, at, sessions) })
		}
		if err := providers.Wait(); err != nil {
			return err
		}
	}
	var wrong []error
	for _, issuer := range slices.Sorted(maps.Keys(asked)) {
		wrong = append(append(wrong, asked[issuer].wrong...), asked[issuer].away)
	}
	return errors.Join(append(wrong, s.Store.DropSessions(ctx, begun.Add(-policy.SessionKept)))...)
}

// asking is what a sweep knows of a provider.
type asking struct {
	left  time.Duration // until it is left to the next sweep
	away  error         // it does not answer
	wrong []error
}

// sweepOf sweeps sessions of one provider.
func (s *Sessions) sweepOf(ctx context.Context, at *asking, sessions []*domain.Session) error {
	for _, x := range sessions {
		now := s.Now().UTC().Truncate(time.Millisecond) // each is claimed for as long as it may take, however long those before it took
		if claimed(x, now, policy.SessionRetry) || x.Refresh != "" && (at.away != nil || at.left <= 0) {
			continue // somebody else is at it, or the provider is to be asked later
		}
		begun := time.Now()
		err := s.sweep(ctx, x, now)
		at.left -= time.Since(begun)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
		case fail.KindOf(err).Retryable():
			at.away = err
		default:
			at.wrong = append(at.wrong, err)
		}
	}
	return nil
}

// sweep ends one session whose time is over, unless somebody else does.
func (s *Sessions) sweep(ctx context.Context, x *domain.Session, now time.Time) error {
	if x.Ended.IsZero() {
		x.Ended = now
	}
	x.Renewing = now.Add(policy.Renew)
	if mine, err := s.Store.ReplaceSession(ctx, x); err != nil || !mine {
		return err
	}
	return s.finish(ctx, x)
}

// Run sweeps until ctx ends, and says what went wrong.
func (s *Sessions) Run(ctx context.Context, wrong func(error)) {
	next := time.NewTicker(policy.SessionSweep)
	defer next.Stop()
	for ctx.Err() == nil {
		err := panics.Do(ctx, func() error { return s.Sweep(ctx) })
		if err != nil && ctx.Err() == nil {
			wrong(err)
		}
		select {
		case <-next.C:
		case <-ctx.Done():
		}
	}
}

// giveBack has a provider take back a refresh token (RFC 7009). Precondition when it takes none back, Unavailable when it does not answer.
func (p *provider) giveBack(ctx context.Context, refresh string) error {
	client, m, err := p.client(ctx)
	if err != nil {
		return err
	}
	if m.Revoke == "" {
		return fail.New(fail.Precondition, "the issuer %s takes nothing back: it names no revocation_endpoint", p.URL)
	}
	form := url.Values{"token": {refresh}, "token_type_hint": {"refresh_token"}}
	basic := client.ClientSecret != "" && (len(m.RevokeMethods) == 0 || slices.Contains(m.RevokeMethods, "client_secret_basic"))
	if !basic {
		form.Set("client_id", client.ClientID)
		if client.ClientSecret != "" {
			form.Set("client_secret", client.ClientSecret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Revoke, strings.NewReader(form.Encode()))
	if err != nil {
		return fail.Wrap(err, fail.Precondition, "the issuer %s names a revocation_endpoint that is none", p.URL)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic {
		r.SetBasicAuth(url.QueryEscape(client.ClientID), url.QueryEscape(client.ClientSecret))
	}
	answer, err := p.keys.client.Do(r)
	if err != nil {
		return fail.New(fail.Unavailable, "the issuer %s does not answer", p.URL) // the error may have what was sent
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // bounded, for the connection's sake
	switch code := answer.StatusCode; {
	case code < http.StatusMultipleChoices:
		return nil
	case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests:
		return fail.New(fail.Unavailable, "the issuer %s answers %s", p.URL, answer.Status)
	default:
		return fail.New(fail.Precondition, "the issuer %s does not take it back: %s", p.URL, answer.Status)
	}
}
