package supervisor

import (
	"context"
	"errors"
	"testing"
)

var errNotYet = errors.New("not yet")

func never(context.Context) error { return errNotYet }

func healthy() error { return nil }

func TestPollRepeatsUntilTheProbeSucceeds(t *testing.T) {
	attempts := 0
	err := poll(t.Context(), func(context.Context) error {
		if attempts++; attempts < 3 {
			return errNotYet
		}
		return nil
	}, healthy)
	if err != nil || attempts != 3 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}

func TestPollStopsAtAFailure(t *testing.T) {
	failure := errors.New("crashed")
	if err := poll(t.Context(), never, func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

func TestPollTellsWhyItGaveUpAndWhatItSaw(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("took too long")
	cancel(cause)
	err := poll(ctx, never, healthy)
	if !errors.Is(err, cause) || !errors.Is(err, errNotYet) {
		t.Errorf("got %v", err)
	}
}
