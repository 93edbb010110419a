package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// traced measures what a leaf costs with traces over without: processor time of API and worker, and the time of the whole. Both take
// turns on the same stack, whose API and worker are started anew before each.
func traced(ctx context.Context, t *trial) {
	t.Helper()
	const apps = 2
	clusters, rounds := sizedDown(300, 30), sizedDown(4, 1)
	collector := harness.NewCollector(t)
	f := simulate(ctx, t, clusters, clusters)
	d := f.group(t, "traced", firstLabel(clusters), apps, scaleResources)
	require.NoError(t, d.API.Run(ctx, d.GroupSteps(), nil))
	var cpu, took [2][]time.Duration
	var sent, lost []float64
	what := fmt.Sprintf("%d apps of %d resources on %d clusters", apps, scaleResources, clusters)
	t.finally(func() []figure {
		perLeaf := make([]time.Duration, 0, rounds)
		for _, c := range cpu[0] {
			perLeaf = append(perLeaf, c/time.Duration(apps*clusters))
		}
		lost := values("traced_lost", what+": spans that were lost", "spans", lost)
		return []figure{
			ratio("traced_over_untraced_cpu", what+": processor time of API and worker for an instantiate with traces, over one without", cpu[0], cpu[1], "", nil),
			ratio("traced_over_untraced", what+": time of an instantiate with traces, over one without", took[0], took[1], "", nil),
			measured("traced_leaf_cpu_ms", what+": processor time of API and worker for a leaf, with traces", perLeaf),
			values("traced_spans", what+": spans that a worker had sent at the end of an instantiate", "spans", sent),
			goal(lost, "0", lost.Max == 0),
		}
	})
	for range rounds {
		for i, url := range []string{collector.URL, ""} {
			f.SendTraces(url)
			require.NoError(t, d.Do(ctx, "approve"))
			r := f.operate(ctx, t, d, domain.OpInstantiate, clusters)
			cpu[i], took[i] = append(cpu[i], r.cpu["api"]+r.cpu["worker"]), append(took[i], r.took)
			if url != "" {
				shown := harness.Metrics(ctx, t, f.WorkerURL())
				sent = append(sent, shown[`drover_spans_total{outcome="sent"}`])
				lost = append(lost, shown[`drover_spans_total{outcome="dropped"}`]+shown[`drover_spans_total{outcome="failed"}`])
			}
			f.operate(ctx, t, d, domain.OpTerminate, clusters)
		}
	}
}
