package store

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
)

// NoteUse notes when the bearer token of a document (domain.Credential) was last used, beside the document's revision. One that
// is gone, or has another token by now, stays as it is.
func (s *Store) NoteUse(ctx context.Context, n *domain.Noun, key domain.Key, hash []byte, at time.Time) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := s.collection(n).UpdateOne(ctx, append(byID(key), bson.E{Key: "hash", Value: hash}),
		bson.D{{Key: "$set", Value: bson.D{{Key: "lastUsed", Value: at}}}})
	return kindOf(err)
}
