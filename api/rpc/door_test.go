package rpc_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/authn"
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
		"StatusDeregister": {"get status-registrations", "", "status-registrations/client"}, // as there is none
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

// TestToDeregisterNobodyIsNoCommand: a command has two audit records, with the id that the caller has chosen. Who has registered no client under an id
// gets no record by it, nor by an id that none can have; who has one ends it by a command.
func TestToDeregisterNobodyIsNoCommand(t *testing.T) {
	var commands []string
	prove := func(_ context.Context, s *authn.Shown) (*authn.Proof, error) {
		return &authn.Proof{Identity: caller.Identity{Kind: caller.User, Name: s.Authorization[0]}}, nil
	}
	w := newWorldBy(t, prove, 1, door.Identified, func(ctx context.Context, r *door.Request, next door.Next) error {
		if r.Verb.Command() {
			commands = append(commands, string(r.Verb)+" "+string(r.Key()))
		}
		return next(ctx)
	})
	nobody := w.ctx
	as := func(user string) context.Context {
		return metadata.AppendToOutgoingContext(nobody, "authorization", user)
	}
	w.ctx = as("alice")
	s := w.register(registration("mine", statusnotify.StatusValue_READY, statusnotify.OutputType_SUMMARY))
	deregister := func(user, id string) codes.Code {
		_, err := w.client.StatusDeregister(as(user), &statusnotify.StatusDeregistration{ClientId: id})
		return grpcstatus.Code(err)
	}
	require.Equal(t, codes.OK, deregister("alice", "none"))
	require.Equal(t, codes.OK, deregister("mallory", "mine"))
	require.Equal(t, codes.InvalidArgument, deregister("mallory", strings.Repeat("x", 257)))
	require.Equal(t, codes.InvalidArgument, deregister("mallory", ""))
	require.Empty(t, commands)
	require.Equal(t, codes.OK, deregister("alice", "mine"))
	_, err := s.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"delete status-registrations/mine"}, commands)
	require.Equal(t, codes.OK, deregister("alice", "mine"))
	require.Len(t, commands, 1)
}
