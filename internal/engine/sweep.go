package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/workflows"
)

// EnsureSchedules makes the schedules of what goes on by itself. One that is there stays as it is: somebody may
// have paused it or changed its interval. One that somebody has deleted is made again: to pause it is what stops it.
// What a new one starts begins at once: with Temporal's database the watches of clusters may be lost, too, and the
// next full interval is up to a day away.
func (e *Engine) EnsureSchedules(ctx context.Context) error {
	for _, s := range []struct {
		id, workflow, summary string
		every                 time.Duration
	}{
		{workflows.SweepSchedule, workflows.SweepName, "removes what nothing refers to any more", workflows.SweepInterval},
		{workflows.BehindSchedule, workflows.SettleTenantsName, "starts what is behind with the matches of tenants", workflows.BehindInterval},
	} {
		err := e.call(ctx, "schedule "+s.id, func(ctx context.Context) error {
			_, err := e.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
				ID:      s.id,
				Spec:    client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: s.every}}},
				Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, TriggerImmediately: true,
				Action: &client.ScheduleWorkflowAction{
					ID: s.id, Workflow: s.workflow, TaskQueue: workflows.LifecycleQueue, StaticSummary: s.summary,
				},
			})
			if err != nil && !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
				return fmt.Errorf("create schedule %s: %w", s.id, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
