package api_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// TestReadinessHasADeadlineOfItsOwn: whoever asks, and all questions are asked, whichever does not answer.
func TestReadinessHasADeadlineOfItsOwn(t *testing.T) {
	bounded := func(ctx context.Context) error {
		until, ok := ctx.Deadline()
		if !ok || time.Until(until) > policy.Ready {
			return fail.New(fail.Unavailable, "it would be waited for without end")
		}
		return nil
	}
	require.Empty(t, api.Ask(t.Context(), map[string]func(context.Context) error{"database": bounded, "temporal": bounded}))
	require.Equal(t, []string{"database", "work (a newer build)"}, api.Ask(t.Context(), map[string]func(context.Context) error{
		"work":     func(context.Context) error { return fail.New(fail.Unavailable, "a newer build") },
		"database": func(context.Context) error { return errors.New("mongodb://user:password@host") },
		"temporal": bounded,
	}))
}
