package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// slow is a transport over which each byte of a request, and of its answer, takes a time.
type slow struct {
	each   time.Duration
	header time.Duration // that of the answer, after the last byte of the request
	bytes  int           // of the answer
	stuck  bool          // after those
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	for r.Body != nil {
		if _, err := r.Body.Read(make([]byte, 1)); err != nil {
			break
		}
		if err := wait(r.Context(), s.each); err != nil {
			return nil, err
		}
	}
	if err := wait(r.Context(), s.header); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(&dripping{ctx: r.Context(), of: s, left: s.bytes})}, nil
}

// dripping is an answer that comes byte by byte.
type dripping struct {
	ctx  context.Context
	of   slow
	left int
}

func (d *dripping) Read(p []byte) (int, error) {
	switch {
	case d.left > 0:
		d.left--
		p[0] = 'x'
		return 1, wait(d.ctx, d.of.each)
	case d.of.stuck:
		<-d.ctx.Done()
		return 0, d.ctx.Err()
	}
	return 0, io.EOF
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// TestWhatComesSlowlyIsWaitedFor: an upload, or an answer, may take as long as it takes while something goes or comes, and what stands still is given up.
func TestWhatComesSlowlyIsWaitedFor(t *testing.T) {
	const little = policy.Client / 3
	for name, c := range map[string]struct {
		transport slow
		kind      string // of a body
		gives     time.Duration
	}{
		"an answer comes slowly":          {transport: slow{each: little, bytes: 10}},
		"a document goes slowly":          {transport: slow{each: little, header: little, bytes: 1}, kind: jsonType},
		"an upload goes slowly":           {transport: slow{each: policy.Upload / 3, header: policy.Upload / 2}, kind: "multipart/form-data"},
		"no answer comes":                 {transport: slow{header: time.Hour}, gives: policy.Client},
		"no answer comes to an upload":    {transport: slow{header: time.Hour}, kind: "multipart/form-data", gives: policy.Upload},
		"an answer ends in the middle":    {transport: slow{each: little, bytes: 2, stuck: true}, gives: 2*little + policy.Client},
		"a document is taken by nobody":   {transport: slow{each: time.Hour}, kind: jsonType, gives: policy.Client},
		"an answer says nothing any more": {transport: slow{stuck: true}, gives: policy.Client},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := New("http://127.0.0.1/v2")
				client.http.Transport = c.transport
				method, body := http.MethodGet, []byte(nil)
				if c.kind != "" {
					method, body = http.MethodPut, []byte(strings.Repeat("x", 10))
				}
				begun := time.Now()
				answer, err := client.API().call(t.Context(), request{method: method, path: "/projects", contentType: c.kind, body: body})
				if c.gives > 0 {
					require.True(t, fail.Is(err, fail.Timeout), "%v", err)
					require.ErrorContains(t, err, "the API does not answer in time")
					require.Equal(t, c.gives, time.Since(begun))
					return
				}
				require.NoError(t, err)
				require.Len(t, answer.body, c.transport.bytes)
				require.Greater(t, time.Since(begun), policy.Client)
			})
		})
	}
}

// TestWhoWaitsNoLongerIsTold so, however patient the client is.
func TestWhoWaitsNoLongerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := New("http://127.0.0.1/v2")
		client.http.Transport = slow{each: time.Second, bytes: 1000}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := client.API().call(ctx, request{method: http.MethodGet, path: "/projects"})
		require.True(t, fail.Is(err, fail.Timeout), "%v", err)
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		_, err = client.API().call(ctx, request{method: http.MethodGet, path: "/projects"})
		require.ErrorIs(t, err, context.Canceled)
	})
}
