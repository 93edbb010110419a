package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/status"
)

// Status streams are server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html.

const (
	eventStream = "text/event-stream"
	lastEventID = "Last-Event-ID"
)

// wantsWatch reads the parameter.
func wantsWatch(c echo.Context) (bool, error) {
	if !c.QueryParams().Has("watch") {
		return false, nil
	}
	text := c.QueryParam("watch")
	watch, err := strconv.ParseBool(text)
	if err != nil {
		return false, fail.Query("watch", "%q; use true or false", text)
	}
	return watch, nil
}

// watchOwner answers with the status of an owner and then with what changes of it, until the client leaves, the owner is gone
// or the process stops. What is wrong with the query is refused before the first event.
func (e *edge) watchOwner(c echo.Context, s door.Service, on *door.Request) (reply, error) {
	q, err := status.ParseQuery(c.QueryParams())
	if err != nil {
		return nil, err
	}
	return sent, e.stream(c, ofStatus(s, on.Key(), q))
}

// ofStatus subscribes to a status.
func ofStatus(s door.Service, owner domain.Key, q status.Query) subscribe {
	return func(ctx context.Context, after string) (*notify.Subscription, error) {
		return s.Subscribe(ctx, owner, q, after)
	}
}

// subscribe begins a stream; after is as in notify.Hub.Subscribe.
type subscribe func(ctx context.Context, after string) (*notify.Subscription, error)

// stream answers with events.
func (e *edge) stream(c echo.Context, subscribe subscribe) error {
	ctx := c.Request().Context()
	s, err := subscribe(ctx, c.Request().Header.Get(lastEventID))
	if err != nil {
		return err
	}
	defer s.Close()
	w, err := newEventWriter(c)
	if err != nil || c.Request().Method == http.MethodHead { // whose answer has nothing to wait for
		return err
	}
	for err == nil {
		err = w.next(ctx, s)
	}
	// The end of a stream, by either side, is no failed request.
	if ctx.Err() == nil && !errors.Is(err, io.EOF) {
		e.log.InfoContext(ctx, "status stream broken off", slog.String("path", c.Request().URL.Path), slog.Any("error", err))
	}
	return nil
}

// eventWriter writes events to a connection, which keeps no deadline but that of each event.
type eventWriter struct {
	w       io.Writer
	control *http.ResponseController
	buffer  bytes.Buffer
}

func newEventWriter(c echo.Context) (*eventWriter, error) {
	w := &eventWriter{w: c.Response(), control: http.NewResponseController(c.Response())}
	// That of the server is for requests; it would end a stream.
	if err := w.control.SetReadDeadline(time.Time{}); err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the connection cannot carry a stream")
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, eventStream)
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	c.Response().WriteHeader(http.StatusOK)
	w.buffer.WriteString("retry: " + strconv.FormatInt(policy.StreamRetry.Milliseconds(), 10) + "\n\n")
	return w, w.flush()
}

// next writes the next event, or that there is none.
func (w *eventWriter) next(ctx context.Context, s *notify.Subscription) error {
	wait, cancel := context.WithTimeout(ctx, policy.StreamBeat)
	defer cancel()
	event, err := s.Next(wait)
	switch {
	case err == nil:
		w.event(event)
	case wait.Err() != nil && ctx.Err() == nil:
		w.buffer.WriteString(": nothing new\n\n")
	default:
		return err
	}
	return w.flush()
}

// event writes an event. Its data is one line.
func (w *eventWriter) event(e notify.Event) {
	if e.ID != "" {
		w.buffer.WriteString("id: " + e.ID + "\n")
	}
	w.buffer.WriteString("event: " + string(e.Kind) + "\ndata: ")
	w.buffer.Write(e.Data)
	w.buffer.WriteString("\n\n")
}

func (w *eventWriter) flush() error {
	if _, err := w.buffer.WriteTo(w.w); err != nil { // whose time steadyAnswer bounds
		return fail.Wrap(err, fail.Timeout, "the reader of a stream takes nothing any more")
	}
	if err := w.control.SetWriteDeadline(time.Now().Add(policy.StreamWrite)); err != nil {
		return fail.Wrap(err, fail.Internal, "the connection cannot be given a deadline")
	}
	if err := w.control.Flush(); err != nil {
		return fail.Wrap(err, fail.Timeout, "the reader of a stream takes nothing any more")
	}
	w.buffer = bytes.Buffer{} // a large document is not kept
	// HTTP/2 ends a stream when the time is over, whether or not something is being written.
	if err := w.control.SetWriteDeadline(time.Time{}); err != nil {
		return fail.Wrap(err, fail.Internal, "the connection cannot be without a deadline")
	}
	return nil
}
