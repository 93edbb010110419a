// Package storetest opens stores for tests, on the database of package mongotest.
package storetest

import (
	"cmp"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/store"
)

// Config is that of stores on one database, which is the test's own. It is for tests that open more than one.
func Config(t testing.TB) store.Config {
	t.Helper()
	return store.Config{URI: mongotest.URI(t), Database: mongotest.Database(t), Timeout: mongotest.Timeout}
}

// Open opens a store, which is closed when the test ends. What c does not say is as in Config: without a database it has one
// of its own. The indexes are not made.
func Open(t testing.TB, c store.Config) *store.Store {
	t.Helper()
	c.URI, c.Timeout = cmp.Or(c.URI, mongotest.URI(t)), cmp.Or(c.Timeout, mongotest.Timeout)
	if c.Database == "" {
		c.Database = mongotest.Database(t)
	}
	s, err := store.Open(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.WithoutCancel(t.Context()))) })
	return s
}
