package app

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/fail"
)

// TestTemporalIsShownAToken: one that takes nobody without it is reached, also after the token was replaced.
func TestTemporalIsShownAToken(t *testing.T) {
	var takes atomic.Value
	takes.Store("Bearer one")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		shown := metadata.ValueFromIncomingContext(ctx, "authorization")
		if len(shown) != 1 || shown[0] != takes.Load() {
			return nil, status.Error(codes.PermissionDenied, "Request unauthorized.")
		}
		return next(ctx, in)
	}))
	grpc_health_v1.RegisterHealthServer(s, healthy())
	workflowservice.RegisterWorkflowServiceServer(s, workflowservice.UnimplementedWorkflowServiceServer{})
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)

	p := partial(t)
	p.config.Temporal = config.Temporal{Address: listener.Addr().String(), Namespace: "drover", TokenFile: filepath.Join(t.TempDir(), "token")}
	ping := func() error {
		c, err := dial(p.config, p.log, p.tracing, p.leases, p.codec)
		require.NoError(t, err)
		defer c.Close()
		return engine.New(c).Ping(t.Context())
	}
	require.NoError(t, os.WriteFile(p.config.Temporal.TokenFile, []byte("one\n"), 0o600))
	c, err := dial(p.config, p.log, p.tracing, p.leases, p.codec)
	require.NoError(t, err)
	defer c.Close()
	e := engine.New(c)
	require.NoError(t, e.Ping(t.Context()))
	require.NoError(t, ping())
	takes.Store("Bearer two")
	require.True(t, fail.Is(e.Ping(t.Context()), fail.Unavailable))
	require.NoError(t, os.WriteFile(p.config.Temporal.TokenFile, []byte("two\n"), 0o600))
	require.NoError(t, e.Ping(t.Context()))
	require.NoError(t, ping())
	p.config.Temporal.TokenFile = ""
	require.ErrorContains(t, ping(), "denies Drover access")
}

// healthy is a health service of a Temporal that is well.
func healthy() *health.Server {
	h := health.NewServer()
	h.SetServingStatus("temporal.api.workflowservice.v1.WorkflowService", grpc_health_v1.HealthCheckResponse_SERVING)
	return h
}
