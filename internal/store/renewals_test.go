package store_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestSweepRenewals removes those of clusters that are gone, when nobody can be at it any more.
func TestSweepRenewals(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	ctx := t.Context()
	require.NoError(t, s.EnsureIndexes(ctx))
	there, gone := domain.ClusterName{Provider: "p", Name: "there"}, domain.ClusterName{Provider: "p", Name: "gone"}
	require.NoError(t, s.Create(ctx, &domain.Cluster{
		Identity: domain.Identity{Parent: domain.Join("cluster-providers", "p")}, Metadata: domain.Metadata{Name: there.Name},
	}))
	for _, c := range []domain.ClusterName{there, gone} {
		require.NoError(t, s.Renewing(ctx, c))
	}
	first, err := s.Renewals(ctx)
	require.NoError(t, err)
	now = now.Add(time.Hour)
	removed, err := s.SweepRenewals(ctx, 2*time.Hour)
	require.NoError(t, err)
	require.Zero(t, removed, "they are young")
	now = now.Add(2 * time.Hour)
	removed, err = s.SweepRenewals(ctx, 2*time.Hour)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	left, err := s.Renewals(ctx)
	require.NoError(t, err)
	require.Equal(t, []domain.ClusterName{there}, slices.Collect(maps.Keys(left)))
	require.Equal(t, first[there], left[there])
	require.NoError(t, s.Renewing(ctx, there))
	next, err := s.Renewals(ctx)
	require.NoError(t, err)
	require.NotEqual(t, left[there], next[there], "the word is another one each time")
}
