package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/telemetry"
)

func speak(ctx context.Context) error {
	activity.GetLogger(ctx).Info("from the activity")
	return nil
}

func speaking(ctx workflow.Context) error {
	workflow.GetLogger(ctx).Info("from the workflow")
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	return workflow.ExecuteActivity(ctx, speak).Get(ctx, nil)
}

// TestRequestsAreNamedInLogs: what a request was the cause of is found by its id.
func TestRequestsAreNamedInLogs(t *testing.T) {
	var said bytes.Buffer
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(telemetry.TemporalLogger(slog.New(slog.NewTextHandler(&said, nil))))
	suite.SetContextPropagators([]workflow.ContextPropagator{telemetry.Requests{}})
	id, err := converter.GetDefaultDataConverter().ToPayload("r1")
	require.NoError(t, err)
	suite.SetHeader(&commonpb.Header{Fields: map[string]*commonpb.Payload{"drover-request": id}})
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&telemetry.RequestLogs{}}})
	env.RegisterActivity(speak)
	env.ExecuteWorkflow(speaking)
	require.NoError(t, env.GetWorkflowError())
	require.Regexp(t, `msg="from the workflow".* requestId=r1`, said.String())
	require.Regexp(t, `msg="from the activity".* requestId=r1`, said.String())
}
