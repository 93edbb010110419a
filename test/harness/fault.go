package harness

import (
	"net/http"
	"sync/atomic"
)

// Fault handles a request in the proxy's place; next forwards it.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Harm makes the proxy do f; nil ends it.
func (c *Cluster) Harm(f Fault) {
	if f == nil {
		c.fault.Store(nil)
		return
	}
	c.fault.Store(&f)
}

// Hang makes every request wait until its caller leaves.
func Hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }

// Gate keeps a cluster in the middle of an operation: it lets some writes through and holds the others, until it is
// opened or their callers leave.
type Gate struct {
	method string
	left   atomic.Int64
	opened chan struct{}
}

// Gate puts a gate before the cluster, through which n writes get with a method; any when it is "".
func (c *Cluster) Gate(method string, n int) *Gate {
	g := &Gate{method: method, opened: make(chan struct{})}
	g.left.Store(int64(n))
	c.Harm(g.pass)
	return g
}

// Open lets everything through, once.
func (g *Gate) Open() { close(g.opened) }

func (g *Gate) pass(w http.ResponseWriter, r *http.Request, next http.Handler) {
	held := r.Method == g.method || g.method == "" && r.Method != http.MethodGet
	if held && g.left.Add(-1) < 0 {
		select {
		case <-g.opened:
		case <-r.Context().Done():
			return
		}
	}
	next.ServeHTTP(w, r)
}
