// Package freeport finds ports for servers that tests start.
//
// They are below those that the system gives to connections: none of them is taken for one, not even while a server that
// was killed, or a cluster that is down, is away from it. Of the ports that are left each process of tests has blocks to
// itself: it listens on the first port of a block as long as it lives.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

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

// Block gives n ports in a row, at most some hundred, that nobody listens on and that are given to nobody else.
func Block(n int) []int {
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

// Address gives one such port, on the loopback.
func Address() string { return address(Block(1)[0]) }

// takeBlock takes a block that no process has.
func takeBlock() {
	const blocks = (endOfPorts - firstPort) / portsInBlock
	for _, block := range rand.Perm(blocks) {
		first := firstPort + block*portsInBlock
		guard, err := net.Listen("tcp", address(first))
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
	l, err := net.Listen("tcp", address(port))
	return err == nil && l.Close() == nil
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
