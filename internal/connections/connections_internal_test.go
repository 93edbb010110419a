package connections

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestConnectionsAreCounted: those over a limit are closed at once, and there is room again when one has ended.
func TestConnectionsAreCounted(t *testing.T) {
	for name, limit := range map[string][2]int{"of all": {2, 0}, "of an address": {0, 2}, "both": {5, 2}} {
		t.Run(name, func(t *testing.T) {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			l := New(inner, slog.New(slog.DiscardHandler), limit[0], limit[1])
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
