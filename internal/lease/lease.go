// Package lease says how long an attempt at some work may rely on being the only one. Temporal hands out the work, and gives it
// to another worker when it has not heard of this one for a time. A worker that was frozen meanwhile (a laptop that slept, a
// process that was stopped) does not know that. So every write asks the lease first.
package lease

import (
	"context"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// ErrLost says that another attempt may be at the work, so that this one has to leave it alone. It is no word on what the
// work is about.
var ErrLost = fail.New(fail.Unavailable, "the worker was held up for longer than its work is kept for it: another attempt goes on")

// Lease is an attempt's right to write. It is held for a time from the last moment of which it is known that the attempt
// was the only one; once lost it stays lost. It may be used by any number of goroutines.
type Lease struct {
	clock Clock
	lasts time.Duration
	gone  chan struct{}

	mu    sync.Mutex
	known Instant // when it was last known to be held
	lost  bool
	timer *time.Timer
}

// New begins a lease, which was known to be held at a moment and lasts for a time from then on. Close has to be called.
func New(clock Clock, known Instant, lasts time.Duration) *Lease {
	l := &Lease{clock: clock, lasts: lasts, gone: make(chan struct{}), known: known}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(max(l.left(), 0), l.look)
	return l
}

// left is for how long it is held still. The lock is the caller's.
func (l *Lease) left() time.Duration { return l.lasts - l.clock().Since(l.known) }

// look notices by itself that the lease is lost, a moment after it is. A timer does not count the time of a suspension:
// what must not be done without the lease calls Check.
func (l *Lease) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.check(); left > 0 {
		l.timer.Reset(left)
	}
}

// check is left, and notes that nothing is. The lock is the caller's.
func (l *Lease) check() time.Duration {
	left := l.left()
	if left <= 0 {
		l.lose()
	}
	if l.lost {
		return 0
	}
	return left
}

func (l *Lease) lose() {
	if !l.lost {
		l.lost = true
		close(l.gone)
	}
}

// Renew says that the lease was held at a moment.
func (l *Lease) Renew(at Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.After(l.known) {
		l.known = at
	}
}

// Lose ends the lease.
func (l *Lease) Lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose()
}

// Check is nil as long as the lease is held, and ErrLost from then on.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check() <= 0 {
		return ErrLost
	}
	return nil
}

// Close is called when the work has ended.
func (l *Lease) Close() { l.timer.Stop() }

type key struct{}

// With gives a lease to what is done with the context.
func With(ctx context.Context, l *Lease) context.Context { return context.WithValue(ctx, key{}, l) }

func of(ctx context.Context) *Lease {
	l, _ := ctx.Value(key{}).(*Lease)
	return l
}

// Check is the Check of the context's lease; nil where there is none: what is not handed out is nobody else's.
func Check(ctx context.Context) error {
	if l := of(ctx); l != nil {
		return l.Check()
	}
	return nil
}

// Lost is closed when the context's lease is seen to be lost; never where there is none.
func Lost(ctx context.Context) <-chan struct{} {
	if l := of(ctx); l != nil {
		return l.gone
	}
	return nil
}
