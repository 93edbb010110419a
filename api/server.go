// Package api is the HTTP edge: EMCO's /v2 REST API over the service, and nothing else knows HTTP. The
// plain verbs of all nouns are written once (resource.go); routes.go has the whole API on one screen;
// errors.go has the one table of kinds and status codes. Handlers return errors; only writeError answers
// with them.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// base is where the API is.
const base = "/v2"

// Deps are what the edge needs. MaxBody and Metrics have defaults; the rest is required.
type Deps struct {
	// Door is the way to all that is asked for below /v2.
	Door *door.Door
	// Prove says who calls; without it everybody is anonymous.
	Prove authn.Prover
	// Login is how people log in.
	Login Login
	// Ready are the questions of /readyz, by the name of what is asked. Beside are those that it names and that do not decide: without
	// what they ask for, most of what is asked of the API is answered.
	Ready, Beside map[string]func(context.Context) error
	Log           *slog.Logger
	// Installation is the id of the installation.
	Installation string
	// Metrics is what /metrics shows; a registry of its own when nil.
	Metrics *prometheus.Registry
	// MaxBody bounds a request's body in bytes; limits.Body when 0.
	MaxBody int64
	// Listen is the address that is listened at. Its name, loopback's and Hosts are those that requests may be for;
	// Origins are the pages of other sites that may write.
	Listen         string
	Hosts, Origins []string
	// BodyWait is how long a body may stand still, and an answer that nobody takes; DefaultBodyWait when 0.
	BodyWait time.Duration
	// Histories opens payloads for Temporal's Web UI, nil for nowhere; WebUIs are the origins of its pages.
	Histories http.Handler
	WebUIs    []string
	// KubeconfigDownload lets a cluster's kubeconfig be read back.
	KubeconfigDownload bool
}

// edge holds what the handlers need.
type edge struct {
	door        *door.Door
	ready       *Probe   // without what it asks for no request is answered
	beside      *Probe   // only named
	kubeconfigs bool     // may be read back
	templates   []string // of all paths, for those that are not there
	verbs       verbs    // that endpoints have

	installation string
	log          *slog.Logger
	seconds      *prometheus.HistogramVec
	login        Login
}

// New makes the router.
func New(d Deps) (*echo.Echo, error) {
	if d.Metrics == nil {
		d.Metrics = prometheus.NewRegistry()
	}
	if d.MaxBody == 0 {
		d.MaxBody = limits.Body
	}
	if d.BodyWait == 0 {
		d.BodyWait = DefaultBodyWait
	}
	e := &edge{door: d.Door, ready: NewProbe(policy.Ready, d.Ready), beside: NewProbe(policy.ReadyBeside, d.Beside), kubeconfigs: d.KubeconfigDownload, log: d.Log, seconds: newHistogram(), login: d.Login, installation: d.Installation}
	guarded, err := guard(d.Listen, d.Hosts, d.Origins, d.WebUIs)
	if err != nil {
		return nil, err
	}
	if err := d.Metrics.Register(e.seconds); err != nil {
		return nil, err
	}
	router := echo.New()
	router.HTTPErrorHandler = e.writeError
	router.Pre(plural, slashed)
	// What observes a request stands around what may panic or refuse it, so that it sees every answer.
	router.Use(
		// Its own metrics would have the names of hosts that clients make up. Who asks is not known yet: what he says of his trace is a link.
		echo.WrapMiddleware(otelhttp.NewMiddleware("drover api", otelhttp.WithFilter(isAPI), otelhttp.WithMeterProvider(noop.NewMeterProvider()),
			otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }))),
		identify,
		e.observe,
		middleware.RecoverWithConfig(middleware.RecoverConfig{DisableErrorHandler: true, LogErrorFunc: panicked}),
		guarded,
		shared(d.WebUIs),
		e.prove(d.Prove),
		limitBody(d.MaxBody, d.BodyWait),
		typed,
		headed(router),
	)
	endpoints := e.operations()
	for _, r := range e.resources() {
		endpoints = append(endpoints, r.endpoints(e)...)
	}
	e.verbs = verbsOf(endpoints)
	for _, p := range endpoints {
		router.Add(p.method, base+p.path, e.pass(p))
		e.templates = append(e.templates, base+p.path)
	}
	// To make it takes a tenth of a second, more than all else here. Few ask for it.
	document := sync.OnceValues(func() ([]byte, error) { return openAPI(endpoints) })
	router.GET("/openapi.json", func(c echo.Context) error {
		data, err := document()
		if err != nil {
			return err
		}
		return c.JSONBlob(http.StatusOK, data)
	})
	serveDocs(router)
	e.serveLogin(router)
	if err := servePage(router); err != nil {
		return nil, err
	}
	router.GET("/healthz", healthz)
	router.GET("/version", showVersion)
	router.GET("/readyz", e.readyz)
	if d.Histories != nil {
		router.POST(codecPath, e.codec(d.Histories))
	}
	router.GET(metricsPath, e.metrics(promhttp.HandlerFor(d.Metrics, promhttp.HandlerOpts{})))
	return router, nil
}
