package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestUsage: what is below a project counts, with its files, and nothing else does: not the project, and not that of another one whose
// name begins alike.
func TestUsage(t *testing.T) {
	s := storetest.Open(t, store.Config{})
	for _, project := range []string{"p", "p2"} {
		require.NoError(t, s.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: project}}))
	}
	const p, other = domain.Key("projects/p"), domain.Key("projects/p2")
	count := func(project domain.Key) (int, int64) {
		t.Helper()
		documents, bytes, err := s.Usage(t.Context(), project)
		require.NoError(t, err)
		return documents, bytes
	}
	documents, bytes := count(p)
	require.Zero(t, documents)
	require.Zero(t, bytes)
	composite := &domain.CompositeApp{Identity: domain.Identity{Parent: p}, Metadata: domain.Metadata{Name: "ca"}}
	composite.Spec.Version = "v1"
	require.NoError(t, s.Create(t.Context(), composite))
	documents, small := count(p)
	require.Equal(t, 1, documents)
	require.Positive(t, small)
	app := &domain.App{Identity: domain.Identity{Parent: domain.KeyOf(composite), Uploaded: 5 << 20}, Metadata: domain.Metadata{Name: "a"}}
	require.NoError(t, s.Create(t.Context(), app))
	documents, large := count(p)
	require.Equal(t, 2, documents)
	require.Greater(t, large-small, int64(5<<20))
	require.Less(t, large-small, int64(5<<20+10_000))
	documents, _ = count(other)
	require.Zero(t, documents)
}
