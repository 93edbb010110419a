package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/fail"
)

// How many requests are at work at a time. What is taken beyond what the machine can do is answered too late for
// everybody: 500 operations at once on two cores, none refused, were 129 answers after 30 to 60 s. So what finds no place
// soon is refused, and nothing of it is done.
const (
	// DefaultOperations is for those that begin an operation, of which two cores take some ten a second.
	DefaultOperations = 32
	// requestsAtOnce is for those that have no room of their own, but streams; uploadsAtOnce for those whose bodies may be
	// large, and come slowly.
	requestsAtOnce, uploadsAtOnce = 256, 32
	// admitWait is how long a request waits for a place, and retryLater when it may be sent again.
	admitWait  = 1500 * time.Millisecond
	retryLater = 2 * time.Second
)

// room is a set of places. Requests of different rooms do not wait for each other: who wants to end something must not
// wait for those who begin.
type room int

const (
	anyRoom     room = iota // of what is in none of the others
	beginning               // of an operation: it is answered when everything is rendered and placed
	approving               // which renders too, and nobody but the user waits for it
	terminating             // of what has begun
	stopping                // of an operation
	uploading               // of a document with its file, the reading of which is included
)

// newRooms has rooms for a number of operations that are being begun at a time.
func newRooms(operations int) map[room]places {
	return map[room]places{
		anyRoom: make(places, requestsAtOnce), uploading: make(places, min(operations, uploadsAtOnce)),
		beginning: make(places, operations), terminating: make(places, operations), stopping: make(places, operations),
		approving: make(places, (operations+3)/4), // it costs processor time, and nothing else
	}
}

// places are those of requests that are at work.
type places chan struct{}

// enter takes a place, which leave gives back.
func (p places) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-p }
	select {
	case p <- struct{}{}:
		return leave, nil
	default:
	}
	full := time.NewTimer(admitWait)
	defer full.Stop()
	select {
	case p <- struct{}{}:
		return leave, nil
	case <-full.C:
		return nil, &fail.Error{
			Kind: fail.Unavailable, RetryAfter: retryLater,
			Message: "too many requests are at work at the moment; nothing was done, try again later",
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// admit has requests wait for a place.
func admit(p places, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		leave, err := p.enter(c.Request().Context())
		if err != nil {
			return err
		}
		defer leave()
		return next(c)
	}
}

// contextBody is where received puts a body.
const contextBody = "body"

// received reads the body, so that who sends it slowly holds no place meanwhile.
func received(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		body, err := readAll(c.Request().Body, maxJSON)
		if err != nil {
			return err
		}
		c.Set(contextBody, body)
		return next(c)
	}
}

// bodyOf is the JSON body of a request.
func bodyOf(c echo.Context) ([]byte, error) {
	if body, ok := c.Get(contextBody).([]byte); ok {
		return body, nil
	}
	return readAll(c.Request().Body, maxJSON)
}

// How slowly a body may come: it may stand still for DefaultBodyWait in all, and a second more for each slowest bytes that
// have come, but no longer than uploadTime.
const (
	DefaultBodyWait = 10 * time.Second
	slowest         = 4 << 10
)

// steadyBody is the body of a request that is read as long as it keeps coming.
type steadyBody struct {
	io.ReadCloser
	deadline func(time.Time) error // of reading from the connection
	wait     time.Duration
	begun    time.Time // when the first byte was asked for
	taken    int64
}

// Read sets the deadline of the connection for one read. At the end of the body net/http takes it away by itself.
func (b *steadyBody) Read(p []byte) (int, error) {
	if b.begun.IsZero() {
		b.begun = time.Now()
	}
	wait := min(b.wait+time.Duration(b.taken/slowest)*time.Second, uploadTime)
	if err := b.deadline(b.begun.Add(wait)); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.taken += int64(n)
	return n, err
}

// tooSlow says whether reading a body was given up.
func tooSlow(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// limitBody makes reading more than limit bytes of a body fail, and reading one that stands still for longer than wait.
func limitBody(limit int64, wait time.Duration) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			control := http.NewResponseController(c.Response())
			deadline := func(at time.Time) error {
				if err := control.SetReadDeadline(at); !errors.Is(err, http.ErrNotSupported) {
					return err
				}
				return nil // no connection, but a test
			}
			r.Body = http.MaxBytesReader(c.Response(), &steadyBody{ReadCloser: r.Body, deadline: deadline, wait: wait}, limit)
			return next(c)
		}
	}
}
