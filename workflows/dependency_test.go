package workflows_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/workflows"
)

// needs makes app0 need others.
func needs(d ...plan.Dependency) func(*plan.Plan) {
	return func(p *plan.Plan) { p.Apps[0].Needs = d }
}

func TestDeployedIsWaitedFor(t *testing.T) {
	w := newWorldOf(t, domain.OpInstantiate, needs(plan.Dependency{App: "app1", Wait: 30 * time.Second}), 2, "a", "b")
	w.at(20*time.Second, func() {
		root := ask[workflows.OperationProgress](w, workflows.OperationID(w.scope))
		require.Equal(t, "waits for 30s since app app1 is Deployed", root.Apps[0].Reason)
		require.Equal(t, 4, root.Apps[0].Counts[domain.ResourcePending])
		require.Equal(t, 2, root.Apps[1].Done)
	})
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
	require.Equal(t, []string{"app1", "app0"}, w.clusters.order)
	require.Empty(t, w.store.instances[contextID].NotStarted)
}

func TestReadyIsWaitedFor(t *testing.T) {
	w := newWorldOf(t, domain.OpInstantiate, func(p *plan.Plan) {
		p.Apps[0].Needs = []plan.Dependency{{App: "app1", Ready: true}, {App: "app2"}}
		p.Apps[3].Needs = []plan.Dependency{{App: "app1", Ready: true, Wait: time.Second}}
	}, 4, "a")
	w.clusters.ready = func(ctx context.Context, in activities.ReadyInput) error {
		require.Equal(t, activities.ReadyInput{Plan: in.Plan, App: "app1", Namespace: "default", To: 1, Beside: 1}, in)
		if activity.GetInfo(ctx).Attempt < 9 { // some 16 s
			return workflows.ToTemporal(fail.New(fail.Unavailable, "worker stops"), activity.GetInfo(ctx).Attempt)
		}
		return nil
	}
	w.at(5*time.Second, func() {
		w.SignalWorkflow(workflows.LackingSignal, activities.Lacking{App: "app1", Reason: "on p+a: Deployment x: replicas: 0/1"})
	})
	w.at(6*time.Second, func() {
		root := ask[workflows.OperationProgress](w, workflows.OperationID(w.scope))
		require.Equal(t, "waits until app app1 is Ready: on p+a: Deployment x: replicas: 0/1", root.Apps[0].Reason)
	})
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
	order := w.clusters.order
	last := len(order) - 2
	require.Subset(t, order[:last], []string{"app1", "app2"})
	require.Equal(t, []string{"app0", "app3"}, order[last:])
}

// TestEachIsSaid that an app waits for, as long as it does.
func TestEachIsSaid(t *testing.T) {
	w := newWorldOf(t, domain.OpInstantiate, needs(
		plan.Dependency{App: "app1", Wait: 20 * time.Second}, plan.Dependency{App: "app2", Ready: true}, plan.Dependency{App: "app3", Wait: time.Minute},
	), 4, "a")
	w.clusters.ready = func(ctx context.Context, _ activities.ReadyInput) error {
		return workflows.ToTemporal(fail.New(fail.Unavailable, "not ready"), activity.GetInfo(ctx).Attempt)
	}
	reason := func() string {
		return ask[workflows.OperationProgress](w, workflows.OperationID(w.scope)).Apps[0].Reason
	}
	w.at(5*time.Second, func() {
		w.SignalWorkflow(workflows.LackingSignal, activities.Lacking{App: "app2", Reason: "on p+a: Deployment x: replicas: 0/1"})
	})
	const ready = "waits until app app2 is Ready: on p+a: Deployment x: replicas: 0/1"
	w.at(6*time.Second, func() {
		require.Equal(t, "waits for 20s since app app1 is Deployed; "+ready+"; waits for 1m0s since app app3 is Deployed", reason())
	})
	w.at(30*time.Second, func() {
		require.Equal(t, ready+"; waits for 1m0s since app app3 is Deployed", reason())
	})
	w.at(70*time.Second, func() { require.Equal(t, ready, reason()) })
	stopped := w.update(workflows.StopUpdate, 80*time.Second)
	_, err := w.run()
	require.NoError(t, err)
	require.NoError(t, stopped.err)
}

// TestNeededAppFails: what needs it, directly or not, is not started.
func TestNeededAppFails(t *testing.T) {
	w := newWorldOf(t, domain.OpInstantiate, func(p *plan.Plan) {
		p.Apps[0].Needs = []plan.Dependency{{App: "app1"}, {App: "app2", Wait: time.Hour}}
		p.Apps[1].Needs = []plan.Dependency{{App: "app2"}}
		p.Apps[1].Resources = nil // all of it is there at once
		p.Apps[2].Resources = make([]plan.ResourceID, 1)
	}, 3, "a")
	w.clusters.acts["a"] = w.clusters.refuses
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiateFailed, out.Status)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceFailed: 1, domain.ResourcePending: 2}, out.Counts)
	require.Equal(t, []string{"app2"}, w.clusters.order)
	require.Equal(t, map[string]string{
		"app0": "not started: app app2, which it needs, is not Deployed",
		"app1": "not started: app app2, which it needs, is not Deployed",
	}, w.store.instances[contextID].NotStarted)
}

func TestStopWhileAnAppWaits(t *testing.T) {
	for name, need := range map[string]plan.Dependency{
		"for a cluster that does not answer": {App: "app1"},
		"for a time":                         {App: "app1", Wait: time.Hour},
		"for it to be ready":                 {App: "app1", Ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, domain.OpInstantiate, needs(need), 2, "a")
			switch {
			case need.Ready:
				w.clusters.ready = func(ctx context.Context, _ activities.ReadyInput) error {
					return workflows.ToTemporal(fail.New(fail.Unavailable, "not ready"), activity.GetInfo(ctx).Attempt)
				}
			case need.Wait == 0:
				w.clusters.acts["a"] = dead("2p")
			}
			stopped := w.update(workflows.StopUpdate, 2*time.Second)
			out, err := w.run()
			require.NoError(t, err)
			require.NoError(t, stopped.err)
			require.Equal(t, domain.ContextInstantiateFailed, out.Status)
			require.Equal(t, []domain.State{domain.Created, domain.Approved, domain.Instantiated, domain.InstantiateStopped}, w.store.states())
			require.Equal(t, map[string]string{"app0": "not started: the operation was stopped while the app waited for others"}, w.store.instances[contextID].NotStarted)
			for _, in := range w.clusters.inputs {
				require.NotEqual(t, "app0", in.App)
			}
		})
	}
}

// TestManyDependencies: what their operation has to say is made once for a task, which has a few seconds. Made for each of them it took 480 MiB.
func TestManyDependencies(t *testing.T) {
	const apps, needed = 500, 5
	w := newWorldOf(t, domain.OpInstantiate, func(p *plan.Plan) {
		for i := range p.Apps[needed:] {
			for n := range needed {
				p.Apps[needed+i].Needs = append(p.Apps[needed+i].Needs, plan.Dependency{App: p.Apps[n].Name})
			}
		}
	}, apps, "a")
	w.clusters.acts["a"] = dead("2p")
	w.at(time.Second, func() {
		root := ask[workflows.OperationProgress](w, workflows.OperationID(w.scope))
		require.True(t, strings.HasPrefix(root.Apps[apps-1].Reason, "waits until app app0 is Deployed; waits until app app1 is Deployed; "), root.Apps[apps-1].Reason)
	})
	stopped := w.update(workflows.StopUpdate, 2*time.Second)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := w.run()
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.NoError(t, stopped.err)
	require.Len(t, w.store.instances[contextID].NotStarted, apps-needed)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20), "each dependency has a table made of all of them")
}

func TestTerminateWaitsForNothing(t *testing.T) {
	w := newWorldOf(t, domain.OpTerminate, needs(plan.Dependency{App: "app1", Wait: time.Hour}), 2, "a")
	before := w.Now()
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminated, out.Status)
	require.Less(t, w.Now().Sub(before), time.Minute)
}

// TestStepsOfALeaf does one after the other, each as an activity, until none follows.
func TestStepsOfALeaf(t *testing.T) {
	w := newWorldOf(t, domain.OpInstantiate, func(p *plan.Plan) { p.Apps[0].Events = []string{"pre-install"} }, 1, "a")
	w.clusters.acts["a"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		end, err := w.clusters.end(ctx, in, domain.DecodeMarks([]string{"1A1p", "1A1p", "2A"}[in.Step]))
		if in.Step < 2 {
			end.Next = in.Step + 1
		}
		return end, err
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
	require.Equal(t, 3, w.clusters.activities["a"])
	for i, in := range w.clusters.inputs {
		require.Equal(t, i, in.Step)
		require.True(t, in.Hooked)
		require.Positive(t, in.HookTime)
	}
}

// TestWaitingLeavesDoNotStarve has more leaves that wait for a hook than may be at work at a time.
func TestWaitingLeavesDoNotStarve(t *testing.T) {
	names := []string{}
	for i := range 40 {
		names = append(names, string(rune('A'+i)))
	}
	w := newWorldOf(t, domain.OpInstantiate, func(p *plan.Plan) { p.Apps[0].Events = []string{"pre-install"} }, 1, append(names, "zz")...)
	for _, name := range names {
		w.clusters.acts[name] = func(ctx context.Context, _ activities.LeafInput) (*domain.Leaf, error) {
			if activity.GetInfo(ctx).Attempt == 1 {
				activity.RecordHeartbeat(ctx, activities.Contact{Connectivity: domain.ConnectivityAvailable, Marks: "1s1p", Reason: "waits for a hook"})
			}
			return nil, workflows.ToTemporal(fail.New(fail.Unavailable, "worker stops"), activity.GetInfo(ctx).Attempt)
		}
	}
	w.at(midway, func() {
		require.Equal(t, "2A", w.leaf("zz").Marks)
		app := ask[workflows.AppDetail](w, workflows.AppID(w.scope, "app0", 0, 0))
		require.Len(t, app.Open, 40)
		require.Equal(t, "waits for a hook", app.Open[0].Reason)
	})
	w.update(workflows.StopUpdate, midway+time.Second)
	_, err := w.run()
	require.NoError(t, err)
}
