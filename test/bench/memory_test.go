package bench

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// remembering measures what memory Temporal takes while groups are instantiated and terminated without a rest: whether it
// levels off. With DROVER_BENCH_PROFILE, a folder, it writes profiles of the heap there, after a quarter and at the end.
func remembering(ctx context.Context, t *trial) {
	t.Helper()
	const clusters, sample = 50, 20 * time.Second
	over := 9 * time.Minute
	if quick() {
		over = time.Minute
	}
	f := simulate(ctx, t, clusters, clusters)
	d := f.deployment(ctx, t, "memory", firstLabel(clusters), scaleApps, scaleResources)
	folder := os.Getenv("DROVER_BENCH_PROFILE")
	keep := func(name string) {
		if folder == "" {
			return
		}
		require.NoError(t, os.MkdirAll(folder, 0o755))
		require.NoError(t, f.HeapOfTemporal(ctx, filepath.Join(folder, name)))
	}
	var resident, leaves []float64 // those of each sample
	done, early, began := 0, false, time.Now()
	t.finally(func() []figure {
		half := len(resident) / 2
		return []figure{
			values("temporal_memory_first_half_mib", "Temporal's resident memory under steady load, first half", "MiB", resident[:half]),
			values("temporal_memory_second_half_mib", "the same, second half", "MiB", resident[half:]),
			values("temporal_memory_leaves", "leaves that had ended by the samples", "leaves", leaves),
		}
	})
	cpu := -f.Temporal.CPU(t)
	for time.Since(began) < over {
		for _, operation := range []domain.Operation{domain.OpInstantiate, domain.OpTerminate} {
			f.operate(ctx, t, d, operation, clusters)
			done += scaleApps * clusters
		}
		if since := time.Since(began); since > time.Duration(len(resident)+1)*sample {
			resident, leaves = append(resident, f.Temporal.ResidentMiB(t)), append(leaves, float64(done))
			t.Logf("%4.0f s, %5d leaves: %.0f MiB", since.Seconds(), done, resident[len(resident)-1])
			if !early && since > over/4 {
				early = true
				keep("temporal-early.heap")
			}
		}
	}
	cpu += f.Temporal.CPU(t)
	keep("temporal-late.heap")
	t.add(values("temporal_memory_cpu_ms", "Temporal's CPU time per leaf, status and history in it", "ms", []float64{cpu.Seconds() * 1000 / float64(done)}))
}
