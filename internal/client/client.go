// Package client speaks Drover's REST API: API has every operation, in the types of the product; Client sends what it is given.
// It is what the demo and the end-to-end tests use, so that they see what any REST client sees.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/policy"
)

// Client talks to one API.
type Client struct {
	base string // http://host:port/v2
	http *http.Client
}

// New makes a client of the API at base, such as "http://127.0.0.1:9015/v2".
func New(base string) *Client {
	return &Client{base: base, http: &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     30 * time.Second,
		},
	}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Answer is a 2xx answer.
type Answer struct {
	Code   int
	Header http.Header
	Body   []byte
}

// Warnings are what the answer warns of.
func (a *Answer) Warnings() (texts []string) {
	for _, w := range a.Header.Values("Warning") {
		quoted := strings.TrimPrefix(w, "299 - ")
		if text, err := strconv.Unquote(quoted); err == nil {
			quoted = text
		}
		texts = append(texts, quoted)
	}
	return texts
}

// Do sends body (nil for none) as it is. It takes as long as the server may take for an answer, or an upload, at the most.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body io.Reader) (*Answer, error) {
	return c.do(ctx, method, path, "", contentType, body)
}

func (c *Client) do(ctx context.Context, method, path, accept, contentType string, body io.Reader) (*Answer, error) {
	limit := policy.Client
	if strings.HasPrefix(contentType, "multipart/") {
		limit = policy.Upload
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	if res.StatusCode/100 != 2 {
		return nil, refused(res, data, method, path)
	}
	return &Answer{Code: res.StatusCode, Header: res.Header, Body: data}, nil
}

// Post sends v as JSON.
func (c *Client) Post(ctx context.Context, path string, v any) (*Answer, error) {
	return c.send(ctx, http.MethodPost, path, v)
}

// Put sends v as JSON.
func (c *Client) Put(ctx context.Context, path string, v any) (*Answer, error) {
	return c.send(ctx, http.MethodPut, path, v)
}

func (c *Client) send(ctx context.Context, method, path string, v any) (*Answer, error) {
	if v == nil {
		return c.Do(ctx, method, path, "", nil)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode body: %w", err)
	}
	return c.Do(ctx, method, path, "application/json", bytes.NewReader(data))
}

// PostFile sends metadata as JSON and a file, as a multipart form.
func (c *Client) PostFile(ctx context.Context, path string, metadata any, file []byte) (*Answer, error) {
	return c.sendFile(ctx, http.MethodPost, path, metadata, file)
}

// PutFile is PostFile for what is there already.
func (c *Client) PutFile(ctx context.Context, path string, metadata any, file []byte) (*Answer, error) {
	return c.sendFile(ctx, http.MethodPut, path, metadata, file)
}

func (c *Client) sendFile(ctx context.Context, method, path string, metadata any, file []byte) (*Answer, error) {
	data, err := json.Marshal(metadata)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	if file == nil {
		file = []byte{}
	}
	contentType, body, err := form(data, file)
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, method, path, contentType, body)
}

// Get reads JSON into v; nil to look at the answer alone.
func (c *Client) Get(ctx context.Context, path string, v any) (*Answer, error) {
	a, err := c.Do(ctx, http.MethodGet, path, "", nil)
	if err != nil || v == nil {
		return a, err
	}
	if err := json.Unmarshal(a.Body, v); err != nil {
		return nil, fmt.Errorf("decode answer of GET %s: %w", path, err)
	}
	return a, nil
}

// Delete deletes.
func (c *Client) Delete(ctx context.Context, path string) (*Answer, error) {
	return c.Do(ctx, http.MethodDelete, path, "", nil)
}

// Status is a status document of a deployment intent group in the form of the seeds.
type Status struct {
	State struct {
		Actions []struct{ State, ContextId, TimeStamp string }
	} `json:"state"`
	Status string         `json:"status"`
	Rsync  map[string]int `json:"rsync-status"`
	Apps   []struct {
		Name     string `json:"name"`
		Clusters []struct {
			Provider     string `json:"cluster-provider"`
			Cluster      string `json:"cluster"`
			Placement    string `json:"placement"`
			Connectivity string `json:"connectivity"`
			LastError    string `json:"last-error"`
			Reason       string `json:"reason"`
			Resources    []struct {
				GVK     struct{ Group, Version, Kind string }
				Name    string `json:"name"`
				Rsync   string `json:"rsync-status"`
				Message string `json:"message"`
			} `json:"resources"`
		} `json:"clusters"`
	} `json:"apps"`
}

// LastState is the state of the last action, "" when there is none.
func (s *Status) LastState() string {
	if n := len(s.State.Actions); n > 0 {
		return s.State.Actions[n-1].State
	}
	return ""
}

// ContextID is the id of the last action that has one.
func (s *Status) ContextID() string {
	for i := len(s.State.Actions) - 1; i >= 0; i-- {
		if id := s.State.Actions[i].ContextId; id != "" {
			return id
		}
	}
	return ""
}
