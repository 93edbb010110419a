package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// contextBody is where receiveBody puts a body, and contextSteady has the one that it is read from.
const contextBody, contextSteady = "body", "steadyBody"

// receiveBody reads the body for bodyOf, so that who sends it slowly holds no slot meanwhile.
func receiveBody(c echo.Context) (size int64, err error) {
	body, err := readAll(c.Request().Body, limits.JSON)
	if err == nil {
		err = told(c, body)
	}
	c.Set(contextBody, body)
	return int64(len(body)), err
}

// bodyOf is the body of a request as JSON.
func bodyOf(c echo.Context) ([]byte, error) {
	body, ok := c.Get(contextBody).([]byte)
	if !ok {
		var err error
		if body, err = readAll(c.Request().Body, limits.JSON); err == nil {
			err = told(c, body)
		}
		if err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(c.Request().Header.Get(echo.HeaderContentType), mimeYAML) {
		return fromYAMLOnce(c, body)
	}
	return body, nil
}

// How slowly a body may come: it may stand still for DefaultBodyWait in all, and a second more for each slowest bytes that
// have come, but no longer than policy.Upload. An answer may stand still for as long at each write.
const (
	DefaultBodyWait = policy.Body
	slowest         = 4 << 10
)

// steadyBody is the body of a request that is read as long as it keeps coming.
type steadyBody struct {
	io.ReadCloser
	deadline func(time.Time) error // of reading from the connection
	wait     time.Duration
	begun    time.Time       // when the first byte was asked for
	standing context.Context // nobody is waited for when it has ended: see while
	taken    int64
	room     func(more int64) error // for what has come
	made     int64                  // the memory for what was made of it, of most
	most     int64
}

// become takes the memory for what is made of a body. A body alone always has it, however little there is for all.
func (b *steadyBody) become(n int64) error {
	n = min(n, max(b.most-b.taken-b.made, 0))
	err := b.room(n)
	if err == nil {
		b.made += n
	}
	return err
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// while has the body of a request end with ctx, as when who sends it is no longer known or has lost the right to.
func while(ctx context.Context, c echo.Context) {
	if body, ok := c.Get(contextSteady).(*steadyBody); ok {
		body.standing = ctx
	}
}

// Read sets the deadline of the connection for one read. At the end of the body net/http takes it away by itself.
func (b *steadyBody) Read(p []byte) (int, error) {
	if b.begun.IsZero() {
		b.begun = time.Now()
	}
	if b.standing.Err() != nil {
		_ = b.deadline(past) // net/http would read on before it answers
		return 0, context.Cause(b.standing)
	}
	wait := min(b.wait+time.Duration(b.taken/slowest)*time.Second, policy.Upload)
	if err := b.deadline(b.begun.Add(wait)); err != nil {
		return 0, err
	}
	over := make(chan struct{})
	stop := context.AfterFunc(b.standing, func() {
		defer close(over)
		_ = b.deadline(past) // what waits in Read gives up
	})
	n, err := b.ReadCloser.Read(p)
	if !stop() {
		<-over // not in the middle of the next request of the connection
	}
	if full := b.room(int64(n)); full != nil {
		_ = b.deadline(time.Now().Add(policy.Unread)) // net/http reads on before it answers, for a moment and no longer
		return 0, full
	}
	b.taken += int64(n)
	return n, err
}

// leaveUnread bounds how long the answer to a request that is refused waits for a body that nobody has asked for: net/http reads some of it
// before it answers, so that a connection can go on. What has come by then is no reason to end the connection.
func leaveUnread(c echo.Context) {
	body, _ := c.Get(contextSteady).(*steadyBody)
	if body != nil && !body.begun.IsZero() || c.Request().ContentLength == 0 || c.Request().ProtoMajor > 1 {
		return
	}
	_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(policy.Unread)) // a test has no connection
}

// tooSlow says whether reading a body was given up.
func tooSlow(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// piece is how much of an answer must be taken within one wait. A file is one write of its handler.
const piece = 64 << 10

// steadyAnswer is an answer that is written as long as somebody takes it: no piece may wait for longer than wait. Between two writes
// any time may pass.
type steadyAnswer struct {
	http.ResponseWriter
	deadline func(time.Time) error // of writing to the connection
	wait     time.Duration
	// timed says that the time of a write ends the answer whether or not something is being written, as HTTP/2 has it. Then it is none but while
	// a write goes on, and from the end of the handler on, when net/http writes what is left.
	timed, over bool
}

// Write fails as Canceled: whatever is wrong, the client is gone.
func (a *steadyAnswer) Write(p []byte) (written int, err error) {
	for first := true; first || len(p) > 0; first = false {
		n := min(len(p), piece)
		if err = a.deadline(time.Now().Add(a.wait)); err == nil {
			n, err = a.ResponseWriter.Write(p[:n])
			written += n
		}
		if err != nil {
			return written, fmt.Errorf("%w: the answer is not taken: %w", context.Canceled, err)
		}
		p = p[n:]
	}
	if a.timed && !a.over {
		if err := a.deadline(time.Time{}); err != nil {
			return written, fmt.Errorf("%w: the answer is not taken: %w", context.Canceled, err)
		}
	}
	return written, nil
}

// end bounds what is written from now on, however long ago the last write was.
func (a *steadyAnswer) end() {
	a.over = true
	_ = a.deadline(time.Now().Add(a.wait)) // what is left is written without it, or not at all
}

// Unwrap is for http.ResponseController.
func (a *steadyAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// limitBody makes reading more than limit bytes of a body fail, reading one that stands still for longer than wait, one for which there is no
// memory beside others, and writing an answer that nobody takes for as long.
func limitBody(limit int64, wait time.Duration) echo.MiddlewareFunc {
	all := newBodies(limits.Bodies * limit)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			control := http.NewResponseController(c.Response().Writer)
			steady := func(set func(time.Time) error) func(time.Time) error {
				return func(at time.Time) error {
					if err := set(at); !errors.Is(err, http.ErrNotSupported) {
						return err
					}
					return nil // no connection, but a test
				}
			}
			who, _ := caller.IdentityOf(r.Context())
			body := &steadyBody{
				ReadCloser: r.Body, deadline: steady(control.SetReadDeadline), wait: wait, standing: r.Context(),
				room: func(more int64) error { return all.take(who, more) }, most: all.most / 2,
			}
			defer func() { all.give(who, body.taken+body.made) }()
			c.Set(contextSteady, body)
			if r.ContentLength != 0 && r.ProtoMajor == 1 { // of what nobody asks for: see leaveUnread
				_ = control.SetReadDeadline(time.Now().Add(policy.Unread)) // as soon as it is read it has its time
			}
			r.Body = http.MaxBytesReader(c.Response(), body, limit)
			answer := &steadyAnswer{
				ResponseWriter: c.Response().Writer, deadline: steady(control.SetWriteDeadline), wait: wait, timed: r.ProtoMajor > 1,
			}
			defer answer.end()
			c.Response().Writer = answer
			return next(c)
		}
	}
}
