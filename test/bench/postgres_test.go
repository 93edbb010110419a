package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// postgres measures the scale app on 100 clusters with Temporal on a SQLite file and on PostgreSQL, which
// waits for the disk at every commit.
func postgres(ctx context.Context, t *trial) {
	t.Helper()
	t.stage("sqlite", func(t *trial) { t.add(onStore(ctx, t, "sqlite", harness.Servers{}, nil)...) })
	t.stage("postgres", func(t *trial) {
		p := harness.StartPostgres(t)
		t.add(onStore(ctx, t, "postgres", harness.Servers{Postgres: p.URL}, p)...)
	})
}

// onStore measures with Temporal on one kind of store; server is nil when the store has no process of its own.
func onStore(ctx context.Context, t testing.TB, kind string, servers harness.Servers, server *harness.Postgres) []figure {
	t.Helper()
	const clusters, rounds = 100, 5
	f := simulateOn(ctx, t, servers, domain.ReportAgent, clusters, clusters)
	d := f.deployment(ctx, t, "on-"+kind, firstLabel(clusters), scaleApps, scaleResources)
	serverCPU := func() time.Duration {
		if server == nil {
			return 0
		}
		return server.CPU(t)
	}
	perLeaf := func(cpu time.Duration) float64 { return cpu.Seconds() * 1000 / (scaleApps * clusters) }
	var wall, removed, temporal, own []float64
	for round := range rounds + 1 {
		before := serverCPU()
		r := f.operate(ctx, t, d, "instantiate", clusters)
		after := serverCPU()
		gone := f.operate(ctx, t, d, "terminate", clusters)
		if round == 0 { // it warms up
			continue
		}
		wall, removed = append(wall, r.leafMillis), append(removed, gone.leafMillis)
		temporal, own = append(temporal, perLeaf(r.cpu["temporal"])), append(own, perLeaf(after-before))
	}
	what := func(operation string) string {
		return fmt.Sprintf("%s, %d apps × %d clusters × %d resources, Temporal on %s", operation, scaleApps, clusters, scaleResources, kind)
	}
	key := fmt.Sprintf("_%d_%s", clusters, kind)
	figures := []figure{
		values("leaf_ms"+key, what("instantiate")+": wall time per (app, cluster)", "ms", wall),
		values("leaf_terminate_ms"+key, what("terminate")+": wall time per (app, cluster)", "ms", removed),
		values("leaf_ms"+key+"_cpu_temporal", what("instantiate")+": CPU time of temporal per (app, cluster)", "ms", temporal),
	}
	if server != nil {
		figures = append(figures, values("leaf_ms"+key+"_cpu_postgres", what("instantiate")+": CPU time of postgres per (app, cluster)", "ms", own))
	}
	return figures
}
