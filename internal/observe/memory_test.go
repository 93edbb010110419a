package observe_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/observe"
)

// quiet is a sink that counts.
type quiet struct {
	contextID       string
	puts, connected atomic.Int64
}

func (q *quiet) Put(_ context.Context, o *domain.Observation) (bool, error) {
	if o.ContextID == q.contextID {
		q.puts.Add(1)
	}
	return true, nil
}

func (q *quiet) Delete(context.Context, domain.ObservedApp) error { return nil }

func (q *quiet) Contact(_ context.Context, w domain.Watch) error {
	if w.Connected {
		q.connected.Add(1)
	}
	return nil
}

// memory is what the process holds after a collection: heap and stacks.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestMemoryOfClustersThatAreWatched watches many clusters, each of which has reported a large bundle.
func TestMemoryOfClustersThatAreWatched(t *testing.T) {
	const n, batch, most = 30, 15, 1 << 20 // batch is how many begin at a time
	w := newWorld(t)
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 500<<10))
	clusters, err := kube.NewClusters(kubetest.Patient(kube.Config{}), func(_ context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
		return w.kubeconfig, domain.Digest(name.Name), nil
	})
	require.NoError(t, err)
	defer clusters.Close()
	before := memory()
	sink := &quiet{contextID: w.contextID}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i := range n {
		watcher, err := observe.New(observe.Config{
			Cluster: domain.ClusterName{Provider: "p", Name: fmt.Sprint(i)}, Report: domain.ReportAgent, Clusters: clusters, Sink: sink,
		})
		require.NoError(t, err)
		running.Go(func() { _ = watcher.Run(ctx) })
		if i%batch < batch-1 {
			continue
		}
		require.Eventually(t, func() bool { return sink.puts.Load() > int64(i) && sink.connected.Load() > int64(i) }, deadline, tick)
	}
	each := (memory() - before) / n
	t.Logf("%d KiB and %.1f goroutines a cluster", each>>10, float64(runtime.NumGoroutine())/n)
	require.Less(t, each, uint64(most))
}
