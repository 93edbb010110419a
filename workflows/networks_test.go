package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/workflows"
)

// The networks of a cluster are found by the cluster, as its leaves are.
func TestNetworksInTheWebUI(t *testing.T) {
	s := domain.Scope{Owner: "cluster-providers/p/clusters/c", ContextID: contextID, Operation: domain.OpInstantiate}
	require.Equal(t, "p/clusters/c/"+contextID+"/instantiate", workflows.OperationID(s))
	require.Equal(t, "instantiate networks of p / c", workflows.Summary(s))
	got := map[string]any{}
	for key, value := range workflows.OperationAttributes(s).GetUntypedValues() {
		got[key.GetName()] = value
	}
	require.Equal(t, map[string]any{"DroverCluster": "p+c", "DroverContext": contextID, "DroverOperation": "instantiate"}, got)
}
