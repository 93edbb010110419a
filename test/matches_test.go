package test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/test/harness"
)

// tenancy is a tenant with a rule and the workloads of its cluster. What it does goes through the store, as the API does it.
type tenancy struct {
	*testing.T
	stack     *harness.Stack
	cluster   *harness.Cluster
	store     *store.Store
	engine    *engine.Engine
	tenant    *domain.Tenant
	rule      *domain.WorkloadRule // nil when there is none
	workloads map[string]*domain.Workload
}

func newTenancy(ctx context.Context, t *testing.T, s *harness.Stack, report domain.Report) *tenancy {
	t.Helper()
	db, err := store.Open(store.Config{URI: s.DatabaseURI(), Database: "drover"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(ctx)) })
	c := harness.NewCluster(t, harness.ClusterNames[0])
	registered := s.RegisterAs(ctx, c.Name, c.Kubeconfig(t), report)
	e := &tenancy{
		T: t, stack: s, cluster: c, store: db, engine: engine.New(s.TemporalClient()), workloads: map[string]*domain.Workload{},
		tenant: &domain.Tenant{
			Metadata: domain.Metadata{Name: kubetest.Name("t")}, ContextID: fmt.Sprintf("%019d", time.Now().UnixNano()),
			Spec: domain.TenantSpec{Cluster: registered.String(), Nodes: domain.NodesAll},
		},
	}
	e.tenant.Default()
	require.NoError(t, db.Create(ctx, e.tenant))
	t.Cleanup(func() {
		_ = c.Client(t).CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), e.tenant.Namespace(), metav1.DeleteOptions{})
	})
	e.putRule(ctx, "nginx:1")
	return e
}

// putRule stores the rule with an image; its Pods are never scheduled.
func (e *tenancy) putRule(ctx context.Context, image string) {
	e.Helper()
	write := e.store.Replace
	if e.rule == nil {
		write = e.store.Create
		e.rule = &domain.WorkloadRule{
			Identity: domain.Identity{Parent: domain.TenantKey(e.tenant.Name)}, Metadata: domain.Metadata{Name: "side"},
			Spec: domain.WorkloadRuleSpec{
				OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.AnyNode,
				WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{{
					Key: "metadata.resourceNamespace", Operation: domain.OperationIn, Values: []string{"default"},
				}}}},
				WorkloadInfoInject: []domain.WorkloadInfoInject{{
					Key: "metadata.resourceName", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "name"},
				}},
			},
		}
	}
	template, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "side"}, "spec": map[string]any{
			"automountServiceAccountToken": false, "nodeSelector": map[string]any{"no": "node"},
			"containers": []any{map[string]any{"name": "c", "image": image}},
		},
	})
	require.NoError(e, err)
	e.rule.Spec.RuleTemplate = template
	require.NoError(e, write(ctx, e.rule))
}

func (e *tenancy) deleteRule(ctx context.Context) {
	e.Helper()
	require.NoError(e, e.store.Delete(ctx, domain.WorkloadRules, domain.KeyOf(e.rule), 0))
	e.rule = nil
}

// run tells of n workloads that run.
func (e *tenancy) run(ctx context.Context, n int) {
	e.Helper()
	var put []*domain.Workload
	for i := range n {
		w := &domain.Workload{
			Tenant: e.tenant.Name, ID: fmt.Sprint("w", i), Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod,
			ResourceNamespace: "default", ResourceName: fmt.Sprint("pod-", i),
		}
		e.workloads[w.ID] = w
		put = append(put, w)
	}
	_, err := e.store.WriteWorkloads(ctx, e.tenant.Name, &domain.WorkloadWrite{Put: put})
	require.NoError(e, err)
}

// end tells that all workloads have ended.
func (e *tenancy) end(ctx context.Context) {
	e.Helper()
	_, err := e.store.WriteWorkloads(ctx, e.tenant.Name, &domain.WorkloadWrite{Delete: slices.Collect(maps.Keys(e.workloads))})
	require.NoError(e, err)
	clear(e.workloads)
}

// mark marks what is due by now.
func (e *tenancy) mark(ctx context.Context) {
	e.Helper()
	var rules []*match.Rule
	if e.rule != nil {
		rules = match.CompileAll(e.tenant, []*domain.WorkloadRule{e.rule})
		require.Len(e, rules, 1)
	}
	workloads := slices.Collect(maps.Values(e.workloads))
	require.NoError(e, e.store.PutBehind(ctx, e.tenant.Name))
	harness.Until(ctx, e, "marked", func() bool {
		changes := match.Diff(match.Wanted(e.tenant, nil, rules, workloads), e.records(ctx), time.Now())
		err := e.store.WriteMatches(ctx, e.tenant.Name, changes.Write, changes.Remove)
		if !fail.Is(err, fail.Conflict) {
			require.NoError(e, err)
		}
		return err == nil
	})
}

// settle marks what is due, and starts what settles it.
func (e *tenancy) settle(ctx context.Context) {
	e.Helper()
	e.mark(ctx)
	require.NoError(e, e.engine.Settle(ctx, e.tenant.Name))
}

func (e *tenancy) records(ctx context.Context) []domain.Match {
	e.Helper()
	records, err := e.store.Matches(ctx, e.tenant.Name)
	require.NoError(e, err)
	return records
}

// pods are those of the tenant that are in the cluster, by name.
func (e *tenancy) pods(ctx context.Context) map[string]corev1.Pod {
	e.Helper()
	list, err := e.cluster.Client(e).CoreV1().Pods(e.tenant.Namespace()).List(ctx, metav1.ListOptions{LabelSelector: plan.DeploymentLabel})
	require.NoError(e, err)
	found := map[string]corev1.Pod{}
	for _, p := range list.Items {
		found[p.Name] = p
	}
	return found
}

// settled waits until nothing is due, and n objects are in the cluster as they are wanted. They are those of the records, both
// ways.
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

func TestMatches(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	e := newTenancy(ctx, t, s, domain.ReportAgentless)
	e.run(ctx, 2)
	e.settle(ctx)
	pods := e.cluster.Client(t).CoreV1().Pods(e.tenant.Namespace())
	for name, before := range e.settled(ctx, 2) { // what a person removes is made again
		require.NoError(t, pods.Delete(ctx, name, metav1.DeleteOptions{}))
		harness.Until(ctx, t, "made again", func() bool {
			now, there := e.pods(ctx)[name]
			return there && now.UID != before.UID
		})
		e.settled(ctx, 2)
	}
	e.end(ctx)
	e.settle(ctx)
	e.settled(ctx, 0)

	e.deleteRule(ctx)
	require.NoError(t, s.Client.API().Delete(ctx, domain.KeyOf(e.tenant)))
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
