package api

import (
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// bodies is the memory for those of all requests, which are whole there until they are stored. Nobody waits for it: two who both have
// half of what they need would wait for each other. A caller has half of it at the most, so that there is some for others.
type bodies struct {
	most int64

	mu   sync.Mutex
	used int64
	of   map[string]int64 // by caller, those that have some
}

func newBodies(most int64) *bodies { return &bodies{most: most, of: map[string]int64{}} }

// take is called when so much more of somebody's body has come. An error says that there is no room for it.
func (b *bodies) take(who caller.Identity, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	share := b.most / 2
	if who.Kind == caller.Open { // nobody knows whether they are one
		share = b.most
	}
	if b.used+n > b.most || b.of[who.String()]+n > share {
		return &fail.Error{
			Kind: fail.Unavailable, Undone: true, RetryAfter: policy.AdmitLater,
			Message: "there is no memory for the body beside those of other requests; nothing was done, send fewer large ones at a time and try again later",
		}
	}
	b.used += n
	b.of[who.String()] += n
	return nil
}

// give is called when a request has ended that took so much.
func (b *bodies) give(who caller.Identity, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.of[who.String()] -= n; b.of[who.String()] <= 0 {
		delete(b.of, who.String())
	}
}

// room takes the memory for what a body in JSON becomes when it is decoded, beside that for itself, until the request has ended: eight bytes, such as
// {"":""}, may become a map of some hundreds.
func room(c echo.Context, body []byte) error {
	n := marks(body)
	if n > limits.JSONMarks {
		return fail.New(fail.Malformed, "Invalid JSON: it has too many parts; its objects, lists and what commas separate there may be %d", limits.JSONMarks)
	}
	if sent, ok := c.Get(contextSteady).(*steadyBody); ok {
		return sent.become(int64(n) * limits.JSONMark)
	}
	return nil // no request of the edge, but a test
}

// marks is how many objects and lists JSON has, and commas between what is in them.
func marks(body []byte) (n int) {
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[', ',':
			n++
		case '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		}
	}
	return n
}
