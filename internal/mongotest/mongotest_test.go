package mongotest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestTheDatabaseAnswers(t *testing.T) {
	uri := URI(t)
	require.Equal(t, uri, URI(t), "there is one for all tests")
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Disconnect(t.Context())) }()
	name := Database(t)
	require.NotEqual(t, name, Database(t))
	_, err = client.Database(name).Collection("c").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}})
	require.NoError(t, err)
	require.NoError(t, drop(uri, name))
	n, err := client.Database(name).Collection("c").CountDocuments(t.Context(), bson.D{})
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"it ends at once":        {"exit 1", "ended before it was ready"},
		"it says something else": {"echo hello; echo uri=x", "ended before it was ready"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "database")
			require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			_, err := start(path)
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("it is not there", func(t *testing.T) {
		_, err := start(filepath.Join(t.TempDir(), "none"))
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestReadyURI(t *testing.T) {
	for name, c := range map[string]struct{ lines, want string }{
		"after other lines": {"starting\nready mongo uri=mongodb://127.0.0.1:1/\n", "mongodb://127.0.0.1:1/"},
		"never":             {"starting uri=x\n", ""},
		"nothing":           {"", ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, readyURI(strings.NewReader(c.lines))) })
	}
}
