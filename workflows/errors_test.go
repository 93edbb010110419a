package workflows_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/workflows"
)

func TestToTemporal(t *testing.T) {
	later := fail.New(fail.Unavailable, "try later")
	later.RetryAfter = 7 * time.Second
	stay := fail.New(fail.Invalid, "wrong")
	stay.RetryAfter = 7 * time.Second
	for name, c := range map[string]struct {
		err     error
		attempt int32
		kind    fail.Kind
		final   bool
		delay   time.Duration
	}{
		"a refusal is final":                    {fail.New(fail.Conflict, "no"), 1, fail.Conflict, true, 0},
		"a refusal has no delay":                {stay, 1, fail.Invalid, true, 0},
		"what is not available is tried again":  {fail.New(fail.Unavailable, "down"), 1000, fail.Unavailable, false, 0},
		"after the delay that was asked for":    {later, 1, fail.Unavailable, false, 7 * time.Second},
		"a timeout likewise":                    {fail.New(fail.Timeout, "slow"), 1000, fail.Timeout, false, 0},
		"what nobody classified is tried again": {errors.New("bug"), 9, fail.Internal, false, 0},
		"but not for ever":                      {errors.New("bug"), 10, fail.Internal, true, 0},
		"the kind is found in what was wrapped": {fmt.Errorf("app: %w", fail.New(fail.NotFound, "x")), 1, fail.NotFound, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var app *temporal.ApplicationError
			require.ErrorAs(t, workflows.ToTemporal(c.err, c.attempt), &app)
			require.Equal(t, string(c.kind), app.Type())
			require.Equal(t, c.final, app.NonRetryable())
			require.Equal(t, c.delay, app.NextRetryDelay())
		})
	}
	require.NoError(t, workflows.ToTemporal(nil, 1))
	for _, err := range []error{temporal.NewCanceledError(), temporal.NewApplicationError("a", "b")} {
		require.Equal(t, err, workflows.ToTemporal(err, 1))
	}
}

// TestAFailureKeepsItsDetails: of one after which an activity is tried again Temporal keeps 4 KiB, and of a longer one only how it begins.
func TestAFailureKeepsItsDetails(t *testing.T) {
	long := strings.Repeat("ä", 50_000)
	failure := temporal.GetDefaultFailureConverter().ErrorToFailure(workflows.ToTemporal(fail.Wrap(errors.New(long), fail.Unavailable, "%s", long), 1))
	require.Less(t, proto.Size(failure), 4<<10)
	e, ok := workflows.FromTemporal(temporal.GetDefaultFailureConverter().FailureToError(failure))
	require.True(t, ok)
	require.Equal(t, fail.Unavailable, e.Kind)
	require.Contains(t, e.Message, "ää…")
	e, _ = workflows.FromTemporal(workflows.ToTemporal(fail.New(fail.Invalid, "%s", long), 1))
	require.Equal(t, long, e.Message, "what is not tried again is told whole")
}

func TestFromTemporal(t *testing.T) {
	_, ok := workflows.FromTemporal(errors.New("x"))
	require.False(t, ok)
	var p fail.Problems
	p.Add("spec.app", "is required")
	for _, err := range []error{fail.New(fail.Conflict, "no"), p.Err()} {
		e, ok := workflows.FromTemporal(fmt.Errorf("activity: %w", workflows.ToTemporal(err, 1)))
		require.True(t, ok)
		require.Equal(t, fail.KindOf(err), e.Kind)
		require.Equal(t, fail.MessageOf(err), e.Message)
		require.Equal(t, fail.FieldsOf(err), e.Fields)
	}
}
