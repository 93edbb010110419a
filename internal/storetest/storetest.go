// Package storetest opens stores for tests, on the database of package mongotest.
package storetest

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/store"
)

// Keys are those of all stores of a test program that has no others.
var Keys = keys()

func keys() *secret.Sealer {
	s, err := secret.Parse("test:" + strings.Repeat("A", 43) + "=")
	if err != nil { // it is one
		panic(err)
	}
	return s
}

// Config is that of stores on one database, which is the test's own. It is for tests that open more than one.
func Config(t testing.TB) store.Config {
	t.Helper()
	return store.Config{URI: mongotest.URI(t), Database: mongotest.Database(t), Timeout: mongotest.Timeout, Keys: Keys}
}

// Open opens a store, which is closed when the test ends. What c does not say is as in Config: without a database it has one
// of its own. The indexes are not made.
func Open(t testing.TB, c store.Config) *store.Store {
	t.Helper()
	c.URI, c.Timeout, c.Keys = cmp.Or(c.URI, mongotest.URI(t)), cmp.Or(c.Timeout, mongotest.Timeout), cmp.Or(c.Keys, Keys)
	if c.Database == "" {
		c.Database = mongotest.Database(t)
	}
	s, err := store.Open(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.WithoutCancel(t.Context()))) })
	return s
}
