package bench

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// stored is the number of bytes of all documents in the store, as BSON, by the kind of collection: the parts
// of a divided one count together.
func (f *simulated) stored(ctx context.Context, t testing.TB) map[string]int {
	t.Helper()
	return storedAt(ctx, t, f.DatabaseURI())
}

// storedAt is stored of the store at an address.
func storedAt(ctx context.Context, t testing.TB, uri string) map[string]int {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(uri))
	require.NoError(t, err)
	defer func() { _ = c.Disconnect(context.WithoutCancel(ctx)) }()
	db := c.Database("drover")
	names, err := db.ListCollectionNames(ctx, bson.D{})
	require.NoError(t, err)
	bytes := map[string]int{}
	for _, name := range names {
		cursor, err := db.Collection(name).Find(ctx, bson.D{})
		require.NoError(t, err)
		for cursor.Next(ctx) {
			bytes[strings.TrimRight(name, "-0123456789")] += len(cursor.Current)
		}
		require.NoError(t, cursor.Err())
		require.NoError(t, cursor.Close(ctx))
	}
	return bytes
}

// grown is by how much the store has grown.
func grown(before, after map[string]int) (total int, what string) {
	var parts []string
	for name, n := range after {
		if d := n - before[name]; d != 0 {
			total += d
			parts = append(parts, name)
		}
	}
	return total, strings.Join(parts, ", ")
}
