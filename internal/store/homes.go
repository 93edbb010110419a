package store

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
)

type homeDoc struct {
	ID          string `bson:"_id"`
	domain.Home `bson:",inline"`
}

func (s *Store) homes() *mongo.Collection { return s.db.Collection(homes) }

// PutHome notes that a tenant has a namespace in a cluster, or is about to.
func (s *Store) PutHome(ctx context.Context, h domain.Home) error {
	_, err := s.put(ctx, s.homes(), h.ID(), homeDoc{h.ID(), h})
	return err
}

// Homes are those of the tenants that have, or had, a name, sorted by id; all when it is "".
func (s *Store) Homes(ctx context.Context, tenant string) ([]domain.Home, error) {
	filter := bson.D{}
	if tenant != "" {
		filter = bson.D{{Key: "tenant", Value: tenant}}
	}
	return s.homesOf(ctx, filter)
}

// Home is the one with an id. NotFound when there is none.
func (s *Store) Home(ctx context.Context, id string) (domain.Home, error) {
	var d homeDoc
	err := s.findOne(ctx, s.homes(), id, &d)
	return d.Home, err
}

// HomesOf are those with a context id.
func (s *Store) HomesOf(ctx context.Context, contextID string) ([]domain.Home, error) {
	return s.homesOf(ctx, below(contextID))
}

func (s *Store) homesOf(ctx context.Context, filter bson.D) ([]domain.Home, error) {
	found, err := all[homeDoc](ctx, s, s.homes(), filter)
	list := make([]domain.Home, 0, len(found))
	for _, d := range found {
		list = append(list, d.Home)
	}
	return list, err
}

// DeleteHome notes that the namespace is gone.
func (s *Store) DeleteHome(ctx context.Context, h domain.Home) error {
	_, err := s.deleteOne(ctx, s.homes(), byID(h.ID()))
	return err
}
