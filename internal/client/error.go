package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// Error is an answer that is not 2xx. It wraps the fail error that the server has answered with.
type Error struct {
	Method, Path string
	Code         int
	Body         string // what it says
	// RequestID finds the request in the server's log, "" when the answer does not say it.
	RequestID string

	problem *fail.Error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %d %s", e.Method, e.Path, e.Code, e.Body)
}

// Unwrap is the fail error.
func (e *Error) Unwrap() error { return e.problem }

// refused reads an answer that is not 2xx. One that neither is a problem nor has the id that the API gives each request is none of its: a proxy's
// 404 does not say that something is not there.
func refused(res *http.Response, body []byte, method, path string) error {
	e := &Error{Method: method, Path: path, Code: res.StatusCode, Body: string(bytes.TrimSpace(body)), RequestID: res.Header.Get("X-Request-Id")}
	e.problem = &fail.Error{Kind: kindOf(res.StatusCode), Message: e.Body}
	if to := res.Header.Get("Location"); res.StatusCode/100 == 3 && to != "" {
		e.Body = fmt.Sprintf("the API redirects to %q, which is not followed: name the server that answers itself", to)
		e.problem.Kind, e.problem.Message = fail.Malformed, e.Body // which asking again does not help
		return e
	}
	isProblem := strings.HasPrefix(res.Header.Get("Content-Type"), fail.ProblemJSON)
	if !isProblem && e.RequestID == "" {
		switch res.StatusCode { // a proxy's word on this one request, and no other
		case http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge:
			e.Body = fmt.Sprintf("something before the API does not let it through: %s", http.StatusText(res.StatusCode))
			e.problem.Kind, e.problem.Message = fail.Malformed, e.Body
			return e
		}
		return notOurs(res, body, method, path)
	}
	var p fail.Problem
	if isProblem && json.Unmarshal(body, &p) == nil {
		e.Body = p.Detail
		if p.Kind.Known() {
			e.problem.Kind = p.Kind
		}
		// The detail has the message, then the fields.
		e.problem.Message, e.problem.Fields = p.Detail, p.Errors
		if fields := (&fail.Error{Fields: p.Errors}).Text(); fields != "" {
			e.problem.Message = strings.TrimRight(strings.TrimSuffix(p.Detail, fields), " \n")
		}
	}
	e.problem.RetryAfter, e.problem.Undone = retryAfter(res), res.Header.Get("Drover-Undone") == "true"
	return e
}

// retryAfter is when an answer says that it may be asked again, 0 where it does not.
func retryAfter(res *http.Response) time.Duration {
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// kindOf is the kind of an error whose answer has only a code.
func kindOf(code int) fail.Kind {
	switch code {
	case http.StatusBadRequest:
		return fail.Invalid
	case http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType, http.StatusNotAcceptable:
		return fail.Malformed
	case http.StatusUnauthorized:
		return fail.Unauthorized
	case http.StatusForbidden:
		return fail.Forbidden
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fail.NotFound
	case http.StatusConflict:
		return fail.Conflict
	case http.StatusPreconditionFailed:
		return fail.Precondition
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusBadGateway:
		return fail.Unavailable
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return fail.Timeout
	default:
		return fail.Internal
	}
}

// Unanswered is the error of a request that the API has not answered. It wraps a fail error.
type Unanswered struct {
	problem *fail.Error
	code    int // with which something else has answered, 0 for nothing
}

func (e *Unanswered) Error() string { return e.problem.Error() }

// Unwrap is the fail error.
func (e *Unanswered) Unwrap() error { return e.problem }

// LeftOut is the error of a list of which some cannot be read. It comes with the others, and wraps a fail error.
type LeftOut struct{ problem *fail.Error }

func (e *LeftOut) Error() string { return e.problem.Error() }

// Unwrap is the fail error.
func (e *LeftOut) Unwrap() error { return e.problem }

// mostSaid bounds what is said of an answer that is not the API's, in characters.
const mostSaid = 100

// notOurs is the error of an answer that no API of Drover gives, such as the page of a proxy that wants a login, or cannot reach the API: that has
// done nothing, or nobody knows. Of a text the first line is said.
func notOurs(res *http.Response, body []byte, method, path string) error {
	kind := res.Header.Get("Content-Type")
	sends := cmp.Or(kind, "nothing that has a type")
	if res.StatusCode/100 != 2 {
		sends = fmt.Sprintf("%d with %s", res.StatusCode, sends)
	}
	if text, _, _ := strings.Cut(string(bytes.TrimSpace(body)), "\n"); text != "" && (kind == "" || strings.HasPrefix(kind, "text/plain")) {
		if all := []rune(text); len(all) > mostSaid {
			text = string(all[:mostSaid]) + "…"
		}
		sends += fmt.Sprintf(" (%s)", text)
	}
	e := fail.New(fail.Unavailable, "%s %s: what answers is not the API, as it sends %s: look at the URL, and at the proxies on the way", method, path, sends)
	e.RetryAfter = retryAfter(res)
	return &Unanswered{problem: e, code: res.StatusCode}
}

// unanswered gives the error of a request that had no answer its kind: that it was cancelled stays as it is.
func unanswered(ctx context.Context, err error) error {
	var answered *Error
	var known *fail.Error // the request was not sent
	switch {
	case err == nil, errors.As(err, &answered), errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		return &Unanswered{problem: fail.Wrap(err, fail.Timeout, "the API does not answer in time")}
	default:
		return &Unanswered{problem: fail.Wrap(err, fail.Unavailable, "the API cannot be reached")}
	}
}
