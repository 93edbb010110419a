package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lru/lrutest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/view"
)

// leafReads has so many leaves of each context, and counts who reads them.
type leafReads struct {
	Records
	leaves, reads int
	each          domain.Leaf
}

func (l *leafReads) Leaves(context.Context, string) ([]domain.Leaf, error) {
	l.reads++
	return slices.Repeat([]domain.Leaf{l.each}, l.leaves), nil
}

// TestLeavesOfLargeContextsAreReadOnce: of 10,000 clusters as of few, as long as those of all contexts together do not take too much: with
// what was said of them.
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
	const most = recallLeafBytes / heldOfLeaf / 10_000
	for n := range most + 1 {
		ask(ended(n))
		require.LessOrEqual(t, r.ended.Weight(), int64(recallLeafBytes))
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
	records.leaves = recallLeafBytes/heldOfLeaf + 1
	for range 2 {
		ask(ended(200))
	}
	require.Equal(t, most+6, records.reads)
	require.Equal(t, most, r.ended.Len(), "what is too much by itself drives nobody out")

	records.reads, records.leaves, records.each = 0, 500, talkative()
	for n := range 10 {
		ask(ended(300 + n))
		require.LessOrEqual(t, r.ended.Weight(), int64(recallLeafBytes))
	}
	ask(ended(300))
	require.Equal(t, 11, records.reads, "each has some 130 MB of warnings")
}

// talkative is a leaf of which as much is said as may be.
func talkative() domain.Leaf {
	l := domain.Leaf{Marks: "3A"}
	for i := range 200 {
		l.Notes = append(l.Notes, domain.Note{Index: i, Message: strings.Repeat("n", 1<<10)})
	}
	for i := range 64 {
		l.Warnings = append(l.Warnings, domain.Note{Index: i, Message: strings.Repeat("w", 1<<10)})
	}
	return l
}

// TestWhatIsSaidOfLeavesCounts where it is kept: what they are counted with is between half and twice of what they take.
func TestWhatIsSaidOfLeavesCounts(t *testing.T) {
	check := func(name string, held, counted int64) {
		t.Helper()
		t.Logf("%s: holds %d, counts %d: %.2f", name, held, counted, float64(counted)/float64(held))
		require.Greater(t, 2*counted, held)
		require.Less(t, counted, 2*held)
	}
	leaves, held := lrutest.HeapOf(func() (leaves []domain.Leaf) {
		for range 40 {
			leaves = append(leaves, talkative())
		}
		return leaves
	})
	check("leaves", held, heldOfLeaves(leaves))
	source, held := lrutest.HeapOf(func() *view.Source {
		var at []view.Cluster
		for range 40 {
			l := talkative()
			at = append(at, view.Cluster{Notes: l.Notes, Warnings: l.Warnings})
		}
		return &view.Source{Apps: []view.App{{Clusters: at}}}
	})
	check("a source", held, sizeOf(source))
	p, held := lrutest.HeapOf(func() *plan.Plan {
		var targets []plan.Target
		for range 40 {
			targets = append(targets, plan.Target{Passed: []string{strings.Repeat("p", 100)}, Inherited: &plan.Inherited{Warnings: talkative().Warnings}})
		}
		return &plan.Plan{Apps: []plan.App{{Targets: targets}}}
	})
	check("a plan", held, p.Weight())
	p, held = lrutest.HeapOf(func() *plan.Plan {
		var a plan.App
		for n := range 10_000 {
			a.Targets = append(a.Targets, plan.Target{
				ClusterName: domain.ClusterName{Provider: fmt.Sprint("provider", n), Name: fmt.Sprint("cluster", n)}, Reason: fmt.Sprint("anyOf: first of ", n),
			})
		}
		return &plan.Plan{Apps: []plan.App{a}}
	})
	check("a plan for many clusters", held, p.Weight())
	clusters, held := lrutest.HeapOf(func() (names []domain.ClusterName) {
		for n := range 10_000 {
			names = append(names, domain.ClusterName{Provider: fmt.Sprint("provider", n), Name: fmt.Sprint("cluster", n)})
		}
		return slices.Clone(names)
	})
	check("the clusters of a plan", held, domain.WeightOfClusters(clusters))
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
