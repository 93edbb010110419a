package store

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
)

// contact is a cluster that did not answer when it was last tried. Only those have one.
type contact struct {
	ID                 domain.Key `bson:"_id"` // the cluster's
	domain.ClusterName `bson:",inline"`
}

func (s *Store) contacts() *mongo.Collection { return s.db.Collection(contacts) }

// SetReachable notes whether a cluster answered.
func (s *Store) SetReachable(ctx context.Context, c domain.ClusterName, reachable bool) error {
	if reachable {
		_, err := s.deleteOne(ctx, s.contacts(), byID(c.Key()))
		return err
	}
	_, err := s.insertOnce(ctx, s.contacts(), contact{ID: c.Key(), ClusterName: c})
	return err
}

// Unreachable are the clusters that did not answer when they were last tried.
func (s *Store) Unreachable(ctx context.Context) (map[domain.ClusterName]bool, error) {
	found, err := all[contact](ctx, s, s.contacts(), bson.D{})
	if err != nil {
		return nil, err
	}
	down := make(map[domain.ClusterName]bool, len(found))
	for _, c := range found {
		down[c.ClusterName] = true
	}
	return down, nil
}
