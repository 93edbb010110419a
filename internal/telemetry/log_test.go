package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-io/drover/internal/telemetry"
)

// failing is an activity whose attempt fails, under the SDK's own code.
type failing struct{ err error }

func (f *failing) Fail(context.Context) error { return f.err }

func TestAttemptsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		level string
	}{
		"and are made again": {temporal.NewApplicationErrorWithCause("refused", "Unavailable", errors.New("dial\nrefused")), "WARN"},
		"for good":           {temporal.NewNonRetryableApplicationError("broken", "Internal", nil), "ERROR"},
		"as a refusal":       {temporal.NewNonRetryableApplicationError("password: 'sesame' does not match", "Invalid", nil), "INFO"},
		"as was asked for":   {temporal.NewCanceledError(), "WARN"},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(telemetry.TemporalLogger(slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelInfo}))))
			env := suite.NewTestActivityEnvironment()
			env.SetTestTimeout(time.Minute)
			f := &failing{c.err}
			env.RegisterActivity(f)
			_, err := env.ExecuteActivity(f.Fail)
			require.Error(t, err)
			require.Equal(t, 1, strings.Count(said.String(), "\n"), said.String())
			require.Contains(t, said.String(), "level="+c.level+` msg="Activity error."`)
			require.Contains(t, said.String(), "ActivityType=Fail")
			require.NotContains(t, said.String(), "sesame")
			if c.level == "INFO" {
				require.Contains(t, said.String(), "Attempt=1 Error=Invalid")
			}
		})
	}
}

// TestAttemptsThatFailAgain: the first one has said it.
func TestAttemptsThatFailAgain(t *testing.T) {
	var said bytes.Buffer
	l := telemetry.TemporalLogger(slog.New(slog.NewTextHandler(&said, nil)))
	for attempt := range int32(3) {
		l.Error("Activity error.", "Attempt", attempt+1, "Error", temporal.NewApplicationError("away", "Unavailable"))
	}
	require.Equal(t, 1, strings.Count(said.String(), "\n"), said.String())
	require.Contains(t, said.String(), "level=WARN")
	require.Contains(t, said.String(), "Attempt=1")
}

func TestOtherErrorsStayErrors(t *testing.T) {
	var said bytes.Buffer
	l := log.With(telemetry.TemporalLogger(slog.New(slog.NewTextHandler(&said, nil))), "Queue", "q")
	l.Error("Cannot poll", "Error", errors.New("no namespace"))
	require.Contains(t, said.String(), `level=ERROR msg="Cannot poll" Queue=q Error="no namespace"`)
}
