package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/view"
	"github.com/drover-io/drover/test/harness"
)

// clusterStatus measures how soon a change in a cluster is seen, what it costs to watch, and how long an answer takes
// that says what clusters report.
func clusterStatus(ctx context.Context, t *trial) {
	t.Helper()
	t.stage("freshness", func(t *trial) { t.add(freshness(ctx, t)...) })
	t.stage("agent", func(t *trial) { t.add(agentCost(ctx, t)...) })
	t.stage("watching", func(t *trial) { watching(ctx, t) })
}

// freshness measures the time from the request that changes something in a real cluster until the API's answer that
// shows it, which is asked for every look: of lone changes, and of changes that come faster than they may be
// reported one by one.
func freshness(ctx context.Context, t testing.TB) []figure {
	t.Helper()
	s := harness.NewStack(t)
	agentless, agent := harness.NewCluster(t, harness.ClusterNames[0]), harness.NewCluster(t, harness.ClusterNames[1])
	agent.DefineReports(t)
	agent.StartAgent(t)
	var figures []figure
	for _, way := range []struct {
		how domain.Report
		on  *harness.Cluster
	}{{domain.ReportAgentless, agentless}, {domain.ReportAgent, agent}} {
		f := newChanging(ctx, t, s, way.how, way.on)
		for _, load := range []struct {
			key, what string
			took      []time.Duration
		}{
			{"lone", "one change after a rest", f.lone(ctx, t, sizedDown(40, 3))},
			{"burst", "20 changes a second for 5 s", f.bursts(ctx, t, sizedDown(6, 1))},
		} {
			key, what := fmt.Sprintf("freshness_%s_%s", way.how, load.key), fmt.Sprintf("change in the cluster until the API shows it, %s, %s", way.how, load.what)
			p95, p99 := percentile(load.took, 95).Seconds(), percentile(load.took, 99).Seconds()
			figures = append(figures, goal(values(key+"_p95_s", what+": p95", "s", []float64{p95}), "≤ 1", p95 <= 1),
				values(key+"_p99_s", what+": p99", "s", []float64{p99}), measured(key+"_ms", what, load.took))
		}
	}
	return figures
}

// look is how often the API is asked for a change.
const look = 10 * time.Millisecond

// changing is a ConfigMap that is changed, deployed by Drover.
type changing struct {
	*harness.Stack
	group  domain.Key
	query  string
	name   string
	at     typedcorev1.ConfigMapInterface
	number int // of the last change
}

func newChanging(ctx context.Context, t testing.TB, s *harness.Stack, how domain.Report, c *harness.Cluster) *changing {
	t.Helper()
	d := s.On(ctx, []domain.ClusterName{s.RegisterAs(ctx, c.Name, c.Kubeconfig(t), how)}, client.App{Name: "app", Chart: harness.Chart(t, "app", harness.ConfigMaps("app", 10))})
	require.NoError(t, d.Do(ctx, "approve"))
	require.NoError(t, d.Do(ctx, "instantiate"))
	s.Await(ctx, d, "Instantiated")
	f := &changing{Stack: s, group: d.Key(), name: d.Release + "-app-000", at: c.Client(t).CoreV1().ConfigMaps(metav1.NamespaceDefault)}
	f.query = client.At(d.Key()) + "/status?type=cluster&output=detail&resource=" + f.name
	f.await(ctx, t, f.change(ctx, t))
	return f
}

// numbered is the annotation that says which change it was.
const numbered = "change"

// change makes the next change, and says when it was sent.
func (f *changing) change(ctx context.Context, t testing.TB) (sent time.Time) {
	t.Helper()
	f.number++
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, numbered, f.number)
	sent = time.Now()
	_, err := f.at.Patch(ctx, f.name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	require.NoError(t, err)
	return sent
}

// seen is the number of the last change that the API shows; 0 for none.
func (f *changing) seen(ctx context.Context) (int, error) {
	var answer struct {
		Apps []struct {
			Clusters []struct {
				Resources []struct{ Detail json.RawMessage }
			}
		}
	}
	if _, err := f.Read(ctx, f.query, &answer); err != nil {
		return 0, err
	}
	for _, a := range answer.Apps {
		for _, c := range a.Clusters {
			for _, r := range c.Resources {
				var o corev1.ConfigMap
				if len(r.Detail) == 0 {
					continue
				}
				if err := json.Unmarshal(r.Detail, &o); err != nil || o.Annotations[numbered] == "" {
					return 0, err
				}
				return strconv.Atoi(o.Annotations[numbered])
			}
		}
	}
	return 0, nil
}

// await waits until the last change is seen, and says how long that took.
func (f *changing) await(ctx context.Context, t testing.TB, sent time.Time) time.Duration {
	t.Helper()
	for {
		seen, err := f.seen(ctx)
		require.NoError(t, err)
		if seen == f.number {
			return time.Since(sent)
		}
		time.Sleep(look)
	}
}

// lone makes so many changes, each after a rest that is longer than the time between two reports.
func (f *changing) lone(ctx context.Context, t testing.TB, n int) (took []time.Duration) {
	t.Helper()
	for i := range n {
		time.Sleep(1200*time.Millisecond + time.Duration(i)*7*time.Millisecond)
		took = append(took, f.await(ctx, t, f.change(ctx, t)))
	}
	return took
}

// bursts makes 100 changes, 50 ms apart, so many times.
func (f *changing) bursts(ctx context.Context, t testing.TB, n int) (took []time.Duration) {
	t.Helper()
	const changes, apart = 100, 50 * time.Millisecond
	for range n {
		time.Sleep(2 * time.Second)
		first := f.number + 1
		sent, shown := make([]time.Time, changes), make([]time.Time, changes)
		var g errgroup.Group
		g.Go(func() error {
			for next := 0; next < changes; time.Sleep(look) {
				last, err := f.seen(ctx)
				if err != nil {
					return err
				}
				for ; next <= last-first; next++ {
					shown[next] = time.Now()
				}
			}
			return nil
		})
		tick := time.NewTicker(apart)
		for i := range changes {
			sent[i] = f.change(ctx, t)
			<-tick.C
		}
		tick.Stop()
		require.NoError(t, g.Wait())
		for i := range changes {
			took = append(took, shown[i].Sub(sent[i]))
		}
	}
	return took
}

// agentCost measures what an agent takes in a cluster with many objects that are none of its business, and with no, some
// and many Pods that are: memory, and processor time for taking them in and while nothing changes.
func agentCost(ctx context.Context, t testing.TB) (figures []figure) {
	t.Helper()
	others, rest := sizedDown(20_000, 500), time.Duration(sizedDown(20, 1))*time.Second
	s, c := harness.NewStack(t), harness.NewCluster(t, harness.ClusterNames[1])
	c.DefineReports(t)
	fill(ctx, t, c, others)
	d := s.Deployment(ctx, []*harness.Cluster{c}, client.App{Name: "app", Chart: harness.Chart(t, "app", harness.ConfigMaps("app", 1))})
	require.NoError(t, d.Do(ctx, "approve"))
	require.NoError(t, d.Do(ctx, "instantiate"))
	label := "emco/deployment-id=" + s.Await(ctx, d, "Instantiated").States.ContextID() + "-app"
	agent := c.StartAgent(t)
	present := func(n int) {
		t.Helper()
		for {
			var answer struct {
				Counts map[string]int `json:"cluster-status"`
			}
			_, err := s.Read(ctx, client.At(d.Key())+"/status?type=cluster&output=summary", &answer)
			require.NoError(t, err)
			if answer.Counts["Present"] == n {
				return
			}
			time.Sleep(4 * calm)
		}
	}
	for _, pods := range []int{0, 100, sizedDown(2000, 200)} {
		present(1)
		began := agent.CPU(t)
		if pods > 0 {
			c.RunPods(ctx, t, label, pods)
			present(1 + pods)
		}
		took := agent.CPU(t) - began
		memory, began := agent.ResidentMiB(t), agent.CPU(t)
		time.Sleep(rest)
		idle := (agent.CPU(t) - began).Seconds() * 1000 / rest.Seconds()
		key, what := fmt.Sprintf("agent_%d", pods), fmt.Sprintf("agent in a cluster of %d ConfigMaps without the label and %d Pods with it", others, pods)
		figures = append(figures,
			values(key+"_mib", what+": resident", "MiB", []float64{memory}),
			values(key+"_idle_cpu_ms_per_s", what+": CPU while nothing changes, a second", "ms", []float64{idle}))
		if pods > 0 {
			figures = append(figures, values(key+"_cpu_s", what+": CPU until they are reported", "s", []float64{took.Seconds()}))
			c.RemovePods(t, label)
		}
	}
	return append(figures, values("agent_peak_mib", "the same agent: peak", "MiB", []float64{agent.PeakMiB(t)}))
}

// fill makes n ConfigMaps without a label, until the test ends.
func fill(ctx context.Context, t testing.TB, c *harness.Cluster, n int) {
	t.Helper()
	const namespace = "others"
	kube := c.Client(t)
	_, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, kube.CoreV1().ConfigMaps(namespace).DeleteCollection(context.WithoutCancel(ctx), metav1.DeleteOptions{}, metav1.ListOptions{}))
	})
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * parallel)
	for i := range n {
		g.Go(func() error {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%05d", i)}, Data: map[string]string{"key": "value"}}
			_, err := kube.CoreV1().ConfigMaps(namespace).Create(gctx, o, metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(t, g.Wait())
}

// watching measures what the worker has in memory for a cluster that it watches, beside what it has for one that it
// only works on; and the status of 1,200 resources.
func watching(ctx context.Context, t *trial) {
	t.Helper()
	clusters, asked := sizedDown(200, 20), sizedDown(100, 10)
	resident := map[domain.Report]float64{}
	for _, how := range []domain.Report{domain.ReportNone, domain.ReportInstall, domain.ReportAgentless} {
		t.stage(string(how), func(t *trial) {
			f := simulateOn(ctx, t, harness.Servers{}, how, clusters, clusters, asked)
			d := f.deployment(ctx, t, "watched", firstLabel(clusters), 1, scaleResources)
			require.NoError(t, d.Do(ctx, "instantiate"))
			f.Await(ctx, d, "Instantiated")
			if how != domain.ReportNone {
				f.heard(ctx, t, clusters)
			}
			time.Sleep(time.Duration(sizedDown(10, 1)) * time.Second) // until what was needed for the work has gone
			resident[how] = f.Worker.ResidentMiB(t)
			if how == domain.ReportAgentless {
				t.add(f.reportedAnswers(ctx, t, asked)...)
			}
		})
	}
	for _, how := range []domain.Report{domain.ReportInstall, domain.ReportAgentless} {
		if resident[how] == 0 || resident[domain.ReportNone] == 0 {
			continue
		}
		per := (resident[how] - resident[domain.ReportNone]) * 1024 / float64(clusters)
		what := map[domain.Report]string{domain.ReportInstall: "agent", domain.ReportAgentless: "agentless"}[how]
		t.add(most("watch_"+what+"_kib_per_cluster", fmt.Sprintf("worker's memory for each of %d watched clusters, %s", clusters, what), "KiB", per, 1024))
	}
}

// heard waits until n clusters are heard.
func (f *simulated) heard(ctx context.Context, t testing.TB, n int) {
	t.Helper()
	db, err := store.Open(f.StoreConfig())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close(context.WithoutCancel(ctx))) }()
	for connected := 0; connected < n; time.Sleep(calm) {
		watches, err := db.Watches(ctx, nil)
		require.NoError(t, err)
		connected = 0
		for _, w := range watches {
			if view.ContactAt(w, time.Now()).Heard {
				connected++
			}
		}
	}
}

// reportedAnswers measures the status of what 3 apps × 4 resources on n clusters have become.
func (f *simulated) reportedAnswers(ctx context.Context, t testing.TB, n int) (figures []figure) {
	t.Helper()
	d := f.deployment(ctx, t, "asked", firstLabel(n), scaleApps, scaleResources)
	f.operate(ctx, t, d, "instantiate", n)
	for present := 0; present < scaleApps*scaleResources*n; time.Sleep(calm) {
		var answer struct {
			Counts map[string]int `json:"cluster-status"`
		}
		_, err := f.Read(ctx, client.At(d.Key())+"/status?type=cluster&output=summary", &answer)
		require.NoError(t, err)
		present = answer.Counts["Present"]
	}
	for _, form := range []string{"type=cluster", "status=ready"} {
		for _, output := range []string{"summary", "all"} {
			for _, clients := range []int{1, 20} {
				took, bytes := f.askAll(ctx, t, d, form+"&output="+output, clients, sizedDown(200, 20))
				_, kind, _ := strings.Cut(form, "=")
				key := fmt.Sprintf("status_%s_%s_%d_clients", kind, output, clients)
				what := fmt.Sprintf("GET status, %s, %s, %d resources, %d clients", form, output, scaleApps*scaleResources*n, clients)
				figures = append(figures, measured(key+"_ms", what, took), values(key+"_kib", what+": size of the answer", "KiB", []float64{float64(bytes) / 1024}))
			}
		}
	}
	return figures
}
