// Package api is the HTTP edge: EMCO's /v2 REST API over the service, and nothing else knows HTTP. The
// plain verbs of all nouns are written once (resource.go); routes.go has the whole API on one screen;
// errors.go has the one table of kinds and status codes. Handlers return errors; only writeError answers
// with them.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/service"
)

// base is where the API is.
const base = "/v2"

// Deps are what the edge needs. MaxBody and Metrics have defaults; the rest is required.
type Deps struct {
	Service   *service.Service
	Lifecycle Lifecycle
	Status    StatusQuery
	Watches   *notify.Hub // of statuses
	Explain   ExplainQuery
	Cluster   ClusterQuery
	Journal   Journal
	Fleet     Fleet
	// Ready are the questions of /readyz, by the name of what is asked.
	Ready map[string]func(context.Context) error
	Log   *slog.Logger
	// Metrics is what /metrics shows; a registry of its own when nil.
	Metrics *prometheus.Registry
	// MaxBody bounds a request's body in bytes; DefaultMaxBody when 0.
	MaxBody int64
	// Listen is the address that is listened at. Its name, loopback's and Hosts are those that requests may be for;
	// Origins are the pages of other sites that may write.
	Listen         string
	Hosts, Origins []string
	// Operations is how many operations are being begun at a time; DefaultOperations when 0.
	Operations int
	// BodyWait is how long a body may stand still; DefaultBodyWait when 0.
	BodyWait time.Duration
	// KubeconfigDownload lets a cluster's kubeconfig be read back.
	KubeconfigDownload bool
}

// DefaultMaxBody is EMCO's limit of an upload.
const DefaultMaxBody = 1 << 30

// edge holds what the handlers need.
type edge struct {
	service      *service.Service
	lifecycle    Lifecycle
	statusQuery  StatusQuery
	explainQuery ExplainQuery
	clusterQuery ClusterQuery
	journal      Journal
	fleet        Fleet
	watches      *notify.Hub
	ready        map[string]func(context.Context) error
	kubeconfigs  bool // may be read back
	rooms        map[room]places
	templates    []string // of all paths, for those that are not there
	log          *slog.Logger
	seconds      *prometheus.HistogramVec
}

// New makes the router.
func New(d Deps) (*echo.Echo, error) {
	if d.Metrics == nil {
		d.Metrics = prometheus.NewRegistry()
	}
	if d.MaxBody == 0 {
		d.MaxBody = DefaultMaxBody
	}
	if d.Operations == 0 {
		d.Operations = DefaultOperations
	}
	if d.BodyWait == 0 {
		d.BodyWait = DefaultBodyWait
	}
	e := &edge{
		rooms: newRooms(d.Operations), service: d.Service, lifecycle: d.Lifecycle, statusQuery: d.Status, explainQuery: d.Explain, clusterQuery: d.Cluster,
		journal: d.Journal, fleet: d.Fleet, watches: d.Watches,
		ready: d.Ready, kubeconfigs: d.KubeconfigDownload, log: d.Log,
		seconds: newHistogram(),
	}
	guarded, err := guard(d.Listen, d.Hosts, d.Origins)
	if err != nil {
		return nil, err
	}
	if err := d.Metrics.Register(e.seconds); err != nil {
		return nil, err
	}
	router := echo.New()
	router.HTTPErrorHandler = e.writeError
	// What observes a request stands around what may panic or refuse it, so that it sees every answer.
	router.Use(
		middleware.RequestID(),
		echo.WrapMiddleware(otelhttp.NewMiddleware("drover api", otelhttp.WithFilter(isAPI))),
		e.observe,
		middleware.RecoverWithConfig(middleware.RecoverConfig{DisableErrorHandler: true, LogErrorFunc: e.logPanic}),
		guarded,
		limitBody(d.MaxBody, d.BodyWait),
		typed,
		identify,
	)
	endpoints := e.operations()
	for _, r := range e.resources() {
		endpoints = append(endpoints, r.endpoints(e)...)
	}
	for _, p := range endpoints {
		router.Add(p.method, base+p.path, e.bound(p))
		e.templates = append(e.templates, base+p.path)
	}
	document, err := openAPI(endpoints)
	if err != nil {
		return nil, err
	}
	router.GET("/openapi.json", func(c echo.Context) error { return c.JSONBlob(http.StatusOK, document) })
	serveDocs(router)
	router.GET("/healthz", healthz)
	router.GET("/readyz", e.readyz)
	router.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(d.Metrics, promhttp.HandlerOpts{})))
	return router, nil
}

// bound gives an endpoint's requests their deadline and their place. A stream has neither.
func (e *edge) bound(p endpoint) echo.HandlerFunc {
	if p.limit == unlimited {
		return p.handle
	}
	handle := admit(e.rooms[p.room], within(p.limit, p.handle))
	if p.in != nil && p.room != uploading {
		return received(handle)
	}
	return handle
}

// within gives a request its deadline; plainTime when limit is 0, none when it is unlimited.
func within(limit time.Duration, next echo.HandlerFunc) echo.HandlerFunc {
	if limit == unlimited {
		return next
	}
	if limit == 0 {
		limit = plainTime
	}
	return func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), limit)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}
