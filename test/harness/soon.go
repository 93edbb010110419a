package harness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/idle"
)

// Soon looks until something is as it should be, and fails when that was not said in time, be it that it was not so or that
// the answer took too long. The time is one by an idle.Clock: 2 s are 2 s on an idle machine, and 20 s on one that is ten times
// slower, or more.
func Soon(ctx context.Context, t testing.TB, most time.Duration, is func() bool, otherwise func() string) {
	t.Helper()
	c := idle.Start(t)
	defer c.Stop()
	err := Look(ctx, func() bool {
		done := is()
		quiet, wall := c.Read()
		if quiet > most {
			require.FailNow(t, "too late", "%s are promised; it took %s, which are %s on an idle machine: %s", most, wall, quiet, otherwise())
		}
		if done {
			t.Logf("it took %s, which are %s on an idle machine", wall, quiet)
		}
		return done
	})
	if err != nil {
		require.FailNow(t, "never", "%v: %s", err, otherwise())
	}
}
