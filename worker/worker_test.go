package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// failing fails as the activities do.
type failing struct{ err error }

func (f *failing) Fail(context.Context) error { return f.err }

func (f *failing) FailWhenCancelled(ctx context.Context) error {
	<-ctx.Done()
	return f.err
}

func newEnvironment(ctx context.Context, t *testing.T, f *failing) *testsuite.TestActivityEnvironment {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := s.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{newKinds()}, BackgroundActivityContext: ctx})
	env.RegisterActivity(f)
	return env
}

func TestErrorsOfActivitiesKeepTheirKind(t *testing.T) {
	for _, kind := range []fail.Kind{fail.Conflict, fail.NotFound, fail.Unavailable} {
		f := &failing{err: fail.New(kind, "no")}
		_, err := newEnvironment(t.Context(), t, f).ExecuteActivity(f.Fail)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, string(kind), app.Type())
		require.Equal(t, !kind.Retryable(), app.NonRetryable())
	}
}

// TestABugIsNotRetriedForEver, and an activity that was retried for a good reason is not given up for one.
func TestABugIsNotRetriedForEver(t *testing.T) {
	bug, away := errors.New("a bug"), fail.New(fail.Unavailable, "the cluster is away")
	for name, c := range map[string]struct {
		fails []error // one after the other
		tries int
		ok    bool
	}{
		"a bug":                         {slices.Repeat([]error{bug}, 20), policy.MaxInternal, false},
		"once after a long wait":        {append(slices.Repeat([]error{away}, 30), bug), 32, true},
		"again and again in long waits": {slices.Repeat([]error{away, bug, bug}, 10), 31, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s testsuite.WorkflowTestSuite
			s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
			env := s.NewTestWorkflowEnvironment()
			env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{newKinds()}})
			tries := 0
			env.RegisterActivityWithOptions(func(context.Context) error {
				if tries++; tries > len(c.fails) {
					return nil
				}
				return c.fails[tries-1]
			}, activity.RegisterOptions{Name: "fails"})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
					StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 100},
				})
				return workflow.ExecuteActivity(ctx, "fails").Get(ctx, nil)
			})
			require.True(t, env.IsWorkflowCompleted())
			require.Equal(t, c.ok, env.GetWorkflowError() == nil, "%v", env.GetWorkflowError())
			require.Equal(t, c.tries, tries)
		})
	}
}

// TestCancelledActivities end as cancelled, whatever they made of it.
func TestCancelledActivities(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &failing{err: fail.New(fail.Unavailable, "the request was cut off")}
	_, err := newEnvironment(ctx, t, f).ExecuteActivity(f.FailWhenCancelled)
	require.ErrorContains(t, err, context.Canceled.Error(), "which Temporal takes for the cancellation that it asked for")
}
