package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drover-io/drover/internal/caller"
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
	// Who reads, and those who wait; of them by caller, so that none keeps all others out. Guarded by the mutex of reads.
	all int
	by  map[string]int
}

// callerReads is how many of the places of a tenant one caller has at the most.
const callerReads = limits.TenantReads / 2

func newReads(bytes func(context.Context, string) (int64, error)) *reads {
	return &reads{bytes: bytes, room: semaphore.NewWeighted(readBytes), of: map[string]*readers{}}
}

// begin waits for the turn of who reads some tenants, and for room for what those have, both until leave is called. whose is the tenant, "" where it is asked
// for several: those of the operator wait for each other, and for no tenant's. Exhausted when others read the same, at once when too many wait, or too many of this
// caller; Unavailable when others take all the room.
func (r *reads) begin(ctx context.Context, whose string, tenants []string) (leave func(), err error) {
	by, err := caller.IdentityOf(ctx)
	if err != nil {
		return nil, err
	}
	who := by.String()
	one, err := r.enter(whose, who)
	if err != nil {
		return nil, err
	}
	undo := func() { r.leave(whose, who) }
	defer func() { // what panics, too, gives back what it has taken
		if leave == nil {
			undo()
		}
	}()
	waited := time.Now()
	if acquire(ctx, one.turn, 1, policy.ReadWait) != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, errReaders(whose)
	}
	undo = func() {
		one.turn.Release(1)
		r.leave(whose, who)
	}
	left := policy.ReadWait - time.Since(waited)
	bytes, err := r.size(ctx, tenants) // which the store may take long for: that is not a wait for others
	if err == nil {
		if err = acquire(ctx, r.room, bytes, left); err != nil {
			err = &fail.Error{
				Kind: fail.Unavailable, Undone: true, RetryAfter: policy.ReadLater, Cause: err,
				Message: "what is read of other tenants takes all the memory that there is for it: try again later",
			}
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return func() {
		r.room.Release(bytes)
		undo()
	}, nil
}

// acquire takes so much of some as soon as it is free, within a time.
func acquire(ctx context.Context, some *semaphore.Weighted, much int64, within time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return some.Acquire(wait, much)
}

// size is how much room a read of tenants takes. Those are not asked for that would not change it: each is read for that, where this process does not know it.
func (r *reads) size(ctx context.Context, tenants []string) (all int64, err error) {
	for _, tenant := range tenants {
		bytes, err := r.bytes(ctx, tenant)
		if err != nil {
			return 0, err
		}
		if all += bytes + leastLook; all >= readBytes/2 {
			return readBytes / 2, nil
		}
	}
	return all, nil
}

func (r *reads) enter(whose, who string) (*readers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[whose]
	if one == nil {
		one = &readers{turn: semaphore.NewWeighted(1), by: map[string]int{}}
		r.of[whose] = one
	}
	if one.all >= limits.TenantReads || one.by[who] >= callerReads {
		return nil, errReaders(whose)
	}
	one.all++
	one.by[who]++
	return one, nil
}

func (r *reads) leave(whose, who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[whose]
	if one.by[who]--; one.by[who] == 0 {
		delete(one.by, who)
	}
	if one.all--; one.all == 0 {
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
