package harness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/status"
)

// Poll is how often tests look at first.
const Poll = 50 * time.Millisecond

// Patience bounds what a test waits for. Nothing takes nearly as long, on the slowest machine: it is for what never comes.
const Patience = 5 * time.Minute

// Look looks, in the test's own goroutine, until something is as it should be; the error is why ctx ended before that.
//
// Each look at a status costs API, database and Temporal what a look of a user's does. Six tests that look twenty times a
// second are more than the machine has, so who has waited for long looks less often: a tenth of that time later.
func Look(ctx context.Context, is func() bool) error { return look(ctx, 10, 2*time.Second, is) }

// LookSeldom is Look for looks that cost more, or that many do at the same time: each comes when it has been waited for twice as
// long as at the one before.
func LookSeldom(ctx context.Context, is func() bool) error { return look(ctx, 1, 3*time.Second, is) }

// look looks again after a part of the time that was waited so far, after most at the latest.
func look(ctx context.Context, part, most time.Duration, is func() bool) error {
	for begun := time.Now(); !is(); {
		if err := pause.For(ctx, min(max(Poll, time.Since(begun)/part), most)); err != nil {
			return err
		}
	}
	return nil
}

// Until is Look, and fails when something does not become as it should be.
func Until(ctx context.Context, t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if err := Look(ctx, is); err != nil {
		require.FailNow(t, "not "+what, "%v", err)
	}
}

// LookAt looks at the summary of a deployment's status until it is as it should be, and gives the last one. There may be none
// at times, as while no worker is there.
func LookAt(ctx context.Context, d *client.Deployment, is func(*status.Document) bool) (last *status.Document, err error) {
	err = Look(ctx, func() bool {
		got, err := d.Summary(ctx)
		if err == nil {
			last = got
		}
		return err == nil && is(got)
	})
	return last, err
}
