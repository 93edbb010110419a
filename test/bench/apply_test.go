package bench

import (
	"bytes"
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
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helmkube "helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

const (
	parallel = 8 // kube.Config's default for one cluster
	// How often a caller asks whether it is done. Every question costs the two cores some, so both ways of
	// asking are measured: what is reported is always with its interval.
	calm  = 25 * time.Millisecond
	eager = 5 * time.Millisecond
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// apply measures one app of ConfigMaps on one cluster: by Drover from the POST to Instantiated, by a bare
// client-go loop, by kubectl and by Helm's SDK, in turns.
func apply(ctx context.Context, p *trial) {
	p.Helper()
	a := applyingTo(ctx, p, harness.NewStack(p))
	a.compare(ctx, p, sizedDown(500, 20), 6, 3, "") // the first warms up
	a.compare(ctx, p, sizedDown(2000, 50), 1, 1, "_2000")
}

// applyingTo registers a real cluster with a stack.
func applyingTo(ctx context.Context, t testing.TB, s *harness.Stack) *applying {
	t.Helper()
	name := harness.ClusterNames[0]
	a := &applying{Stack: s, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	kubeconfig := harness.Kubeconfig(t, name)
	require.NoError(t, os.WriteFile(a.kubeconfig, kubeconfig, 0o600))
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	a.api, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	a.cluster = a.Register(ctx, name, kubeconfig)
	return a
}

// applying is a stack with one real cluster.
type applying struct {
	*harness.Stack
	api        dynamic.Interface
	kubeconfig string // file
	cluster    domain.ClusterName
}

// kubectlShare is which part of what a bare client-go loop is faster than kubectl Drover has to be faster.
const kubectlShare = 0.8

// compare applies n ConfigMaps in each way, in so many rounds, of which the first does not count where there are more; suffix ends
// the figures' keys.
func (a *applying) compare(ctx context.Context, p *trial, n, rounds, fewest int, suffix string) {
	p.Helper()
	ways := []func(prefix string) time.Duration{
		func(string) time.Duration { return a.byDrover(ctx, p, n, calm) },
		func(prefix string) time.Duration { return a.byLoop(ctx, p, n, prefix) },
		func(string) time.Duration { return a.byDrover(ctx, p, n, eager) },
		func(prefix string) time.Duration { return a.byKubectl(ctx, p, n, prefix) },
		func(prefix string) time.Duration { return a.byHelm(ctx, p, n, prefix) },
	}
	samples := make([][]time.Duration, len(ways))
	p.finally(func() []figure { return compared(samples, n, suffix) })
	for round := range p.rounds(ctx, rounds, fewest) {
		took := make([]time.Duration, len(ways))
		for i := range ways { // each way is first in its turn
			way := (i + round) % len(ways)
			took[way] = ways[way](fmt.Sprintf("way%d-round%d", way, round))
		}
		p.Logf("round %d: drover %s, client-go %s, drover asked eagerly %s, kubectl %s, helm %s", round, took[0], took[1], took[2], took[3], took[4])
		for i := range ways {
			if round > 0 || rounds == 1 {
				samples[i] = append(samples[i], took[i])
			}
		}
	}
}

func compared(samples [][]time.Duration, n int, suffix string) []figure {
	ours, bare, asked, kubectl, helm := samples[0], samples[1], samples[2], samples[3], samples[4]
	what := fmt.Sprintf("%d ConfigMaps, one app, one cluster", n)
	near := func(r float64) bool { return r <= 1.3 }
	beaten := ratio("kubectl_over_clientgo"+suffix, what+": kubectl apply --server-side over a bare client-go loop, which no product can beat", kubectl, bare, "", nil)
	least := kubectlShare * beaten.Median
	return []figure{
		ratio("apply_over_clientgo"+suffix, what+": POST instantiate to Instantiated, status asked every 25 ms, over a bare client-go loop", ours, bare, "≤ 1.3", near),
		ratio("apply_over_clientgo_asked_every_5ms"+suffix, what+": the same, status asked every 5 ms", asked, bare, "≤ 1.3", near),
		ratio("kubectl_over_apply"+suffix, what+": kubectl apply --server-side over POST instantiate to Instantiated", kubectl, ours,
			fmt.Sprintf("≥ %g × kubectl_over_clientgo = %.2f", kubectlShare, least), func(r float64) bool { return r >= least }),
		beaten,
		ratio("helm_over_apply"+suffix, what+": helm install by the SDK over POST instantiate to Instantiated", helm, ours, "", nil),
		measured("apply_ms"+suffix, what+": POST instantiate to Instantiated, status asked every 25 ms", ours),
		measured("apply_asked_every_5ms_ms"+suffix, what+": the same, status asked every 5 ms", asked),
		measured("clientgo_ms"+suffix, what+": bare client-go loop", bare),
		measured("kubectl_ms"+suffix, what+": kubectl apply --server-side", kubectl),
		measured("helm_ms"+suffix, what+": helm install by the SDK", helm),
	}
}

func (a *applying) byDrover(ctx context.Context, t testing.TB, n int, poll time.Duration) time.Duration {
	t.Helper()
	d := a.On(ctx, []domain.ClusterName{a.cluster}, client.App{Name: "many", Chart: harness.Chart(t, "many", harness.ConfigMaps("many", n))})
	require.NoError(t, d.Do(ctx, "approve"))
	begun := time.Now()
	require.NoError(t, d.Do(ctx, "instantiate"))
	got, err := d.Wait(ctx, poll, func(g *status.Document) bool { return g.Status != "Instantiating" })
	took := time.Since(begun)
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, got.Status)
	require.Equal(t, n, a.count(ctx, t, "emco/deployment-id="+got.States.ContextID()+"-many"))
	require.NoError(t, d.Do(ctx, "terminate"))
	got, err = d.Wait(ctx, 50*time.Millisecond, func(g *status.Document) bool { return g.Status != "Terminating" })
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{"Deleted": n}, got.Deployed)
	return took
}

// byHelm installs the chart that byDrover deploys.
func (a *applying) byHelm(ctx context.Context, t testing.TB, n int, release string) time.Duration {
	t.Helper()
	chart, err := loader.LoadArchive(bytes.NewReader(harness.Chart(t, "many", harness.ConfigMaps("many", n))))
	require.NoError(t, err)
	flags := genericclioptions.NewConfigFlags(false).WithWrapConfigFn(func(c *rest.Config) *rest.Config {
		c.QPS = -1
		return c
	})
	namespace := "default"
	flags.KubeConfig, flags.Namespace = &a.kubeconfig, &namespace
	var config action.Configuration
	require.NoError(t, config.Init(flags, namespace, "secret"))
	install := action.NewInstall(&config)
	install.ReleaseName, install.Namespace, install.WaitStrategy = release, namespace, helmkube.HookOnlyStrategy
	begun := time.Now()
	_, err = install.RunWithContext(ctx, chart, nil)
	took := time.Since(begun)
	require.NoError(t, err)
	list, err := a.api.Resource(configMaps).Namespace(namespace).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	there := 0
	for _, o := range list.Items {
		if strings.HasPrefix(o.GetName(), release+"-many-") {
			there++
		}
	}
	require.Equal(t, n, there)
	uninstall := action.NewUninstall(&config)
	uninstall.WaitStrategy = helmkube.HookOnlyStrategy
	_, err = uninstall.Run(release)
	require.NoError(t, err)
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

func (a *applying) byLoop(ctx context.Context, t testing.TB, n int, prefix string) time.Duration {
	t.Helper()
	work, errs := make(chan int), make(chan error, n)
	var wg sync.WaitGroup
	force := true
	begun := time.Now()
	for range parallel {
		wg.Go(func() {
			for i := range work {
				_, err := a.api.Resource(configMaps).Namespace("default").Patch(ctx, fmt.Sprintf("%s-%03d", prefix, i), types.ApplyPatchType,
					manifest(prefix, i), metav1.PatchOptions{FieldManager: "drover", Force: &force})
				if err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	took := time.Since(begun)
	require.Empty(t, errs)
	a.clear(ctx, t, n, prefix)
	return took
}

func (a *applying) byKubectl(ctx context.Context, t testing.TB, n int, prefix string) time.Duration {
	t.Helper()
	var manifests strings.Builder
	for i := range n {
		manifests.WriteString("---\n" + string(manifest(prefix, i)) + "\n")
	}
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	require.NoError(t, os.WriteFile(file, []byte(manifests.String()), 0o600))
	cmd := exec.CommandContext(ctx, built.Binary(t, "drover-kube"), "kubectl", "--kubeconfig", a.kubeconfig, "apply", "--server-side", "-f", file)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begun)
	require.NoError(t, err, "%s", out)
	a.clear(ctx, t, n, prefix)
	return took
}

func (a *applying) count(ctx context.Context, t testing.TB, selector string) int {
	t.Helper()
	list, err := a.api.Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{LabelSelector: selector})
	require.NoError(t, err)
	return len(list.Items)
}

// clear checks that all of a round is there and deletes it.
func (a *applying) clear(ctx context.Context, t testing.TB, n int, prefix string) {
	t.Helper()
	require.Equal(t, n, a.count(ctx, t, "bench="+prefix))
	require.NoError(t, a.api.Resource(configMaps).Namespace("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "bench=" + prefix}))
}
