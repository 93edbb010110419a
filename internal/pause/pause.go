// Package pause waits for a time, or until a context ends, and doubles the wait between tries (Backoff).
package pause

import (
	"context"
	"time"
)

// For waits for d, or returns the cause of ctx's end.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
