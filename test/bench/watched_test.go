package bench

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/observe"
	"github.com/drover-io/drover/test/harness"
)

// BenchmarkWatchedCluster measures what is in memory for each of 200 simulated clusters that are watched and have
// nothing, which is what the part cluster-status measures with a whole stack. DROVER_BENCH_PROFILE names a folder for
// the profiles of heap and goroutines.
func BenchmarkWatchedCluster(b *testing.B) {
	const n = 200
	f := harness.StartFleet(b, n)
	kubeconfigs := map[string][]byte{}
	for _, name := range f.Names {
		kubeconfigs[name] = f.Kubeconfig(b, name)
	}
	source := func(_ context.Context, c domain.ClusterName) ([]byte, domain.Digest, error) {
		return kubeconfigs[c.Name], "digest", nil
	}
	for b.Loop() {
		before := collected()
		clusters, err := kube.NewClusters(kube.Config{}, source)
		require.NoError(b, err)
		ctx, cancel := context.WithCancel(b.Context())
		var running sync.WaitGroup
		heard := &hearing{}
		for _, name := range f.Names {
			w, err := observe.New(observe.Config{
				Cluster: domain.ClusterName{Provider: "fleet", Name: name}, Report: domain.ReportAgentless, Clusters: clusters, Sink: heard,
			})
			require.NoError(b, err)
			running.Go(func() { _ = w.Run(ctx) })
		}
		for heard.clusters.Load() < n {
			time.Sleep(calm)
		}
		time.Sleep(10 * time.Second) // until all watches are there
		after := collected()
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1024/n, "KiB-heap/cluster")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/1024/n, "KiB-stacks/cluster")
		b.ReportMetric(float64(runtime.NumGoroutine())/n, "goroutines/cluster")
		writeProfiles(b)
		cancel()
		running.Wait()
		clusters.Close()
	}
}

// hearing is a sink that counts the clusters that are heard.
type hearing struct{ clusters atomic.Int64 }

func (*hearing) Put(context.Context, *domain.Observation) (bool, error) { return true, nil }
func (*hearing) Delete(context.Context, domain.ObservedApp) error       { return nil }

func (h *hearing) Contact(_ context.Context, w domain.Watch) error {
	if w.Connected {
		h.clusters.Add(1)
	}
	return nil
}

// collected is what the process holds when all garbage has gone and stacks have shrunk, by half in each collection.
func collected() (m runtime.MemStats) {
	for range 4 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}

func writeProfiles(b *testing.B) {
	b.Helper()
	folder := os.Getenv("DROVER_BENCH_PROFILE")
	if folder == "" {
		return
	}
	require.NoError(b, os.MkdirAll(folder, 0o755))
	for _, name := range []string{"heap", "goroutine"} {
		file, err := os.Create(filepath.Join(folder, name+".pprof"))
		require.NoError(b, err)
		require.NoError(b, pprof.Lookup(name).WriteTo(file, 0))
		require.NoError(b, file.Close())
	}
}
