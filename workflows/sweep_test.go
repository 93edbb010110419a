package workflows_test

import (
	"context"
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
	var ends time.Duration
	env.OnActivity(lifecycle.Sweep, mock.Anything).Return(func(ctx context.Context) (int, error) {
		ends = activity.GetInfo(ctx).ScheduleToCloseTimeout
		return 0, nil
	})
	env.ExecuteWorkflow(workflows.Sweep)
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, time.Hour, ends)
}
