// Package share lets callers that ask for the same thing at the same time have it made once.
package share

import (
	"context"
	"sync"

	"github.com/drover-io/drover/internal/panics"
)

// Reads lets callers that ask for the same thing at the same time share a read. A caller only ever
// gets the result of a read that began after it asked, so it sees every write that ended before; those
// that ask while a read is under way share the next one.
type Reads[T any] struct {
	mu   sync.Mutex
	next map[string]*call[T] // not begun
	busy map[string]bool
}

type call[T any] struct {
	read   func(wanted context.Context) (T, error)
	askers int             // who still want it; guarded by the mutex of Reads
	begun  bool            // guarded by it, too
	wanted context.Context // ends when nobody wants any more what has begun
	leave  context.CancelFunc
	done   chan struct{}
	value  T
	err    error
}

// New makes one of which nothing is read yet.
func New[T any]() *Reads[T] {
	return &Reads[T]{next: map[string]*call[T]{}, busy: map[string]bool{}}
}

// Get reads what key names, or shares a read of it. The value may be shared too. The read has to bound
// itself: it goes on for others when ctx ends. One that has not begun when the last who asked for it has gone is never begun: what is
// slow for a moment is not asked again and again for what nobody wants any more.
func (r *Reads[T]) Get(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	shared := r.join(key, guarded(ctx, read))
	select {
	case <-shared.done:
		return shared.value, shared.err
	case <-ctx.Done():
		r.left(shared)
		var none T
		return none, context.Cause(ctx)
	}
}

// Start is Get for those to come: nobody waits.
func (r *Reads[T]) Start(ctx context.Context, key string, read func(context.Context) (T, error)) {
	r.join(key, guarded(ctx, read))
}

// wanted is where the context of a read has the one that ends when nobody wants it.
type wanted struct{}

// Wanted is ctx, which a read was given, as long as somebody waits for the read: a read that goes on for those who come later has no need to wait for its
// turn when nobody wants it. Release ends it.
func Wanted(ctx context.Context) (_ context.Context, release context.CancelFunc) {
	of, _ := ctx.Value(wanted{}).(context.Context)
	ctx, cancel := context.WithCancel(ctx)
	if of == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(of, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// guarded is a read that goes on when ctx has ended, and fails for all who share it if it panics.
func guarded[T any](ctx context.Context, read func(context.Context) (T, error)) func(context.Context) (T, error) {
	ctx = context.WithoutCancel(ctx)
	return func(of context.Context) (T, error) {
		ctx := context.WithValue(ctx, wanted{}, of)
		return panics.Value(ctx, func() (T, error) { return read(ctx) })
	}
}

// left is when one of those who want it does not any more.
func (r *Reads[T]) left(shared *call[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shared.askers--; shared.askers == 0 && shared.begun {
		shared.leave()
	}
}

func (r *Reads[T]) join(key string, read func(context.Context) (T, error)) *call[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	shared := r.next[key]
	if shared == nil {
		shared = &call[T]{read: read, done: make(chan struct{})}
		shared.wanted, shared.leave = context.WithCancel(context.Background())
		r.next[key] = shared
	}
	shared.askers++
	if !r.busy[key] {
		r.busy[key] = true
		go r.run(key)
	}
	return shared
}

// run reads until nobody waits.
func (r *Reads[T]) run(key string) {
	for shared := r.begin(key); shared != nil; shared = r.begin(key) {
		shared.value, shared.err = shared.read(shared.wanted)
		shared.leave()
		close(shared.done)
	}
}

func (r *Reads[T]) begin(key string) *call[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	shared := r.next[key]
	delete(r.next, key)
	if shared != nil && shared.askers == 0 {
		shared = nil
	}
	if shared == nil {
		delete(r.busy, key)
	} else {
		shared.begun = true
	}
	return shared
}
