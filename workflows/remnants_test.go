package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/workflows"
)

// remnantsRun is what the first run of RemoveRemnants makes of its input.
func remnantsRun(in activities.RemnantsInput) workflows.RemnantsRun {
	return workflows.RemnantsRun{RemnantsInput: in}
}

// TestTerminateEndsWithALookAtTheClusters, and starts what looks again later.
func TestTerminateEndsWithALookAtTheClusters(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 2, "a", "b")
	w.clusters.remnants = func(int) (*activities.RemnantsResult, error) { return &activities.RemnantsResult{Reach: "reach"}, nil }
	w.OnWorkflow(workflows.RemoveRemnantsName, mock.Anything, mock.Anything).Return(nil)
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminated, out.Status)
	in := activities.RemnantsInput{Owner: w.scope.Owner, ContextID: contextID, Ending: true}
	require.Equal(t, in, w.clusters.swept[0])
	w.AssertWorkflowCalled(t, workflows.RemoveRemnantsName, mock.Anything, remnantsRun(activities.RemnantsInput{Owner: w.scope.Owner, ContextID: contextID, Reach: "reach"}))
}

// TestTerminateThatCannotLook has that done by what looks again later.
func TestTerminateThatCannotLook(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a")
	w.clusters.remnants = func(int) (*activities.RemnantsResult, error) {
		return nil, workflows.ToTemporal(fail.New(fail.NotFound, "blob not found"), 1)
	}
	w.OnWorkflow(workflows.RemoveRemnantsName, mock.Anything, mock.Anything).Return(nil)
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminated, out.Status)
	w.AssertWorkflowCalled(t, workflows.RemoveRemnantsName, mock.Anything, remnantsRun(activities.RemnantsInput{Owner: w.scope.Owner, ContextID: contextID}))
}

// TestTerminateThatLeavesRemnants has not ended, so that it can be repeated.
func TestTerminateThatLeavesRemnants(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a")
	const left = "ConfigMap x on p+a: its deletion is refused"
	w.OnWorkflow(workflows.RemoveRemnantsName, mock.Anything, mock.Anything).Return(nil).Maybe()
	w.clusters.remnants = func(int) (*activities.RemnantsResult, error) {
		return &activities.RemnantsResult{Left: left, Reach: "reach"}, nil
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminateFailed, out.Status)
	require.Equal(t, left, w.store.instances[contextID].Reason)
	w.AssertWorkflowNotCalled(t, workflows.RemoveRemnantsName, mock.Anything, mock.Anything)
}

// TestTerminateWaitsForRemnants that are being deleted, until they are gone, or somebody stops it.
func TestTerminateWaitsForRemnants(t *testing.T) {
	const left = "Pod once on p+a: being deleted since 2026-11-22T09:30:00Z, with a grace period of 30s"
	for name, c := range map[string]struct {
		stop bool
		want domain.ContextStatus
	}{
		"until they are gone": {want: domain.ContextTerminated},
		"until it is stopped": {stop: true, want: domain.ContextTerminateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, domain.OpTerminate, 1, "a")
			w.OnWorkflow(workflows.RemoveRemnantsName, mock.Anything, mock.Anything).Return(nil).Maybe()
			w.clusters.remnants = func(look int) (*activities.RemnantsResult, error) {
				waits := left
				if look > 4 && !c.stop {
					waits = ""
				}
				err := w.store.UpdateInstance(t.Context(), contextID, func(i *domain.Instance) error {
					require.Equal(t, domain.ContextTerminating, i.Status)
					i.Remnants = waits
					return nil
				})
				if waits == "" {
					return &activities.RemnantsResult{Reach: "reach"}, err
				}
				return nil, workflows.ToTemporal(errors.Join(fail.New(fail.Unavailable, "%s", waits), err), 1)
			}
			if c.stop {
				w.update(workflows.StopUpdate, 20*time.Second)
			}
			out, err := w.run()
			require.NoError(t, err)
			require.Equal(t, c.want, out.Status)
			i := w.store.instances[contextID]
			require.Empty(t, i.Remnants)
			require.Equal(t, map[bool]string{true: left}[c.stop], i.Reason, "what is left is said")
			require.Equal(t, i.Reason, i.Runs[len(i.Runs)-1].Reason)
			require.GreaterOrEqual(t, len(w.clusters.swept), 4)
		})
	}
}

// TestStoppedTerminateDoesNotLook at clusters any more.
func TestStoppedTerminateDoesNotLook(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a", "dead")
	w.clusters.acts["dead"] = dead("2d")
	w.update(workflows.StopUpdate, midway)
	_, err := w.run()
	require.NoError(t, err)
	require.Empty(t, w.clusters.swept)
}

// TestTerminateThatFailsDoesNotLook either: a hook before it has failed, say, and nothing is to be deleted before it is run.
func TestTerminateThatFailsDoesNotLook(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a", "b")
	w.clusters.acts["b"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		return w.clusters.end(ctx, in, domain.Marks{domain.MarkUndeleted, domain.MarkDoomed})
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminateFailed, out.Status)
	require.Empty(t, w.clusters.swept)
}

// TestRemoveRemnants looks twice where there is nothing, at once when something is reported, and for longer while it finds
// something.
func TestRemoveRemnants(t *testing.T) {
	found := &activities.RemnantsResult{Deleted: 1}
	for name, c := range map[string]struct {
		looks  []*activities.RemnantsResult // the last one's result is that of all that follow
		seen   time.Duration                // when something is reported, 0 for never
		during int                          // or while what look goes on
		want   int
		atMost time.Duration
	}{
		"nothing":               {looks: []*activities.RemnantsResult{{}}, want: 2, atMost: 17 * time.Minute},
		"the label lives":       {looks: []*activities.RemnantsResult{{Over: true}}, want: 1, atMost: 2 * time.Minute},
		"something once":        {looks: []*activities.RemnantsResult{found, {}}, want: 3, atMost: 20 * time.Minute},
		"something is reported": {looks: []*activities.RemnantsResult{{}, found, {}}, seen: 2 * time.Minute, want: 4, atMost: 21 * time.Minute},
		"something is reported during the last look": {
			looks: []*activities.RemnantsResult{{}, {}, found, {}}, during: 2, want: 5, atMost: 34 * time.Minute,
		},
		"a cluster never returns": {looks: []*activities.RemnantsResult{{Silent: 1}}, want: 77, atMost: 74 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, domain.OpTerminate, 1, "a")
			w.clusters.remnants = func(look int) (*activities.RemnantsResult, error) {
				if look == c.during {
					w.SignalWorkflow(workflows.RemnantSignal, nil)
				}
				return c.looks[min(look, len(c.looks))-1], nil
			}
			if c.seen > 0 {
				w.RegisterDelayedCallback(func() { w.SignalWorkflow(workflows.RemnantSignal, nil) }, c.seen)
				w.RegisterDelayedCallback(func() { require.Len(t, w.clusters.swept, 2) }, c.seen+10*time.Second)
			}
			began := w.Now()
			w.ExecuteWorkflow(workflows.RemoveRemnantsName, activities.RemnantsInput{Owner: w.scope.Owner, ContextID: contextID})
			require.True(t, w.IsWorkflowCompleted())
			require.NoError(t, w.GetWorkflowError())
			require.InDelta(t, c.want, len(w.clusters.swept), 2)
			if c.want < 10 {
				require.Len(t, w.clusters.swept, c.want)
			}
			require.Less(t, w.Now().Sub(began), c.atMost)
		})
	}
}

// TestRemoveRemnantsThatComeBack: what a controller makes again each time is looked for less and less often, although no look that follows a
// deletion at once finds it, and for three days in all.
func TestRemoveRemnantsThatComeBack(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a")
	w.clusters.remnants = func(look int) (*activities.RemnantsResult, error) {
		return &activities.RemnantsResult{Deleted: look % 2}, nil
	}
	const days, each = 3 * 24 * time.Hour, 10 * time.Minute
	for at := each; at < days; at += each {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(workflows.RemnantSignal, nil) }, at)
	}
	began := w.Now()
	w.ExecuteWorkflow(workflows.RemoveRemnantsName, activities.RemnantsInput{Owner: w.scope.Owner, ContextID: contextID})
	require.True(t, w.IsWorkflowCompleted())
	require.NoError(t, w.GetWorkflowError())
	require.InDelta(t, 150, len(w.clusters.swept), 20, "two an hour")
	require.InDelta(t, days, w.Now().Sub(began), float64(2*time.Hour))
}

// TestRemoveRemnantsContinuesAsNew with its time, its wait and what was reported; both runs together last as long as one would.
func TestRemoveRemnantsContinuesAsNew(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a")
	w.clusters.remnants = func(int) (*activities.RemnantsResult, error) { return &activities.RemnantsResult{Silent: 1}, nil }
	began := w.Now()
	const full = 36 * time.Hour
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(workflows.RemnantSignal, nil) }, full-time.Second)
	w.RegisterDelayedCallback(func() { w.SetCurrentHistoryLength(5000) }, full)
	w.ExecuteWorkflow(workflows.RemoveRemnantsName, activities.RemnantsInput{Owner: w.scope.Owner, ContextID: contextID, Reach: "reach"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &again)
	require.Equal(t, workflows.RemoveRemnantsName, again.WorkflowType.Name)
	require.WithinDuration(t, began.Add(full), w.Now(), time.Second, "at once")
	looks := len(w.clusters.swept)
	var in workflows.RemnantsRun
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.WithinDuration(t, began, in.Began, time.Second)
	require.Equal(t, time.Hour, in.Wait)
	require.True(t, in.Seen, "it was reported, and is looked at with the next look")
	require.WithinRange(t, in.Next, began.Add(full), began.Add(full+time.Hour))
	require.Equal(t, domain.Digest("reach"), in.Reach)

	next := newWorld(t, domain.OpTerminate, 1, "a")
	next.SetStartTime(w.Now())
	next.clusters.remnants = w.clusters.remnants
	next.ExecuteWorkflow(workflows.RemoveRemnantsName, in)
	require.NoError(t, next.GetWorkflowError())
	require.InDelta(t, 77, looks+len(next.clusters.swept), 2)
	require.WithinRange(t, next.Now(), began.Add(72*time.Hour), began.Add(74*time.Hour))
}

// TestRemoveRemnantsGoesOnWithWhatWasReported: after a look that has found nothing it is looked at at once, in the next run, too.
func TestRemoveRemnantsGoesOnWithWhatWasReported(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "a")
	w.clusters.remnants = func(int) (*activities.RemnantsResult, error) { return &activities.RemnantsResult{}, nil }
	now := w.Now()
	w.ExecuteWorkflow(workflows.RemoveRemnantsName, workflows.RemnantsRun{
		RemnantsInput: activities.RemnantsInput{Owner: w.scope.Owner, ContextID: contextID},
		Began:         now.Add(-time.Hour), Next: now.Add(15 * time.Minute), Wait: 15 * time.Minute, Clean: 1, Seen: true,
	})
	require.NoError(t, w.GetWorkflowError())
	require.Len(t, w.clusters.swept, 1)
	require.Less(t, w.Now().Sub(now), time.Minute)
}
