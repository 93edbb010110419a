package worker

import (
	"errors"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/workflows"
)

// count counts an attempt at an activity.
func count(info *activity.Info, err error) {
	attempt := "first"
	if info.Attempt > 1 {
		attempt = "again"
	}
	measure.Attempts.Add(1, info.ActivityType.Name, attempt, attempted(err))
}

// attempted is how an attempt ended.
func attempted(err error) string {
	if errors.Is(err, activities.ErrNotAtOnce) {
		return measure.HandedOver
	}
	return measure.OutcomeOf(err)
}

// measuring measures leaves. It has a workflow's end from the workflow's own code, as it is not being replayed: what ends a workflow
// from outside is not measured, and a task that Temporal has not taken is measured again when it is repeated.
type measuring struct {
	interceptor.WorkerInterceptorBase
	windows *windows
}

// InterceptWorkflow wraps one run.
func (m *measuring) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	switch workflow.GetInfo(ctx).WorkflowType.Name {
	case workflows.ApplyToClusterName, workflows.DeleteFromClusterName:
		return &measuredLeaf{interceptor.WorkflowInboundInterceptorBase{Next: next}}
	case workflows.DeployAppName, workflows.RemoveAppName:
		return &measuredApp{interceptor.WorkflowInboundInterceptorBase{Next: next}, m.windows}
	default:
		return next
	}
}

type measuredApp struct {
	interceptor.WorkflowInboundInterceptorBase
	windows *windows
}

// ExecuteWorkflow runs the app.
func (m *measuredApp) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	return m.Next.ExecuteWorkflow(workflows.WithWindows(ctx, m.windows), in)
}

// windows are those of the apps whose workflows are in this worker's memory, by run. A workflow that goes on elsewhere, or is put out of
// memory, is not among them any more. It is a workflows.Windows.
type windows struct {
	mu sync.Mutex
	of map[string]workflows.WindowState
}

// Tell implements workflows.Windows.
func (w *windows) Tell(run string, s workflows.WindowState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of[run] = s
}

// End implements workflows.Windows.
func (w *windows) End(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of, run)
}

// say tells of all of them together.
func (w *windows) say(say measure.Say) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all workflows.WindowState
	full := 0
	for _, s := range w.of {
		all.Slots, all.AtWork, all.Outside, all.Waiting = all.Slots+s.Slots, all.AtWork+s.AtWork, all.Outside+s.Outside, all.Waiting+s.Waiting
		if s.Full() {
			full++
		}
	}
	say(measure.Windows, float64(len(w.of)-full), measure.WindowFree)
	say(measure.Windows, float64(full), measure.WindowFull)
	for state, n := range map[string]int{
		measure.LeavesSlots: all.Slots, measure.LeavesAtWork: all.AtWork, measure.LeavesOutside: all.Outside, measure.LeavesWaiting: all.Waiting,
	} {
		say(measure.WindowLeaves, float64(n), state)
	}
}

type measuredLeaf struct {
	interceptor.WorkflowInboundInterceptorBase
}

// ExecuteWorkflow runs the leaf.
func (m *measuredLeaf) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	out, err := m.Next.ExecuteWorkflow(ctx, in)
	if workflow.IsReplaying(ctx) || len(in.Args) != 1 {
		return out, err
	}
	leaf, ok := in.Args[0].(activities.LeafInput)
	if !ok {
		return out, err
	}
	work, outcome := "apply", measure.Failed
	if leaf.Deletes() {
		work = "delete"
	}
	end, _ := out.(*workflows.ClusterProgress)
	switch {
	case err == nil && end.Succeeded(leaf):
		outcome = measure.Done
	case ctx.Err() != nil, err == nil && end != nil && end.Stopped(leaf):
		outcome = measure.Stopped
	}
	measure.LeafDuration.Record(workflow.Now(ctx).Sub(workflow.GetInfo(ctx).WorkflowStartTime).Seconds(), work, outcome)
	return out, err
}
