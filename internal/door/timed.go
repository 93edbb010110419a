package door

import (
	"context"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/policy"
)

// Timed gives what is asked for its time. It stands inside Slots: what is waited for a slot, and for the body that comes
// before it, does not count.
func Timed(ctx context.Context, r *Request, next Next) error {
	limit := r.limit()
	if limit == 0 {
		return next(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return next(ctx)
}

// limit is how long it may take; 0 for as long as the caller wants.
func (r *Request) limit() time.Duration {
	switch {
	case r.Verb.Streams():
		return 0
	case r.uploads(), r.Noun.File && r.Verb == Get, r.Noun == domain.AuditRecords: // a file comes with it, or goes, such as an export
		return policy.Upload
	}
	if r.Renders {
		return policy.Answer
	}
	switch verbs[r.Verb].room {
	case beginning, approving, terminating:
		return policy.Answer
	default: // a stop asks for nothing that is rendered
		return policy.Plain
	}
}
