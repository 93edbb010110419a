package rpc

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

// TestConnectionsAreCounted: those over a limit are closed at once, and there is room again when one has ended.
func TestConnectionsAreCounted(t *testing.T) {
	for name, limit := range map[string][2]int{"of all": {2, 5}, "of an address": {5, 2}} {
		t.Run(name, func(t *testing.T) {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			l := newCounted(inner, slog.New(slog.DiscardHandler), limit[0], limit[1])
			defer l.Close()
			accepted := make(chan net.Conn, 10)
			go func() {
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					accepted <- c
				}
			}()
			dial := func() net.Conn {
				c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", inner.Addr().String())
				require.NoError(t, err)
				t.Cleanup(func() { c.Close() })
				return c
			}
			dial()
			dial()
			one, other := <-accepted, <-accepted
			third := dial()
			require.NoError(t, third.SetDeadline(time.Now().Add(time.Minute)))
			_, err = third.Read(make([]byte, 1))
			require.Error(t, err, "closed")
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Empty(t, accepted)
			one.Close()
			one.Close() // counts once
			dial()
			(<-accepted).Close()
			other.Close()
			require.Zero(t, l.open)
			require.Empty(t, l.of)
		})
	}
}

// TestALeaseGivesBackAll, whatever the call still asks for when it has ended.
func TestALeaseGivesBackAll(t *testing.T) {
	all := semaphore.NewWeighted(10)
	l, other := &lease{of: all}, &lease{of: all}
	require.NoError(t, l.take(t.Context(), 4))
	require.NoError(t, l.take(t.Context(), 4))
	require.EqualValues(t, 8, l.arrived())
	require.Zero(t, l.arrived())
	waits := make(chan error)
	go func() { waits <- other.take(t.Context(), 9) }()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, (&lease{of: all}).take(ended, 9), context.Canceled)
	l.give(4)
	select {
	case err := <-waits:
		require.Fail(t, "there is no room", "%v", err)
	default:
	}
	l.end()
	require.NoError(t, <-waits)
	other.end()
	require.Error(t, l.take(t.Context(), 1))
	require.True(t, all.TryAcquire(10))
}

// TestCallsWithoutCredentialsAreCounted by address.
func TestCallsWithoutCredentialsAreCounted(t *testing.T) {
	b := newBounds(nil, newPaces(0, nil), nil)
	var leave []func()
	for range maxNamelessOfOne {
		l, err := b.enter(t.Context())
		require.NoError(t, err)
		leave = append(leave, l)
	}
	_, err := b.enter(t.Context())
	require.ErrorContains(t, err, "too many")
	for _, l := range leave {
		l()
	}
	_, err = b.enter(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, b.all)
}

// TestALeaseThatEndsWhileItIsTaken gives all back, whoever is first.
func TestALeaseThatEndsWhileItIsTaken(t *testing.T) {
	all := semaphore.NewWeighted(4)
	for range 20_000 {
		l := &lease{of: all}
		require.NoError(t, l.take(t.Context(), 4))
		done := make(chan struct{})
		go func() { _ = l.take(t.Context(), 4); close(done) }() // waits for what the end gives back
		l.end()
		<-done
		require.True(t, all.TryAcquire(4), "something is held by a call that has ended")
		all.Release(4)
	}
}
