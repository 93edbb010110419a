package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/span/spantest"
	"github.com/drover-io/drover/internal/telemetry"
	"github.com/drover-io/drover/workflows"
)

const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// tracedRun is where workflows run whose spans are recorded.
func tracedRun(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	suite.SetContextPropagators([]workflow.ContextPropagator{telemetry.Traces{}})
	header, err := converter.GetDefaultDataConverter().ToPayload(telemetry.Carried{Parent: traced})
	require.NoError(t, err)
	suite.SetHeader(&commonpb.Header{Fields: map[string]*commonpb.Payload{"drover-trace": header}})
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{newTracing()}})
	return env
}

// TestTracesAreBounded: of an app on a thousand clusters some leaves are recorded, and some of those that fail, whatever befalls the fleet.
func TestTracesAreBounded(t *testing.T) {
	const clusters = 100
	for name, c := range map[string]struct {
		fails   func(cluster int) bool
		stopped bool
		want    int // leaves, of which
		failed  int
	}{
		"one fails":    {fails: func(n int) bool { return n == 90 }, want: tracedLeaves + 1, failed: 1},
		"all fail":     {fails: func(int) bool { return true }, want: tracedLeaves + tracedFailures, failed: tracedLeaves + tracedFailures},
		"it is halted": {fails: func(int) bool { return true }, stopped: true, want: tracedLeaves},
	} {
		t.Run(name, func(t *testing.T) {
			r, env := spantest.Record(t), tracedRun(t)
			leaf := func(ctx workflow.Context, in activities.LeafInput) (*workflows.ClusterProgress, error) {
				if c.stopped {
					ctx.Done().Receive(ctx, nil)
				}
				mark, n := domain.MarkApplied, 0
				if _, err := fmt.Sscan(in.Cluster.Name, &n); err == nil && c.fails(n) {
					mark = domain.MarkRefused
				}
				return &workflows.ClusterProgress{Marks: domain.NewMarks(1, mark).Encode()}, nil
			}
			env.RegisterWorkflowWithOptions(leaf, workflow.RegisterOptions{Name: workflows.ApplyToClusterName})
			env.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ workflows.OperationInput) error {
				var all []workflow.ChildWorkflowFuture
				for n := range clusters {
					in := activities.LeafInput{App: "web", Cluster: domain.ClusterName{Provider: "p", Name: fmt.Sprint(n)}}
					in.Operation = domain.OpInstantiate
					ctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: fmt.Sprint("leaf-", n), WaitForCancellation: true})
					one := workflow.ExecuteChildWorkflow(ctx, workflows.ApplyToClusterName, in)
					if err := workflow.Sleep(ctx, time.Second); err != nil { // the test's environment has one header for all that start at once
						return err
					}
					all = append(all, one)
				}
				whole, _ := workflow.NewDisconnectedContext(ctx)
				for _, one := range all {
					if err := one.Get(whole, nil); err != nil {
						return err
					}
				}
				return nil
			}, workflow.RegisterOptions{Name: workflows.InstantiateName})
			if c.stopped {
				env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
			}
			env.ExecuteWorkflow(workflows.InstantiateName, workflows.OperationInput{})
			require.NoError(t, env.GetWorkflowError())
			names, failed := map[string]int{}, 0
			for _, s := range r.Ended() {
				require.Equal(t, "0af7651916cd43dd8448eb211c80319c", s.SpanContext().TraceID().String())
				names[s.Name()]++
				if s.Status().Code != 0 {
					failed++
				}
				if c.stopped && s.Name() == workflows.ApplyToClusterName {
					require.Contains(t, s.Attributes(), span.String(span.Outcome, measure.Stopped))
				}
			}
			require.Equal(t, map[string]int{workflows.InstantiateName: 1, workflows.ApplyToClusterName: c.want}, names)
			require.Equal(t, c.failed, failed)
		})
	}
}

// TestWhatGoesOnIsNoFailure: a watch goes on as a new run for ever.
func TestWhatGoesOnIsNoFailure(t *testing.T) {
	r, env := spantest.Record(t), tracedRun(t)
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		return workflow.NewContinueAsNewError(ctx, workflows.WatchClustersName)
	}, workflow.RegisterOptions{Name: workflows.WatchClustersName})
	env.ExecuteWorkflow(workflows.WatchClustersName)
	require.True(t, workflow.IsContinueAsNewError(env.GetWorkflowError()))
	require.Len(t, r.Ended(), 1)
	require.Zero(t, r.Ended()[0].Status().Code)
	require.Contains(t, r.Ended()[0].Attributes(), span.String(span.Outcome, measure.Done))
}

// TestAnAttemptThatPanicsIsRecorded: a defect is what is looked for in a trace.
func TestAnAttemptThatPanicsIsRecorded(t *testing.T) {
	r, env := spantest.Record(t), tracedRun(t)
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{newKinds(), newTracing()}})
	env.RegisterActivityWithOptions(func(context.Context) error { panic("hidden") }, activity.RegisterOptions{Name: "Break"})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		once := temporal.RetryPolicy{MaximumAttempts: 1}
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &once})
		return workflow.ExecuteActivity(ctx, "Break").Get(ctx, nil)
	}, workflow.RegisterOptions{Name: workflows.InstantiateName})
	env.ExecuteWorkflow(workflows.InstantiateName)
	require.Error(t, env.GetWorkflowError())
	attempts := slices.DeleteFunc(r.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != "Break" })
	require.Len(t, attempts, 1)
	require.Equal(t, codes.Error, attempts[0].Status().Code)
	require.Contains(t, attempts[0].Attributes(), span.String(span.Outcome, string(fail.Internal)))
}

// TestARefusalIsNoErrorInATrace, neither of the attempt that finds it nor of the update that tells it: else whoever asks for what cannot be is an alarm.
func TestARefusalIsNoErrorInATrace(t *testing.T) {
	for kind, want := range map[fail.Kind]codes.Code{
		fail.Invalid: codes.Unset, fail.NotFound: codes.Unset, fail.Conflict: codes.Unset, fail.Precondition: codes.Unset,
		fail.Unavailable: codes.Error, fail.Internal: codes.Error,
	} {
		t.Run(string(kind), func(t *testing.T) {
			r, env := spantest.Record(t), tracedRun(t)
			env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{newKinds(), newTracing()}})
			env.RegisterActivityWithOptions(func(context.Context) error { return fail.New(kind, "not so") }, activity.RegisterOptions{Name: "Judge"})
			env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
				once := temporal.RetryPolicy{MaximumAttempts: 1}
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &once})
				if err := workflow.SetUpdateHandler(ctx, "accept", func(workflow.Context) error {
					return workflows.ToTemporal(fail.New(kind, "not so"), 0)
				}); err != nil {
					return err
				}
				if err := workflow.ExecuteActivity(ctx, "Judge").Get(ctx, nil); err == nil {
					return errors.New("it was let through")
				}
				return workflow.Sleep(ctx, time.Hour)
			}, workflow.RegisterOptions{Name: workflows.InstantiateName})
			var refused error
			env.RegisterDelayedCallback(func() {
				env.UpdateWorkflow("accept", "", &testsuite.TestUpdateCallback{
					OnAccept: func() {}, OnReject: func(err error) { refused = err }, OnComplete: func(_ any, err error) { refused = err },
				})
			}, time.Second)
			env.ExecuteWorkflow(workflows.InstantiateName)
			require.NoError(t, env.GetWorkflowError())
			require.ErrorContains(t, refused, "not so")
			found := 0
			for _, s := range r.Ended() {
				if s.Name() == "Judge" || s.Name() == "accept" {
					found++
					require.Equal(t, want, s.Status().Code, s.Name())
				}
			}
			require.Equal(t, 2, found)
		})
	}
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
