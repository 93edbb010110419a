package test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/test/harness"
)

// tenancy is a tenant with a rule and the workloads of its cluster. It does all by REST and by the tenant's stream; the store is
// there to look at records.
type tenancy struct {
	*testing.T
	stack     *harness.Stack
	api       *client.API
	cluster   *harness.Cluster
	store     *store.Store
	tenant    *domain.Tenant
	rule      *domain.WorkloadRule // nil when there is none
	workloads map[string]*domain.Workload
}

func newTenancy(ctx context.Context, t *testing.T, s *harness.Stack, report domain.Report) *tenancy {
	t.Helper()
	return newTenancyOn(ctx, t, s, harness.ClusterNames[0], report)
}

// newTenancyOn is newTenancy with another infrastructure cluster.
func newTenancyOn(ctx context.Context, t *testing.T, s *harness.Stack, cluster string, report domain.Report) *tenancy {
	t.Helper()
	db, err := store.Open(s.StoreConfig())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(ctx)) })
	c := harness.NewCluster(t, cluster)
	registered := s.RegisterAs(ctx, c.Name, c.Kubeconfig(t), report)
	e := &tenancy{
		T: t, stack: s, api: s.Client.API(), cluster: c, store: db, workloads: map[string]*domain.Workload{},
		tenant: &domain.Tenant{
			Metadata: domain.Metadata{Name: kubetest.Name("t")},
			Spec:     domain.TenantSpec{Cluster: registered.String(), Nodes: domain.NodesAll},
		},
	}
	_, err = e.api.Create(ctx, e.tenant, nil)
	require.NoError(t, err)
	stored, err := db.Get(ctx, domain.Tenants, domain.KeyOf(e.tenant))
	require.NoError(t, err)
	e.tenant = stored.(*domain.Tenant)
	t.Cleanup(func() {
		_ = c.Client(t).CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), e.tenant.Namespace(), metav1.DeleteOptions{})
	})
	e.putRule(ctx, "nginx:1")
	return e
}

// putRule has the rule have an image; its Pods are never scheduled.
func (e *tenancy) putRule(ctx context.Context, image string) {
	e.Helper()
	write := e.api.Put
	if e.rule == nil {
		write = e.api.Create
	}
	e.rule = e.newRule(image)
	_, err := write(ctx, e.rule, nil)
	require.NoError(e, err)
}

// newRule is a rule for the workloads in the namespace default.
func (e *tenancy) newRule(image string) *domain.WorkloadRule {
	e.Helper()
	template, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "side"}, "spec": map[string]any{
			"automountServiceAccountToken": false, "nodeSelector": map[string]any{"no": "node"},
			"containers": []any{map[string]any{"name": "c", "image": image}},
		},
	})
	require.NoError(e, err)
	return &domain.WorkloadRule{
		Identity: domain.Identity{Parent: domain.TenantKey(e.tenant.Name)}, Metadata: domain.Metadata{Name: "side"},
		Spec: domain.WorkloadRuleSpec{
			OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.AnyNode,
			WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{{
				Key: "metadata.resourceNamespace", Operation: domain.OperationIn, Values: []string{"default"},
			}}}},
			WorkloadInfoInject: []domain.WorkloadInfoInject{{
				Key: "metadata.resourceName", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "name"},
			}},
			RuleTemplate: template,
		},
	}
}

func (e *tenancy) deleteRule(ctx context.Context) {
	e.Helper()
	require.NoError(e, e.api.Delete(ctx, domain.KeyOf(e.rule)))
	e.rule = nil
}

// run tells of n workloads that run, w0 and so on.
func (e *tenancy) run(ctx context.Context, n int) {
	e.Helper()
	for i := range n {
		e.workload(i)
	}
	a := e.agent(ctx)
	a.sync()
	a.end()
}

// workload is w0, w1 and so on, which runs from then on.
func (e *tenancy) workload(i int) *domain.Workload {
	w := &domain.Workload{
		Tenant: e.tenant.Name, ID: fmt.Sprint("w", i), Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod,
		ResourceNamespace: "default", ResourceName: fmt.Sprint("pod-", i),
	}
	e.workloads[w.ID] = w
	return w
}

// end tells that all workloads have ended.
func (e *tenancy) end(ctx context.Context) {
	e.Helper()
	clear(e.workloads)
	a := e.agent(ctx)
	a.sync()
	a.end()
}

func (e *tenancy) records(ctx context.Context) []domain.Match {
	e.Helper()
	records, err := e.store.Matches(ctx, e.tenant.Name)
	require.NoError(e, err)
	return records
}

// pods are those of the tenant that are in the cluster, by name, wherever they are.
func (e *tenancy) pods(ctx context.Context) map[string]corev1.Pod {
	e.Helper()
	list, err := e.cluster.Client(e).CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: plan.DeploymentLabel})
	require.NoError(e, err)
	found := map[string]corev1.Pod{}
	for _, p := range list.Items {
		if strings.HasPrefix(p.Labels[plan.DeploymentLabel], e.tenant.ContextID+"-") {
			found[p.Name] = p
		}
	}
	return found
}

// settled waits until nothing is due, and n objects are in the cluster as they are wanted. They are those of the records, both
// ways, and the workloads that are stored are those that were told of.
func (e *tenancy) settled(ctx context.Context, n int) map[string]corev1.Pod {
	e.Helper()
	var records []domain.Match
	defer func() {
		if e.Failed() {
			e.Logf("records: %+v", records)
		}
	}()
	harness.Until(ctx, e, fmt.Sprintf("%d matches are settled", n), func() bool {
		records = e.records(ctx)
		return len(records) == n && !slices.ContainsFunc(records, func(m domain.Match) bool { return m.Mark != domain.MarkApplied || !m.Due.IsZero() })
	})
	e.told(ctx)
	made := map[string]string{}
	for _, r := range records {
		require.NotNil(e, r.Made)
		require.NotNil(e, r.Wanted)
		require.Equal(e, r.Wanted.Spec, r.Made.Spec)
		made[r.Made.Name] = r.Made.UID
	}
	there, pods := map[string]string{}, e.pods(ctx)
	for name, p := range pods {
		there[name] = string(p.UID)
	}
	require.Equal(e, made, there)
	require.Len(e, made, n)
	return pods
}

// becomes says of a Pod what it has become, whatever else is said of it meanwhile: the scheduler finds no node for it.
func (e *tenancy) becomes(ctx context.Context, to *corev1.Pod) {
	e.Helper()
	pods := e.cluster.Client(e).CoreV1().Pods(to.Namespace)
	require.NoError(e, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		p, err := pods.Get(ctx, to.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.Status.Phase, p.Status.Reason = to.Status.Phase, to.Status.Reason
		_, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	}))
}

// lives has matches made and taken away in a cluster that reports: what is lost there is made again.
func (e *tenancy) lives(ctx context.Context) {
	e.Helper()
	e.run(ctx, 2)
	pods := e.cluster.Client(e).CoreV1().Pods(e.tenant.Namespace())
	again := func(name string, before corev1.Pod) {
		e.Helper()
		harness.Until(ctx, e, "made again", func() bool {
			now, there := e.pods(ctx)[name]
			return there && now.UID != before.UID
		})
	}
	made := e.settled(ctx, 2)
	first := slices.Sorted(maps.Keys(made))[0]
	e.reported(ctx, "NotReady", 2) // no node takes them
	require.NoError(e, pods.Delete(ctx, first, metav1.DeleteOptions{}))
	again(first, made[first])
	evicted := e.settled(ctx, 2)[first]
	evicted.Status.Phase, evicted.Status.Reason = corev1.PodFailed, "Evicted"
	e.becomes(ctx, &evicted)
	again(first, evicted)
	done := e.settled(ctx, 2)[first]
	done.Status.Phase = corev1.PodSucceeded // one that has ended stays
	e.becomes(ctx, &done)
	e.reported(ctx, "Ready", 1)
	stays := e.settled(ctx, 2)[first]
	require.Equal(e, done.UID, stays.UID)
	require.NoError(e, e.cluster.Client(e).CoreV1().Namespaces().Delete(ctx, e.tenant.Namespace(), metav1.DeleteOptions{}))
	for name, before := range made {
		again(name, before)
	}
	e.settled(ctx, 2)
	e.reported(ctx, "NotReady", 2)
}

// reported waits until clusters say so of n objects.
func (e *tenancy) reported(ctx context.Context, state string, n int) {
	e.Helper()
	harness.Until(ctx, e, fmt.Sprintf("%d objects are %s", n, state), func() bool {
		count := 0
		for one, err := range e.api.Matches(ctx, domain.KeyOf(e.rule), nil) {
			require.NoError(e, err)
			if one.Reported != nil && one.Reported.State == state && one.Reported.Doubt == "" {
				count++
			}
		}
		return count == n
	})
	status, err := e.api.TenantStatus(ctx, domain.KeyOf(e.tenant))
	require.NoError(e, err)
	require.Equal(e, n, status.Reported[state])
}

// matchesOfClustersWithAnAgent: the agent is installed by the first match, and told of each rule's matches.
func matchesOfClustersWithAnAgent(t *testing.T) {
	ctx, s := within(t), harness.SharedStack(t)
	e := newTenancyOn(ctx, t, s, harness.AgentClusterNames[1], domain.ReportInstall)
	e.cluster.UninstallAgent(t)
	e.run(ctx, 1)
	e.settled(ctx, 1)
	require.True(t, e.cluster.HasAgent(t))
	e.cluster.StartAgent(t)
	e.lives(ctx)
	other := newTenancyOn(ctx, t, s, harness.AgentClusterNames[1], domain.ReportAgent)
	other.run(ctx, 1)
	other.settled(ctx, 1)
	other.reported(ctx, "NotReady", 1)
	for _, one := range []*tenancy{e, other} {
		one.end(ctx)
		one.settled(ctx, 0)
	}
	harness.Until(ctx, t, "no report is left", func() bool {
		for _, r := range e.cluster.Reports(t) {
			if space := r.GetNamespace(); space == e.tenant.Namespace() || space == other.tenant.Namespace() {
				return false
			}
		}
		return true
	})
}

func TestMatches(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	e := newTenancy(ctx, t, s, domain.ReportAgentless)
	e.lives(ctx)
	e.end(ctx)
	e.settled(ctx, 0)

	e.deleteRule(ctx)
	require.NoError(t, e.api.Delete(ctx, domain.KeyOf(e.tenant)))
	harness.Until(ctx, t, "the namespace is gone", func() bool {
		_, err := e.cluster.Client(t).CoreV1().Namespaces().Get(ctx, e.tenant.Namespace(), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	harness.Until(ctx, t, "its record is gone", func() bool {
		homes, err := e.store.HomesOf(ctx, e.tenant.ContextID)
		require.NoError(t, err)
		return len(homes) == 0
	})
}
