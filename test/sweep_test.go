package test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	temporalclient "go.temporal.io/sdk/client"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// TestSweepIsScheduled sees that the schedule is there, and that what it starts comes to its end.
func TestSweepIsScheduled(t *testing.T) {
	t.Parallel()
	s := harness.SharedStack(t)
	ctx := within(t)
	temporal := s.TemporalClient()
	var next time.Time
	harness.Until(ctx, t, "the next one is to come", func() bool { // one that is due just now is named until the server has begun it
		asked := time.Now()
		d, err := temporal.ScheduleClient().GetHandle(ctx, workflows.SweepSchedule).Describe(ctx)
		require.NoError(t, err)
		require.NotEmpty(t, d.Info.NextActionTimes)
		next = d.Info.NextActionTimes[0]
		return !next.Before(asked)
	})
	require.LessOrEqual(t, time.Until(next), workflows.SweepInterval)
	var removed int
	require.NoError(t, temporal.GetWorkflow(ctx, sweep(ctx, t, temporal), "").Get(ctx, &removed))
	require.Zero(t, removed, "nothing is old enough")
}

// TestTemporalsDatabaseIsLost, and nothing else: what was in clusters is watched again when a worker has found that there is no schedule.
func TestTemporalsDatabaseIsLost(t *testing.T) {
	t.Parallel()
	ctx, s, c := within(t), harness.NewStack(t), harness.NewCluster(t, harness.ClusterNames[0])
	d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, c, "agentless")}, reportedApp(t))
	do(ctx, t, d, "approve", "instantiate")
	reports(ctx, t, s, d, "status=ready", ready(1))
	for _, p := range []*harness.Process{s.API, s.Worker, s.Temporal} {
		p.Kill()
	}
	s.LoseTemporal()
	s.StartTemporal()
	s.StartWorker()
	s.StartAPI()
	scale(ctx, t, c, d, 2)
	reports(ctx, t, s, d, "status=ready", func(r *reportedStatus) bool { return ready(2)(r) && !r.Apps[0].Clusters[0].Stale })
}

// sweep has the schedule start a Sweep now, and returns its workflow's id.
func sweep(ctx context.Context, t *testing.T, temporal temporalclient.Client) (id string) {
	t.Helper()
	return trigger(ctx, t, temporal, workflows.SweepSchedule)
}

// trigger has a schedule start its workflow now, beside one that it may have started by itself, and returns the workflow's id.
func trigger(ctx context.Context, t *testing.T, temporal temporalclient.Client, id string) (workflowID string) {
	t.Helper()
	schedule := temporal.ScheduleClient().GetHandle(ctx, id)
	before, err := schedule.Describe(ctx)
	require.NoError(t, err)
	require.NoError(t, schedule.Trigger(ctx, temporalclient.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL}))
	harness.Until(ctx, t, "started", func() bool {
		d, err := schedule.Describe(ctx)
		if err != nil || d.Info.NumActions == before.Info.NumActions || len(d.Info.RecentActions) == 0 {
			return false
		}
		workflowID = d.Info.RecentActions[len(d.Info.RecentActions)-1].StartWorkflowResult.WorkflowID
		return true
	})
	return workflowID
}
