package engine

import (
	"context"

	"go.temporal.io/sdk/client"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/workflows"
)

// Seen implements activities.Sweeps.
func (e *Engine) Seen(ctx context.Context, in activities.RemnantsInput) error {
	return e.sent(ctx, workflow(workflows.RemnantsID(in)), func(ctx context.Context) error {
		id := workflows.RemnantsID(in)
		_, err := e.temporal.SignalWithStartWorkflow(ctx, id, workflows.RemnantSignal, nil, client.StartWorkflowOptions{
			ID: id, TaskQueue: workflows.LifecycleQueue,
			TypedSearchAttributes: workflows.RemnantsAttributes(in), StaticSummary: workflows.RemnantsSummary(in),
		}, workflows.RemoveRemnantsName, in)
		return err
	})
}
