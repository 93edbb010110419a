package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/secret"
)

// unread is what could not be opened or decoded when it was read last.
type unread struct {
	now func() time.Time
	n   atomic.Int64 // len(at): most readers meet none, and need not wait for each other

	mu sync.Mutex
	at map[unreadID]time.Time // when it was read
}

// unreadID is where one is: collection and _id.
type unreadID struct{ collection, id string }

// mostUnread bounds what is known.
const mostUnread = 10_000

// note takes into account how a document was read.
func (u *unread) note(collection string, document bson.Raw, err error) {
	bad := errors.Is(err, domain.ErrUnreadable)
	if !bad && (err != nil || u.n.Load() == 0) {
		return
	}
	id, ok := document.Lookup("_id").StringValueOK()
	if !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_, known := u.at[unreadID{collection, id}]
	switch {
	case bad && (known || len(u.at) < mostUnread):
		u.at[unreadID{collection, id}] = u.now()
	case !bad:
		delete(u.at, unreadID{collection, id})
	}
	u.n.Store(int64(len(u.at)))
}

// forget is told that one is gone.
func (u *unread) forget(collection, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.at, unreadID{collection, id})
	u.n.Store(int64(len(u.at)))
}

// say tells how many there are, by collection.
func (u *unread) say(say measure.Say) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all, now := map[string]int{}, u.now()
	for id, at := range u.at {
		if now.Sub(at) > policy.UnreadKept {
			delete(u.at, id)
			continue
		}
		all[undivided(id.collection)]++
	}
	u.n.Store(int64(len(u.at)))
	for collection, n := range all {
		say(measure.Unreadable, float64(n), collection)
	}
}

// Unread is a document as it is stored that cannot be opened, or not decoded. NotFound when there is none, Conflict for one that can be
// read, Unavailable when that cannot be told now.
func (s *Store) Unread(ctx context.Context, n *domain.Noun, key domain.Key) ([]byte, error) {
	var raw bson.Raw
	switch err := s.findOne(ctx, s.collection(n), key, &raw); {
	case fail.Is(err, fail.NotFound):
		s.unread.forget(n.Kind, string(key))
		return nil, notFound(n, key)
	case err != nil:
		return nil, err
	}
	switch err := s.decode(n.Kind, raw, n.New()); {
	case err == nil:
		return nil, fail.New(fail.Conflict, "%s can be read, and is deleted as any other", describe(n, key))
	case errors.Is(err, secret.ErrNoKey):
		return nil, fail.Wrap(err, fail.Conflict, "%s is sealed with a key that is not configured, and nothing of it is damaged: bring the key back", describe(n, key))
	case !errors.Is(err, domain.ErrUnreadable):
		return nil, err
	}
	return raw, nil
}

// Discard removes a document as Unread has given it. Conflict when it is another one meanwhile, NotFound when it is gone.
func (s *Store) Discard(ctx context.Context, n *domain.Noun, key domain.Key, raw []byte) error {
	filter := byID(key)
	for _, member := range []string{"revision", sealedMember} {
		if value, err := bson.Raw(raw).LookupErr(member); err == nil {
			filter = append(filter, bson.E{Key: member, Value: value})
		} else {
			filter = append(filter, bson.E{Key: member, Value: bson.D{{Key: "$exists", Value: false}}})
		}
	}
	deleted, err := s.deleteOne(ctx, s.collection(n), filter)
	if err != nil {
		return err
	}
	if !deleted {
		return s.unmatched(ctx, n, key)
	}
	s.unread.forget(n.Kind, string(key))
	s.wrote(ctx, n, key)
	return nil
}

// PutBack stores what was discarded as it was, unless there is another one meanwhile.
func (s *Store) PutBack(ctx context.Context, n *domain.Noun, key domain.Key, raw []byte) error {
	first, err := s.insertOnce(ctx, s.collection(n), bson.Raw(raw))
	if err == nil && !first {
		return fail.New(fail.Conflict, "%s already exists", describe(n, key))
	}
	if err == nil {
		s.wrote(ctx, n, key)
	}
	return err
}
