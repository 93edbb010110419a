package kube_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// BenchmarkApply applies 500 ConfigMaps to a real API server as a job does, and by client-go's dynamic
// client in a bare loop, in turns, each time into a namespace of its own. "ratio" is the job's time over the
// loop's: figures of different runs cannot be compared on a machine that the server shares.
func BenchmarkApply(b *testing.B) {
	const n, parallel = 500, 8
	kubeconfig := kubetest.Kubeconfig(b)
	cluster := kubetest.Open(b, kube.Config{Parallel: parallel}, kubeconfig)
	client := kubetest.Dynamic(b, kubeconfig)
	resources := configMaps(n, 0)

	var own, loop time.Duration
	timed := func(spent *time.Duration, apply func(namespace string) error) {
		b.StopTimer()
		namespace := kubetest.Name("bench")
		kubetest.MakeNamespace(b, client, namespace)
		b.StartTimer()
		begin := time.Now()
		require.NoError(b, apply(namespace))
		*spent += time.Since(begin)
	}
	job := func(namespace string) error {
		return cluster.Apply(b.Context(), kube.Job{
			Resources: resources, Marks: domain.NewMarks(n, domain.MarkPending), Namespace: namespace, DeploymentID: kubetest.DeploymentID,
		}).Retry
	}
	bare := func(namespace string) error { return bareLoop(b.Context(), client, namespace, resources, parallel) }
	for b.Loop() { // whoever is first in a round is last, too
		timed(&own, job)
		timed(&loop, bare)
		timed(&loop, bare)
		timed(&own, job)
	}
	b.ReportMetric(float64(own.Microseconds())/float64(2*b.N*n), "µs/resource")
	b.ReportMetric(float64(loop.Microseconds())/float64(2*b.N*n), "µs/bare-resource")
	b.ReportMetric(own.Seconds()/loop.Seconds(), "ratio")
}

// bareLoop is what a few lines with client-go do: apply, nothing else.
func bareLoop(ctx context.Context, client dynamic.Interface, namespace string, resources []plan.Resource, parallel int) error {
	target := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	force := true
	queue := make(chan plan.Resource)
	errs := make(chan error, parallel)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for r := range queue {
				if _, err := target.Patch(ctx, r.Name, types.ApplyPatchType, r.Manifest, metav1.PatchOptions{FieldManager: "loop", Force: &force}); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for _, r := range resources {
		queue <- r
	}
	close(queue)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}
