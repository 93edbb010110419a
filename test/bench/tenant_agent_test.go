package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/tenantcert"
	"github.com/drover-io/drover/test/harness"
)

// agency is a tenant of real clusters, the second of which has an agent.
type agency struct {
	*trial
	stack      *harness.Stack
	infra, own *harness.Cluster
	kube       kubernetes.Interface // the tenant's own cluster
	agent      *harness.TenantAgent
}

// newAgency starts everything but the agent. The tenant has a rule for the Pods that are wanted.
func newAgency(ctx context.Context, p *trial) *agency {
	p.Helper()
	e := &agency{trial: p, stack: harness.NewStack(p), infra: harness.NewCluster(p, harness.ClusterNames[0]), own: harness.NewCluster(p, harness.ClusterNames[1])}
	e.kube = e.own.Client(p)
	cluster := e.stack.RegisterAs(ctx, e.infra.Name, harness.Kubeconfig(p, e.infra.Name), domain.ReportAgentless)
	tenant := &domain.Tenant{Metadata: domain.Metadata{Name: kubetest.Name("t")}, Spec: domain.TenantSpec{Cluster: cluster.String(), Nodes: domain.NodesAll}}
	rule := workloadRule(tenant.Name, "side", []string{"yes"})
	rule.Spec.WorkloadInfoInject = []domain.WorkloadInfoInject{{Key: "metadata.resourceName", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "name"}}}
	require.NoError(p, e.stack.Client.API().Run(ctx, []client.Step{{Object: tenant}, {Object: rule}}, nil))
	p.Cleanup(func() {
		_ = e.infra.Client(p).CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), tenant.Namespace(), metav1.DeleteOptions{})
	})
	e.start(ctx, tenant.Name)
	return e
}

// start starts the agent, which tells of the namespace default.
func (e *agency) start(ctx context.Context, tenant string) {
	e.Helper()
	folder, space := e.stack.Certificates(), kubetest.Name("agent")
	require.NoError(e, tenantcert.Tenant(folder, tenant))
	kubetest.MakeNamespace(e, e.own.Dynamic(e), space)
	_, err := e.kube.CoreV1().ConfigMaps(space).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "drover-tenant-agent"}, Data: map[string]string{"config": "namespaces: [default]"},
	}, metav1.CreateOptions{})
	require.NoError(e, err)
	e.agent = harness.StartTenantAgent(e, "drover", e.own.Name, "--tenant", tenant, "--agent-namespace", space, "--rules=false",
		"--server", e.stack.TenantAddress(), "--server-name", tenantcert.ServerName, "--server-ca", filepath.Join(folder, "ca.crt"),
		"--client-cert", filepath.Join(folder, tenant+".crt"), "--client-key", filepath.Join(folder, tenant+".key"))
	e.until(ctx, calm, "the agent has not told of all", func() bool { return e.agent.Metric(ctx, e, "connected") == 1 })
}

// pods runs Pods of the tenant, so many a second, and returns how long it takes until each has its resource.
func (e *agency) pods(ctx context.Context, prefix string, rate, seconds int) (took []time.Duration) {
	e.Helper()
	watching, err := e.infra.Client(e).CoreV1().Pods("").Watch(ctx, metav1.ListOptions{LabelSelector: plan.DeploymentLabel})
	require.NoError(e, err)
	defer watching.Stop()
	var mu sync.Mutex
	arrived := map[string]time.Time{}
	go func() {
		for event := range watching.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			mu.Lock()
			if name := pod.Annotations["name"]; arrived[name].IsZero() {
				arrived[name] = time.Now()
			}
			mu.Unlock()
		}
	}()
	off, began := false, time.Now()
	sent := map[string]time.Time{}
	for i := range rate * seconds {
		select {
		case <-time.After(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate)))):
		case <-ctx.Done():
			require.NoError(e, context.Cause(ctx))
		}
		name := fmt.Sprint(prefix, i)
		sent[name] = time.Now()
		_, err := e.kube.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"wanted": "yes"}},
			Spec: corev1.PodSpec{
				SchedulerName: "nobody", AutomountServiceAccountToken: &off, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
			},
		}, metav1.CreateOptions{})
		require.NoError(e, err)
	}
	e.until(ctx, calm, "not all resources are made", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for name := range sent {
			if arrived[name].IsZero() {
				return false
			}
		}
		return true
	})
	for name, at := range sent {
		took = append(took, arrived[name].Sub(at))
	}
	return took
}

// workloadPods measures how long it takes from a Pod in a tenant's cluster until its resource is in the infrastructure cluster.
func workloadPods(ctx context.Context, p *trial) {
	p.Helper()
	const rate = 10
	e := newAgency(ctx, p)
	p.Cleanup(func() { e.own.RemovePods(p, "wanted=yes") })
	e.pods(ctx, "first-", rate, 1) // the first match makes the namespace
	took := e.pods(ctx, "pod-", rate, sizedDown(20, 2))
	what := fmt.Sprintf("%d Pods a second in a tenant's cluster with an agent, two real clusters: asked for until its resource is there", rate)
	p.add(most("workload_pod_to_resource_p95_s", what+": p95", "s", percentile(took, 95).Seconds(), 1.5), measured("workload_pod_to_resource_ms", what, took))
}

// tenantAgentMemory measures the memory of an agent in a cluster with many Pods.
func tenantAgentMemory(ctx context.Context, p *trial) {
	p.Helper()
	pods := sizedDown(10_000, 300)
	e := newAgency(ctx, p)
	idle := []float64{e.agent.AnonymousMiB(p), e.agent.ResidentMiB(p)}
	e.own.RunPods(ctx, p, "app=many", pods)
	e.until(ctx, calm, "the agent has not told of all", func() bool { return int(e.agent.Metric(ctx, p, "pods")) >= pods })
	what := fmt.Sprintf("agent of a tenant's cluster with %d Pods that it was told of one by one", pods)
	p.add(
		values("tenant_agent_idle_anonymous_mib", "agent without Pods: memory of its own", "MiB", idle[:1]),
		values("tenant_agent_idle_mib", "the same: resident", "MiB", idle[1:]),
		values("tenant_agent_told_mib", what+": resident", "MiB", []float64{e.agent.ResidentMiB(p)}))
	require.NoError(p, e.agent.Stop(ctx))
	tenants, err := e.stack.Client.API().List(ctx, domain.Tenants, "")
	require.NoError(p, err)
	e.start(ctx, tenants[0].LocalName())
	what = fmt.Sprintf("agent of a tenant's cluster, started with %d Pods there", pods)
	p.add(
		most("tenant_agent_mib", what+": resident, its binary's pages with it", "MiB", e.agent.ResidentMiB(p), 80),
		values("tenant_agent_anonymous_mib", what+": memory of its own", "MiB", []float64{e.agent.AnonymousMiB(p)}),
		values("tenant_agent_peak_mib", what+": the most that was resident", "MiB", []float64{e.agent.PeakMiB(p)}))
}
