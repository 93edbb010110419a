package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// Front is an address of a process that answers from its start: that the process lives, and what it waits for. Who looks after processes would
// otherwise take one that waits for its database for one that is broken, and start it anew for ever. Once the parts are there they answer.
type Front struct {
	Address string // it listens at

	waits  atomic.Pointer[string] // what Connect waits for
	opened chan struct{}          // closed when next is set
	next   http.Handler

	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{} // closed when err is set
	err    error
}

// OpenAPI takes the address of the API, so that one in use is an error before anything is waited for. It answers until ctx ends, then drains;
// Close must be called.
func OpenAPI(ctx context.Context, c *config.Config, log *slog.Logger) (*Front, error) {
	certificates, err := c.TLS.Config(log, "h2", "http/1.1")
	if err != nil {
		return nil, err
	}
	l, err := connections.Listen(ctx, c.Listen, "the REST API (--listen)")
	if err != nil {
		return nil, err
	}
	secured := connections.Secured(connections.New(l, log, c.Fair.Connections, c.Fair.AddressConnections), certificates)
	f := newFront(ctx)
	f.Address = l.Addr().String()
	f.run(func() error { return api.Serve(f.ctx, secured, f, log, c.Drain) })
	return f, nil
}

// OpenHealth is OpenAPI for the address of a worker's health and metrics.
func OpenHealth(ctx context.Context, c *config.Config, log *slog.Logger) (*Front, error) {
	certificates, err := c.TLS.Config(log, "http/1.1")
	if err != nil {
		return nil, err
	}
	f := newFront(ctx)
	f.Address = c.MetricsListen
	wait, err := connections.Side{
		Address: c.MetricsListen, Purpose: "metrics (--metrics-listen)", TLS: certificates, Names: c.AllowedHosts, Handler: f, Log: log,
	}.Serve(f.ctx)
	if err != nil {
		f.cancel()
		return nil, err
	}
	f.run(wait)
	return f, nil
}

func newFront(ctx context.Context) *Front {
	f := &Front{opened: make(chan struct{}), ended: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(ctx)
	f.waitFor("its start")
	return f
}

// run notes how serving ends.
func (f *Front) run(serve func() error) {
	go func() {
		defer close(f.ended)
		f.err = panics.Do(f.ctx, serve)
	}()
}

// waitFor has it say what the process waits for. A nil Front says nothing.
func (f *Front) waitFor(what string) {
	if f != nil {
		f.waits.Store(&what)
	}
}

// open has a handler answer from now on. It is called once.
func (f *Front) open(next http.Handler) {
	f.next = next
	close(f.opened)
}

// until returns when ctx has ended, or serving, and the requests have.
func (f *Front) until(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-f.ended:
	}
	f.Close()
	return f.err
}

// Close ends it, and returns when the requests have ended.
func (f *Front) Close() {
	f.cancel()
	<-f.ended
}

// ServeHTTP implements http.Handler. Before the parts are there it answers probes at once, and has others wait for a moment: after a start
// of a process whose dependencies answer, which is the usual one, nobody is refused.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
	if !probe {
		f.stand(r.Context())
	}
	select {
	case <-f.opened:
		f.next.ServeHTTP(w, r)
		return
	default:
	}
	if r.URL.Path == "/healthz" {
		fmt.Fprintln(w, "ok")
		return
	}
	w.Header().Set("Retry-After", fmt.Sprint(int(policy.StartRetry.Seconds())))
	w.Header().Set("Drover-Undone", "true") // it was passed on to nobody
	p := fail.Problem{
		Title: http.StatusText(http.StatusServiceUnavailable), Status: http.StatusServiceUnavailable, Kind: fail.Unavailable,
		Detail: "not ready: this process waits for " + *f.waits.Load(),
	}
	if !strings.Contains(r.Header.Get("Accept"), "json") {
		http.Error(w, p.Detail, p.Status)
		return
	}
	w.Header().Set("Content-Type", fail.ProblemJSON) // by which the command tells the API's answer from a proxy's
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // who has asked is gone
}

// stand waits until the parts are there, policy.Start at the most.
func (f *Front) stand(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, policy.Start)
	defer cancel()
	select {
	case <-f.opened:
	case <-f.ctx.Done():
	case <-ctx.Done():
	}
}
