package rpc_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/statusnotify"
)

// TestEveryMethodPassesTheDoor: with a door that lets nobody in, every method is refused, and has come there with a verb, a
// noun and a scope. A method that is not here fails the test.
func TestEveryMethodPassesTheDoor(t *testing.T) {
	var came []door.Request
	w := newWorldOf(t, 1, func(_ context.Context, r *door.Request, _ door.Next) error {
		came = append(came, *r)
		return fail.New(fail.Forbidden, "closed")
	})
	calls := map[string]func() error{
		"StatusRegister": func() error {
			s, err := w.client.StatusRegister(w.ctx, registration("client", statusnotify.StatusValue_READY, statusnotify.OutputType_ALL))
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
		"StatusDeregister": func() error {
			_, err := w.client.StatusDeregister(w.ctx, &statusnotify.StatusDeregistration{ClientId: "client"})
			return err
		},
	}
	want := map[string][3]string{
		"StatusRegister":   {"watch deployment-intent-groups", "projects/fleet", "projects/fleet/composite-apps/collectd/v1/deployment-intent-groups/everywhere"},
		"StatusDeregister": {"delete status-registrations", "", "status-registrations/client"},
	}
	var methods []string
	for _, m := range statusnotify.StatusNotify_ServiceDesc.Methods {
		methods = append(methods, m.MethodName)
	}
	for _, m := range statusnotify.StatusNotify_ServiceDesc.Streams {
		methods = append(methods, m.StreamName)
	}
	for _, method := range methods {
		require.Contains(t, calls, method)
		came = nil
		require.Equal(t, codes.PermissionDenied, grpcstatus.Code(calls[method]()), method)
		require.Len(t, came, 1, method)
		r := came[0]
		require.Equal(t, want[method], [3]string{string(r.Verb) + " " + r.Noun.Kind, string(r.Scope()), string(r.Key())})
	}
}

// TestCallsHaveAnID: what comes from an edge that gives requests no ids has one behind the door.
func TestCallsHaveAnID(t *testing.T) {
	var id string
	w := newWorldOf(t, 1, door.Traced(slog.New(slog.DiscardHandler)), func(ctx context.Context, _ *door.Request, next door.Next) error {
		id = caller.RequestID(ctx)
		return next(ctx)
	})
	_, err := w.client.StatusDeregister(w.ctx, &statusnotify.StatusDeregistration{ClientId: "client"})
	require.NoError(t, err)
	require.NotEmpty(t, id)
}
