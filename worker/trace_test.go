package worker

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/telemetry"
	"github.com/drover-io/drover/workflows"
)

const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestTracesAreBounded: of an app on a thousand clusters some leaves are recorded, and those that fail.
func TestTracesAreBounded(t *testing.T) {
	r := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r)))
	span.Record(true)
	t.Cleanup(func() { span.Record(false); otel.SetTracerProvider(before) })

	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	suite.SetContextPropagators([]workflow.ContextPropagator{telemetry.Traces{}})
	header, err := converter.GetDefaultDataConverter().ToPayload(telemetry.Carried{Parent: traced})
	require.NoError(t, err)
	suite.SetHeader(&commonpb.Header{Fields: map[string]*commonpb.Payload{"drover-trace": header}})
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{&tracing{}}})
	const clusters, failing = 100, 90
	leaf := func(_ workflow.Context, in activities.LeafInput) (*workflows.ClusterProgress, error) {
		mark := domain.MarkApplied
		if in.Cluster.Name == fmt.Sprint(failing) {
			mark = domain.MarkRefused
		}
		return &workflows.ClusterProgress{Marks: domain.NewMarks(1, mark).Encode()}, nil
	}
	env.RegisterWorkflowWithOptions(leaf, workflow.RegisterOptions{Name: workflows.ApplyToClusterName})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ workflows.OperationInput) error {
		for n := range clusters {
			in := activities.LeafInput{App: "web", Cluster: domain.ClusterName{Provider: "p", Name: fmt.Sprint(n)}}
			in.Operation = domain.OpInstantiate
			ctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: fmt.Sprint("leaf-", n)})
			if err := workflow.ExecuteChildWorkflow(ctx, workflows.ApplyToClusterName, in).Get(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	}, workflow.RegisterOptions{Name: workflows.InstantiateName})
	env.ExecuteWorkflow(workflows.InstantiateName, workflows.OperationInput{})
	require.NoError(t, env.GetWorkflowError())
	names, failed := map[string]int{}, 0
	for _, s := range r.Ended() {
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", s.SpanContext().TraceID().String())
		names[s.Name()]++
		if s.Status().Code != 0 {
			failed++
		}
	}
	require.Equal(t, map[string]int{workflows.InstantiateName: 1, workflows.ApplyToClusterName: tracedLeaves + 1}, names)
	require.Equal(t, 1, failed)
}

// TestAttemptsAreRecordedLessAndLess, as a cluster that is away for weeks is tried every 10 s.
func TestAttemptsAreRecordedLessAndLess(t *testing.T) {
	n := 0
	for attempt := range int32(100_000) {
		if recorded(attempt + 1) {
			n++
		}
	}
	require.Less(t, n, 20)
	require.True(t, recorded(1))
	require.True(t, recorded(tracedAttempts))
	require.False(t, recorded(tracedAttempts+1))
}
