package tenantagent

import (
	"errors"
	"strings"
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

// waits are those between the streams of an agent.
type waits struct {
	backoff   pause.Backoff
	displaced bool // not for the first time in a row
}

func newWaits() waits { return waits{backoff: pause.Backoff{First: retryFirst, Most: retryMost}} }

// reset says that the last stream was no part of a row of failures.
func (w *waits) reset() {
	w.backoff.Reset()
	w.displaced = false
}

// next is how long to wait after a stream that has ended with err. leads is asked when another agent has displaced it. If the Lease is this
// agent's, the other one was frozen and could not know: the stream begins again soon, but once only. Of two clusters with agents
// for the same tenant both have their Lease.
func (w *waits) next(err error, leads func() bool) time.Duration {
	code := status.Code(err)
	if code == codes.Aborted && !w.displaced {
		w.displaced = true
		if leads() {
			return w.backoff.Next()
		}
	}
	if !refused(code) {
		return w.backoff.Next()
	}
	most := pause.Backoff{First: retryMost, Most: retryMost} // of which a part is left out at random
	return most.Next()
}

// words are those of an error, of an answer without what gRPC puts around them.
func words(err error) string {
	text := err.Error()
	var answer interface {
		error
		GRPCStatus() *status.Status
	}
	if errors.As(err, &answer) {
		before, _ := strings.CutSuffix(text, answer.Error())
		text = before + answer.GRPCStatus().Message()
	}
	if before, of, ok := strings.Cut(text, `connection error: desc = "`); ok { // it could not be made
		text = before + strings.TrimPrefix(strings.TrimSuffix(of, `"`), "transport: ")
	}
	return text
}
