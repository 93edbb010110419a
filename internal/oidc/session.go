package oidc

import (
	"context"
	"time"

	upstream "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// Sessions are logins at the page. They are stored, so that each process knows them, and one that is ended is so everywhere: a browser
// shows its secret, and who it is says the provider's token that is kept. A token that expires is replaced by another one where the
// provider gives that.
type Sessions struct {
	Providers *Providers
	Store     SessionStore
	Sealer    Sealer
	Now       func() time.Time

	lookups, begins, answers *authn.Turns       // of strangers: secrets that they show, logins, and what they say that providers have answered
	renewals                 singleflight.Group // by id and the token that is to be replaced: who waited since an earlier one has that one replaced
}

// NewSessions makes them.
func NewSessions(of *Providers, in SessionStore, by Sealer, now func() time.Time) *Sessions {
	return &Sessions{Providers: of, Store: in, Sealer: by, Now: now, lookups: authn.NewTurns(), begins: authn.NewTurns(), answers: authn.NewTurns()}
}

// SessionStore has the sessions. Its errors are fail errors.
type SessionStore interface {
	PutSession(ctx context.Context, s *domain.Session) error
	Session(ctx context.Context, id string) (*domain.Session, error)
	ReplaceSession(ctx context.Context, s *domain.Session) (bool, error)
	DeleteSession(ctx context.Context, id string) error
	EndSession(ctx context.Context, s *domain.Session) (bool, error)
	EndedSessions(ctx context.Context, at time.Time, after string, most int) ([]*domain.Session, error)
	DropSessions(ctx context.Context, at time.Time) error
}

// Keep stores the session that has come of a login. Unauthorized when that was answered before.
func (s *Sessions) Keep(ctx context.Context, l *authn.Login) error {
	now := s.Now().UTC().Truncate(time.Millisecond)
	err := s.Store.PutSession(ctx, &domain.Session{ID: l.ID, Expires: l.Expires.UTC().Truncate(time.Millisecond), Token: l.Token, Refresh: l.Refresh, Renewed: now})
	if fail.Is(err, fail.Conflict) {
		return lost("it was answered before")
	}
	return err
}

// Prove is an authn.Prover for browsers.
func (s *Sessions) Prove(ctx context.Context, shown *authn.Shown) (*authn.Proof, error) {
	if shown.Session == "" {
		return nil, nil
	}
	id := authn.SessionID(shown.Session)
	x, err := s.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	proof, err := s.proofOf(ctx, x)
	switch {
	case err == nil && !s.due(x, proof):
	case err == nil:
		s.renewing(ctx, x)
	case fail.Is(err, fail.Unauthorized) && x.Refresh != "":
		if proof, err = s.renewed(ctx, x); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	still := proof.Still
	proof.Still = func(ctx context.Context) error {
		if _, err := s.read(ctx, id); err != nil {
			return err
		}
		return still(ctx)
	}
	return proof, nil
}

// lookup is read in its turn: it may be that of a stranger.
func (s *Sessions) lookup(ctx context.Context, id string) (*domain.Session, error) {
	leave, err := s.lookups.Take(ctx, caller.RemoteOf(ctx))
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.read(ctx, id)
}

// read is a session that has not ended.
func (s *Sessions) read(ctx context.Context, id string) (*domain.Session, error) {
	x, err := s.Store.Session(ctx, id)
	if fail.Is(err, fail.NotFound) || err == nil && (!x.Ended.IsZero() || !s.Now().Before(x.Expires)) {
		return nil, authn.Ended()
	}
	return x, err
}

// proofOf is who a session is, by its token.
func (s *Sessions) proofOf(ctx context.Context, x *domain.Session) (*authn.Proof, error) {
	issuer, _ := issuerOf(x.Token)
	p := s.Providers.by[issuer]
	if p == nil || p.Browser == nil {
		return nil, authn.Ended()
	}
	proof, err := s.Providers.proofOf(ctx, x.Token)
	if err != nil {
		if fail.Is(err, fail.Unauthorized) {
			err = fail.Wrap(err, fail.Unauthorized, "the session has ended: log in again")
		}
		return nil, err
	}
	proof.By = byOf(proof.By, x.ID)
	if x.Expires.Before(proof.Expires) {
		proof.Expires = x.Expires
	}
	return proof, nil
}

// due says whether it is time to ask for another token: when three quarters of its time are over.
func (s *Sessions) due(x *domain.Session, proof *authn.Proof) bool {
	now := s.Now()
	return x.Refresh != "" && now.Sub(x.Renewed) > 3*proof.Expires.Sub(now) && proof.Expires.Before(x.Expires)
}

// renewed waits until a session whose token is good no more has another one. Unavailable when the provider does not answer.
func (s *Sessions) renewed(ctx context.Context, x *domain.Session) (*authn.Proof, error) {
	if until, ok := expiryOf(x.Token); !ok || s.Now().After(until.Add(policy.SessionIdle)) {
		_, _ = s.close(ctx, x.ID, time.Time{}) // what it has is given back by the next sweep
		return nil, authn.Ended()
	}
	select {
	case r := <-s.renewing(ctx, x):
		if r.Err != nil {
			return nil, r.Err
		}
		return s.proofOf(ctx, r.Val.(*domain.Session))
	case <-ctx.Done():
		issuer, _ := issuerOf(x.Token)
		return nil, fail.Wrap(ctx.Err(), fail.Unavailable, "the issuer %s does not answer; try again later", issuer)
	}
}

// renewing renews a session, or joins who does that already in the place of the same token. It goes on when the caller has left.
func (s *Sessions) renewing(ctx context.Context, x *domain.Session) <-chan singleflight.Result {
	return s.renewals.DoChan(x.ID+"/"+x.Token, func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		return panics.Value(ctx, func() (*domain.Session, error) { return s.renew(ctx, x.ID, x.Token) })
	})
}

// renew asks for another token in the place of one, unless somebody else does so, for which it waits: a refresh token may be good once, so that clocks
// of processes have room. What the provider refuses ends the session. A process that dies in between may have used up what it asked with: then the next one is refused, and the user logs in again.
func (s *Sessions) renew(ctx context.Context, id, instead string) (*domain.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Renew)
	defer cancel()
	for {
		x, err := s.read(ctx, id)
		if err != nil || x.Token != instead {
			return x, err
		}
		if x.Refresh == "" {
			return nil, authn.Ended()
		}
		if now := s.Now().UTC().Truncate(time.Millisecond); !claimed(x, now.Add(-policy.ClocksApart), policy.Renew) {
			x.Renewing = now.Add(policy.Renew)
			if mine, err := s.Store.ReplaceSession(ctx, x); err != nil || mine {
				if err != nil {
					return nil, err
				}
				return s.refresh(ctx, x)
			}
			continue
		}
		next := time.NewTimer(policy.RenewLook)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			issuer, _ := issuerOf(x.Token)
			return nil, fail.Wrap(ctx.Err(), fail.Unavailable, "the session cannot be renewed: the issuer %s has not answered another process yet; try again later", issuer)
		}
	}
}

// claimed says whether a session is somebody's at a time, for longest at the most: another process, by its own clock, or nobody's until it is tried again.
// One that says much longer has a clock that was ahead, and may have died since.
func claimed(x *domain.Session, at time.Time, longest time.Duration) bool {
	left := x.Renewing.Sub(at)
	return left > 0 && left <= longest+policy.ClockSkew
}

// refresh asks the provider of a session, which is this process's to renew.
func (s *Sessions) refresh(ctx context.Context, x *domain.Session) (*domain.Session, error) {
	issuer, _ := issuerOf(x.Token)
	p := s.Providers.by[issuer]
	if p == nil || p.Browser == nil {
		return nil, authn.Ended()
	}
	asking, cancel := context.WithTimeout(ctx, policy.Keys) // what is left of ctx is to store what is given
	given, err := p.ask(asking, x.Refresh)
	cancel()
	if err != nil {
		if fail.Is(err, fail.Unauthorized) {
			mine, failed := s.Store.EndSession(ctx, x)
			switch {
			case failed != nil:
				return nil, failed
			case !mine: // it took too long, and another process has asked meanwhile: what was used up by that is refused here
				return s.renew(ctx, x.ID, x.Token)
			}
			return nil, authn.Ended()
		}
		x.Renewing = time.Time{}
		_, _ = s.Store.ReplaceSession(ctx, x) // else others wait until its time is over
		return nil, err
	}
	if given.RefreshToken != "" && given.RefreshToken != x.Refresh {
		// It is kept before anything else is asked for: the other one was used, and who shows that again may lose all of them.
		x.Refresh = given.RefreshToken
		if mine, err := s.Store.ReplaceSession(ctx, x); err != nil || !mine {
			if err == nil { // else it may be stored all the same, and is the session's
				s.unused(ctx, p, x)
			}
			return s.ended(ctx, x.ID, err)
		}
	}
	text, _ := given.Extra("id_token").(string)
	_, token, err := p.prove(ctx, text, s.Now())
	if fail.Is(err, fail.Unavailable) {
		x.Renewing = time.Time{}
		_, _ = s.Store.ReplaceSession(context.WithoutCancel(ctx), x) // by the store's own deadline
		return nil, err
	}
	if err != nil || token.Subject != subjectOf(x.Token) { // it gives no other one, or that of somebody else
		s.unused(ctx, p, x)
		x.Refresh = ""
	} else {
		x.Token, x.Renewed = text, s.Now().UTC().Truncate(time.Millisecond)
	}
	x.Renewing = time.Time{}
	if mine, err := s.Store.ReplaceSession(ctx, x); err != nil || !mine {
		return s.ended(ctx, x.ID, err)
	}
	return x, nil
}

// ended is what there is of a session that could not be replaced: by an error, or since it was ended meanwhile.
func (s *Sessions) ended(ctx context.Context, id string, err error) (*domain.Session, error) {
	if err != nil {
		return nil, err
	}
	return s.read(ctx, id)
}

// ask asks a provider for another token.
func (p *provider) ask(ctx context.Context, refresh string) (*oauth2.Token, error) {
	client, _, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	given, err := client.TokenSource(upstream.ClientContext(ctx, p.keys.client), &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		return nil, p.refusal(err, "the issuer has withdrawn it")
	}
	return given, nil
}
