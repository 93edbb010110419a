package mongotest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestProxyHasAWriteWaitForTheNext: the database has the first one when the second has come, and before it.
func TestProxyHasAWriteWaitForTheNext(t *testing.T) {
	proxy, name := NewProxy(t, URI(t)), Database(t)
	open := func(uri string) *mongo.Collection {
		client, err := mongo.Connect(options.Client().ApplyURI(uri))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Disconnect(context.WithoutCancel(t.Context()))) })
		return client.Database(name).Collection("c")
	}
	slow, past := open(proxy.URI()), open(URI(t))
	proxy.Meet("c", 1, Fault{UntilNext: true})
	first := make(chan error, 1)
	go func() {
		_, err := slow.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}})
		first <- err
	}()
	require.Eventually(t, proxy.Met, time.Minute, time.Millisecond)
	n, err := past.CountDocuments(t.Context(), bson.D{})
	require.NoError(t, err)
	require.Zero(t, n)

	_, err = slow.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}})
	require.True(t, mongo.IsDuplicateKeyError(err), "%v", err)
	require.NoError(t, <-first)

	proxy.Meet("c", 1, Fault{UntilNext: true})
	go func() {
		_, err := slow.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 2}})
		first <- err
	}()
	require.Eventually(t, proxy.Met, time.Minute, time.Millisecond)
	_, unmet := proxy.Flush()
	require.False(t, unmet)
	require.NoError(t, <-first)
}
