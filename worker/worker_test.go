package worker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/drover-io/drover/internal/fail"
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
	env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{&kinds{}}, BackgroundActivityContext: ctx})
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

// TestCancelledActivities end as cancelled, whatever they made of it.
func TestCancelledActivities(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &failing{err: fail.New(fail.Unavailable, "the request was cut off")}
	_, err := newEnvironment(ctx, t, f).ExecuteActivity(f.FailWhenCancelled)
	require.ErrorContains(t, err, context.Canceled.Error(), "which Temporal takes for the cancellation that it asked for")
}
