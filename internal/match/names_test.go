package match_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/match"
)

// TestNamesThatAreEqualWhenCut: of rules, tenants and templates that have the same first 40 characters, or the same name, each
// match has an object of its own, and each rule a label.
func TestNamesThatAreEqualWhenCut(t *testing.T) {
	long := strings.Repeat("a", 50)
	var tenants []*domain.Tenant
	for i, name := range []string{long + "-1", long + "-2"} {
		tenant := &domain.Tenant{Metadata: domain.Metadata{Name: name}, ContextID: "262111400613070107" + string(rune('1'+i)), Spec: domain.TenantSpec{Cluster: "p+c", Nodes: domain.NodesAll}}
		tenant.Default()
		tenants = append(tenants, tenant)
	}
	longest := strings.Repeat("b", domain.MaxSubdomain-1)
	ids := []string{"r", long + "-1", long + "-2", long + ".1", strings.Repeat("c", 39) + ".d", longest + "1", longest + "2"}
	for _, template := range []string{"", long + "-x"} {
		objects, labels := map[string]bool{}, map[string]bool{}
		count, rules := 0, 0
		for _, tenant := range tenants {
			for _, operators := range []bool{false, true} {
				for _, id := range ids {
					rule := &domain.WorkloadRule{Metadata: domain.Metadata{Name: id}, Spec: domain.WorkloadRuleSpec{
						OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.AnyNode,
						WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{{Key: "metadata.id", Operation: domain.OperationExists, Values: []string{""}}}}},
						RuleTemplate:  domain.Template(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + template + `"},"spec":{"containers":[{"name":"c","image":"i"}]}}`),
					}}
					of := (*domain.Tenant)(nil)
					if !operators {
						of, rule.Parent = tenant, domain.TenantKey(tenant.Name)
					}
					compiled, err := match.Compile(of, rule)
					require.NoError(t, err)
					for _, workload := range []string{"w1", "w2"} {
						w := &domain.Workload{Tenant: tenant.Name, ID: workload, Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod}
						r, reason := compiled.Resource(tenant, nil, w)
						require.Nil(t, reason)
						require.True(t, domain.IsSubdomain(r.ID.Name), r.ID.Name)
						require.LessOrEqual(t, len(r.Label), 63)
						require.NotContains(t, r.ID.Name, ".-", "a part of a name ends with a letter or digit")
						objects[r.ID.Namespace+"/"+r.ID.Name], labels[r.Label] = true, true
						count++
					}
					rules++
				}
			}
		}
		require.Equal(t, count, len(objects))
		require.Equal(t, rules, len(labels))
	}
}

// TestNamesOfServices are such as Kubernetes takes for them, and those of other kinds are as they were.
func TestNamesOfServices(t *testing.T) {
	tenant := &domain.Tenant{Metadata: domain.Metadata{Name: "t"}, ContextID: "2621114006130701071", Spec: domain.TenantSpec{Cluster: "p+c", Nodes: domain.NodesAll}}
	tenant.Default()
	name := func(kind, id, name string) string {
		rule := &domain.WorkloadRule{Metadata: domain.Metadata{Name: id}, Spec: domain.WorkloadRuleSpec{
			OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.AnyNode,
			WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{{Key: "metadata.id", Operation: domain.OperationExists, Values: []string{""}}}}},
			RuleTemplate:  domain.Template(`{"apiVersion":"v1","kind":"` + kind + `","metadata":{"name":"` + name + `"}}`),
		}}
		compiled, err := match.Compile(nil, rule)
		require.NoError(t, err)
		r, reason := compiled.Resource(tenant, nil, &domain.Workload{Tenant: tenant.Name, ID: "w", Orchestrator: domain.Kubernetes, ResourceType: domain.KindPod})
		require.Nil(t, reason)
		return r.ID.Name[:len(r.ID.Name)-len("-0123456789")]
	}
	for _, c := range []struct{ id, template, service, other string }{
		{"shop.rule", "", "shop-rule", "shop.rule"},
		{"shop.rule", "1.web", "s-1-web", "1.web"},
		{"r", "web", "web", "web"},
		{"7" + strings.Repeat("a", 39) + ".b", "", "s-7" + strings.Repeat("a", 39), "7" + strings.Repeat("a", 39)},
	} {
		require.Equal(t, c.service, name("Service", c.id, c.template))
		require.Equal(t, c.other, name("ConfigMap", c.id, c.template))
	}
}
