package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/workflows"
)

// scheduling stands for a Temporal that has schedules.
type scheduling struct {
	client.Client
	schedules *schedules
}

func (s scheduling) ScheduleClient() client.ScheduleClient { return s.schedules }

// schedules are those that are made, beside one that is there already.
type schedules struct {
	client.ScheduleClient
	has  string
	made map[string]client.ScheduleOptions
}

func (s *schedules) Create(_ context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
	if o.ID == s.has {
		return nil, temporal.ErrScheduleAlreadyRunning
	}
	s.made[o.ID] = o
	return nil, nil
}

// TestSweepIsScheduled, and so is the look for tenants that are behind: each at once and as often as it is to be, and one that is there stays as it is.
func TestSweepIsScheduled(t *testing.T) {
	every := map[string]struct {
		workflow string
		interval time.Duration
	}{
		workflows.SweepSchedule:  {workflows.SweepName, workflows.SweepInterval},
		workflows.BehindSchedule: {workflows.SettleTenantsName, workflows.BehindInterval},
	}
	for _, has := range []string{"", workflows.SweepSchedule, workflows.BehindSchedule} {
		s := &schedules{has: has, made: map[string]client.ScheduleOptions{}}
		require.NoError(t, engine.New(scheduling{schedules: s}).EnsureSchedules(t.Context()))
		for id, want := range every {
			made, ok := s.made[id]
			require.Equal(t, id != has, ok, id)
			if !ok {
				continue
			}
			require.Equal(t, []client.ScheduleIntervalSpec{{Every: want.interval}}, made.Spec.Intervals, id)
			require.Equal(t, enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, made.Overlap, id)
			require.True(t, made.TriggerImmediately, id)
			action := made.Action.(*client.ScheduleWorkflowAction)
			require.Equal(t, want.workflow, action.Workflow, id)
			require.Equal(t, workflows.LifecycleQueue, action.TaskQueue, id)
		}
	}
}
