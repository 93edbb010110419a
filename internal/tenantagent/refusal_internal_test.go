package tenantagent

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/pause"
)

// TestWaits: a failure that may be over in a moment is tried again after 1 s, which doubles; a refusal after 30 s at once.
func TestWaits(t *testing.T) {
	is := map[codes.Code]bool{
		codes.OK: false, codes.Canceled: false, codes.Unknown: false, codes.DeadlineExceeded: false, codes.Internal: false,
		codes.Unavailable: false, codes.DataLoss: false,
		codes.InvalidArgument: true, codes.NotFound: true, codes.AlreadyExists: true, codes.PermissionDenied: true,
		codes.ResourceExhausted: true, codes.FailedPrecondition: true, codes.Aborted: true, codes.OutOfRange: true,
		codes.Unimplemented: true, codes.Unauthenticated: true,
	}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		want, known := is[code]
		require.True(t, known, "%s", code)
		require.Equal(t, want, refused(code), "%s", code)
	}
	b := pause.Backoff{First: retryFirst, Most: retryMost}
	about := func(want, got time.Duration) {
		t.Helper()
		require.LessOrEqual(t, got, want)
		require.GreaterOrEqual(t, got, want-want/4)
	}
	about(time.Second, next(&b, status.Error(codes.Unavailable, "")))
	about(2*time.Second, next(&b, errors.New("the Lease cannot be read")))
	about(30*time.Second, next(&b, status.Error(codes.FailedPrecondition, "")))
	about(4*time.Second, next(&b, status.Error(codes.Unavailable, "")))
	for range 5 {
		next(&b, status.Error(codes.Internal, ""))
	}
	about(30*time.Second, next(&b, status.Error(codes.Unavailable, "")))
}
