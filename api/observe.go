package api

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/span"
)

func newHistogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "drover_http_request_duration_seconds",
		Help:    "Time to answer a request, by route template, method and status code.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"route", "method", "code"})
}

// isAPI leaves probes and pages out of traces and access logs.
func isAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, base+"/") }

// headerTrace tells a client the trace of its request, where traces are recorded.
const headerTrace = "Traceparent"

// observe names the span after the route, and counts and logs the answer. It has errors written here, so
// that their status is known. An answer of which a part was sent when it failed is cut off: it must not look as if that were all.
func (e *edge) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		begun := time.Now()
		if ctx := c.Request().Context(); span.TraceOf(ctx) != "" {
			c.Response().Header().Set(headerTrace, span.ParentOf(ctx))
		}
		partial := false
		if err := next(c); err != nil {
			partial = c.Response().Committed
			leaveUnread(c)
			c.Error(err)
			e.refused(c, err)
		}
		defer func() {
			if partial {
				panic(http.ErrAbortHandler)
			}
		}()
		took := time.Since(begun)
		r, status := c.Request(), c.Response().Status
		route := c.Path()
		if route == "" {
			route = "unknown" // an unknown path must not become a label
		}
		if c.Response().Header().Get(echo.HeaderContentType) != eventStream { // how long somebody watched is no time to answer
			e.seconds.WithLabelValues(route, methodLabel(r.Method), strconv.Itoa(status)).Observe(took.Seconds())
		}
		if !isAPI(r) {
			return nil
		}
		recorded := trace.SpanFromContext(r.Context())
		recorded.SetName(r.Method + " " + route)
		recorded.SetAttributes(attribute.String("http.route", route))
		ids := door.IDs(r.Context())
		if theirs := r.Header.Get(echo.HeaderXRequestID); theirs != "" {
			ids = append(ids, slog.String("clientRequestId", cut(theirs, maxID)))
		}
		e.log.With(ids...).InfoContext(r.Context(), "request", slog.String("method", cut(r.Method, maxID)), slog.String("path", cut(r.URL.Path, maxPath)), slog.Int("status", status),
			slog.Int64("bytes", c.Response().Size), slog.Duration("took", took), slog.String("remote", caller.RemoteOf(r.Context())))
		return nil
	}
}

// contextPassed says that a request has come to the door, which records what is refused from there on.
const contextPassed = "passed"

// refused records what was refused before: a host that is not ours, a page of another site, a body of another type or size, and what
// cannot be asked for. That there is no such path, or no such method, refuses nobody anything.
func (e *edge) refused(c echo.Context, err error) {
	status := problemOf(err).Status
	passed, _ := c.Get(contextPassed).(bool)
	if passed || status < http.StatusBadRequest || status >= statusClientClosedRequest ||
		status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		return
	}
	kind := fail.Malformed
	if !errors.As(err, new(*echo.HTTPError)) {
		kind = fail.KindOf(err)
	}
	e.door.Refused(c.Request().Context(), c.Request().Method, c.Request().URL.Path, kind)
}

// methods are those that no client has invented.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// methodLabel keeps methods that a client invents out of the labels.
func methodLabel(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return "other"
}

// panicked is told where a handler panicked that was not behind the door; the client sees an internal error.
func panicked(c echo.Context, err error, stack []byte) error {
	return panics.Caught(c.Request().Context(), err, stack)
}
