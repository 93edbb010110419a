package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func keyLines(ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(id + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(id[:1]), 32)) + "\n")
	}
	return b.String()
}

// TestKeysAreDropped that nobody seals with, and those that somebody seals with meanwhile are put back.
func TestKeysAreDropped(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(keyLines("old")), 0o640)) //nolint:gosec // its mode stays
	c := storetest.Config(t)
	open := func() (*store.Store, *secret.Sealer) {
		t.Helper()
		var err error
		c.Keys, err = secret.ReadFile(path)
		require.NoError(t, err)
		return storetest.Open(t, c), c.Keys
	}
	var err error
	c.Keys, err = secret.Parse(keyLines("old", "new"))
	require.NoError(t, err)
	other := storetest.Open(t, c)
	asked := &config.Config{MongoURI: c.URI, Database: c.Database, SecretKeysFile: path}
	ask := func(what, id string) error {
		return Keys(ctx, asked, slog.New(slog.DiscardHandler), what, id, io.Discard)
	}
	require.True(t, fail.Is(ask("list", ""), fail.Precondition), "a database without a layout is not the product's, or an old one")
	require.NoError(t, other.EnsureLayout(ctx))
	project := func(name string) *domain.Project { return &domain.Project{Metadata: domain.Metadata{Name: name}} }
	require.NoError(t, other.Create(ctx, project("first")))

	require.NoError(t, os.WriteFile(path, []byte(keyLines("new", "old")), 0o640)) //nolint:gosec // its mode stays
	require.True(t, fail.Is(ask("drop", "old"), fail.Precondition), "it is in use")
	require.True(t, fail.Is(ask("drop", "new"), fail.Precondition), "it seals")
	require.True(t, fail.Is(ask("drop", "none"), fail.NotFound))
	require.NoError(t, ask("rotate", ""))

	s, keys := open()
	var out bytes.Buffer
	k := &keyring{store: s, keys: keys, file: path, out: &out, wait: func(ctx context.Context) error {
		return other.Create(ctx, project("second")) // by a process that knows nothing of it
	}}
	require.True(t, fail.Is(k.drop(ctx, "old"), fail.Precondition))
	require.Contains(t, out.String(), "again")
	s, keys = open()
	require.Equal(t, []string{"new", "old"}, keys.Keeper().(*secret.Ring).IDs())
	all, err := s.List(ctx, domain.Projects, "")
	require.NoError(t, err)
	require.Len(t, all, 2)

	require.NoError(t, ask("rotate", ""))
	k = &keyring{store: s, keys: keys, file: path, out: &out, wait: func(context.Context) error { return nil }}
	require.NoError(t, k.drop(ctx, "old"))
	s, keys = open()
	require.Equal(t, []string{"new"}, keys.Keeper().(*secret.Ring).IDs())
	_, err = s.List(ctx, domain.Projects, "")
	require.NoError(t, err)
}
