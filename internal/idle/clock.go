// Package idle tells tests how long something would take on a machine that does nothing else.
//
// The time that a promise allows is that of such a machine. Tests run beside others, on machines of any speed. So a Clock
// does the same small piece of work again and again, next to what is timed: where that takes three times as long as on an
// idle machine, three seconds count as one.
package idle

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	// pieceTime is how long a piece of work takes on an idle core of some 3 GHz, and pieceEach the time between two.
	pieceTime = 10 * time.Millisecond
	pieceEach = 100 * time.Millisecond
	// Slowest is the most that a time is stretched to: a stop that takes ten times what is promised keeps no promise, whatever
	// the machine does beside it.
	Slowest = 10
)

// Clock tells how long something would take on an idle machine.
type Clock struct {
	begun time.Time
	ended chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
	mu    sync.Mutex
	pace  pace
	done  uint64 // what came of the pieces of work, so that none is left out
}

// Start starts a clock, which stops with the test at the latest.
func Start(t testing.TB) *Clock {
	now := time.Now()
	c := &Clock{begun: now, ended: make(chan struct{}), pace: pace{until: now, slow: 1}}
	c.wg.Go(func() {
		runtime.LockOSThread() // the turns of the machine count, not those of the test's goroutines
		for {
			c.piece()
			select {
			case <-time.After(pieceEach):
			case <-c.ended:
				return
			}
		}
	})
	t.Cleanup(c.Stop)
	return c
}

// Stop stops the clock, which costs a tenth of a processor while it runs.
func (c *Clock) Stop() {
	c.once.Do(func() { close(c.ended) })
	c.wg.Wait()
}

// Read is the time since the clock was started: what it would be on an idle machine, and what it is.
func (c *Clock) Read() (idle, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return c.pace.at(now).idle.Round(time.Millisecond), now.Sub(c.begun).Round(time.Millisecond)
}

// piece does a piece of work.
func (c *Clock) piece() {
	c.mu.Lock()
	begun := time.Now()
	c.pace.work = begun
	c.mu.Unlock()
	done := churn(uint64(begun.UnixNano()))
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.pace.slow = slowness(now.Sub(begun))
	c.pace.work = time.Time{}
	c.pace = c.pace.at(now)
	c.done ^= done
}

// pace is what a clock shows at a time.
type pace struct {
	idle  time.Duration // until then
	until time.Time
	slow  float64   // how many times too slow the machine was at the last piece of work
	work  time.Time // when the one that is being done was begun
}

// at is the pace later on. The time that has passed counts by the last piece of work, or by the one that is not done yet
// where that is slower already.
func (p pace) at(now time.Time) pace {
	if !p.work.IsZero() {
		p.slow = max(p.slow, slowness(now.Sub(p.work)))
	}
	p.idle += time.Duration(float64(now.Sub(p.until)) / p.slow)
	p.until = now
	return p
}

// slowness is how many times slower than an idle machine is one where a piece of work takes so long.
func slowness(took time.Duration) float64 {
	return min(max(1, float64(took)/float64(pieceTime)), Slowest)
}

// churn is a piece of work: xorshift, each step of which needs the one before.
func churn(x uint64) uint64 {
	for range 6_000_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
