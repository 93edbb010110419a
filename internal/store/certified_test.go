package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestCertified: a certificate is known by cluster and user until it expires, and then swept.
func TestCertified(t *testing.T) {
	s, ctx := storetest.Open(t, store.Config{}), t.Context()
	require.NoError(t, s.EnsureIndexes(ctx))
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	c, other := domain.ClusterName{Provider: "p", Name: "c"}, domain.ClusterName{Provider: "p", Name: "other"}
	first, next := domain.Certified{Cluster: c, User: "alice", Scope: "projects/a", Expires: now.Add(time.Hour)}, domain.Certified{Cluster: c, User: "alice", Scope: "projects/b", Expires: now.Add(2 * time.Hour)}
	for range 2 {
		require.NoError(t, s.PutCertified(ctx, first))
		require.NoError(t, s.PutCertified(ctx, next))
	}
	good := func(c domain.ClusterName, user string, at time.Duration) []domain.Certified {
		found, err := s.Certified(ctx, c, user, now.Add(at))
		require.NoError(t, err)
		return found
	}
	require.Equal(t, []domain.Certified{first, next}, good(c, "alice", 0))
	require.Equal(t, []domain.Certified{next}, good(c, "alice", time.Hour))
	require.Empty(t, good(c, "bob", 0))
	require.Empty(t, good(other, "alice", 0))
	require.NoError(t, s.SweepCertified(ctx, now.Add(90*time.Minute)))
	require.Equal(t, []domain.Certified{next}, good(c, "alice", 0))
}
