package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ports are below those that the system gives to connections: none of them is taken for one, not even while a server
// that was killed, or a cluster that is down, is away from it. Of the ports that are left each process of tests has
// blocks to itself: it listens on the first port of a block as long as it lives.
const (
	firstPort, endOfPorts = 15_000, 32_000
	portsInBlock          = 500
)

// ports are those of this process that are not given out yet.
var ports struct {
	mu     sync.Mutex
	next   int
	end    int
	guards []net.Listener
}

// FreePorts gives n ports in a row, at most some hundred, that nobody listens on and that are given to nobody else.
func FreePorts(n int) []int {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for {
		if ports.end-ports.next < n {
			takeBlock()
		}
		base := ports.next
		free := 0
		for free < n && isFree(base+free) {
			free++
		}
		if free < n { // somebody from elsewhere is there
			ports.next = base + free + 1
			continue
		}
		ports.next = base + n
		given := make([]int, n)
		for i := range given {
			given[i] = base + i
		}
		return given
	}
}

// takeBlock takes a block that no process has.
func takeBlock() {
	const blocks = (endOfPorts - firstPort) / portsInBlock
	for _, block := range rand.Perm(blocks) {
		first := firstPort + block*portsInBlock
		guard, err := net.Listen("tcp", local(first))
		if err != nil {
			continue
		}
		ports.guards = append(ports.guards, guard)
		ports.next, ports.end = first+1, first+portsInBlock
		return
	}
	panic(fmt.Sprintf("all ports from %d to %d are taken", firstPort, endOfPorts))
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

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
