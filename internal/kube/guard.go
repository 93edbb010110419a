package kube

import (
	"io"
	"net/http"

	"github.com/drover-io/drover/internal/lease"
)

// guarded is the request, whose body can only be read as long as the lease of its context is held. A write is let
// through by the last that happens before it is sent: whatever it has waited for before (a place among the requests, a
// connection, a retry), the worker may have been frozen meanwhile. What reads is let through. The error is
// lease.ErrLost.
func guarded(r *http.Request) (*http.Request, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return r, nil
	}
	if err := lease.Check(r.Context()); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	g := r.WithContext(r.Context())
	guard := func(body io.ReadCloser) io.ReadCloser {
		return &guardedBody{body, func() error { return lease.Check(r.Context()) }}
	}
	g.Body = guard(r.Body)
	if r.GetBody != nil {
		g.GetBody = func() (io.ReadCloser, error) {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			return guard(body), nil
		}
	}
	return g, nil
}

// guardedBody is the body of a write. A server does nothing with a request whose body breaks off.
type guardedBody struct {
	io.ReadCloser
	check func() error
}

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	if err := b.check(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}
