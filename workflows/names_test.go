package workflows_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/workflows"
)

// TestIDs: running workflows have these ids, and those who look for them make them anew.
func TestIDs(t *testing.T) {
	s := domain.Scope{
		Owner: "projects/p/composite-apps/ca/v1/deployment-intent-groups/d", ContextID: contextID, Operation: domain.OpInstantiate,
	}
	root := "p/ca/v1/d/" + contextID + "/instantiate"
	require.Equal(t, root, workflows.OperationID(s))
	require.Equal(t, root+"/web", workflows.AppID(s, "web", 0, 0))
	require.Equal(t, root+"/web/0-250", workflows.AppID(s, "web", 0, 250))
	require.Equal(t, root+"/web/p+c", workflows.LeafID(s, "web", domain.ClusterName{Provider: "p", Name: "c"}))
	require.Equal(t, "instantiate p / ca / v1 / d", workflows.Summary(s))
	require.Equal(t, "WorkflowType IN ('Instantiate', 'Terminate', 'Update', 'Rollback', 'Migrate') AND "+
		"DroverProject = 'p' AND DroverCompositeApp = 'ca/v1' AND DroverGroup = 'd'", workflows.OperationsQuery(workflows.Wanted{Owner: s.Owner}))
	require.Equal(t, "p/logical-clouds/lc/certificates", workflows.CertificatesID("projects/p/logical-clouds/lc"))
	require.Equal(t, "Instantiate", workflows.OperationName(s.Operation))
	require.Equal(t, "Terminate", workflows.OperationName(domain.OpTerminate))
	require.Empty(t, workflows.OperationName(domain.OpStop), "it is a message to one that runs")
	require.Equal(t, domain.OpTerminate, workflows.OperationOf("Terminate"))
	require.Empty(t, workflows.OperationOf("DeployApp"))
}

// TestLongIDs: SQL databases keep 255 bytes of an id and of a search attribute, and all names may have 128.
func TestLongIDs(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, domain.MaxName) }
	scope := domain.Scope{
		Owner:     domain.Join("projects", long("p"), "composite-apps", long("c"), long("v"), "deployment-intent-groups", long("d")),
		ContextID: contextID, Operation: domain.OpInstantiate,
	}
	other := scope
	other.ContextID = contextID[1:] + "0"
	cluster := domain.ClusterName{Provider: long("k"), Name: long("e")}
	cloud := domain.Join("projects", long("p"), "logical-clouds", long("l"))
	seen := map[string]bool{}
	for _, id := range []string{
		workflows.OperationID(scope), workflows.OperationID(other), workflows.AppID(scope, "web", 0, 0), workflows.AppID(scope, "web", 0, 250),
		workflows.AppID(scope, "db", 0, 0), workflows.LeafID(scope, "web", cluster), workflows.LeafID(scope, "web", domain.ClusterName{Provider: "k", Name: "e"}),
		workflows.CertificatesID(cloud),
	} {
		require.LessOrEqual(t, len(id), 255)
		require.True(t, strings.HasPrefix(id, "ppp"), "a person knows it: %s", id)
		require.False(t, seen[id], id)
		seen[id] = true
	}
	for _, owner := range []domain.Key{scope.Owner, cluster.Key(), cloud} {
		for key, value := range workflows.OperationAttributes(domain.Scope{Owner: owner, ContextID: contextID, Operation: domain.OpInstantiate}).GetUntypedValues() {
			require.LessOrEqual(t, len(value.(string)), 255, key.GetName())
		}
	}
}

func TestSearchAttributes(t *testing.T) {
	require.Len(t, workflows.SearchAttributes(), 9)
	a := workflows.OperationAttributes(domain.Scope{
		Owner: "projects/p/composite-apps/ca/v1/deployment-intent-groups/d", ContextID: contextID, Operation: domain.OpInstantiate,
	})
	got := map[string]string{}
	for key, value := range a.GetUntypedValues() {
		got[key.GetName()] = value.(string)
	}
	require.Equal(t, map[string]string{
		"DroverProject": "p", "DroverCompositeApp": "ca/v1", "DroverGroup": "d", "DroverContext": contextID, "DroverOperation": "instantiate",
	}, got)
}
