package service

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// readBytes bounds what has to be in memory at a time of workloads and matches of tenants for those who ask for something of them, of which one read takes
// half at the most. What looks at them has room of its own (lookBytes): a stream waits for no reader.
const readBytes = 2 * limits.Tenants

// reads are those of all workloads or matches of a tenant, of which a page is shown, or what a rule says of them. A page needs all of them in memory, and who
// may read a tenant may ask for many at a time: of a tenant one reads and the others wait.
type reads struct {
	bytes func(ctx context.Context, tenant string) (int64, error) // that a tenant has
	room  *semaphore.Weighted

	mu sync.Mutex
	of map[string]*readers // by tenant, those that have some; "": of all tenants
}

// readers are those of one tenant.
type readers struct {
	turn *semaphore.Weighted
	all  int // who reads, and those who wait; guarded by the mutex of reads
}

func newReads(bytes func(context.Context, string) (int64, error)) *reads {
	return &reads{bytes: bytes, room: semaphore.NewWeighted(readBytes), of: map[string]*readers{}}
}

// begin waits for the turn of who reads some tenants, and for room for what those have, both until leave is called. whose is the tenant, "" where it is asked
// for several: those of the operator wait for each other, and for no tenant's. Exhausted when others read the same, at once when too many wait; Unavailable when
// others take all the room.
func (r *reads) begin(ctx context.Context, whose string, tenants []string) (leave func(), err error) {
	one, err := r.enter(whose)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, policy.ReadWait)
	defer cancel()
	if one.turn.Acquire(wait, 1) != nil {
		r.leave(whose)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, errReaders(whose)
	}
	bytes, err := r.size(wait, tenants)
	if err == nil {
		err = r.room.Acquire(wait, bytes)
	}
	if err != nil {
		one.turn.Release(1)
		r.leave(whose)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case wait.Err() != nil:
			return nil, &fail.Error{
				Kind: fail.Unavailable, RetryAfter: policy.ReadLater, Cause: err,
				Message: "what is read of other tenants takes all the memory that there is for it: try again later",
			}
		}
		return nil, err
	}
	return func() {
		r.room.Release(bytes)
		one.turn.Release(1)
		r.leave(whose)
	}, nil
}

// size is how much room a read of tenants takes.
func (r *reads) size(ctx context.Context, tenants []string) (all int64, err error) {
	for _, tenant := range tenants {
		bytes, err := r.bytes(ctx, tenant)
		if err != nil {
			return 0, err
		}
		all += bytes + leastLook
	}
	return min(all, readBytes/2), nil
}

func (r *reads) enter(whose string) (*readers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[whose]
	if one == nil {
		one = &readers{turn: semaphore.NewWeighted(1)}
		r.of[whose] = one
	}
	if one.all >= limits.TenantReads {
		return nil, errReaders(whose)
	}
	one.all++
	return one, nil
}

func (r *reads) leave(whose string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.of[whose]; one.all > 1 {
		one.all--
	} else {
		delete(r.of, whose)
	}
}

// errReaders tells who reads that others do.
func errReaders(whose string) error {
	of := "all tenants"
	if whose != "" {
		of = fmt.Sprintf("tenant %q", whose)
	}
	return &fail.Error{
		Kind: fail.Exhausted, RetryAfter: policy.ReadLater,
		Message: fmt.Sprintf("too many read the workloads or matches of %s, which is done one after the other: try again later", of),
	}
}
