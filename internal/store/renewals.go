package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// renewal says of a cluster that its registration was replaced, or was about to be. A cluster whose registration was never
// replaced has none, and that of a cluster that is gone is swept. They are small: a worker reads all of them.
type renewal struct {
	ID                 domain.Key `bson:"_id"` // the cluster's
	domain.ClusterName `bson:",inline"`
	Token              bson.ObjectID `bson:"token"` // another one each time, which says when
}

func (s *Store) renewals() *mongo.Collection { return s.db.Collection(renewals) }

// Renewing notes that the registration of a cluster is about to be replaced, or deleted.
func (s *Store) Renewing(ctx context.Context, c domain.ClusterName) error {
	_, err := s.put(ctx, s.renewals(), c.Key(), renewal{ID: c.Key(), ClusterName: c, Token: bson.NewObjectIDFromTimestamp(s.now())})
	return err
}

// Renewals are the clusters whose registrations were ever replaced, each with a token, which changes with every replacement.
func (s *Store) Renewals(ctx context.Context) (map[domain.ClusterName]string, error) {
	found, err := all[renewal](ctx, s, s.renewals(), bson.D{})
	if err != nil {
		return nil, err
	}
	tokens := make(map[domain.ClusterName]string, len(found))
	for _, r := range found {
		tokens[r.ClusterName] = r.Token.Hex()
	}
	return tokens, nil
}

// SweepRenewals removes the words on clusters that are not registered any more, unless they are younger than that. It
// returns how many.
func (s *Store) SweepRenewals(ctx context.Context, olderThan time.Duration) (removed int, err error) {
	found, err := all[renewal](ctx, s, s.renewals(), bson.D{})
	if err != nil {
		return 0, err
	}
	before := s.now().Add(-olderThan)
	for _, r := range found {
		if !r.Token.Timestamp().Before(before) {
			continue
		}
		if _, err := s.Get(ctx, domain.ClustersNoun, r.ID); !fail.Is(err, fail.NotFound) {
			if err != nil {
				return removed, err
			}
			continue
		}
		gone, err := s.deleteOne(ctx, s.renewals(), append(byID(r.ID), bson.E{Key: "token", Value: r.Token}))
		if err != nil {
			return removed, err
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}
