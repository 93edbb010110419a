package restored_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/restored"
)

// TestAwait: it ends where the cluster is behind what it was, or was not heard for long, and for no other reason. "-" is no answer.
func TestAwait(t *testing.T) {
	t.Parallel()
	most := int((policy.Remembers - policy.RestoredLook) / policy.RestoredAgain) // looks without an answer that make no silence
	for name, c := range map[string]struct {
		answers []string
		err     string // "" where it goes on
	}{
		"it goes on":                      {answers: []string{"7", "7", "9", "10", "99", "100"}},
		"it was restored":                 {answers: []string{"7", "1000", "999"}, err: "the cluster is at version 999 and was at 1000: it was restored from a backup"},
		"restored by far":                 {answers: []string{"1000", "99"}, err: "is at version 99 and was at 1000"},
		"restored, and away for a moment": {answers: []string{"1000", "-", "-", "99"}, err: "is at version 99 and was at 1000"},
		"away":                            {answers: []string{"7", "-", "-", "-", "8"}},
		"away at first":                   {answers: []string{"-", "-", "8"}},
		"away for some minutes":           {answers: append(append([]string{"7"}, away(most)...), "8", "9")},
		"away for long":                   {answers: append(append([]string{"7"}, away(most+1)...), "8"), err: "the cluster answers again after 5m2s and may have been restored"},
		"away for long at first":          {answers: append(away(2*most), "8", "9")},
		"versions that are no numbers":    {answers: []string{"b", "a", "", "x1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				asked := 0
				err := restored.Await(ctx, slog.New(slog.DiscardHandler), func(context.Context) (string, error) {
					if asked == len(c.answers) {
						cancel()
						return "", ctx.Err()
					}
					asked++
					if answer := c.answers[asked-1]; answer != "-" {
						return answer, nil
					}
					return "", errors.New("the line is dead")
				})
				require.Equal(t, len(c.answers), asked)
				if c.err == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.err)
				require.True(t, fail.Is(err, fail.Unavailable))
			})
		})
	}
}

// away is a cluster that does not answer n times.
func away(n int) []string { return strings.Split(strings.Repeat("-", n), "") }

// TestAwaitAsksOnceAtATime, and waits for no answer for ever.
func TestAwaitAsksOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*(policy.ClusterRequest+policy.RestoredAgain)-time.Second)
		defer cancel()
		log, asked := &strings.Builder{}, 0
		require.NoError(t, restored.Await(ctx, slog.New(slog.NewTextHandler(log, nil)), func(ctx context.Context) (string, error) {
			asked++
			<-ctx.Done()
			return "", ctx.Err()
		}))
		require.Equal(t, 10, asked)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log)
	})
}
