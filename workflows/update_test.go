package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/workflows"
)

const nextID = "3114006130701074262"

// inherited is a target of app0 with the marks that it begins with.
func inherited(cluster, marks string) plan.Target {
	t := plan.Target{ClusterName: domain.ClusterName{Provider: "p", Name: cluster}}
	if marks != "" {
		t.Inherited = &plan.Inherited{Marks: marks}
	}
	return t
}

// newUpdate has an instantiated group, and the plan of its update with the apps; of each the last of two resources is to
// be pruned. What is not idle or gone is applied and deleted by the mark.
func newUpdate(t *testing.T, apps ...plan.App) (*world, *activities.Prepared) {
	t.Helper()
	w := newWorld(t, domain.OpUpdate, 0)
	w.store.group.History.Append(domain.Instantiated, contextID, 1, begun)
	w.store.instances[contextID] = domain.Instance{
		ContextID: contextID, Owner: w.scope.Owner, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
	}
	w.scope.ContextID = nextID
	p := &plan.Plan{ContextID: nextID, Owner: w.scope.Owner, Namespace: "default", Label: contextID}
	for _, a := range apps {
		a.Resources, a.Pruned = make([]plan.ResourceID, 2), 1
		p.Apps = append(p.Apps, a)
	}
	prepared := w.store.planned(t, p)
	prepared.Label, prepared.Revision = contextID, 2
	prepared.From = &activities.From{ContextID: contextID, Owner: w.scope.Owner, OwnerRevision: w.store.group.Revision}
	for i, a := range p.Apps {
		work, targets := &activities.Work{}, &activities.Targets{}
		for _, target := range a.Targets {
			marks := target.Begin(2)
			if marks.Has(domain.Mark.ToApply) {
				work.Apply++
			}
			if marks.Has(domain.Mark.ToDelete) {
				work.Prune++
			}
			targets.Clusters = append(targets.Clusters, target.ClusterName)
			targets.Marks = append(targets.Marks, marks.Encode())
			prepared.Leaving = prepared.Leaving || target.Leaving
		}
		prepared.Apps[i].Work, prepared.Apps[i].Targets = work, targets
		prepared.Apps[i].Counts = map[domain.ResourceState]int{domain.ResourceApplied: 1}
	}
	var l *activities.Control
	w.OnActivity(l.PrepareChange, mock.Anything, mock.Anything).Maybe().Return(
		func(context.Context, activities.ChangeInput) (*activities.Prepared, error) {
			return &prepared, workflows.ToTemporal(w.refusal, 1)
		})
	for _, a := range p.Apps {
		for _, target := range a.Targets {
			w.clusters.acts[target.Name] = w.clusters.obey
		}
	}
	return w, &prepared
}

// obey does what the marks ask for, as the real activity does.
func (c *clusters) obey(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
	marks := domain.DecodeMarks(in.Inherited)
	if leaf, err := c.store.Leaf(ctx, in.LeafID()); in.Prune && err == nil {
		marks = domain.DecodeMarks(leaf.Marks)
	}
	for i, m := range marks {
		switch {
		case in.Prune && m.ToDelete():
			marks[i] = domain.MarkGone
		case !in.Prune && m.ToApply():
			marks[i] = domain.MarkApplied
		}
	}
	return c.end(ctx, in, marks)
}

// next is the record of app0 on a cluster in the new context, "" for none.
func (w *world) next(cluster string) string {
	leaf, err := w.store.Leaf(w.t.Context(), domain.LeafID(nextID, "app0", domain.ClusterName{Provider: "p", Name: cluster}))
	if fail.Is(err, fail.NotFound) {
		return ""
	}
	require.NoError(w.t, err)
	return leaf.Marks
}

func TestUpdateAppliesThenPrunes(t *testing.T) {
	leaving := inherited("left", "1G1d")
	leaving.Leaving = true
	w, prepared := newUpdate(t,
		plan.App{Name: "app0", Targets: []plan.Target{inherited("changed", "1o1d"), inherited("idle", "1A1G"), leaving, inherited("new", "1p1G"), inherited("pruned", "1A1d")}},
		plan.App{Name: "idle", Targets: []plan.Target{inherited("idle", "1A1G")}},
	)
	var order []string
	obey := w.clusters.acts["changed"]
	for _, name := range []string{"changed", "left", "new", "pruned", "idle"} {
		w.clusters.acts[name] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
			require.Equal(t, contextID, in.Label)
			what := "apply "
			if in.Deletes() {
				what = "prune "
			}
			w.clusters.mu.Lock()
			order = append(order, what+name)
			w.clusters.mu.Unlock()
			return obey(ctx, in)
		}
	}
	accepted := w.update(workflows.AcceptUpdate, 0)
	out, err := w.run()
	require.NoError(t, err)
	require.NoError(t, accepted.err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 5}, out.Counts)
	require.Len(t, order, 5)
	require.ElementsMatch(t, []string{"apply changed", "apply new"}, order[:2], "nothing is pruned before all is applied")
	require.ElementsMatch(t, []string{"prune changed", "prune left", "prune pruned"}, order[2:])
	require.Equal(t, "1A1G", w.next("changed"))
	require.Empty(t, w.next("idle"), "a leaf without work has no record and no workflow")
	require.Equal(t, []domain.State{domain.Created, domain.Approved, domain.Instantiated, domain.Updated, domain.Instantiated}, w.store.states())
	require.Equal(t, contextID, w.store.group.History.StatusContextID)
	require.Equal(t, domain.ContextUpdated, w.status())
	i := w.store.instances[nextID]
	require.Equal(t, domain.ContextInstantiated, i.Status)
	require.Equal(t, contextID, i.Label)
	require.Empty(t, i.Reason)
	trimmed := w.plan(i.Plan)
	require.NotEqual(t, prepared.Plan, i.Plan)
	require.Len(t, trimmed.Apps[0].Targets, 4, "the cluster that was left is not the context's any more")
	require.Len(t, trimmed.Apps[0].Resources, 1)
	require.NotContains(t, w.shards.watched[contextID], leaving.ClusterName)
	require.Contains(t, w.shards.watched[contextID], domain.ClusterName{Provider: "p", Name: "new"})
}

// TestInstantiateTakesOverWhatATerminateHasLeft applies, then prunes.
func TestInstantiateTakesOverWhatATerminateHasLeft(t *testing.T) {
	leaving := inherited("left", "1G1d")
	leaving.Leaving = true
	w, prepared := newUpdate(t, plan.App{Name: "app0", Targets: []plan.Target{inherited("gone", "1p1G"), leaving, inherited("there", "1o1d")}})
	w.store.group.History.Append(domain.Terminated, contextID, 0, begun)
	w.store.group.History.Append(domain.TerminateStopped, contextID, 0, begun)
	require.NoError(t, w.store.UpdateInstance(t.Context(), contextID, func(i *domain.Instance) error {
		i.Operation, i.Status = domain.OpTerminate, domain.ContextTerminateFailed
		return nil
	}))
	w.scope.Operation, w.prepared = domain.OpInstantiate, prepared
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 2}, out.Counts)
	for i, in := range w.clusters.inputs {
		require.Equal(t, i >= 2, in.Prune, "nothing is pruned before all is applied")
	}
	require.Len(t, w.clusters.inputs, 4)
	require.Equal(t, "1A1G", w.next("there"))
	require.Equal(t, "2G", w.next("left"))
	require.Equal(t, domain.ContextUpdated, w.status())
	trimmed := w.plan(w.store.instances[nextID].Plan)
	require.Len(t, trimmed.Apps[0].Targets, 2, "the cluster that was left is not the context's any more")
	require.Len(t, trimmed.Apps[0].Resources, 1)
	require.NotContains(t, w.shards.watched[contextID], leaving.ClusterName)
}

// TestInstantiateAfterATerminateThatHasLeftWhatNoRecordTellsOf begins anew, and has the label before looked after as a
// terminate that has succeeded has.
func TestInstantiateAfterATerminateThatHasLeftWhatNoRecordTellsOf(t *testing.T) {
	const left = "ConfigMap x on p+a: its deletion is refused"
	w := newWorld(t, domain.OpTerminate, 1, "a")
	require.NoError(t, w.store.UpdateInstance(t.Context(), contextID, func(i *domain.Instance) error {
		i.Operation, i.Status, i.Reason = domain.OpTerminate, domain.ContextTerminateFailed, left
		return nil
	}))
	w.store.group.History.Append(domain.Terminated, contextID, 0, begun)
	earlier := w.store.instances[contextID]
	w.scope.ContextID, w.scope.Operation = nextID, domain.OpInstantiate
	prepared := w.store.planned(t, &plan.Plan{ContextID: nextID, Owner: w.scope.Owner, Namespace: "default", Apps: []plan.App{
		{Name: "app0", Resources: make([]plan.ResourceID, 2), Targets: []plan.Target{inherited("a", "")}},
	}})
	prepared.From = &activities.From{ContextID: contextID, Owner: w.scope.Owner, Ended: contextID, Plan: earlier.Plan}
	w.prepared = &prepared
	w.OnWorkflow(workflows.RemoveRemnantsName, mock.Anything, mock.Anything).Return(nil)
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
	w.AssertWorkflowCalled(t, workflows.RemoveRemnantsName, mock.Anything,
		remnantsRun(activities.RemnantsInput{Owner: w.scope.Owner, ContextID: contextID, Label: contextID}))
	require.Equal(t, domain.ContextTerminated, w.status())
	require.Equal(t, left, w.store.instances[contextID].Remnants)
	require.Equal(t, []string{contextID}, w.shards.unwatched)
	require.Contains(t, w.shards.watched, nextID)
}

func TestUpdateWithoutADifference(t *testing.T) {
	w, prepared := newUpdate(t, plan.App{Name: "app0", Targets: []plan.Target{inherited("a", "1A1G")}})
	*prepared = activities.Prepared{Unchanged: true, Revision: 1, Warnings: []string{"nothing to update"}}
	before := w.store.instances[contextID]
	accepted := w.update(workflows.AcceptUpdate, 0)
	_, err := w.run()
	require.NoError(t, err)
	require.True(t, accepted.done)
	require.NoError(t, accepted.err)
	require.Equal(t, instantiated, w.store.states())
	require.Equal(t, map[string]domain.Instance{contextID: before}, w.store.instances)
	require.Empty(t, w.clusters.asked)
	require.Empty(t, w.shards.watched)
}

// TestUpdateWithoutADifferenceOfACloud: a reference that was deleted and made again has no certificate, and makes no
// difference in clusters.
func TestUpdateWithoutADifferenceOfACloud(t *testing.T) {
	w, prepared := newUpdate(t, plan.App{Name: "app0", Targets: []plan.Target{inherited("a", "1A1G")}})
	*prepared = activities.Prepared{Unchanged: true, Revision: 1}
	w.scope.Owner = "projects/p/logical-clouds/lc"
	var kept []domain.Key
	var l *activities.Control
	w.OnActivity(l.KeepCertificates, mock.Anything, mock.Anything).Return(func(_ context.Context, cloud domain.Key) error {
		kept = append(kept, cloud)
		return nil
	})
	_, err := w.run()
	require.NoError(t, err)
	require.Equal(t, []domain.Key{w.scope.Owner}, kept)
}

func TestUpdateIsRefused(t *testing.T) {
	t.Run("in prepare", func(t *testing.T) {
		w, _ := newUpdate(t, plan.App{Name: "app0", Targets: []plan.Target{inherited("a", "1p1G")}})
		w.refusal = fail.New(fail.Invalid, "broken")
		out, err := w.run()
		require.NoError(t, err)
		require.Equal(t, &activities.Outcome{Refused: "broken"}, out)
		require.Equal(t, instantiated, w.store.states())
	})
	t.Run("when the group was changed meanwhile", func(t *testing.T) {
		w, _ := newUpdate(t, plan.App{Name: "app0", Targets: []plan.Target{inherited("a", "1p1G")}})
		w.store.group.Revision++
		out, err := w.run()
		require.NoError(t, err)
		require.NotEmpty(t, out.Refused)
		require.Equal(t, instantiated, w.store.states())
		require.NotContains(t, w.store.instances, nextID, "it is taken back")
		require.Equal(t, domain.ContextInstantiated, w.status())
	})
}

// TestUpdatePrunesNothing when not all is applied.
func TestUpdatePrunesNothing(t *testing.T) {
	apps := func() plan.App {
		return plan.App{Name: "app0", Targets: []plan.Target{inherited("a", "1o1d"), inherited("b", "1A1d")}}
	}
	t.Run("after a refusal", func(t *testing.T) {
		w, _ := newUpdate(t, apps())
		w.clusters.acts["a"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
			return w.clusters.end(ctx, in, domain.DecodeMarks("1X1d"))
		}
		out, err := w.run()
		require.NoError(t, err)
		require.Equal(t, domain.ContextInstantiateFailed, out.Status)
		require.Zero(t, w.clusters.asked["b"])
		require.Equal(t, "nothing was pruned: 1 of the resources could not be applied", w.store.instances[nextID].Reason)
		require.Equal(t, map[domain.ResourceState]int{domain.ResourceFailed: 1, domain.ResourceApplied: 3}, out.Counts)
	})
	t.Run("when it is stopped", func(t *testing.T) {
		w, _ := newUpdate(t, apps())
		w.clusters.acts["a"] = dead("1s1d")
		stopped := w.update(workflows.StopUpdate, midway)
		out, err := w.run()
		require.NoError(t, err)
		require.NoError(t, stopped.err)
		require.Equal(t, domain.ContextInstantiateFailed, out.Status)
		require.Equal(t, domain.InstantiateStopped, w.store.group.History.State())
		require.Zero(t, w.clusters.asked["b"])
		require.Equal(t, "1s1d", w.next("a"))
		require.Contains(t, w.store.instances[nextID].Reason, "stopped")
	})
}

// TestUpdateStoppedWhileItPrunes: what a silent attempt at pruning may have deleted is known to be in doubt, and what was
// applied is not.
func TestUpdateStoppedWhileItPrunes(t *testing.T) {
	w, _ := newUpdate(t, plan.App{Name: "app0", Targets: []plan.Target{inherited("a", "1o1d")}})
	obey := w.clusters.acts["a"]
	w.clusters.acts["a"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		if !in.Prune {
			return obey(ctx, in)
		}
		return nil, workflows.ToTemporal(fail.New(fail.Unavailable, "worker lost"), activity.GetInfo(ctx).Attempt)
	}
	w.update(workflows.StopUpdate, midway)
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiateFailed, out.Status)
	require.Equal(t, "1A1r", w.next("a"))
}

// TestUpdateThatFailsLeavesClusters: one that has nothing any more is not watched any longer, one of which something could
// not be deleted is.
func TestUpdateThatFailsLeavesClusters(t *testing.T) {
	emptied, stuck := inherited("emptied", "1G1d"), inherited("stuck", "1G1d")
	emptied.Leaving, stuck.Leaving = true, true
	w, _ := newUpdate(t, plan.App{Name: "app0", Targets: []plan.Target{inherited("a", "1o1G"), emptied, stuck}})
	w.clusters.acts["stuck"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		return w.clusters.end(ctx, in, domain.DecodeMarks("1G1X"))
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiateFailed, out.Status)
	require.ElementsMatch(t, []domain.ClusterName{{Provider: "p", Name: "a"}, {Provider: "p", Name: "stuck"}}, w.shards.narrowed)
}

func TestRollbackIsAnUpdate(t *testing.T) {
	w, _ := newUpdate(t, plan.App{Name: "app0", Targets: []plan.Target{inherited("a", "1o1d")}})
	w.scope.Operation = domain.OpRollback
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
	require.Equal(t, domain.OpRollback, w.store.instances[nextID].Origin)
}

// TestTerminateOfAnUpdate begins with what the context took over.
func TestTerminateOfAnUpdate(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a")
	i := w.store.instances[contextID]
	i.Label, i.Origin = "1", domain.OpUpdate
	p := w.plan(i.Plan)
	p.Apps[0].Targets[0].Inherited = &plan.Inherited{Marks: "1A1G"}
	i.Plan = w.store.planned(t, p).Plan
	w.store.instances[contextID] = i
	w.clusters.acts["a"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		require.Equal(t, "1", in.Label)
		require.Equal(t, "1A1G", in.Inherited)
		require.False(t, in.Prune)
		return w.clusters.end(ctx, in, domain.DecodeMarks("1D1G"))
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminated, out.Status)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceDeleted: 1}, out.Counts, "what an update pruned does not count")
	require.Equal(t, []string{"1"}, w.shards.unwatched)
}

func (w *world) plan(digest domain.Digest) *plan.Plan {
	w.t.Helper()
	data, err := w.store.Blob(w.t.Context(), digest)
	require.NoError(w.t, err)
	var p plan.Plan
	require.NoError(w.t, json.Unmarshal(data, &p))
	return &p
}

// TestUpdatePrunesNothingWhenABatchIsLost: what a workflow that was ended by hand has applied, nobody knows.
func TestUpdatePrunesNothingWhenABatchIsLost(t *testing.T) {
	app := plan.App{Name: "app0"}
	for i := range 251 {
		app.Targets = append(app.Targets, inherited(fmt.Sprintf("c%03d", i), "1o1d"))
	}
	w, prepared := newUpdate(t, app)
	prepared.Apps[0].Targets = nil
	w.OnWorkflow(workflows.DeployAppName, mock.Anything, mock.Anything).Return(
		func(ctx workflow.Context, in workflows.AppInput) (*workflows.AppProgress, error) {
			if in.From == 0 && in.To == 250 {
				return nil, errors.New("ended by hand")
			}
			return workflows.WorkApp(ctx, in)
		})
	_, err := w.run()
	require.Error(t, err, "its records are not to be trusted")
	require.Equal(t, domain.ContextInstantiateFailed, w.store.instances[nextID].Status)
	require.Equal(t, "1A1d", w.next("c250"))
	require.Equal(t, "nothing was pruned: 500 of the resources could not be applied", w.store.instances[nextID].Reason)
}
