package workflows_test

import (
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
	root := "projects/p/composite-apps/ca/v1/deployment-intent-groups/d/" + contextID + "/instantiate"
	require.Equal(t, root, workflows.OperationID(s))
	require.Equal(t, root+"/web", workflows.AppID(s, "web", 0, 0))
	require.Equal(t, root+"/web/0-250", workflows.AppID(s, "web", 0, 250))
	require.Equal(t, root+"/web/p+c", workflows.LeafID(s, "web", domain.ClusterName{Provider: "p", Name: "c"}))
	require.Equal(t, "instantiate p / ca / v1 / d", workflows.Summary(s))
	require.Equal(t, "Instantiate", workflows.OperationName(s.Operation))
	require.Equal(t, "Terminate", workflows.OperationName(domain.OpTerminate))
}

func TestSearchAttributes(t *testing.T) {
	require.Len(t, workflows.SearchAttributes(), 8)
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
