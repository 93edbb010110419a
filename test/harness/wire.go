package harness

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Wire stands between the product and a server, and does harm to what they say to each other. It ends with the test.
type Wire struct {
	listener net.Listener
	to       string
	mute     atomic.Bool
	asks     atomic.Int64 // how much longer what is asked takes, in nanoseconds
	says     atomic.Int64 // and what is answered
	open     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // of both sides
	ended bool
}

// NewWire makes one to a server at an address.
func NewWire(t testing.TB, to string) *Wire {
	t.Helper()
	w := wireAt(t, "127.0.0.1:0", to)
	t.Cleanup(w.close)
	return w
}

// wireAt makes one that is reached at an address, and lasts until it is closed.
func wireAt(t testing.TB, address, to string) *Wire {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	w := &Wire{listener: listener, to: to, conns: map[net.Conn]struct{}{}}
	w.open.Go(w.accept)
	return w
}

// close refuses connections from now on, and ends those that there are.
func (w *Wire) close() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	_ = w.listener.Close()
	w.cut()
	w.open.Wait()
}

// Address is where the server is reached by it.
func (w *Wire) Address() string { return w.listener.Addr().String() }

// Lose loses what the server says from now on. What it is asked it does. heal ends the connections of that time, so that who has asked
// does not learn what has become of it.
func (w *Wire) Lose() (heal func()) {
	w.mute.Store(true)
	return func() {
		w.mute.Store(false)
		w.cut()
	}
}

// Delay has each piece of what is said take longer, in both directions.
func (w *Wire) Delay(by time.Duration) (heal func()) {
	w.asks.Store(int64(by))
	w.says.Store(int64(by))
	return func() {
		w.asks.Store(0)
		w.says.Store(0)
	}
}

func (w *Wire) accept() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.open.Go(func() { w.serve(from) })
	}
}

func (w *Wire) serve(from net.Conn) {
	defer w.forget(from)
	if !w.keep(from) {
		return
	}
	dialer := net.Dialer{Timeout: time.Second}
	to, err := dialer.DialContext(context.Background(), "tcp", w.to)
	if err != nil {
		return
	}
	defer w.forget(to)
	if !w.keep(to) {
		return
	}
	w.open.Go(func() { // who asks
		w.pass(to, from, &w.asks, func() bool { return true })
		_ = to.Close()
	})
	w.pass(from, to, &w.says, func() bool { return !w.mute.Load() })
}

// pass hands on what is said from one to the other, later by so much, if it is to be heard.
func (w *Wire) pass(to io.Writer, from io.Reader, later *atomic.Int64, heard func() bool) {
	buffer, lost := make([]byte, 64<<10), false
	for {
		n, err := from.Read(buffer)
		if by := time.Duration(later.Load()); by > 0 && n > 0 {
			<-time.After(by)
		}
		if lost = lost || n > 0 && !heard(); n > 0 && !lost { // nothing comes after what is missing
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keep notes a connection, unless the test has ended.
func (w *Wire) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.conns[c] = struct{}{}
	}
	return !w.ended
}

func (w *Wire) forget(c net.Conn) {
	_ = c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

// cut ends all connections.
func (w *Wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}
