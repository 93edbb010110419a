package store

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/fail"
)

// versionDoc tells of an app context that what clusters say of it has changed.
type versionDoc struct {
	ContextID string        `bson:"_id"`
	Version   bson.ObjectID `bson:"version"`
}

func (s *Store) versions() *mongo.Collection { return s.db.Collection(versions) }

// ObservationsVersion is another one after an observation of the context has been written or deleted; "" before the
// first. A process that dies between the two writes leaves the old one.
func (s *Store) ObservationsVersion(ctx context.Context, contextID string) (string, error) {
	return s.versionReads.get(ctx, contextID, func(ctx context.Context) (string, error) {
		var d versionDoc
		err := s.findOne(ctx, s.versions(), contextID, &d)
		if fail.Is(err, fail.NotFound) {
			return "", nil
		}
		return d.Version.Hex(), err
	})
}

// observed makes the version of a context another one when an observation has changed, even if not all that goes with
// that has been done. Calls that come together are written together.
func (s *Store) observed(ctx context.Context, contextID string, changed bool, err error) error {
	if !changed {
		return err
	}
	return errors.Join(err, s.versionWrites.do(ctx, contextID))
}

// putVersions belongs to many callers, so that no caller's context bounds it.
func (s *Store) putVersions(contextIDs []string) []error {
	outcomes := make([]error, len(contextIDs))
	written := map[string]error{}
	for i, id := range contextIDs {
		err, done := written[id]
		if !done {
			_, err = s.put(context.Background(), s.versions(), id, versionDoc{id, bson.NewObjectID()})
			written[id] = err
		}
		outcomes[i] = err
	}
	return outcomes
}
