package rpc

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
)

// TestALeaseGivesBackAll, whatever the call still asks for when it has ended.
func TestALeaseGivesBackAll(t *testing.T) {
	p := newPool(20)
	l, other := p.lease("a"), p.lease("a")
	require.NoError(t, l.take(t.Context(), 4))
	require.NoError(t, l.take(t.Context(), 4))
	require.EqualValues(t, 8, l.arrived())
	require.Zero(t, l.arrived())
	waits := make(chan error)
	go func() { waits <- other.take(t.Context(), 9) }()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	third := p.lease("a")
	require.ErrorIs(t, third.take(ended, 9), context.Canceled)
	third.end()
	l.give(4)
	select {
	case err := <-waits:
		require.Fail(t, "there is no room", "%v", err)
	default:
	}
	l.end()
	require.NoError(t, <-waits)
	other.keep(5)
	require.EqualValues(t, 5, other.arrived())
	require.NoError(t, other.have(t.Context(), 5), "it has them")
	require.NoError(t, other.have(t.Context(), 100), "all that one may have")
	require.EqualValues(t, 10, other.arrived(), "and what it had is given back")
	other.end()
	other.end()
	require.Error(t, l.take(t.Context(), 1))
	require.True(t, p.all.TryAcquire(20))
	require.Empty(t, p.of)
}

// TestWhoWaitsForAnAnswersRoomHoldsNothing, and does not wait for ever.
func TestWhoWaitsForAnAnswersRoomHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(20)
		l, other := p.lease("a"), p.lease("a")
		require.NoError(t, l.take(t.Context(), 4))
		require.NoError(t, other.take(t.Context(), 6))
		began := time.Now()
		err := l.have(t.Context(), 5)
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		require.Equal(t, policy.Plain, time.Since(began))
		require.NoError(t, other.take(t.Context(), 4), "nobody has it")
		l.end()
		other.end()
	})
}

// TestNobodyHasAll: who asks for more than half has half, and waits for his own then, and nobody else for him.
func TestNobodyHasAll(t *testing.T) {
	p := newPool(20)
	noisy, more, other := p.lease("noisy"), p.lease("noisy"), p.lease("other")
	require.NoError(t, noisy.take(t.Context(), 100))
	waits := make(chan error)
	go func() { waits <- more.take(t.Context(), 1) }()
	require.NoError(t, other.take(t.Context(), 10))
	select {
	case err := <-waits:
		require.Fail(t, "it has more than half", "%v", err)
	default:
	}
	other.end()
	noisy.give(1)
	require.NoError(t, <-waits)
	noisy.end()
	more.end()
	require.True(t, p.all.TryAcquire(20))
	require.Empty(t, p.of)
}

// TestMemoryIsTheCallsUntilNobodyUsesIt: a call that was displaced has ended before the message that it was reading.
func TestMemoryIsTheCallsUntilNobodyUsesIt(t *testing.T) {
	wire, read := newPool(20), newPool(20)
	m := newMemory(wire.lease("a"), read.lease("a"))
	require.NoError(t, m.wire.take(t.Context(), 10))
	goes := make(chan struct{})
	ended := make(chan struct{})
	m.enter()
	go func() {
		defer close(ended)
		defer m.leave()
		<-goes
	}()
	m.leave() // the call
	require.False(t, wire.all.TryAcquire(20))
	close(goes)
	<-ended
	require.True(t, wire.all.TryAcquire(20))
	require.Error(t, m.read.take(t.Context(), 1), "nobody takes any more")
	require.Empty(t, read.of)
}

// slow is a line with so many bytes a second, of which nothing comes any more after some.
type slow struct {
	rate, has int
	ends      chan struct{}
}

func (*slow) ReadMessageHeader([]byte) error { return io.EOF }

func (*slow) RecvCompress() string { return "" }

func (s *slow) Read(n int) (mem.BufferSlice, error) {
	var comes <-chan time.Time
	if s.has -= n; s.has >= 0 {
		comes = time.After(time.Duration(n) * time.Second / time.Duration(s.rate))
	}
	select {
	case <-comes:
		return mem.BufferSlice{mem.SliceBuffer(make([]byte, n))}, nil
	case <-s.ends:
		return nil, io.ErrUnexpectedEOF
	}
}

// TestASlowLineIsNoSilence: a message that was cut off because its line is slow would be begun anew for ever.
func TestASlowLineIsNoSilence(t *testing.T) {
	const all = 64 << 20
	for name, c := range map[string]struct {
		rate, has int
		most      time.Duration
		arrives   bool
	}{
		"2 Mbit/s":           {rate: 250_000, has: all, most: 5 * time.Minute, arrives: true},
		"far too slow":       {rate: 20_000, has: all, most: time.Minute},
		"too slow for all":   {rate: 100_000, has: all, most: 5 * time.Minute},
		"stops in the midst": {rate: 10_000_000, has: 32 << 20, most: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(newPool(flightBytes).lease("a"), newPool(flightBytes).lease("a"))
				line := &slow{rate: c.rate, has: c.has, ends: make(chan struct{})}
				defer close(line.ends)
				s := &bounded{ctx: t.Context(), raw: line, most: all, memory: m}
				begun := time.Now()
				data, err := s.arrive(all)
				require.LessOrEqual(t, time.Since(begun), c.most)
				if c.arrives {
					require.NoError(t, err)
					require.Len(t, data, all)
					return
				}
				require.True(t, fail.Is(err, fail.Timeout), "%v", err)
			})
		})
	}
}

// TestCallsWithoutCredentialsAreCounted by address, and those of a tenant by tenant.
func TestCallsWithoutCredentialsAreCounted(t *testing.T) {
	b := newBounds(nil, newPaces(0, nil), nil)
	var leave []func()
	for range limits.NamelessAddressCalls {
		l, err := b.waiting.enter("here")
		require.NoError(t, err)
		leave = append(leave, l)
	}
	_, err := b.waiting.enter("here")
	require.EqualError(t, err, "too many calls without credentials, from here or in all; try again later")
	for _, l := range leave {
		l()
	}
	_, err = b.waiting.enter("here")
	require.NoError(t, err)
	require.Equal(t, 1, b.waiting.all)
	for range limits.TenantCalls {
		_, err = b.admit("tenants/t", "t")
		require.NoError(t, err)
	}
	_, err = b.admit("tenants/t", "t")
	require.EqualError(t, err, `tenant "t" has 64 calls at a time, which is as many as may be; try again later`)
}

// TestALeaseThatEndsWhileItIsTaken gives all back, whoever is first.
func TestALeaseThatEndsWhileItIsTaken(t *testing.T) {
	p := newPool(8)
	for range 20_000 {
		l := p.lease("a")
		require.NoError(t, l.take(t.Context(), 4))
		done := make(chan struct{})
		go func() { _ = l.take(t.Context(), 4); close(done) }() // waits for what the end gives back
		l.end()
		<-done
		require.True(t, p.all.TryAcquire(8), "something is held by a call that has ended")
		p.all.Release(8)
	}
}

// asked is a Tenancy that is asked for tokens, and answers none of them until it is told to.
type asked struct {
	door.Tenancy
	now    atomic.Int64
	answer chan struct{}
}

func (a *asked) SpeakerBy(context.Context, string, string) (*service.Speaker, error) {
	a.now.Add(1)
	<-a.answer
	return nil, fail.New(fail.Unauthorized, "unknown")
}

// TestTokensAreLookedForAFewAtATime: of an address half of those, so that who sends what is none keeps no other address waiting.
func TestTokensAreLookedForAFewAtATime(t *testing.T) {
	store := &asked{answer: make(chan struct{})}
	b := newBounds(door.New(door.Parts{Tenancy: store}), newPaces(0, nil), nil)
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(tenantHeader, "tenant1", authorization, "Bearer x"))
	from := func(host string) context.Context {
		return peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(host), Port: 1}})
	}
	var calls sync.WaitGroup
	ask := func(host string) { calls.Go(func() { _, _ = b.known(from(host)) }) }
	for range 3 * authn.MostLookups {
		ask("192.0.2.1")
	}
	require.Eventually(t, func() bool { return store.now.Load() == authn.MostLookups/2 }, time.Minute, time.Millisecond)
	ask("192.0.2.2")
	require.Eventually(t, func() bool { return store.now.Load() > authn.MostLookups/2 }, time.Minute, time.Millisecond, "it need not wait")
	require.EqualValues(t, authn.MostLookups/2+1, store.now.Load())
	close(store.answer)
	calls.Wait()
	require.EqualValues(t, 3*authn.MostLookups+1, store.now.Load())
}
