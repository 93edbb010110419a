package tenantagent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	w := newWaits()
	next := func(err error) time.Duration { return w.next(err, func() bool { return false }) }
	about := func(want, got time.Duration) {
		t.Helper()
		require.LessOrEqual(t, got, want)
		require.GreaterOrEqual(t, got, want-want/4)
	}
	about(time.Second, next(status.Error(codes.Unavailable, "")))
	about(2*time.Second, next(errors.New("the Lease cannot be read")))
	about(30*time.Second, next(status.Error(codes.FailedPrecondition, "")))
	about(30*time.Second, next(status.Error(codes.Aborted, "")))
	about(4*time.Second, next(status.Error(codes.Unavailable, "")))
	for range 5 {
		next(status.Error(codes.Internal, ""))
	}
	about(30*time.Second, next(status.Error(codes.Unavailable, "")))

	// Who has the Lease and is displaced goes on, unless that happens again at once.
	w.reset()
	displaced := func() time.Duration {
		return w.next(status.Error(codes.Aborted, ""), func() bool { return true })
	}
	about(time.Second, displaced())
	about(30*time.Second, displaced())
	w.reset()
	about(time.Second, displaced())
}

func TestWordsOfErrors(t *testing.T) {
	refused := status.Error(codes.FailedPrecondition, `tenant "a" not found`)
	for want, err := range map[string]error{
		`tenant "a" not found`:                                       refused,
		`the rule cannot be deleted: tenant "a" not found`:           fmt.Errorf("the rule cannot be deleted: %w", refused),
		`dial tcp 127.0.0.1:9: connect: connection refused`:          status.Error(codes.Unavailable, `connection error: desc = "transport: dial tcp 127.0.0.1:9: connect: connection refused"`),
		`it cannot be deleted: authentication handshake failed: EOF`: fmt.Errorf("it cannot be deleted: %w", status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: EOF"`)),
		`the Lease cannot be read`:                                   errors.New("the Lease cannot be read"),
	} {
		require.Equal(t, want, words(err))
	}
}
