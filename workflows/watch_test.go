package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/workflows"
)

// only says in which clusters a context has something, by the word of an operation that began then, and that it has
// nothing in others.
func (w *watchWorld) only(contextID string, began time.Time, names ...string) {
	w.SignalWorkflow(workflows.WatchSignal, activities.Watching{ContextID: contextID, Clusters: edge(names...), Only: true, Began: began})
}

// watching stands for the activity: it lasts until it is cancelled, but for the first ones, which fail.
type watching struct {
	failures atomic.Int32
	begins   func(term int) // nil for nothing
}

func (w *watching) WatchShard(ctx context.Context, in activities.WatchShardInput) error {
	if w.begins != nil {
		w.begins(in.Term)
	}
	if w.failures.Add(-1) >= 0 {
		return workflows.ToTemporal(errors.New("a bug"), 100)
	}
	<-ctx.Done()
	return ctx.Err()
}

// watchWorld runs one WatchClusters.
type watchWorld struct {
	*testsuite.TestWorkflowEnvironment
	t        *testing.T
	activity *watching
}

func newWatchWorld(t *testing.T) *watchWorld {
	t.Helper()
	w := &watchWorld{TestWorkflowEnvironment: newEnvironment(), t: t, activity: &watching{}}
	workflows.Register(w)
	w.RegisterActivity(w.activity)
	return w
}

func edge(names ...string) []domain.ClusterName {
	clusters := []domain.ClusterName{}
	for _, n := range names {
		clusters = append(clusters, domain.ClusterName{Provider: "p", Name: n})
	}
	return clusters
}

func (w *watchWorld) watch(contextID string, names ...string) {
	w.SignalWorkflow(workflows.WatchSignal, activities.Watching{ContextID: contextID, Clusters: edge(names...)})
}

// asked is an answer to ChangesUpdate, once there is one.
type asked struct {
	set  *activities.WatchSet
	errs []error
}

// ask sends ChangesUpdate.
func (w *watchWorld) ask(id string, in activities.ChangesInput) *asked {
	a := &asked{}
	w.UpdateWorkflow(workflows.ChangesUpdate, id, &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { a.errs = append(a.errs, err) },
		OnComplete: func(answer any, err error) {
			if err != nil {
				a.errs = append(a.errs, err)
				return
			}
			a.set = answer.(*activities.WatchSet)
		},
	}, in)
	return a
}

// step is the time between what a test does: while an activity runs, it passes.
const step = 20 * time.Millisecond

// sizes are those of the inputs of activities, once they have begun.
func (w *watchWorld) sizes() *[]int {
	sizes := &[]int{}
	w.SetOnActivityStartedListener(func(_ *activity.Info, _ context.Context, args converter.EncodedValues) {
		var in activities.WatchShardInput
		require.NoError(w.t, args.Get(&in))
		data, err := json.Marshal(in)
		require.NoError(w.t, err)
		*sizes = append(*sizes, len(data))
	})
	return sizes
}

// at does things one after another.
func (w *watchWorld) at(steps ...func()) {
	done := 0
	for i, do := range steps {
		w.RegisterDelayedCallback(func() { do(); done++ }, time.Duration(i)*step)
	}
	w.t.Cleanup(func() { require.Equal(w.t, len(steps), done, "the run ended before") })
}

func (w *watchWorld) run(in workflows.WatchInput) error {
	w.t.Helper()
	w.ExecuteWorkflow(workflows.WatchClustersName, in)
	require.True(w.t, w.IsWorkflowCompleted(), "it has not ended")
	return w.GetWorkflowError()
}

func TestWatch(t *testing.T) {
	w := newWatchWorld(t)
	var first, second, third *asked
	w.at(
		func() { w.watch("1", "b", "a") },
		func() { first = w.ask("1", activities.ChangesInput{Term: 1, Attempt: 1}) },
		func() {
			require.Equal(t, edge("a", "b"), first.set.Clusters)
			require.Equal(t, []string{"1"}, first.set.Contexts)
			second = w.ask("2", activities.ChangesInput{Term: 1, Attempt: 1, Generation: first.set.Generation})
		},
		func() { w.watch("2", "b") },
		func() {
			require.Nil(t, second.set, "another context on the same cluster changes nothing")
			w.watch("2", "c")
		},
		func() {
			require.Equal(t, edge("a", "b", "c"), second.set.Clusters)
			third = w.ask("3", activities.ChangesInput{Term: 1, Attempt: 1, Generation: second.set.Generation})
			w.SignalWorkflow(workflows.UnwatchSignal, "1")
		},
		func() {
			require.Equal(t, edge("b", "c"), third.set.Clusters)
			require.False(t, third.set.Over)
			third = w.ask("4", activities.ChangesInput{Term: 1, Attempt: 1, Generation: third.set.Generation})
			w.SignalWorkflow(workflows.UnwatchSignal, "2")
		},
	)
	require.NoError(t, w.run(workflows.WatchInput{Shard: 3}), "it ends with the last context")
	require.True(t, third.set.Over)
	require.Empty(t, third.set.Clusters)
	for _, a := range []*asked{first, second, third} {
		require.Empty(t, a.errs)
	}
}

// TestWatchTakenOver: whoever asked before, in vain, is sent away; it may be a worker that only seemed to be dead.
func TestWatchTakenOver(t *testing.T) {
	w := newWatchWorld(t)
	var before, after, late, former, sweep *asked
	w.at(
		func() { w.watch("1", "a") },
		func() { before = w.ask("1", activities.ChangesInput{Term: 1, Attempt: 1, Generation: 1}) },
		func() { after = w.ask("2", activities.ChangesInput{Term: 1, Attempt: 2, Generation: 1}) },
		func() {
			require.True(t, before.set.Over)
			require.Nil(t, after.set)
			late = w.ask("3", activities.ChangesInput{Term: 1, Attempt: 1, Generation: 0})
			former = w.ask("4", activities.ChangesInput{Term: 7, Attempt: 1, Generation: 9})
			sweep = w.ask("5", activities.ChangesInput{Term: -1, Generation: 1_800_000_000})
		},
		func() {
			require.True(t, late.set.Over)
			require.True(t, former.set.Over, "it is of the workflow that was there before")
			require.Equal(t, edge("a"), sweep.set.Clusters, "who is none of them is told at once")
			require.Equal(t, []string{"1"}, sweep.set.Contexts)
			require.Nil(t, after.set)
			w.SignalWorkflow(workflows.UnwatchSignal, "1")
		},
	)
	require.NoError(t, w.run(workflows.WatchInput{}))
	require.True(t, after.set.Over)
}

// TestWatchOfAClusterThatIsLeftAndComesBack: both signals are taken at once, as the workflow waits after a failure.
func TestWatchOfAClusterThatIsLeftAndComesBack(t *testing.T) {
	w := newWatchWorld(t)
	w.activity.failures.Store(1)
	w.RegisterDelayedCallback(func() {
		w.only("1", time.Unix(1, 0))
		w.watch("1", "a")
	}, 5*time.Second)
	again := false
	w.activity.begins = func(term int) {
		if again = term == 2; again {
			w.SignalWorkflow(workflows.UnwatchSignal, "1")
		}
	}
	require.NoError(t, w.run(workflows.WatchInput{Watched: []workflows.Watched{
		{Cluster: edge("a")[0], Contexts: []workflows.Claim{{ContextID: "1"}}},
	}}))
	require.True(t, again, "the cluster is watched")
}

// TestWatchWhenAWordComesLate: of what a later operation has brought, an earlier one does not know.
func TestWatchWhenAWordComesLate(t *testing.T) {
	w := newWatchWorld(t)
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	watch := func(began time.Time, names ...string) {
		w.SignalWorkflow(workflows.WatchSignal, activities.Watching{ContextID: "1", Clusters: edge(names...), Began: began})
	}
	var seen *asked
	w.at(
		func() { watch(first, "a", "b", "c") },
		func() { watch(second, "b", "d") },
		func() { watch(first, "d") },
		func() { w.only("1", first, "a") },
		func() { seen = w.ask("1", activities.ChangesInput{Term: 1, Attempt: 1}) },
		func() {
			require.Equal(t, edge("a", "b", "d"), seen.set.Clusters)
			w.only("1", second, "d")
		},
		func() { seen = w.ask("2", activities.ChangesInput{Term: 1, Attempt: 1}) },
		func() {
			require.Equal(t, edge("d"), seen.set.Clusters)
			w.only("1", second)
		},
	)
	require.NoError(t, w.run(workflows.WatchInput{}))
}

func TestWatchGoesOnAfterAFailure(t *testing.T) {
	w := newWatchWorld(t)
	w.activity.failures.Store(1)
	var terms []int
	w.activity.begins = func(term int) {
		if terms = append(terms, term); term == 2 {
			w.SignalWorkflow(workflows.UnwatchSignal, "1")
		}
	}
	w.at(func() { w.watch("1", "a") })
	require.NoError(t, w.run(workflows.WatchInput{}))
	require.Equal(t, []int{1, 2}, terms)
}

// TestWatchContinuesAsNew with all that it knows, and with what came while it ended.
func TestWatchContinuesAsNew(t *testing.T) {
	w := newWatchWorld(t)
	var open *asked
	w.at(
		func() { w.watch("1", "a") },
		func() { open = w.ask("1", activities.ChangesInput{Term: 5, Attempt: 1, Generation: 8}) },
		func() {
			w.SetCurrentHistoryLength(5000)
			w.watch("2", "a", "b")
		},
	)
	err := w.run(workflows.WatchInput{Shard: 3, Generation: 7, Term: 4})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, err, &again)
	require.True(t, open.set.Over)
	var in workflows.WatchInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, workflows.WatchInput{Shard: 3, Generation: 9, Term: 5, Watched: []workflows.Watched{
		{Cluster: edge("a")[0], Contexts: []workflows.Claim{{ContextID: "1"}, {ContextID: "2"}}},
		{Cluster: edge("b")[0], Contexts: []workflows.Claim{{ContextID: "2"}}},
	}}, in)
}

// TestWatchOfMuchContinuesAsNew: a shard of 10,000 clusters with 100 contexts on all of them hands each claim on once, and the next run knows
// what they all have. When there is little again, it is handed on as before.
func TestWatchOfMuchContinuesAsNew(t *testing.T) {
	const clusters, contexts, few = 10_000 / activities.WatchShards, 100, 1
	var names, ids []string
	for i := range clusters {
		names = append(names, fmt.Sprintf("cluster%06d", i))
	}
	for i := range contexts {
		ids = append(ids, fmt.Sprintf("%019d", i))
	}
	began := time.Date(2026, 11, 27, 10, 0, 0, 123456789, time.UTC)
	w := newWatchWorld(t)
	sizes := w.sizes()
	w.at(
		func() {
			for i, id := range ids {
				w.SignalWorkflow(workflows.WatchSignal, activities.Watching{ContextID: id, Clusters: edge(names...), Began: began.Add(time.Duration(i))})
			}
		},
		func() { w.watch("other", "a", names[7]) },
		func() {
			w.SetCurrentHistoryLength(5000)
			w.SignalWorkflow(workflows.HeardSignal, activities.Heard{})
		},
	)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, w.run(workflows.WatchInput{Shard: 3, Term: 4}), &again)
	require.Equal(t, workflows.WatchManyClustersName, again.WorkflowType.Name, "a worker of before does not take it for one that it can read")
	require.Less(t, proto.Size(again.Input), 64<<10, "Temporal takes 2 MiB")
	require.Equal(t, []int{len(`{"shard":3,"term":5}`)}, *sizes, "the activity asks for the set")
	var in workflows.WatchManyInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Len(t, in.Claims, contexts+1)

	next := newWatchWorld(t)
	var all, rest *asked
	next.at(
		func() { next.SignalWorkflow(workflows.HeardSignal, activities.Heard{}) }, // it has begun
		func() { all = next.ask("1", activities.ChangesInput{Term: 6, Attempt: 1}) },
		func() {
			require.Equal(t, edge(append([]string{"a"}, names...)...), all.set.Clusters)
			require.Equal(t, append(ids, "other"), all.set.Contexts)
			for i, id := range ids[few:] { // a word of an earlier operation does not count, as in the run before
				next.only(id, began.Add(time.Duration(i)))
			}
		},
		func() { rest = next.ask("2", activities.ChangesInput{Term: 6, Attempt: 1}) },
		func() {
			require.Equal(t, all.set, rest.set)
			for _, id := range ids[few:] {
				next.SignalWorkflow(workflows.UnwatchSignal, id)
			}
		},
		func() {
			next.SetCurrentHistoryLength(5000)
			next.SignalWorkflow(workflows.HeardSignal, activities.Heard{})
		},
	)
	next.ExecuteWorkflow(workflows.WatchManyClustersName, in)
	require.True(t, next.IsWorkflowCompleted())
	require.ErrorAs(t, next.GetWorkflowError(), &again)
	require.Equal(t, workflows.WatchClustersName, again.WorkflowType.Name)
	var last workflows.WatchInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &last))
	require.Len(t, last.Watched, clusters+1)
	require.Equal(t, workflows.Watched{Cluster: edge(names[7])[0], Contexts: []workflows.Claim{{ContextID: ids[0], Began: began}, {ContextID: "other"}}}, last.Watched[8])
}
