package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestRenewals: each registration that is replaced is looked at when that is said, and some times more, the last after a
// minute, as the word comes before the write.
func TestRenewals(t *testing.T) {
	t.Parallel()
	const n = 2000
	said := map[domain.ClusterName]string{}
	name := func(i int) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: fmt.Sprint(i)} }
	for i := range n {
		said[name(i)] = "1"
	}
	var r renewals
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	require.Len(t, r.due(said, now), n, "a worker that starts has seen none")
	looks, last := 1, now
	for range 3 * int(renewing/renewEvery) {
		now = now.Add(renewEvery)
		if r.due(said, now)[name(0)] {
			looks, last = looks+1, now
		}
	}
	require.LessOrEqual(t, looks, 8)
	require.GreaterOrEqual(t, last.Sub(now.Add(-3*renewing)), renewing)
	require.Empty(t, r.looks)

	next := map[domain.ClusterName]string{name(0): "2", name(1): "1"}
	require.Equal(t, map[domain.ClusterName]bool{name(0): true}, r.due(next, now))
	require.Len(t, r.known, 2, "those that are gone are forgotten")
}
