package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

func BenchmarkTmp(b *testing.B) {
	kubeconfig, err := os.ReadFile("/tmp/dk/data/one/kubeconfig")
	require.NoError(b, err)
	const n = 500
	resources := func(prefix string) []plan.Resource {
		out := make([]plan.Resource, n)
		for i := range out {
			name := fmt.Sprintf("%s-%d", prefix, i)
			m, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]string{"a": "some text", "b": "more of it"}})
			out[i] = plan.Resource{ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: name}, Manifest: m}
		}
		return out
	}
	clusters, err := kube.NewClusters(kube.Config{}, func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) { return kubeconfig, "x", nil })
	require.NoError(b, err)
	c, err := clusters.Get(context.Background(), domain.ClusterName{})
	require.NoError(b, err)
	round := 0
	b.Run("job", func(b *testing.B) {
		for b.Loop() {
			round++
			rs := resources(fmt.Sprintf("j%d", round))
			o := c.Apply(b.Context(), kube.Job{Resources: rs, Marks: domain.NewMarks(n, domain.MarkPending), Namespace: "default", DeploymentID: "1-a"})
			require.NoError(b, o.Retry)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/res")
	})
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(b, err)
	cfg.QPS = -1
	cfg.WarningHandler = rest.NoWarnings{}
	d, err := dynamic.NewForConfig(cfg)
	require.NoError(b, err)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			round++
			rs := resources(fmt.Sprintf("k%d", round))
			q := make(chan int)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					force := true
					for i := range q {
						_, err := d.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default").Patch(b.Context(), rs[i].Name, types.ApplyPatchType, rs[i].Manifest, metav1.PatchOptions{FieldManager: "bare", Force: &force})
						if err != nil {
							panic(err)
						}
					}
				})
			}
			for i := range rs {
				q <- i
			}
			close(q)
			wg.Wait()
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/res")
	})
}
