package worker

import (
	"errors"

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
}

// InterceptWorkflow wraps one run.
func (*measuring) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	switch workflow.GetInfo(ctx).WorkflowType.Name {
	case workflows.ApplyToClusterName, workflows.DeleteFromClusterName:
		return &measuredLeaf{interceptor.WorkflowInboundInterceptorBase{Next: next}}
	default:
		return next
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
	case ctx.Err() != nil:
		outcome = measure.Stopped
	}
	measure.LeafDuration.Record(workflow.Now(ctx).Sub(workflow.GetInfo(ctx).WorkflowStartTime).Seconds(), work, outcome)
	return out, err
}
