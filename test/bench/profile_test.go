package bench

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestProfile writes CPU profiles of every process while 3 apps go to 100 clusters and are removed again,
// into the folder that DROVER_BENCH_PROFILE names.
func TestProfile(t *testing.T) {
	folder := os.Getenv("DROVER_BENCH_PROFILE")
	if folder == "" {
		t.Skip("DROVER_BENCH_PROFILE names no folder for the profiles")
	}
	require.NoError(t, os.MkdirAll(folder, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	const clusters, over = 100, 8 * time.Second
	f := simulate(ctx, t, clusters, clusters)
	d := f.deployment(ctx, t, "profile", firstLabel(clusters), scaleApps, scaleResources)
	f.operate(ctx, t, d, "instantiate", clusters) // the first warms up
	f.operate(ctx, t, d, "terminate", clusters)
	profiled := make(chan error, 1)
	go func() { profiled <- f.Profile(ctx, over, folder) }()
	for begun := time.Now(); time.Since(begun) < over; {
		for _, operation := range []domain.Operation{domain.OpInstantiate, domain.OpTerminate} {
			r := f.operate(ctx, t, d, operation, clusters)
			t.Logf("%s: %.1f ms per (app, cluster); CPU %v", operation, r.leafMillis, r.cpu)
			if operation == domain.OpInstantiate {
				events, bytes := f.largest(ctx, t, d, r.contextID, clusters)
				t.Logf("largest history: %d events, %d bytes", events, bytes)
			}
		}
	}
	require.NoError(t, <-profiled)
}
