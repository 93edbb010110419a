package tenantagent

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/pause"
)

// How long the agent waits before it calls again what has failed: first, and at most.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// refused says whether the same call will be answered in the same way until a person has changed something, or another agent
// has: it is tried again after the longest wait. All other codes may be gone a moment later.
func refused(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.OutOfRange, codes.Unimplemented: // of what is asked for
		return true
	case codes.Unauthenticated, codes.PermissionDenied: // of who asks
		return true
	case codes.FailedPrecondition, codes.ResourceExhausted: // of the tenant: there is none of that name; it has too much
		return true
	case codes.Aborted: // another agent speaks for the tenant; to displace it at once would begin a quarrel that does not end
		return true
	case codes.OK, codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.DataLoss:
		return false
	default:
		return false
	}
}

// next is how long to wait after a failure.
func next(b *pause.Backoff, err error) time.Duration {
	if !refused(status.Code(err)) {
		return b.Next()
	}
	most := pause.Backoff{First: retryMost, Most: retryMost} // of which a part is left out at random
	return most.Next()
}
