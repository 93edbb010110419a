package engine

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/workflows"
)

// EnsureSchedules makes the schedules of what goes on by itself. One that is there stays as it is: somebody may
// have paused it or changed its interval.
func (e *Engine) EnsureSchedules(ctx context.Context) error {
	return e.call(ctx, func(ctx context.Context) error {
		_, err := e.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
			ID:      workflows.SweepSchedule,
			Spec:    client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: workflows.SweepInterval}}},
			Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
			Action: &client.ScheduleWorkflowAction{
				ID: workflows.SweepSchedule, Workflow: workflows.SweepName, TaskQueue: workflows.LifecycleQueue,
				StaticSummary: "removes what nothing refers to any more",
			},
		})
		if err != nil && !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
			return fmt.Errorf("create schedule %s: %w", workflows.SweepSchedule, err)
		}
		return nil
	})
}
