package store

import (
	"context"
	"slices"
	"sync"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
)

// maxBatch bounds the items of one call.
const maxBatch = 500

// gatherer makes one call of many that come at the same time (group commit): what arrives while a call is
// under way goes into the next one. A lone caller waits for nobody. What waits is bounded by the callers,
// each of which has one item in it.
type gatherer[T any] struct {
	call  func([]T) []error // an outcome for each item
	lasts bool              // what its caller has given up before the call is done all the same

	mu      sync.Mutex
	waiting []gathered[T]
	running bool
	closed  bool
	done    sync.WaitGroup
}

type gathered[T any] struct {
	ctx     context.Context // of the caller
	item    T
	outcome chan<- error
}

// newGatherer is for what nobody needs when its caller has gone: a database that is slow for a moment is not asked what those have
// asked who will ask again.
func newGatherer[T any](call func([]T) []error) *gatherer[T] { return &gatherer[T]{call: call} }

// newLastingGatherer is for what has to be done though its caller has gone.
func newLastingGatherer[T any](call func([]T) []error) *gatherer[T] {
	return &gatherer[T]{call: call, lasts: true}
}

// do puts item into the next call and returns its outcome. When ctx ends first, the item may still be in
// a call that has begun. Unavailable after close.
func (g *gatherer[T]) do(ctx context.Context, item T) error {
	outcome := make(chan error, 1)
	if !g.add(gathered[T]{ctx, item, outcome}) {
		return fail.New(fail.Unavailable, "the store is closed")
	}
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gatherer[T]) add(w gathered[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.waiting = append(g.waiting, w)
	if !g.running {
		g.running = true
		g.done.Go(g.run)
	}
	return true
}

// run calls until nothing waits.
func (g *gatherer[T]) run() {
	for batch := g.next(); len(batch) > 0; batch = g.next() {
		items := make([]T, len(batch))
		for i := range batch {
			items[i] = batch[i].item
		}
		var outcomes []error
		failed := panics.Do(batch[0].ctx, func() error { outcomes = g.call(items); return nil })
		if failed != nil {
			outcomes = slices.Repeat([]error{failed}, len(batch))
		}
		for i, err := range outcomes {
			batch[i].outcome <- err
		}
		clear(batch) // what waits next may be behind it in the same array, for long
	}
}

func (g *gatherer[T]) next() []gathered[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.lasts {
		g.waiting = slices.DeleteFunc(g.waiting, func(w gathered[T]) bool { return w.ctx.Err() != nil })
	}
	n := min(len(g.waiting), maxBatch)
	batch := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	g.running = n > 0
	return batch
}

// close refuses what comes and waits for what is there, but no longer than until ctx ends.
func (g *gatherer[T]) close(ctx context.Context) {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		g.done.Wait()
	}()
	select {
	case <-over:
	case <-ctx.Done(): // the connections are closed next, which ends the call
	}
}
