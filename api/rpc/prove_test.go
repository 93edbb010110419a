package rpc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/statusnotify"
)

// TestCallersAreKnown: calls and streams are for those who have proven who they are; a stream ends when that is withdrawn, and says
// so. Health is for all.
func TestCallersAreKnown(t *testing.T) {
	var revoked atomic.Bool
	look := func(context.Context) error {
		if revoked.Load() {
			return fail.New(fail.Unauthorized, "revoked")
		}
		return nil
	}
	prove := func(ctx context.Context, s *authn.Shown) (*authn.Proof, error) {
		if authn.Host(caller.RemoteOf(ctx)) != "127.0.0.1" {
			return nil, fail.New(fail.Internal, "it is not known where a call comes from")
		}
		if len(s.Authorization) == 0 {
			return nil, nil
		}
		return &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: s.Authorization[0]}, Still: look}, look(ctx)
	}
	w := newWorldBy(t, prove, 1, door.Identified)
	nobody := w.ctx
	requireUnknown := func(says string) {
		t.Helper()
		_, err := w.client.StatusDeregister(w.ctx, &statusnotify.StatusDeregistration{ClientId: "c"})
		require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
		require.ErrorContains(t, err, says)
		s, err := w.client.StatusRegister(w.ctx, registration("c", statusnotify.StatusValue_READY, statusnotify.OutputType_SUMMARY))
		require.NoError(t, err)
		_, err = s.Recv()
		require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	}
	requireUnknown("credentials are required")
	w.ctx = metadata.AppendToOutgoingContext(nobody, "x-forwarded-user", "alice")
	requireUnknown("credentials are required")
	_, err := w.health.Check(nobody, &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)

	w.ctx = metadata.AppendToOutgoingContext(nobody, "authorization", "alice")
	_, err = w.client.StatusDeregister(w.ctx, &statusnotify.StatusDeregistration{ClientId: "c"})
	require.NoError(t, err)
	s := w.register(registration("c", statusnotify.StatusValue_READY, statusnotify.OutputType_SUMMARY))
	revoked.Store(true)
	_, err = s.Recv() // within policy.Standing
	require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "revoked")
	requireUnknown("revoked")
}

// TestStrangersHoldNothing: who proves nothing is refused before he has sent anything, and of calls that need no proof an address has a few.
func TestStrangersHoldNothing(t *testing.T) {
	nobody := func(context.Context, *authn.Shown) (*authn.Proof, error) { return nil, nil }
	w := newWorldBy(t, nobody, 1, door.Identified)
	for _, method := range []string{statusnotify.StatusNotify_StatusRegister_FullMethodName, statusnotify.StatusNotify_StatusDeregister_FullMethodName} {
		s, err := w.to.NewStream(w.ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		require.NoError(t, err)
		err = s.RecvMsg(&statusnotify.StatusNotification{}) // without a message, and without its end
		require.Equal(t, codes.Unauthenticated, status.Code(err), "%s: %v", method, err)
	}
	watch := func() error {
		s, err := w.health.Watch(w.ctx, &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = s.Recv()
		return err
	}
	for range 32 {
		require.NoError(t, watch())
	}
	require.Equal(t, codes.Unavailable, status.Code(watch()), "one more")
	w.stop() // none of them holds it up
}

// TestStrangersAreAudited: a call of who proves nothing leaves a record, with the method, the kind of refusal and from where it came, as
// far as the trail has room; what needs no proof leaves none.
func TestStrangersAreAudited(t *testing.T) {
	nobody := func(context.Context, *authn.Shown) (*authn.Proof, error) { return nil, nil }
	w := newWorldBy(t, nobody, 1, door.Identified)
	_, err := w.health.Check(w.ctx, &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	for range 3 {
		_, err := w.client.StatusDeregister(w.ctx, &statusnotify.StatusDeregistration{ClientId: "c"})
		require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	}
	w.stop()
	require.Equal(t, 3, w.trail.asked)
	require.Len(t, w.trail.taken, 1, "it has room for one")
	record := w.trail.taken[0]
	require.Equal(t, [4]string{"answered", "CALL", statusnotify.StatusNotify_StatusDeregister_FullMethodName, "Unauthorized"},
		[4]string{string(record.Event), record.Verb, record.Key, record.Result})
	require.Equal(t, "127.0.0.1", authn.Host(record.From))
}
