package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

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

// TestUsageOfDocumentsWithoutASize: what was stored before sizes were counts as it is.
func TestUsageOfDocumentsWithoutASize(t *testing.T) {
	config := shared(t)
	s := storetest.Open(t, config)
	require.NoError(t, s.Create(t.Context(), project("p")))
	for n := range 3 {
		composite := &domain.CompositeApp{Identity: domain.Identity{Parent: "projects/p"}, Metadata: domain.Metadata{Name: fmt.Sprint("ca", n)}}
		composite.Spec.Version = "v1"
		require.NoError(t, s.Create(t.Context(), composite))
	}
	documents, bytes, err := s.Usage(t.Context(), "projects/p")
	require.NoError(t, err)
	require.Equal(t, 3, documents)
	c := rawDatabase(t, config).Collection(domain.CompositeApps.Kind)
	_, err = c.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$unset", Value: bson.D{{Key: "size", Value: ""}}}})
	require.NoError(t, err)
	documents, again, err := s.Usage(t.Context(), "projects/p")
	require.NoError(t, err)
	require.Equal(t, 3, documents)
	require.InDelta(t, bytes, again, 3*500, "what seals them counts, too")
	list, err := s.List(t.Context(), domain.CompositeApps, "projects/p")
	require.NoError(t, err)
	require.NoError(t, s.Replace(t.Context(), list[0]))
	_, again, err = s.Usage(t.Context(), "projects/p")
	require.NoError(t, err)
	require.InDelta(t, bytes, again, 3*500)
}

// BenchmarkUsage is of a project with 500 documents of each size: it is to cost the same for all.
func BenchmarkUsage(b *testing.B) {
	const many = 500
	for _, size := range []int{1 << 10, 16 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s := storetest.Open(b, store.Config{})
			composite := &domain.CompositeApp{Identity: domain.Identity{Parent: "projects/p"}, Metadata: domain.Metadata{Name: "ca"}}
			composite.Spec.Version = "v1"
			var creating errgroup.Group
			creating.SetLimit(8)
			for n := range many {
				creating.Go(func() error {
					app := &domain.App{Identity: domain.Identity{Parent: domain.KeyOf(composite)}, Metadata: domain.Metadata{Name: fmt.Sprint("a", n)}}
					app.Description = strings.Repeat("d", size)
					return s.Create(b.Context(), app)
				})
			}
			require.NoError(b, creating.Wait())
			for b.Loop() {
				documents, bytes, err := s.Usage(b.Context(), "projects/p")
				require.NoError(b, err)
				require.Equal(b, many, documents)
				require.Greater(b, bytes, int64(many*size))
			}
		})
	}
}
