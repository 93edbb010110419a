package engine

import (
	"context"

	"go.temporal.io/sdk/client"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/workflows"
)

// Settle has the matches of a tenant settled that are due. Whoever marks them calls it afterwards; a call that does not get
// through is made up for within workflows.BehindInterval.
func (e *Engine) Settle(ctx context.Context, tenant string) error {
	return e.sent(ctx, workflow(workflows.TenantID(tenant)), func(ctx context.Context) error {
		id := workflows.TenantID(tenant)
		_, err := e.temporal.SignalWithStartWorkflow(ctx, id, workflows.SettleSignal, nil, client.StartWorkflowOptions{
			ID: id, TaskQueue: workflows.LifecycleQueue, WorkflowTaskTimeout: policy.Task,
			TypedSearchAttributes: workflows.TenantAttributes(tenant), StaticSummary: workflows.TenantSummary(tenant),
		}, workflows.SettleTenantName, activities.TenantInput{Tenant: tenant})
		return err
	})
}

// Settling describes what settles the matches of a tenant; when nothing does, it has the id alone.
func (e *Engine) Settling(ctx context.Context, tenant string) (explain.Run, error) {
	run := explain.Run{ID: workflows.TenantID(tenant)}
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	d, err := e.temporal.DescribeWorkflowExecution(ctx, run.ID, "")
	if err != nil {
		if err = kindOf(err, workflow(run.ID)); fail.Is(err, fail.NotFound) {
			return run, nil
		}
		return run, err
	}
	return e.run(ctx, run, d)
}
