package rpc_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/universe"
)

// kept is what is logged.
type kept struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.b.Write(p)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.b.String()
}

// TestAPanicEndsItsCallAlone, behind a real listener: more calls of a tenant than it may have at a time panic one after the other, at the
// door and behind it, and each is answered as what it is.
func TestAPanicEndsItsCallAlone(t *testing.T) {
	log := &kept{}
	panics.LogTo(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { panics.LogTo(slog.Default()) })
	ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "tenant1")
	for at, step := range map[string]door.Step{
		"at the door":   func(context.Context, *door.Request, door.Next) error { panic("defect at the door") },
		"behind it":     func(ctx context.Context, _ *door.Request, next door.Next) error { return next(ctx) }, // there is no service
		"of the stream": func(ctx context.Context, _ *door.Request, next door.Next) error { return next(ctx) },
	} {
		connection := tenantsBehind(t, step)
		for range limits.TenantCalls + 1 {
			var err error
			if at == "of the stream" {
				stream, opened := universe.NewWorkloadServiceClient(connection).WorkloadStream(ctx)
				require.NoError(t, opened)
				_, err = stream.CloseAndRecv()
			} else {
				_, err = universe.NewWorkloadRuleServiceClient(connection).Create(ctx, &universe.CreateRequest{Rule: &universe.Rule{Id: "r"}})
			}
			require.Equal(t, codes.Internal, grpcstatus.Code(err), "%s: %v", at, err)
			require.NotContains(t, err.Error(), "defect")
			require.NotContains(t, err.Error(), "nil pointer")
		}
	}
	for _, said := range []string{"defect at the door", "nil pointer", "panics_test.go", "workloads.go"} {
		require.Contains(t, log.String(), said)
	}
}
