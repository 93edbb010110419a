package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/workflows"
)

func TestQueries(t *testing.T) {
	const roots = "WorkflowType IN ('Instantiate', 'Terminate', 'Update', 'Rollback', 'Migrate')"
	cluster := domain.ClusterName{Provider: "p", Name: "c"}
	for want, w := range map[string]workflows.Wanted{
		roots: {},
		roots + " AND DroverProject = 'p' AND DroverOperation = 'update' AND ExecutionStatus = 'Running'":   {Project: "p", Operation: domain.OpUpdate, Open: true},
		roots + " AND DroverContext = '1' AND WorkflowId IN ('a', 'b') AND ExecutionStatus != 'Running'":    {ContextID: "1", IDs: []string{"a", "b"}, Closed: true},
		roots + " AND DroverCluster = 'p+c' AND (CloseTime IS NULL OR CloseTime >= '2026-11-21T05:29:07Z')": {Owner: cluster.Key(), Since: time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)},
		roots + " AND (DroverProject IN ('p', 'q'))":                                                        {Within: []domain.Key{"projects/p", "projects/q"}},
		roots + " AND (DroverProject IS NULL OR (DroverProject IS NULL AND DroverCluster STARTS_WITH 'x+') OR DroverProject IN ('p'))": {
			Within: []domain.Key{"cluster-providers", "cluster-providers/x", "projects/p"},
		},
		roots + " AND (DroverProject IS NOT NULL)":                       {Within: []domain.Key{"projects"}},
		roots + " AND DroverProject = 'p' AND DroverLogicalCloud = 'lc'": {Owner: "projects/p/logical-clouds/lc"},
	} {
		require.Equal(t, want, workflows.OperationsQuery(w))
	}
	require.Equal(t, strings.TrimSuffix(roots, ")")+", 'ApplyToCluster', 'DeleteFromCluster') AND DroverOperation = 'update' AND DroverCluster = 'p+c'",
		workflows.ClusterQuery(workflows.Wanted{Cluster: cluster, Operation: domain.OpUpdate, Open: true}), "whether the operation goes on is not said by its parts")
}

// TestScopeOf: what an operation's workflows are found by says whose they are.
func TestScopeOf(t *testing.T) {
	long := strings.Repeat("x", domain.MaxName)
	for owner, want := range map[domain.Key]domain.Key{
		"projects/p/composite-apps/ca/v1/deployment-intent-groups/d":                                "projects/p/composite-apps/ca/v1/deployment-intent-groups/d",
		"projects/p/logical-clouds/lc":                                                              "projects/p/logical-clouds/lc",
		"cluster-providers/p/clusters/c":                                                            "cluster-providers/p/clusters/c",
		domain.Join("projects", "p", "composite-apps", long, long, "deployment-intent-groups", "d"): "",
	} {
		s := domain.Scope{Owner: owner, ContextID: contextID, Operation: domain.OpRollback}
		values := map[string]string{}
		for key, value := range workflows.OperationAttributes(s).GetUntypedValues() {
			values[key.GetName()] = value.(string)
		}
		s.Owner = want
		require.Equal(t, s, workflows.ScopeOf(func(name string) string { return values[name] }))
	}
}
