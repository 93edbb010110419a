package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/workflows"
)

// TestSweepEnds: what fails for good, as a record of a newer release does, is tried again the next day, and not all day. That the engine keeps to it
// is the engine's to test.
func TestSweepEnds(t *testing.T) {
	t.Parallel()
	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.SetWorkflowRunTimeout(24 * time.Hour)
	var lifecycle *activities.Control // names the method; never called
	env.RegisterActivity(lifecycle.Sweep)
	attempts := 0
	env.OnActivity(lifecycle.Sweep, mock.Anything).Return(func(ctx context.Context) (int, error) {
		attempts++
		info := activity.GetInfo(ctx)
		require.Greater(t, info.StartToCloseTimeout, 4*time.Hour, "it begins from nothing, and there may be much")
		require.Greater(t, info.ScheduleToCloseTimeout, info.StartToCloseTimeout)
		require.Less(t, info.ScheduleToCloseTimeout, workflows.SweepInterval)
		return 0, errors.New("a newer release has written it")
	})
	began := env.Now()
	env.ExecuteWorkflow(workflows.Sweep)
	require.Error(t, env.GetWorkflowError())
	require.Equal(t, 20, attempts)
	require.Less(t, env.Now().Sub(began), time.Hour)
}
