package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/nearest"
	"github.com/drover-io/drover/internal/span"
)

// statuses is the one place where a Kind becomes an HTTP status. A body that cannot be read is 422, as
// EMCO's clients expect.
var statuses = map[fail.Kind]int{
	fail.Invalid:      http.StatusBadRequest,
	fail.Malformed:    http.StatusUnprocessableEntity,
	fail.Unauthorized: http.StatusUnauthorized,
	fail.Forbidden:    http.StatusForbidden,
	fail.NotFound:     http.StatusNotFound,
	fail.Conflict:     http.StatusConflict,
	fail.Precondition: http.StatusPreconditionFailed,
	fail.Exhausted:    http.StatusTooManyRequests,
	fail.Aborted:      http.StatusConflict,
	fail.Unavailable:  http.StatusServiceUnavailable,
	fail.Timeout:      http.StatusGatewayTimeout,
	fail.Internal:     http.StatusInternalServerError,
}

// coded is an error for which HTTP has a code of its own, other than that of its kind.
type coded struct {
	error
	code int
}

// Unwrap is for package errors.
func (c *coded) Unwrap() error { return c.error }

// statusClientClosedRequest is nginx's code for a client that left; nobody reads it but the logs.
const statusClientClosedRequest = 499

const (
	internalText = "The server encountered an internal error and was unable to complete your request."
	notFoundText = "404 page not found"
)

// problemOffers are what an error is asked for as; both kinds of JSON are answered with fail.ProblemJSON.
var problemOffers = []string{echo.MIMETextPlain, fail.ProblemJSON, echo.MIMEApplicationJSON}

// problemOf says what a client may know of an error.
func problemOf(err error) fail.Problem {
	p := fail.Problem{Status: http.StatusInternalServerError, Detail: internalText, Kind: fail.Internal}
	var known *fail.Error
	var unrouted *echo.HTTPError
	var special *coded
	switch {
	case errors.Is(err, context.Canceled):
		p.Status, p.Detail, p.Kind = statusClientClosedRequest, "the client closed the request", ""
	// Ours comes before echo's: an error of ours may wrap one of echo's.
	case errors.As(err, &known), errors.Is(err, context.DeadlineExceeded):
		kind := fail.KindOf(err)
		p.Status, p.Detail, p.Kind, p.Errors = statuses[kind], fail.TextOf(err), kind, fail.FieldsOf(err)
		if errors.As(err, &special) {
			p.Status = special.code
		}
	case errors.As(err, &unrouted):
		p.Status, p.Detail, p.Kind = unrouted.Code, "", ""
		switch text, ok := unrouted.Message.(string); {
		case unrouted.Code == http.StatusNotFound:
			p.Detail = notFoundText
		case ok && unrouted.Code != http.StatusMethodNotAllowed:
			p.Detail = text
		}
	}
	if p.Title = http.StatusText(p.Status); p.Status == statusClientClosedRequest {
		p.Title = "Client Closed Request"
	}
	return p
}

// hint says what there is instead of a path or a method that is not there.
func (e *edge) hint(c echo.Context, p *fail.Problem) {
	switch {
	case p.Status == http.StatusNotFound && p.Kind == "":
		if near := nearest.Path(c.Request().URL.Path, e.templates); near != "" {
			path, _ := braces(near)
			p.Detail += "\nthe nearest path is " + path
		}
	case p.Status == http.StatusMethodNotAllowed:
		routes, _ := c.Get(echo.ContextKeyHeaderAllow).(string)
		allowed := allowing(routes)
		c.Response().Header().Set(echo.HeaderAllow, allowed)
		p.Detail = fmt.Sprintf("%s is not possible here; what is: %s", c.Request().Method, strings.TrimPrefix(allowed, "OPTIONS, "))
	}
}

// isOurs says whether an error has words of its own.
func isOurs(err error) bool {
	var known *fail.Error
	return errors.As(err, &known)
}

// worth says whether a failure is worth a line of the log, and at which level. What does not answer, or has no room, is no defect of the
// API's; and that probes and pages find it so is none of the log's, as anybody may ask for them as often as he likes.
func worth(p fail.Problem, r *http.Request, committed bool) (slog.Level, bool) {
	passes := !committed && (p.Kind == fail.Unavailable || p.Kind == fail.Timeout)
	switch {
	case passes && !isAPI(r) && !slices.Contains([]string{loginPath, callbackPath, logoutPath}, r.URL.Path):
		return 0, false
	case passes:
		return slog.LevelWarn, true
	default:
		return slog.LevelError, p.Status >= http.StatusInternalServerError || committed && p.Status != statusClientClosedRequest
	}
}

// writeError is the only place that answers with an error.
func (e *edge) writeError(err error, c echo.Context) {
	p := problemOf(err)
	e.hint(c, &p)
	ctx, r, w := c.Request().Context(), c.Request(), c.Response()
	if p.Kind == fail.Timeout && !isOurs(err) {
		p.Detail = fmt.Sprintf("%s %s took too long; look whether it was done before you try again", r.Method, r.URL.Path)
	}
	p.RequestID, p.TraceID = w.Header().Get(echo.HeaderXRequestID), span.TraceOf(ctx)
	if level, worth := worth(p, r, w.Committed); worth {
		e.log.With(door.IDs(ctx)...).Log(ctx, level, "request failed", slog.String("method", r.Method),
			slog.String("path", r.URL.Path), slog.Int("status", p.Status), slog.Any("error", err))
	}
	if w.Committed {
		return
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set(echo.HeaderWWWAuthenticate, "Bearer")
	}
	if after := fail.RetryAfterOf(err); after > 0 {
		w.Header().Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	if fail.IsUndone(err) {
		w.Header().Set(headerUndone, "true")
	}
	if err := writeProblem(c, p); err != nil {
		e.log.DebugContext(ctx, "error not sent", slog.String("requestId", p.RequestID), slog.Any("error", err))
	}
}

func writeProblem(c echo.Context, p fail.Problem) error {
	if form, ok := negotiate(c.Request().Header.Values(echo.HeaderAccept), problemOffers); ok && form != problemOffers[0] {
		data, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return c.Blob(p.Status, fail.ProblemJSON, append(data, '\n'))
	}
	if p.Detail == "" {
		return c.NoContent(p.Status)
	}
	c.Response().Header().Set(echo.HeaderXContentTypeOptions, "nosniff")
	return c.Blob(p.Status, "text/plain; charset=utf-8", []byte(p.Detail+"\n"))
}
