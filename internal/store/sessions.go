package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

func (s *Store) sessions() *mongo.Collection { return s.db.Collection(sessions) }

// sealedSession is a session as it is stored.
func (s *Store) sealedSession(x *domain.Session) (bson.D, error) {
	members, err := marshal(x)
	if err != nil {
		return nil, err
	}
	return s.sealDocument(sessions, x.ID, x.Revision, members, openOfSessions)
}

// PutSession stores a session. Conflict when there is one with its id.
func (s *Store) PutSession(ctx context.Context, x *domain.Session) error {
	x.Revision = 1
	document, err := s.sealedSession(x)
	if err != nil {
		return err
	}
	first, err := s.insertOnce(ctx, s.sessions(), document)
	if err == nil && !first {
		return fail.New(fail.Conflict, "there is such a session already")
	}
	return err
}

// Session is the one with an id. NotFound when there is none.
func (s *Store) Session(ctx context.Context, id string) (*domain.Session, error) {
	x := &domain.Session{}
	return x, s.findOne(ctx, s.sessions(), id, x)
}

// ReplaceSession stores a session in place of the revision that it has, and counts that on; false when another one is stored, or none.
func (s *Store) ReplaceSession(ctx context.Context, x *domain.Session) (bool, error) {
	next := *x
	next.Revision++
	document, err := s.sealedSession(&next)
	if err != nil {
		return false, err
	}
	replaced, err := s.replaceIf(ctx, s.sessions(), ofRevision(x.ID, x.Revision), document)
	if replaced {
		x.Revision = next.Revision
	}
	return replaced, err
}

// DeleteSession ends a session, if there is one.
func (s *Store) DeleteSession(ctx context.Context, id string) error {
	_, err := s.deleteOne(ctx, s.sessions(), byID(id))
	return err
}

// EndSession ends a session as it was read; false when another one is stored, or none.
func (s *Store) EndSession(ctx context.Context, x *domain.Session) (bool, error) {
	return s.deleteOne(ctx, s.sessions(), ofRevision(x.ID, x.Revision))
}

// EndedSessions are those that had ended by a time, by their ids, as many as there may be of those that come after one, "" for the first.
func (s *Store) EndedSessions(ctx context.Context, at time.Time, after string, most int) ([]*domain.Session, error) {
	ended := []*domain.Session{}
	filter := append(endedBy(at), byID(bson.D{{Key: "$gt", Value: after}})...)
	err := each(ctx, s, s.sessions(), filter, func() *domain.Session { return &domain.Session{} },
		func(x *domain.Session) { ended = append(ended, x) }, options.Find().SetLimit(int64(most)))
	return ended, err
}

func endedBy(at time.Time) bson.D {
	return bson.D{{Key: "expires", Value: bson.D{{Key: "$lt", Value: at}}}}
}

// DropSessions forgets those that had ended by a time.
func (s *Store) DropSessions(ctx context.Context, at time.Time) error {
	return s.deleteMany(ctx, s.sessions(), endedBy(at))
}
