package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// crowd is more clusters than may be at work at a time, by a name each.
func crowd(name string) (names []string) {
	for i := range 40 {
		names = append(names, fmt.Sprintf("%s%02d", name, i))
	}
	return names
}

// TestHangingClustersDoNotStarve has more clusters that hang than may be at work at a time, all before a live one. What
// they are asked for comes back only when the live one has all.
func TestHangingClustersDoNotStarve(t *testing.T) {
	hanging := crowd("hangs")
	w := newWorld(t, domain.OpInstantiate, 1, append(hanging, "live")...)
	applied := make(chan struct{})
	for _, name := range hanging {
		w.clusters.acts[name] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
			if activity.GetInfo(ctx).IsLocalActivity {
				return nil, fail.New(fail.Unavailable, "not done at once")
			}
			<-applied
			return w.clusters.end(ctx, in, domain.NewMarks(in.Resources, domain.MarkApplied))
		}
	}
	once := sync.OnceFunc(func() { close(applied) })
	t.Cleanup(once)
	w.clusters.acts["live"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		once()
		return w.clusters.end(ctx, in, domain.NewMarks(in.Resources, domain.MarkApplied))
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 82}, out.Counts)
}

// TestSuspectsComeLast asks those clusters last that did not answer when they were last tried.
func TestSuspectsComeLast(t *testing.T) {
	suspects, others := crowd("suspect"), crowd("other")
	w := newWorld(t, domain.OpInstantiate, 1, append(suspects, others...)...)
	w.store.unreachable = map[domain.ClusterName]bool{}
	for _, name := range suspects {
		w.store.unreachable[domain.ClusterName{Provider: "p", Name: name}] = true
	}
	_, err := w.run()
	require.NoError(t, err)
	require.Len(t, w.clusters.inputs, len(suspects)+len(others))
	first := slices.IndexFunc(w.clusters.inputs, func(in activities.LeafInput) bool { return in.Suspect })
	require.Greater(t, first, len(others)-openLeaves, "the first gets a slot when of the others fewer are left than there are slots")
}

// openLeaves is how many leaves may be at work at a time.
const openLeaves = 30

// TestWhatComesOfManyLeavesIsGathered gathers where it saves tasks, and only there.
func TestWhatComesOfManyLeavesIsGathered(t *testing.T) {
	many := newWorld(t, domain.OpInstantiate, 1, crowd("c")...)
	_, err := many.run()
	require.NoError(t, err)
	require.Positive(t, many.clusters.gathered)

	few := newWorld(t, domain.OpInstantiate, 3, "a", "b", "c")
	_, err = few.run()
	require.NoError(t, err)
	require.Zero(t, few.clusters.gathered, "who waits for little does not wait longer")
}
