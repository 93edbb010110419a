package authn

import (
	"context"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/token"
)

// Tokens knows the bearer tokens whose documents are stored (decision 0036).
type Tokens struct {
	Store Store
	Now   func() time.Time
	// Turns bounds how many Prove looks for at a time; without them nothing does.
	Turns *Turns
	// Scrapes knows those that ask for metrics; without it they are as all others.
	Scrapes *Scrapes
}

// Store has the documents of tokens. Its errors are fail errors.
type Store interface {
	Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error)
	NoteUse(ctx context.Context, noun *domain.Noun, key domain.Key, hash []byte, at time.Time) error
}

// usedEvery is how much older the last use of a token is when it is noted anew.
const usedEvery = 5 * time.Minute

// Unknown does not say what is wrong with a token: who has none learns nothing.
func Unknown() error {
	return fail.New(fail.Unauthorized, "the bearer token is not known: it was revoked, or it is none")
}

// Expired is the error of a token whose secret is right and whose time is over.
func Expired() error { return fail.New(fail.Unauthorized, "the bearer token has expired") }

// Look says until when the token of a document is good, and notes that it is used. Unauthorized when the document is gone, has
// another token by now, or the time is over.
func (t Tokens) Look(ctx context.Context, noun *domain.Noun, key domain.Key, hash []byte) (until time.Time, err error) {
	o, err := t.Store.Get(ctx, noun, key)
	if fail.Is(err, fail.NotFound) {
		return until, Unknown()
	}
	if err != nil {
		return until, err
	}
	_, _, kept := o.(domain.Bearer).Parts()
	if !token.Same(kept.Hash, hash) {
		return until, Unknown()
	}
	now := t.Now()
	if !now.Before(kept.Expires) {
		return kept.Expires, Expired()
	}
	if now.Sub(kept.LastUsed) >= usedEvery {
		_ = t.Store.NoteUse(ctx, noun, key, hash, now.UTC().Truncate(time.Millisecond)) // the next use notes it too
	}
	return kept.Expires, nil
}

// Prove tells service accounts by their tokens. Nobody else may come after it who knows bearer tokens that begin as ours do.
func (t Tokens) Prove(ctx context.Context, s *Shown) (*Proof, error) {
	text, err := s.Bearer()
	if err != nil || !strings.HasPrefix(text, token.Prefix) {
		return nil, err
	}
	of, hash, ok := token.Parse(text)
	if !ok {
		return nil, Unknown()
	}
	key := domain.Key(of)
	if _, ok := domain.ServiceAccountTokens.Split(key); !ok {
		return nil, Unknown()
	}
	var until time.Time
	if s.Metrics && t.Scrapes != nil {
		until, err = t.Scrapes.look(ctx, t, key, hash)
	} else {
		until, err = t.first(ctx, key, hash)
	}
	if err != nil {
		return nil, err
	}
	account, _ := domain.Cut(domain.ServiceAccountTokens, key)
	return &Proof{
		Identity: caller.Identity{Kind: caller.ServiceAccount, Name: string(account), By: "token " + of, Expires: until},
		Still: func(ctx context.Context) error {
			_, err := t.Look(ctx, domain.ServiceAccountTokens, key, hash)
			return err
		},
	}, nil
}

// first looks for a token of somebody who is not known yet, in turn.
func (t Tokens) first(ctx context.Context, key domain.Key, hash []byte) (until time.Time, err error) {
	if t.Turns != nil {
		leave, err := t.Turns.Take(ctx, caller.RemoteOf(ctx))
		if err != nil {
			return until, err
		}
		defer leave()
	}
	return t.Look(ctx, domain.ServiceAccountTokens, key, hash)
}

// Unread refuses bearer tokens that nobody before it has read.
func Unread(_ context.Context, s *Shown) (*Proof, error) {
	text, err := s.Bearer()
	if err == nil && text != "" {
		err = Unknown()
	}
	return nil, err
}
