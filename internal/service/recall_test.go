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

// TestLeavesThatCannotBeRead are shown as such, not as an earlier operation has left them.
func TestLeavesThatCannotBeRead(t *testing.T) {
	id := func(cluster string) string {
		return domain.LeafID("7", "app", domain.ClusterName{Provider: "p", Name: cluster})
	}
	leaves := []domain.Leaf{{ID: id("a"), Marks: "3A"}, {ID: id("b"), Marks: "3A"}}
	require.Equal(t, leaves, unread(leaves, nil, domain.Leaf{}))
	shown := unread(leaves, []string{id("b") + "#terminate"}, domain.Leaf{Operation: domain.OpTerminate, Turn: domain.Turn{Began: 4}})
	require.Len(t, shown, 2)
	require.Equal(t, leaves[0], shown[0])
	require.Equal(t, id("b"), shown[1].ID)
	require.Empty(t, shown[1].Marks)
	require.Contains(t, shown[1].LastError, "cannot be read")
	require.Len(t, leaves, 2, "they are shared with others")
	require.Equal(t, "3A", leaves[1].Marks)
}
