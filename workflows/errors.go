package workflows

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// ToTemporal makes a failure of an activity's attempt Temporal's: the kind as type, the text that may be
// shown as message and detail, retried when the kind says so, after the delay that the failing side asked
// for. One that nobody classified is retried as long as the activity has not failed so policy.MaxInternal times, this one included.
// Cancellation and Temporal's own errors pass through.
func ToTemporal(err error, bugs int32) error {
	if err == nil || temporal.IsCanceledError(err) || isApplicationError(err) {
		return err
	}
	kind := fail.KindOf(err)
	var delay time.Duration
	if kind.Retryable() {
		delay = fail.RetryAfterOf(err)
	}
	cause, message := err.Error(), fail.MessageOf(err)
	if kind.Retryable() {
		cause, message = clip(cause), clip(message)
	}
	return temporal.NewApplicationErrorWithOptions(cause, string(kind), temporal.ApplicationErrorOptions{
		NonRetryable:   !kind.Retryable() || (kind == fail.Internal && bugs >= policy.MaxInternal),
		NextRetryDelay: delay,
		Details:        []any{message, fail.FieldsOf(err)},
	})
}

func toTemporal(err error) error { return ToTemporal(err, policy.MaxInternal) }

func isApplicationError(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app)
}

// FromTemporal finds the failure of ours in an error of a workflow or update; ok is false when there is
// none.
func FromTemporal(err error) (*fail.Error, bool) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return nil, false
	}
	e := &fail.Error{Kind: fail.Kind(app.Type()), Cause: err}
	if app.HasDetails() {
		if app.Details(&e.Message, &e.Fields) == nil {
			return e, true
		}
	}
	return e, false
}

// textOf is what may be shown of the end of an activity. What nobody classified, a panic, and what Temporal says around it, with the name of the
// worker's machine, is for the log.
func textOf(err error) string {
	var timeout *temporal.TimeoutError
	var ours *fail.Error
	known, sent := FromTemporal(err)
	switch {
	case sent && known.Message != "" && known.Message != fail.Hidden:
		return fail.TextOf(known)
	case !sent && errors.As(err, &ours):
		return ours.Text()
	case !sent && errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT:
		return "the worker that was at it was not heard of any more"
	case !sent && errors.As(err, &timeout):
		return "it took too long"
	default:
		return "internal error; the worker's log has it"
	}
}

// retryable says whether another attempt may succeed where an activity's only one failed.
func retryable(err error) bool {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return !app.NonRetryable()
	}
	return !temporal.IsCanceledError(err)
}
