package observe

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// queue holds the deployments that are to be reported, each once. It lets each out to one reporter at a time and at most
// once an interval, but the first time at once.
type queue struct {
	interval time.Duration
	known    int // deployments that were asked for before anything was added, which are in nobody's way

	mu   sync.Mutex
	due  map[string]time.Time // when it may be reported
	last map[string]time.Time // when it was reported; only within interval
	busy map[string]bool      // those that were taken and are not done
	wake chan struct{}        // has room for one

	waits map[string]time.Duration // how long those wait that could not be reported; see later
}

func newQueue(interval time.Duration) *queue {
	return &queue{
		interval: interval, due: map[string]time.Time{}, last: map[string]time.Time{}, busy: map[string]bool{}, wake: make(chan struct{}, 1),
		waits: map[string]time.Duration{},
	}
}

// add asks for a report on what is in the cluster, unless too much is to be reported already: a cluster may name ever new deployments
// faster than anybody takes them.
func (q *queue) add(id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.due[id]; !ok && len(q.due) >= limits.ClusterObjects+q.known {
		return errMany
	}
	q.ask(id)
	return nil
}

// again asks for a report on what was added before, which is bounded by that: what has gone must be told, too.
func (q *queue) again(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ask(id)
}

// ask notes what is to be reported. The lock is held.
func (q *queue) ask(id string) {
	if _, ok := q.due[id]; !ok {
		q.due[id] = q.last[id].Add(q.interval)
	}
	q.stir()
}

// later asks for a report, in place of one that failed, after a wait that doubles with each. What happens meanwhile waits, too.
func (q *queue) later(id string, waits policy.Doubling) {
	q.mu.Lock()
	wait := waits.After(q.waits[id])
	q.waits[id], q.due[id] = wait, time.Now().Add(wait)
	q.mu.Unlock()
	q.stir()
}

// succeeded says that a report has not failed.
func (q *queue) succeeded(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.waits, id)
}

// keep leaves of what is to be reported only some.
func (q *queue) keep(wanted func(id string) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.due, func(id string, _ time.Time) bool { return !wanted(id) })
	maps.DeleteFunc(q.waits, func(id string, _ time.Duration) bool { return !wanted(id) })
}

func (q *queue) stir() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// done says that what was taken is reported.
func (q *queue) done(id string) {
	q.mu.Lock()
	delete(q.busy, id)
	q.mu.Unlock()
	q.stir()
}

// take waits for a deployment that is due and takes it out, until done; the error is the cause of ctx's end, after
// which nothing is taken.
func (q *queue) take(ctx context.Context) (string, error) {
	for {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		id, wait := q.next(time.Now())
		if id != "" {
			q.stir() // there may be more, for others
			return id, nil
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-q.wake:
		case <-timer:
		}
	}
}

// next is what is due, or how long until something is; 0 when there is nothing.
func (q *queue) next(now time.Time) (id string, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, at := range q.last {
		if now.Sub(at) > q.interval {
			delete(q.last, i)
		}
	}
	for i, at := range q.due {
		if q.busy[i] {
			continue
		}
		if d := at.Sub(now); d > 0 {
			if wait == 0 || d < wait {
				wait = d
			}
			continue
		}
		delete(q.due, i)
		q.busy[i] = true
		if q.interval > 0 {
			q.last[i] = now
		}
		return i, 0
	}
	return "", wait
}
