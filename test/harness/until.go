package harness

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Poll is how often tests look.
const Poll = 50 * time.Millisecond

// Patience bounds what a test waits for. Nothing takes nearly as long, on the slowest machine: it is for what never comes.
const Patience = 5 * time.Minute

// Until looks, in the test's own goroutine, until something is as it should be.
func Until(ctx context.Context, t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			require.FailNow(t, "not "+what, "%v", context.Cause(ctx))
		case <-time.After(Poll):
		}
	}
}
