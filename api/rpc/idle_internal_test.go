package rpc

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// TestIdleConnectionsEnd: who connects to any of the gRPC servers and calls nothing has a connection for no longer than one may be idle, also when he
// answers pings.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 16)
		server := newServer(slog.New(slog.DiscardHandler), limits.GRPC)
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		client, err := grpc.NewClient("passthrough:///idle", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
		require.NoError(t, err)
		client.Connect()
		synctest.Wait()
		require.Equal(t, connectivity.Ready, client.GetState())
		<-time.After(policy.CallsIdle / 2) // of the bubble
		synctest.Wait()
		require.Equal(t, connectivity.Ready, client.GetState())
		<-time.After(policy.CallsIdle) // of the bubble
		synctest.Wait()
		require.Equal(t, connectivity.Idle, client.GetState())
		require.NoError(t, client.Close())
		server.Stop()
		require.NoError(t, <-ended)
	})
}
