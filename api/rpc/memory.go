package rpc

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// pool is memory that calls share. One tenant has half of it at the most, so that it keeps nobody else waiting for long.
type pool struct {
	all  *semaphore.Weighted
	most int64 // what one may have

	mu sync.Mutex
	of map[string]*share // of those who have calls
}

// share is what one tenant may have of a pool, for as long as it has calls.
type share struct {
	room  *semaphore.Weighted
	calls int
}

func newPool(bytes int64) *pool {
	return &pool{all: semaphore.NewWeighted(bytes), most: bytes / 2, of: map[string]*share{}}
}

// lease makes one for a call of somebody. It has to be ended.
func (p *pool) lease(who string) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of[who]
	if s == nil {
		s = &share{room: semaphore.NewWeighted(p.most)}
		p.of[who] = s
	}
	s.calls++
	return &lease{of: p, who: who, share: s}
}

func (p *pool) leave(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.share.calls--; l.share.calls == 0 {
		delete(p.of, l.who)
	}
}

var errNoRoom = fail.New(fail.Unavailable, "other calls of the tenants have all the memory that there is for answers: try again later")

// lease is what a call has of a pool. What is not given back is when the call ends.
type lease struct {
	of    *pool
	who   string
	share *share

	mu    sync.Mutex
	taken int64
	fresh int64 // of these, what was not asked for yet
	ended bool
}

// take waits until there is room for n bytes, first in the share of the tenant, then in the pool. Who asks for more than a share has
// gets all of it. An error when ctx or the lease has ended.
func (l *lease) take(ctx context.Context, n int64) error {
	n = min(n, l.of.most)
	if err := l.share.room.Acquire(ctx, n); err != nil {
		return context.Cause(ctx)
	}
	if err := l.of.all.Acquire(ctx, n); err != nil {
		l.share.room.Release(n)
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		l.release(n)
		return fail.New(fail.Unavailable, "the call has ended")
	}
	l.taken += n
	l.fresh += n
	return nil
}

// have is for a call with one message, which is to have n bytes from now on. What it has is given back first where that is less: who
// waits here holds nothing, or calls that hold a little each would wait for each other. Unavailable when there is no room in time.
func (l *lease) have(ctx context.Context, n int64) error {
	l.mu.Lock()
	taken := l.taken
	l.mu.Unlock()
	if taken >= min(n, l.of.most) {
		return nil
	}
	l.give(taken)
	ctx, cancel := context.WithTimeoutCause(ctx, policy.Plain, errNoRoom)
	defer cancel()
	return l.take(ctx, n)
}

// arrived is what has been taken since it was asked last.
func (l *lease) arrived() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.fresh
	l.fresh = 0
	return n
}

// keep gives back what was taken since arrived was asked, but for n bytes.
func (l *lease) keep(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	more := max(l.fresh-n, 0)
	l.fresh -= more
	l.taken -= more
	l.release(more)
}

func (l *lease) give(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.taken)
	l.taken -= n
	l.fresh = min(l.fresh, l.taken)
	l.release(n)
}

func (l *lease) release(n int64) {
	l.of.all.Release(n)
	l.share.room.Release(n)
}

// end gives all back; what is taken from then on is given back at once.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.release(l.taken)
	l.taken, l.fresh = 0, 0
	l.of.leave(l)
}

// memory is what a call has in memory: its messages as they arrive, and what they are when they are read, until that is stored or sent.
// All is given back when the last one who uses it has left: the call itself, and each goroutine that reads or writes for it.
type memory struct {
	wire, read *lease
	users      atomic.Int32

	mu   sync.Mutex
	last size
}

// size is that of a message: what it has on the wire, or expanded if that is more, and what it takes in memory when it is read.
type size struct{ wire, read int }

func newMemory(wire, read *lease) *memory {
	m := &memory{wire: wire, read: read}
	m.enter()
	return m
}

func (m *memory) enter() { m.users.Add(1) }

func (m *memory) leave() {
	if m.users.Add(-1) == 0 {
		m.wire.end()
		m.read.end()
	}
}

// note keeps the size of the last message for who asks for it.
func (m *memory) note(s size) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = s
}

func (m *memory) noted() size {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}
