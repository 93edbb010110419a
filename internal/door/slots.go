package door

import (
	"context"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// How many requests are at work at a time. What is taken beyond what the machine can do is answered too late for
// everybody: 500 operations at once on two cores, none refused, were 129 answers after 30 to 60 s. So what finds no slot
// soon is refused, and nothing of it is done.
const (
	// DefaultOperations is for those that begin an operation, of which two cores take some ten a second.
	DefaultOperations = 32
	// requestsAtOnce is for those that have no room of their own, but streams; uploadsAtOnce for those whose bodies may be
	// large, and come slowly.
	requestsAtOnce, uploadsAtOnce = 256, 32
	// admitWait is how long a request waits for a slot.
	admitWait = 1500 * time.Millisecond
	// retryLater is when a request that found none may be sent again, and retryLatest when so many were refused before it.
	retryLater, retryLatest = 2 * time.Second, 30 * time.Second
)

// room is a set of slots. Requests of different rooms do not wait for each other: who wants to end something must not
// wait for those who begin.
type room int

const (
	anyRoom     room = iota // of what is in none of the others
	beginning               // of an operation: it is answered when everything is rendered and placed
	approving               // which renders too, and nobody but the user waits for it
	terminating             // of what has begun
	stopping                // of an operation
	uploading               // of a document with its file, the reading of which is included
)

// newRooms has rooms for a number of operations that are being begun at a time.
func newRooms(operations int) map[room]*slots {
	return map[room]*slots{
		anyRoom: newSlots(requestsAtOnce), uploading: newSlots(min(operations, uploadsAtOnce)),
		beginning: newSlots(operations), terminating: newSlots(operations), stopping: newSlots(operations),
		approving: newSlots((operations + 3) / 4), // it costs processor time, and nothing else
	}
}

// slots are those of requests that are at work, and when those come back that found none.
type slots struct {
	taken chan struct{}
	mu    sync.Mutex
	last  time.Time // when the last one of those that were refused is to come back
}

func newSlots(n int) *slots { return &slots{taken: make(chan struct{}, n)} }

// later is when a request that is refused now may be sent again. Those that are refused come back one after the other, in
// retryLater as many as there are slots: told the same time, they would all be there at once again, and be refused again.
func (p *slots) later(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	after := max(retryLater, p.last.Add(retryLater/time.Duration(cap(p.taken))).Sub(now))
	after = min(after, retryLatest)
	p.last = now.Add(after)
	return after
}

// enter takes a slot, which leave gives back.
func (p *slots) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-p.taken }
	select {
	case p.taken <- struct{}{}:
		return leave, nil
	default:
	}
	full := time.NewTimer(admitWait)
	defer full.Stop()
	select {
	case p.taken <- struct{}{}:
		return leave, nil
	case <-full.C:
		return nil, &fail.Error{
			Kind: fail.Unavailable, RetryAfter: p.later(time.Now()),
			Message: "too many requests are at work at the moment; nothing was done, try again later",
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Slots has requests wait for a slot: operations of them for those that begin an operation, DefaultOperations when 0, and
// others in rooms of their own. Streams need none. What is still to come of a request is received before it has a slot,
// but for uploads, whose slots are for that.
func Slots(operations int) Step {
	if operations == 0 {
		operations = DefaultOperations
	}
	rooms := newRooms(operations)
	return func(ctx context.Context, r *Request, next Next) error {
		if r.Verb.Streams() || r.Noun == domain.Metrics { // which are looked at when there are no slots
			return next(ctx)
		}
		in := verbs[r.Verb].room
		if r.Renders {
			in = approving
		}
		if r.uploads() {
			in = uploading
		} else if r.Receive != nil {
			if err := r.Receive(ctx); err != nil {
				return err
			}
		}
		leave, err := rooms[in].enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
		return next(ctx)
	}
}
