package workflows

import (
	"go.temporal.io/sdk/workflow"
)

// Sweep removes from the store what nothing refers to any more. A schedule starts it; see SweepSchedule.
func Sweep(ctx workflow.Context) (removed int, err error) {
	err = workflow.ExecuteActivity(daily(ctx), lifecycle.Sweep).Get(ctx, &removed)
	return removed, err
}
