package pause

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/drover-io/drover/internal/policy"
)

// Backoff is the wait between one try and the next: First, then twice as long each time, and at most Most. Of each wait up
// to a quarter is left out at random, so that those that failed together do not try again together. It is for one
// goroutine; First is more than 0.
type Backoff struct {
	First, Most time.Duration

	last time.Duration // 0 before the first
}

// Wait waits before another try, or returns the cause of ctx's end.
func (b *Backoff) Wait(ctx context.Context) error { return For(ctx, b.Next()) }

// Next is how long the next wait is, for those who wait for something else at the same time.
func (b *Backoff) Next() time.Duration {
	b.last = policy.Doubling{First: b.First, Most: b.Most}.After(b.last)
	return b.last - rand.N(b.last/4+1) // #nosec G404 -- nobody gains by guessing it
}

// Reset begins anew: the next wait is First.
func (b *Backoff) Reset() { b.last = 0 }
