// Package freeport gives ports to servers that tests start.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports are below those that the system gives to connections and to who asks for any: none of them is taken for one,
// not even while a server that was killed, or that a test has taken away, is to come back to it. They are divided into
// ranges, and a process has a range to itself for as long as it lives: it listens on the range's first port.
const (
	first, end   = 15_000, 32_000
	portsInRange = 500
)

// given is what this process has.
var given struct {
	mu     sync.Mutex
	next   int // that was not given yet
	end    int // of the range
	guards []net.Listener
}

// Block is n ports in a row, some hundred at the most, that nobody listens on and that nobody else is given.
func Block(n int) []int {
	given.mu.Lock()
	defer given.mu.Unlock()
	for {
		if given.end-given.next < n {
			takeRange()
		}
		ports := make([]int, 0, n)
		for port := given.next; port < given.next+n && free(port); port++ {
			ports = append(ports, port)
		}
		given.next += len(ports)
		if len(ports) == n {
			return ports
		}
		given.next++ // somebody from elsewhere is there
	}
}

func takeRange() {
	for _, i := range rand.Perm((end - first) / portsInRange) {
		port := first + i*portsInRange
		guard, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		given.guards = append(given.guards, guard)
		given.next, given.end = port+1, port+portsInRange
		return
	}
	panic(fmt.Sprintf("all ranges of ports from %d to %d are taken", first, end))
}

// Address is one such port, on the loopback.
func Address() string { return address(Block(1)[0]) }

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	return err == nil && l.Close() == nil
}
