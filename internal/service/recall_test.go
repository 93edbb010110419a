package service

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// leafReads has so many leaves of each context, and counts who reads them.
type leafReads struct {
	Records
	leaves, reads int
}

func (l *leafReads) Leaves(context.Context, string) ([]domain.Leaf, error) {
	l.reads++
	return make([]domain.Leaf, l.leaves), nil
}

// TestLeavesOfLargeContextsAreReadOnce: of 10,000 clusters as of few, as long as all contexts together do not have too many.
func TestLeavesOfLargeContextsAreReadOnce(t *testing.T) {
	r := newRecall()
	records := &leafReads{leaves: 10_000}
	ended := func(n int) *domain.Instance {
		return &domain.Instance{ContextID: fmt.Sprint(n), Status: domain.ContextInstantiated, Ended: time.UnixMilli(1)}
	}
	ask := func(i *domain.Instance) {
		t.Helper()
		found, err := r.leaves(t.Context(), records, i)
		require.NoError(t, err)
		require.Len(t, found, records.leaves)
	}
	for range 2 {
		ask(ended(0))
	}
	require.Equal(t, 1, records.reads)
	const most = recallLeaves / 10_000
	for n := range most + 1 {
		ask(ended(n))
		require.LessOrEqual(t, r.leavesKept(), recallLeaves)
	}
	require.Equal(t, most+1, records.reads)
	ask(ended(most))
	require.Equal(t, most+1, records.reads)
	ask(ended(0)) // the oldest one had to go
	require.Equal(t, most+2, records.reads)

	running := ended(100)
	running.Status, running.Ended = domain.ContextInstantiating, time.Time{}
	for range 2 {
		ask(running)
	}
	records.leaves = recallLeaves + 1
	for range 2 {
		ask(ended(200))
	}
	require.Equal(t, most+6, records.reads)
	require.Equal(t, recallLeaves, r.leavesKept())
}
