package harness

import (
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// line is a listener with the connections that came by it, which can be cut.
type line struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	down  bool
}

func listen(t testing.TB, addr string) *line {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	return &line{Listener: l}
}

// Accept accepts no connection that would outlive the line.
func (l *line) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		c.Close()
		return nil, net.ErrClosed
	}
	l.conns = append(l.conns, c)
	return c, nil
}

// cut refuses connections from now on, and ends those that there are.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	l.Close()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}
