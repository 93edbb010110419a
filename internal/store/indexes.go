package store

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
)

// EnsureIndexes makes the indexes that queries by anything but _id use. Leaves and blobs are only asked
// for by _id and ranges of it. Doing it again changes nothing.
func (s *Store) EnsureIndexes(ctx context.Context) error {
	if err := s.ensureIndexes(ctx, instances, "owner", "status"); err != nil {
		return err
	}
	if err := s.ensureIndexes(ctx, homes, "tenant"); err != nil {
		return err
	}
	for _, n := range domain.Nouns {
		fields := []string{"parent"}
		if _, refers := n.New().(domain.Referrer); refers {
			fields = append(fields, "refs")
		}
		if err := s.ensureIndexes(ctx, n.Kind, fields...); err != nil {
			return err
		}
	}
	return nil
}

// ensureIndexes asks for one index at a time: the embedded database breaks off when it has two of those
// that one command asks for.
func (s *Store) ensureIndexes(ctx context.Context, collection string, fields ...string) error {
	for _, f := range fields {
		if err := s.ensureIndex(ctx, collection, f); err != nil {
			return fmt.Errorf("make index %s of %s: %w", f, collection, err)
		}
	}
	return nil
}

func (s *Store) ensureIndex(ctx context.Context, collection, field string) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := s.db.Collection(collection).Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: field, Value: 1}}})
	return kindOf(err)
}
