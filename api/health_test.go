package api_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
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
	require.Empty(t, api.NewProbe(policy.Ready, map[string]func(context.Context) error{"database": bounded, "temporal": bounded}).Missing(t.Context()))
	require.Equal(t, []string{"database", "work (a newer build)"}, api.NewProbe(policy.Ready, map[string]func(context.Context) error{
		"work":     func(context.Context) error { return fail.New(fail.Unavailable, "a newer build") },
		"database": func(context.Context) error { return errors.New("mongodb://user:password@host") },
		"temporal": bounded,
	}).Missing(t.Context()))
}

// TestManyAskForReadiness: anybody may, and the database and Temporal are asked once for all of them. Who leaves does not end it for the others, and
// what was told is not told for long.
func TestManyAskForReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		answers := error(nil)
		probe := api.NewProbe(policy.Ready, map[string]func(context.Context) error{"database": func(ctx context.Context) error {
			asked++
			time.Sleep(policy.Ready / 2) //nolint:forbidigo // of the bubble's time
			return errors.Join(ctx.Err(), answers)
		}})
		left, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		missing := make([][]string, 100)
		for i := range missing {
			all.Go(func() {
				ctx := t.Context()
				if i == 0 {
					ctx = left
				} else {
					time.Sleep(time.Millisecond) //nolint:forbidigo // the same
				}
				missing[i] = probe.Missing(ctx)
			})
		}
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // the same
		leave()
		all.Wait()
		require.Equal(t, make([][]string, len(missing)), missing)
		require.Empty(t, probe.Missing(t.Context()))
		require.Equal(t, 1, asked)
		answers = errors.New("down")
		time.Sleep(policy.ReadyKept) //nolint:forbidigo // the same
		require.Equal(t, []string{"database"}, probe.Missing(t.Context()))
		require.Equal(t, 2, asked)
	})
}
