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
	read   func() (T, error)
	askers int // who still want it; guarded by the mutex of Reads
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
		r.mu.Lock()
		shared.askers--
		r.mu.Unlock()
		var none T
		return none, context.Cause(ctx)
	}
}

// Start is Get for those to come: nobody waits.
func (r *Reads[T]) Start(ctx context.Context, key string, read func(context.Context) (T, error)) {
	r.join(key, guarded(ctx, read))
}

// guarded is a read that goes on when ctx has ended, and fails for all who share it if it panics.
func guarded[T any](ctx context.Context, read func(context.Context) (T, error)) func() (T, error) {
	ctx = context.WithoutCancel(ctx)
	return func() (T, error) { return panics.Value(ctx, func() (T, error) { return read(ctx) }) }
}

func (r *Reads[T]) join(key string, read func() (T, error)) *call[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	shared := r.next[key]
	if shared == nil {
		shared = &call[T]{read: read, done: make(chan struct{})}
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
		shared.value, shared.err = shared.read()
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
	}
	return shared
}
