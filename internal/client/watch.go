package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
)

// Event is a server-sent event.
type Event struct {
	ID   string // "" for none
	Kind string
	Data string
}

// Tells says whether the event tells where things stand: all of them, or what has changed since the event before.
func (e Event) Tells() bool { return e.Kind == "status" || e.Kind == "change" }

// Status is what an event of StreamStatus tells: the document, or of a change the parts of it that have changed.
func (e Event) Status() (*status.Document, error) {
	d := &status.Document{}
	return d, e.decode(d)
}

// Tables is what an event of StreamCombinedStatus tells: all items, or of a change those that are new or say something else, and
// the names of those that are gone.
func (e Event) Tables() (items []*combined.CombinedStatus, removed []string, err error) {
	l, err := changed[*combined.CombinedStatus](e)
	return l.Items, l.Removed, err
}

// Objects is the same of StreamObjects: the manifests, and the names by which those that are gone were told of.
func (e Event) Objects() (items []map[string]any, removed []string, err error) {
	l, err := changed[json.RawMessage](e)
	for _, data := range l.Items {
		item, err := combine.Decode(data) // with all digits of numbers
		if err != nil {
			return nil, nil, fmt.Errorf("decode event: %w", err)
		}
		items = append(items, item)
	}
	return items, l.Removed, err
}

// change is what an event of a list tells: items, and the names of those that are gone.
type change[T any] struct {
	Items   []T      `json:"items"`
	Removed []string `json:"removed"`
}

func changed[T any](e Event) (*change[T], error) {
	l := &change[T]{}
	return l, e.decode(l)
}

// decode decodes what an event tells.
func (e Event) decode(into any) error {
	if err := json.Unmarshal([]byte(e.Data), into); err != nil {
		return fmt.Errorf("decode event: %w", err)
	}
	return nil
}

// GroupEvent is where a group stands by an event of StreamGroups.
type GroupEvent struct {
	*service.GroupStatus                 // nil of one that is gone
	JSON                 json.RawMessage // as it came
}

// Groups are the groups that an event of StreamGroups tells of, by their paths.
func (e Event) Groups() (map[string]GroupEvent, error) {
	var raw map[string]json.RawMessage
	if err := e.decode(&raw); err != nil {
		return nil, err
	}
	groups := make(map[string]GroupEvent, len(raw))
	for path, data := range raw {
		g := GroupEvent{JSON: data}
		if err := json.Unmarshal(data, &g.GroupStatus); err != nil {
			return nil, fmt.Errorf("decode event of %s: %w", path, err)
		}
		groups[path] = g
	}
	return groups, nil
}

// stream is a stream of events that is open.
type stream struct {
	body   io.ReadCloser
	reader *bufio.Reader
	ctx    context.Context
	end    context.CancelCauseFunc
	silent *quiet
}

// silence is how long a stream may say nothing: the server says something every policy.StreamBeat.
const silence = 3 * policy.StreamBeat

// errSilent ends a stream whose server is gone without a word.
var errSilent = fail.New(fail.Timeout, "nothing has come over the stream for %s", silence)

// watch opens a stream of events, after the one with an id, "" for none. It stays open until ctx ends, it is closed, or the
// server says nothing any more.
func (c *Client) watch(ctx context.Context, path, after string) (w *stream, err error) {
	err = c.patiently(ctx, http.MethodGet, func() error {
		w, err = c.watchOnce(ctx, path, after)
		return err
	})
	return w, err
}

func (c *Client) watchOnce(ctx context.Context, path, after string) (*stream, error) {
	ctx, end := context.WithCancelCause(ctx)
	w := &stream{ctx: ctx, end: end, silent: silentAfter(silence, func() { end(errSilent) })}
	if err := w.open(c, path, after); err != nil {
		w.silent.Stop()
		end(nil)
		return nil, w.because(err)
	}
	return w, nil
}

func (w *stream) open(c *Client, path, after string) error {
	req, err := c.request(w.ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream, application/problem+json")
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	res, err := c.send(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			return fmt.Errorf("read answer of GET %s: %w", path, err)
		}
		return refused(res, data, http.MethodGet, path)
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		res.Body.Close()
		return notOurs(res, nil, http.MethodGet, path)
	}
	w.body = res.Body
	w.reader = bufio.NewReader(noted{w.body, w.silent})
	return nil
}

// because says why a stream has ended, where the silence has ended it.
func (w *stream) because(err error) error {
	if err != nil && errors.Is(context.Cause(w.ctx), errSilent) {
		return errSilent
	}
	return err
}

// next waits for the next event; io.EOF when the server has closed the stream.
func (w *stream) next() (Event, error) {
	e, err := ReadEvent(w.reader)
	return e, w.because(err)
}

// close closes the stream.
func (w *stream) close() {
	w.silent.Stop()
	w.end(nil)
	_ = w.body.Close() // it has been read as far as anybody wants
}

// ReadEvent reads the next event of a stream, without comments and what says when to connect again. Its data is one
// line, as the API sends it.
func ReadEvent(r *bufio.Reader) (Event, error) {
	var e Event
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return Event{}, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.ID = value
		case "event":
			e.Kind = value
		case "data":
			e.Data = value
		case "":
			if value == "" && e.Kind != "" {
				return e, nil
			}
		}
	}
}
