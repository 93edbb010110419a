package caller

import (
	"context"
	"slices"
	"sync"
)

// Request is what is known of a request while it is answered: its id, the operation that it has begun, if any, and what its answer warns of.
type Request struct {
	ID string
	// Remote is the address that it came from, as the connection has it.
	Remote string

	mu            sync.Mutex
	operation     string
	before, after []byte
	removed       []Removed
	warnings      []string
}

type requestKey struct{}

// WithRequest is ctx with a request.
func WithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestOf is the request for which something is done, nil when there is none.
func RequestOf(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// RequestID is the id of the request for which something is done, "" when there is none.
func RequestID(ctx context.Context) string {
	if r := RequestOf(ctx); r != nil {
		return r.ID
	}
	return ""
}

// RemoteOf is the address from which something is asked for, "" when that is not known.
func RemoteOf(ctx context.Context) string {
	if r := RequestOf(ctx); r != nil {
		return r.Remote
	}
	return ""
}

// Begin notes the operation, by its run's id, that the request begins.
func (r *Request) Begin(operation string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operation = operation
}

// Operation is what the request has begun, "" when it has not.
func (r *Request) Operation() string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.operation
}

// Warn notes what the answer is to warn of beside what the work answers with. What is done twice, as somebody was faster, is said once.
func (r *Request) Warn(text string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}

// Warnings are what was noted by Warn.
func (r *Request) Warnings() []string {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.warnings)
}

// Removed is what goes with what a request deletes: the noun and the key of a document, and the SHA-256 of it as it was stored. Err is
// why it was not deleted, or nobody knows whether it was; nil when it is gone.
type Removed struct {
	Noun, Key string
	Before    []byte
	Err       error
}

// Removes notes what goes with what the request deletes.
func (r *Request) Removes(what Removed) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed = append(r.removed, what)
}

// Removed is what was noted by Removes, as far as nobody has asked for it yet.
func (r *Request) Removed() []Removed {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.removed
	r.removed = nil
	return all
}

// Changed notes the SHA-256 of a document, as it is stored, before and after the request has changed it; nil for none.
func (r *Request) Changed(before, after []byte) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.after = before, after
}

// Change is what was noted by Changed last.
func (r *Request) Change() (before, after []byte) {
	if r == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.before, r.after
}
