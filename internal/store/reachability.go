package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
)

// contact is a cluster that did not answer when it was last tried. Only those have one.
type contact struct {
	ID                 domain.Key `bson:"_id"` // the cluster's
	domain.ClusterName `bson:",inline"`

	Since time.Time `bson:"since,omitempty"` // when it first did not; zero where a build has noted it that notes no time
}

func (s *Store) contacts() *mongo.Collection { return s.db.Collection(contacts) }

// SetReachable notes whether a cluster answered, and since when it does not.
func (s *Store) SetReachable(ctx context.Context, c domain.ClusterName, reachable bool) error {
	if reachable {
		_, err := s.deleteOne(ctx, s.contacts(), byID(c.Key()))
		return err
	}
	_, err := s.insertOnce(ctx, s.contacts(), contact{ID: c.Key(), ClusterName: c, Since: s.now().UTC()})
	return err
}

// Unreachable are the clusters that did not answer when they were last tried.
func (s *Store) Unreachable(ctx context.Context) (map[domain.ClusterName]bool, error) {
	found, err := s.UnreachableSince(ctx)
	if err != nil {
		return nil, err
	}
	down := make(map[domain.ClusterName]bool, len(found))
	for c := range found {
		down[c] = true
	}
	return down, nil
}

// UnreachableSince are the clusters that did not answer when they were last tried, with since when; zero where that is not known.
func (s *Store) UnreachableSince(ctx context.Context) (map[domain.ClusterName]time.Time, error) {
	found, err := all[contact](ctx, s, s.contacts(), bson.D{})
	if err != nil {
		return nil, err
	}
	since := make(map[domain.ClusterName]time.Time, len(found))
	for _, c := range found {
		since[c.ClusterName] = c.Since
	}
	return since, nil
}
