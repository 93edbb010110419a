package store

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
)

// renewal says of a cluster that its registration was replaced, or was about to be. Only those have one to which that has
// happened, and who follows them reads them all: they are small and few.
type renewal struct {
	ID                 domain.Key `bson:"_id"` // the cluster's
	domain.ClusterName `bson:",inline"`
	Token              bson.ObjectID `bson:"token"` // another one each time
}

func (s *Store) renewals() *mongo.Collection { return s.db.Collection(renewals) }

// Renewing notes that the registration of a cluster is about to be replaced.
func (s *Store) Renewing(ctx context.Context, c domain.ClusterName) error {
	_, err := s.put(ctx, s.renewals(), c.Key(), renewal{ID: c.Key(), ClusterName: c, Token: bson.NewObjectID()})
	return err
}

// Renewals are the clusters whose registrations were ever replaced. The word is another one each time.
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
