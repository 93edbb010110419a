// Package connections makes what listens, and bounds its connections: of all, and of an address. Nothing is known yet of who calls, so that
// nothing else can be bound. A test of internal/arch sees to it that nothing of ours listens otherwise.
package connections

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/policy"
)

// Counted is a listener that closes what comes over the limits at once.
type Counted struct {
	net.Listener
	log      *slog.Logger
	all, one int // limits, 0 for none

	mu     sync.Mutex
	open   int
	of     map[string]int // by address
	logged time.Time
}

// New counts the connections of a listener: so many there may be, and so many of an address, of IPv6 of a network of 64 bits; 0 is no limit.
func New(l net.Listener, log *slog.Logger, all, one int) *Counted {
	return &Counted{Listener: l, log: log, all: all, one: one, of: map[string]int{}}
}

// Accept implements net.Listener.
func (l *Counted) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := authn.Host(c.RemoteAddr().String())
		if l.enter(host) {
			return &countedConn{Conn: c, leave: sync.OnceFunc(func() { l.leave(host) })}, nil
		}
		c.Close()
	}
}

func (l *Counted) enter(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (l.all == 0 || l.open < l.all) && (l.one == 0 || l.of[host] < l.one) {
		l.open++
		l.of[host]++
		return true
	}
	if now := time.Now(); now.Sub(l.logged) > policy.RefusedLog {
		l.logged = now
		l.log.LogAttrs(context.Background(), slog.LevelWarn, "connections are refused: there are too many",
			slog.String("address", host), slog.Int("ofAddress", l.of[host]), slog.Int("all", l.open))
	}
	return false
}

func (l *Counted) leave(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.of[host]--; l.of[host] == 0 {
		delete(l.of, host)
	}
}

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
