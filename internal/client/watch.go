package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Event is a server-sent event.
type Event struct {
	ID   string // "" for none
	Kind string
	Data string
}

// Watch is a stream of events that is open.
type Watch struct {
	body   io.ReadCloser
	reader *bufio.Reader
	// Header is the answer's.
	Header http.Header
}

// Watch opens a stream of events, after the one with an id, "" for none. It stays open until ctx ends or it is closed.
func (c *Client) Watch(ctx context.Context, path, after string) (*Watch, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	unlimited := http.Client{Transport: c.http.Transport}
	res, err := unlimited.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, fmt.Errorf("read answer of GET %s: %w", path, err)
		}
		return nil, &Error{Method: http.MethodGet, Path: path, Code: res.StatusCode, Body: string(bytes.TrimSpace(data))}
	}
	return &Watch{body: res.Body, reader: bufio.NewReader(res.Body), Header: res.Header}, nil
}

// Next waits for the next event; io.EOF when the server has closed the stream.
func (w *Watch) Next() (Event, error) { return ReadEvent(w.reader) }

// Close closes the stream.
func (w *Watch) Close() error { return w.body.Close() }

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
