package tenantagent

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/internal/fail"
)

// scopes has the scope that is told of: the one that was wanted last of those whose lists are complete.
type scopes struct {
	changed  chan struct{} // now is another one
	wanted   wanted
	*watches // of the ConfigMap and of WorkloadRules; each scope has its own

	mu      sync.Mutex
	now     *scope
	first   chan struct{} // closed when there is one
	pending *scope        // whose lists are not complete
}

func newScopes() *scopes {
	return &scopes{changed: make(chan struct{}, 1), first: make(chan struct{}), wanted: wanted{changed: make(chan struct{}, 1)}, watches: newWatches()}
}

// followed is a scope and what ends its informers.
type followed struct {
	*scope
	stop context.CancelFunc
}

// run follows what is wanted until ctx ends, and returns when all that it has begun has ended.
func (s *scopes) run(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	var now, pending followed
	complete, failed := make(chan *scope), make(chan error, 1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case one := <-complete:
			if one != pending.scope {
				continue
			}
			if now.scope != nil {
				now.stop()
			}
			now, pending = pending, followed{}
			s.put(now.scope, nil)
		case <-s.wanted.changed:
			names, known, _ := s.wanted.now()
			last := pending
			if last.scope == nil {
				last = now
			}
			if !known || last.scope != nil && slices.Equal(last.names, names) {
				continue
			}
			if pending.scope != nil {
				pending.stop()
			}
			of, stop := context.WithCancel(ctx)
			pending = followed{newScope(names), stop}
			s.put(now.scope, pending.scope)
			begun := pending.scope
			wait.Go(func() { begun.begin(of, client, &wait, complete, failed) })
		}
	}
}

// begin watches the scope until ctx ends, with informers that wait counts. It sends the scope to complete once its lists are, or to failed why they
// cannot be.
func (s *scope) begin(ctx context.Context, client kubernetes.Interface, wait *sync.WaitGroup, complete chan<- *scope, failed chan<- error) {
	err := s.watch(ctx, client, wait)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		failed <- err
	default:
		select {
		case complete <- s:
		case <-ctx.Done():
		}
	}
}

// put says which scope is told of, and which one will be.
func (s *scopes) put(now, pending *scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending = pending; now == s.now {
		return
	}
	if s.now == nil {
		close(s.first)
	}
	s.now = now
	signal(s.changed)
}

// complete is the scope that is told of. It waits until there is one.
func (s *scopes) complete(ctx context.Context) (*scope, error) {
	select {
	case <-s.first:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, nil
}

// list are the Pods that are told of; false as long as they are not known.
func (s *scopes) list() ([]*pod, bool) {
	s.mu.Lock()
	now := s.now
	s.mu.Unlock()
	if now == nil {
		return nil, false
	}
	return now.list(), true
}

// problem says why not all is told that is wanted; nil when it is.
func (s *scopes) problem() error {
	if err := s.watches.problem(); err != nil {
		return err
	}
	if _, _, err := s.wanted.now(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		if err := s.pending.problem(); err != nil {
			return err
		}
		return fail.New(fail.Unavailable, "the Pods are still being listed")
	}
	if s.now == nil {
		return fail.New(fail.Unavailable, "it is not known yet whose Pods are told of")
	}
	return s.now.problem()
}

// signal wakes the one who waits, or who will.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
