package match_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/match"
)

const podTemplate = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"nginx"},"spec":{"containers":[{"name":"nginx","image":"nginx:1.14.2"}]}}`

func tenant() *domain.Tenant {
	t := &domain.Tenant{Metadata: domain.Metadata{Name: "tenant1"}, Spec: domain.TenantSpec{Cluster: "edge+edge01"}, ContextID: "4711"}
	t.Default()
	return t
}

// rule is one of tenant1 that matches what is in namespace default, with changes.
func rule(changes ...func(*domain.WorkloadRuleSpec)) *domain.WorkloadRule {
	r := &domain.WorkloadRule{Metadata: domain.Metadata{Name: "r"}, Spec: domain.WorkloadRuleSpec{
		OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.SameNode,
		WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{
			{Key: "metadata.resourceNamespace", Operation: domain.OperationIn, Values: []string{"default"}},
		}}},
		RuleTemplate: domain.Template(podTemplate),
	}}
	r.Parent = domain.TenantKey("tenant1")
	for _, change := range changes {
		change(&r.Spec)
	}
	return r
}

func hosts() []*domain.Host {
	return []*domain.Host{
		{Metadata: domain.Metadata{Name: "host-a"}, Spec: domain.HostSpec{Nodes: []string{"dpu1-host-a"}}},
		{Metadata: domain.Metadata{Name: "host-b"}, Spec: domain.HostSpec{Nodes: []string{"dpu2-host-b", "dpu1-host-b"}}},
	}
}

func workload() *domain.Workload {
	return &domain.Workload{
		Tenant: "tenant1", ID: "w", Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod, ResourceNamespace: "default", ResourceName: "web-0",
		NodeName: "host-a", Ready: true,
		Extra: map[string]map[string]string{"labels": {"k8s-app": "web", "tier": "5", "a.b/c": "dotted"}},
	}
}

// TestANodesNameIsNotCopied as long as it is: the reason is in the record of each match.
func TestANodesNameIsNotCopied(t *testing.T) {
	r, err := match.Compile(tenant(), rule())
	require.NoError(t, err)
	w := workload()
	w.NodeName = strings.Repeat("\x01", 100_000)
	_, reason := r.Resource(tenant(), hosts(), w)
	require.Contains(t, reason.Text, "the tenant has no host of that name")
	require.Less(t, len(reason.Text), 2000)
}

func TestWhatAMatchMakes(t *testing.T) {
	r, err := match.Compile(tenant(), rule())
	require.NoError(t, err)
	require.True(t, r.Matches(workload()))
	made, reason := r.Resource(tenant(), hosts(), workload())
	require.Nil(t, reason)
	require.Equal(t, "tenant-tenant1", made.ID.Namespace)
	require.Regexp(t, "^nginx-[0-9a-f]{10}$", made.ID.Name)
	require.Equal(t, []string{"dpu1-host-a"}, made.Nodes)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"Pod","metadata":{
		"name":"`+made.ID.Name+`","namespace":"tenant-tenant1","labels":{"emco/deployment-id":"4711-r"},
		"annotations":{"drover.io/rule":"tenants/tenant1/workload-rules/r","drover.io/workload":"w","drover.io/spec":"`+made.Spec+`"}},
		"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
			{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["dpu1-host-a"]}]}]}}},
		"automountServiceAccountToken":false,"containers":[{"name":"nginx","image":"nginx:1.14.2"}]}}`, string(made.Manifest))
}

// TestDiff: what is wanted becomes records, nothing is written twice, and what is not wanted any more is to be deleted.
func TestDiff(t *testing.T) {
	now := time.Date(2026, 11, 22, 16, 0, 0, 0, time.UTC)
	r, err := match.Compile(tenant(), rule())
	require.NoError(t, err)
	pairs, err := match.Pairs(t.Context().Err, []*match.Rule{r}, []*domain.Workload{workload()})
	require.NoError(t, err)
	wanted, err := match.Wanted(t.Context().Err, tenant(), hosts(), pairs)
	require.NoError(t, err)
	c := match.Diff(wanted, nil, now)
	require.Len(t, c.Write, 1)
	record := c.Write[0]
	require.Equal(t, domain.MarkPending, record.Mark)
	require.Equal(t, now, record.Due)
	require.Empty(t, match.Diff(wanted, c.Write, now.Add(time.Hour)))
	require.Equal(t, match.Changes{Remove: c.Write}, match.Diff(nil, c.Write, now), "never sent: nothing is to be deleted")

	record.Made = &domain.Made{Cluster: record.Wanted.Cluster, Spec: record.Wanted.Spec, Annotations: record.Wanted.Annotations}
	record.Mark, record.Due = domain.MarkApplied, time.Time{}
	c = match.Diff(nil, []domain.Match{record}, now)
	require.Len(t, c.Write, 1)
	require.Equal(t, domain.MarkDoomed, c.Write[0].Mark)
	require.Nil(t, c.Write[0].Wanted)
	require.Equal(t, now, c.Write[0].Due)

	named := func(names string) (all []domain.Match) {
		for _, w := range names {
			all = append(all, domain.Match{Tenant: "t", Rule: "tenants/t/workload-rules/r", Workload: string(w), Wanted: record.Wanted, Mark: domain.MarkPending})
		}
		return all
	}
	names := func(all []domain.Match) (names string) {
		for _, m := range all {
			names += m.Workload
		}
		return names
	}
	c = match.Diff(named("zab"), named("yxcb"), now)
	require.Equal(t, "za", names(c.Write), "as they are given")
	require.Equal(t, "yxc", names(c.Remove), "as they are given")
}

func TestEveryMemberAtFaultIsNamed(t *testing.T) {
	err := match.ValidateRule(tenant(), &domain.WorkloadRule{Identity: domain.Identity{Parent: domain.TenantKey("tenant1")}})
	var paths []string
	for _, f := range fail.FieldsOf(err) {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{
		"metadata.name", "spec.orchestratorType", "spec.resourceType", "spec.dpuSelectionPolicy", "spec.workloadTerms", "spec.ruleTemplate",
	}, paths)
}

// TestAValueOfMany is found wherever it is, and the values are explained as the rule has them.
func TestAValueOfMany(t *testing.T) {
	values := []string{"z", "web", "a", "c", "b", "y", "x", "w", "d"}
	for _, op := range []domain.MatchOperation{domain.OperationIn, domain.OperationNotIn} {
		for n := range len(values) + 1 {
			some := values[:n:n]
			if n == 0 {
				some = []string{"other"}
			}
			r, err := match.Compile(tenant(), rule(func(s *domain.WorkloadRuleSpec) {
				s.WorkloadTerms[0].MatchExpressions = []domain.MatchExpression{{Key: "state.extra.labels.k8s-app", Operation: op, Values: some}}
			}))
			require.NoError(t, err)
			require.Equal(t, (n >= 2) == (op == domain.OperationIn), r.Matches(workload()), "%s %v", op, some)
			require.Equal(t, some, r.Explain(workload()).Terms[0].Expressions[0].Values)
		}
	}
}
