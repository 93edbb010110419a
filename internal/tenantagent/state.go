package tenantagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/limits"
)

// state is what health and metrics say of the agent.
type state struct {
	metrics *prometheus.Registry
	leader  prometheus.Gauge
	streams prometheus.Gauge
	pods    prometheus.Gauge
	syncs   prometheus.Counter
	changes *prometheus.CounterVec
	ends    *prometheus.CounterVec
	rules   *prometheus.GaugeVec

	mu       sync.Mutex
	speaking bool  // a stream is open, and its sync sent
	failure  error // with which the last stream has ended
	scopes   *scopes
}

func newState(more prometheus.Collector) *state {
	gauge := func(name, about string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "drover", Subsystem: "tenant_agent", Name: name, Help: about})
	}
	counter := func(name, about string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "drover", Subsystem: "tenant_agent", Name: name, Help: about}, labels)
	}
	s := &state{
		metrics: prometheus.NewRegistry(),
		leader:  gauge("leader", "Whether this agent has the Lease."),
		streams: gauge("connected", "Whether a stream is open on which all was told."),
		pods:    gauge("pods", "Pods that are told of."),
		syncs:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "drover", Subsystem: "tenant_agent", Name: "syncs_total", Help: "Syncs that were sent."}),
		changes: counter("changes_total", "Changes that were sent.", "kind"),
		ends:    counter("stream_ends_total", "Streams that have ended, or could not be begun.", "code"),
		rules: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "drover", Subsystem: "tenant_agent", Name: "rules", Help: "WorkloadRules of the cluster, by the reason of their condition Synced.",
		}, []string{"reason"}),
	}
	s.metrics.MustRegister(s.leader, s.streams, s.pods, s.syncs, s.changes, s.ends, s.rules,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if more != nil {
		s.metrics.MustRegister(more)
	}
	return s
}

func (s *state) leads(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set(s.leader, is)
	if !is { // what another agent tells of now
		s.pods.Set(0)
		s.rules.Reset()
	}
}

func (s *state) follow(x *scopes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes = x
}

// synced says that all was told.
func (s *state) synced(pods int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.speaking, s.failure = true, nil
	set(s.streams, true)
	s.syncs.Inc()
	s.pods.Set(float64(pods))
}

// told says that changes were.
func (s *state) told(gone, update, pods int) {
	s.changes.WithLabelValues("delete").Add(float64(gone))
	s.changes.WithLabelValues("update").Add(float64(update))
	s.pods.Set(float64(pods))
}

// carries says how many WorkloadRules there are, by the reason of their condition.
func (s *state) carries(reasons map[string]int) {
	s.rules.Reset()
	for reason, n := range reasons {
		s.rules.WithLabelValues(reason).Set(float64(n))
	}
}

// ended says that a stream has, or could not be begun.
func (s *state) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.speaking, s.failure = false, err
	set(s.streams, false)
	s.ends.WithLabelValues(status.Code(err).String()).Inc()
}

func set(g prometheus.Gauge, is bool) {
	if is {
		g.Set(1)
		return
	}
	g.Set(0)
}

// ready says why the server does not know what runs; nil when it does, or when another agent has to see to that.
func (s *state) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.scopes == nil:
		return nil
	case s.scopes.problem() != nil:
		return s.scopes.problem()
	case s.failure != nil:
		return fmt.Errorf("the stream has ended: %s", words(s.failure))
	case !s.speaking:
		return errors.New("the stream is being begun")
	default:
		return nil
	}
}

// listen answers who asks for health and metrics, until ctx ends.
func (a *agent) listen(ctx context.Context) (wait func() error, err error) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.state.metrics, promhttp.HandlerOpts{MaxRequestsInFlight: limits.Gathers}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.state.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	c := a.config
	return connections.Side{
		Address: c.Listen, Purpose: "metrics (--metrics-listen)", TLS: c.TLS, Names: c.Names, Handler: mux, Log: c.Log,
	}.Serve(ctx)
}
