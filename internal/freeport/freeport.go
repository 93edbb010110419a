// Package freeport finds ports for servers that tests start.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Block is n ports in a row that are free now, below those that the system gives to connections and to who asks for any:
// nobody takes them by chance until they are used.
func Block(n int) []int {
	const first, last = 15_000, 32_000
	for {
		base := first + rand.IntN(last-first-n)
		ports := make([]int, 0, n)
		for port := base; port < base+n && free(port); port++ {
			ports = append(ports, port)
		}
		if len(ports) == n {
			return ports
		}
	}
}

// Address is one such port, on the loopback.
func Address() string { return address(Block(1)[0]) }

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	return err == nil && l.Close() == nil
}
