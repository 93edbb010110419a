package restored_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/restored"
)

// noVersion is what comes where no version is told, by a sign of its own.
var noVersion = map[string]error{
	"-":         errors.New("the line is dead"),
	"forbidden": apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("not allowed")),
	"slow":      apierrors.NewTimeoutError("the database is slow", 0),
	"busy":      apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "get", schema.GroupResource{}, "", "Too many requests", 1, true), // in plain text
	"proxy":     apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "get", schema.GroupResource{}, "", "no server is available", 0, true),
}

// TestAwait: it ends where the cluster is behind what it was, or nothing came from it for long, and for no other reason.
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
		"away for some minutes":           {answers: after("7", times(most, "-"), "8", "9")},
		"away for long":                   {answers: after("7", times(most+1, "-"), "8"), err: "the cluster answers again after 5m2s and may have been restored"},
		"away for long at first":          {answers: after(times(2*most, "-"), "8", "9")},
		"versions that are no numbers":    {answers: []string{"b", "a", "", "x1"}},
		"forbidden for long":              {answers: after("7", times(3*most, "forbidden"), "8", "9")},
		"slow for long":                   {answers: after("7", times(3*most, "slow"), "8", "9")},
		"busy for long":                   {answers: after("7", times(3*most, "busy"), "8", "9")},
		"refused for long, and restored":  {answers: after("1000", times(3*most, "forbidden"), "99"), err: "is at version 99 and was at 1000"},
		"refused between two absences":    {answers: after("7", times(most, "-"), "slow", times(most-1, "-"), "8")},
		"only a proxy answers for long":   {answers: after("7", times(most+1, "proxy"), "8"), err: "the cluster answers again after 5m2s and may have been restored"},
		"refused after being away long":   {answers: after("7", times(most+1, "-"), "forbidden", "8"), err: "the cluster answers again after 5m4s and may have been restored"},
		"refused first, then away long":   {answers: after("forbidden", times(3*most, "-"), "8"), err: "the cluster answers again after"},
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
					answer := c.answers[asked-1]
					if err := noVersion[answer]; err != nil {
						return "", err
					}
					return answer, nil
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

// times is n times the same answer.
func times(n int, answer string) []string { return slices.Repeat([]string{answer}, n) }

// after is one answer, or several, after the other.
func after(answers ...any) []string {
	var all []string
	for _, a := range answers {
		switch a := a.(type) {
		case string:
			all = append(all, a)
		case []string:
			all = append(all, a...)
		}
	}
	return all
}

// TestASuspensionIsASilence: Go's clock stands still while the machine is suspended, the cluster does not.
func TestASuspensionIsASilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		slept time.Duration // before the second answer
		ends  bool
	}{
		"for a moment": {slept: policy.Remembers / 2},
		"for long":     {slept: policy.Remembers + time.Second, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				began, slept, asked := time.Now(), time.Duration(0), 0
				clock := func() lease.Instant { return lease.Instant{Boot: time.Hour + time.Since(began) + slept} }
				err := restored.AwaitBy(ctx, slog.New(slog.DiscardHandler), func(context.Context) (string, error) {
					if asked++; asked == 2 {
						slept = c.slept
						cancel()
					}
					return "7", nil
				}, clock)
				if c.ends {
					require.ErrorContains(t, err, "may have been restored")
					return
				}
				require.NoError(t, err)
			})
		})
	}
}

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
