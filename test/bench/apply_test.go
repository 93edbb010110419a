package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/test/harness"
)

const (
	resources = 500
	rounds    = 7
	parallel  = 8 // kube.Config's default for one cluster
	// How often a caller asks whether it is done. Every question costs the two cores some, so both ways of
	// asking are measured: what is reported is always with its interval.
	calm  = 25 * time.Millisecond
	eager = 5 * time.Millisecond
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// apply measures one app of 500 ConfigMaps on one cluster: by Drover from the POST to Instantiated, by a
// bare client-go loop, and by kubectl, in turns.
func apply(ctx context.Context, t *testing.T) []figure {
	t.Helper()
	s := harness.NewStack(t)
	name := harness.ClusterNames[0]
	kubeconfig := harness.Kubeconfig(t, name)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	api, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, kubeconfig, 0o600))
	cluster := s.Register(ctx, name, kubeconfig)

	ways := []func(round int) time.Duration{
		func(int) time.Duration { return applyByDrover(ctx, t, s, api, cluster, calm) },
		func(round int) time.Duration { return applyByLoop(ctx, t, api, fmt.Sprintf("bare%d", round+1)) },
		func(int) time.Duration { return applyByDrover(ctx, t, s, api, cluster, eager) },
		func(round int) time.Duration {
			return applyByKubectl(ctx, t, api, file, fmt.Sprintf("kubectl%d", round+1))
		},
	}
	samples := make([][]time.Duration, len(ways))
	for round := -1; round < rounds; round++ { // the first warms up
		took := make([]time.Duration, len(ways))
		for i := range ways { // each way is first in its turn
			way := (i + round + 1) % len(ways)
			took[way] = ways[way](round)
		}
		t.Logf("round %d: drover %s, client-go %s, drover asked eagerly %s, kubectl %s", round, took[0], took[1], took[2], took[3])
		for i := range ways {
			if round >= 0 {
				samples[i] = append(samples[i], took[i])
			}
		}
	}
	ours, bare, asked, kubectl := samples[0], samples[1], samples[2], samples[3]
	what := fmt.Sprintf("%d ConfigMaps, one app, one cluster", resources)
	return []figure{
		ratio("apply_over_clientgo", what+": POST instantiate to Instantiated, status asked every 25 ms, over a bare client-go loop", ours, bare, "≤ 1.5", func(r float64) bool { return r <= 1.5 }),
		ratio("apply_over_clientgo_asked_every_5ms", what+": the same, status asked every 5 ms", asked, bare, "≤ 1.5", func(r float64) bool { return r <= 1.5 }),
		ratio("kubectl_over_apply", what+": kubectl apply --server-side over POST instantiate to Instantiated", kubectl, ours, "≥ 10", func(r float64) bool { return r >= 10 }),
		measured("apply_ms", what+": POST instantiate to Instantiated, status asked every 25 ms", ours),
		measured("apply_asked_every_5ms_ms", what+": the same, status asked every 5 ms", asked),
		measured("clientgo_ms", what+": bare client-go loop", bare),
		measured("kubectl_ms", what+": kubectl apply --server-side", kubectl),
	}
}

func applyByDrover(ctx context.Context, t *testing.T, s *harness.Stack, api dynamic.Interface, cluster client.Cluster, poll time.Duration) time.Duration {
	t.Helper()
	d := s.On(ctx, []client.Cluster{cluster}, client.App{Name: "many", Chart: harness.Chart(t, "many", harness.ConfigMaps("many", resources))})
	require.NoError(t, d.Do(ctx, s.Client, "approve"))
	begun := time.Now()
	require.NoError(t, d.Do(ctx, s.Client, "instantiate"))
	got, err := d.Wait(ctx, s.Client, poll, func(g *client.Status) bool { return g.Status != "Instantiating" })
	took := time.Since(begun)
	require.NoError(t, err)
	require.Equal(t, "Instantiated", got.Status)
	require.Equal(t, resources, count(ctx, t, api, "emco/deployment-id="+got.ContextID()+"-many"))
	require.NoError(t, d.Do(ctx, s.Client, "terminate"))
	got, err = d.Wait(ctx, s.Client, 50*time.Millisecond, func(g *client.Status) bool { return g.Status != "Terminating" })
	require.NoError(t, err)
	require.Equal(t, map[string]int{"Deleted": resources}, got.Rsync)
	return took
}

func manifest(prefix string, i int) []byte {
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]string{"index": fmt.Sprint(i)},
		"metadata": map[string]any{"name": fmt.Sprintf("%s-%03d", prefix, i), "namespace": "default", "labels": map[string]string{"bench": prefix}},
	})
	if err != nil {
		panic(err)
	}
	return data
}

func applyByLoop(ctx context.Context, t *testing.T, api dynamic.Interface, prefix string) time.Duration {
	t.Helper()
	work, errs := make(chan int), make(chan error, resources)
	var wg sync.WaitGroup
	force := true
	begun := time.Now()
	for range parallel {
		wg.Go(func() {
			for i := range work {
				_, err := api.Resource(configMaps).Namespace("default").Patch(ctx, fmt.Sprintf("%s-%03d", prefix, i), types.ApplyPatchType,
					manifest(prefix, i), metav1.PatchOptions{FieldManager: "drover", Force: &force})
				if err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range resources {
		work <- i
	}
	close(work)
	wg.Wait()
	took := time.Since(begun)
	require.Empty(t, errs)
	clear(ctx, t, api, prefix)
	return took
}

func applyByKubectl(ctx context.Context, t *testing.T, api dynamic.Interface, kubeconfig, prefix string) time.Duration {
	t.Helper()
	var manifests strings.Builder
	for i := range resources {
		manifests.WriteString("---\n" + string(manifest(prefix, i)) + "\n")
	}
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	require.NoError(t, os.WriteFile(file, []byte(manifests.String()), 0o600))
	cmd := exec.CommandContext(ctx, built.Binary(t, "drover-kube"), "kubectl", "--kubeconfig", kubeconfig, "apply", "--server-side", "-f", file)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begun)
	require.NoError(t, err, "%s", out)
	clear(ctx, t, api, prefix)
	return took
}

func count(ctx context.Context, t *testing.T, api dynamic.Interface, selector string) int {
	t.Helper()
	list, err := api.Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{LabelSelector: selector})
	require.NoError(t, err)
	return len(list.Items)
}

// clear checks that all of a round is there and deletes it.
func clear(ctx context.Context, t *testing.T, api dynamic.Interface, prefix string) {
	t.Helper()
	require.Equal(t, resources, count(ctx, t, api, "bench="+prefix))
	require.NoError(t, api.Resource(configMaps).Namespace("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "bench=" + prefix}))
}
