package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combined"
)

// TestWhatAggregatesLeaveOutIsShown below the table: its numbers are of the rest alone.
func TestWhatAggregatesLeaveOutIsShown(t *testing.T) {
	var out strings.Builder
	s := &session{Options: Options{Out: &out, Err: &out}}
	three := "3"
	require.NoError(t, s.printResult(&combine.Result{
		Name: "sum", ColumnNames: []string{"n"}, Rows: []combine.ResultRow{{Columns: []combine.Cell{{Type: combine.CellNumber, Float: &three}}}}, TotalRows: 1,
		AggregationErrors: []combine.AggregationError{{ColumnName: "n", Error: "left out 1 cluster:\ncp+a (string \"x\")"}},
	}))
	require.Equal(t, "\nsum\nn\n3\nn: left out 1 cluster: cp+a (string \"x\")\n\n", out.String())
}

// TestTitlesOfTables tell objects of one name from each other.
func TestTitlesOfTables(t *testing.T) {
	const prefix = "status.kubestellar.io/"
	long := strings.Repeat("a", 70)
	for want, labels := range map[string]map[string]string{
		"app/deployments.apps/default/web":                   {"api-group": "apps", "resource": "deployments", "namespace": "default", "name": "web"},
		"app/services/default/web":                           {"resource": "services", "namespace": "default", "name": "web"},
		"app/clusterroles.rbac.authorization.k8s.io/" + long: {"api-group": "rbac.authorization.k8s.io", "resource": "clusterroles", "name": long},
		"app/apps/app": {"api-group": combined.TogetherGroup, "resource": "apps", "name": "app"},
	} {
		m := combined.Metadata{Labels: map[string]string{}, Annotations: map[string]string{"drover.io/app": "app"}}
		for name, value := range labels {
			m.Labels[prefix+name] = value
			if len(value) > 63 {
				m.Labels[prefix+name], m.Annotations[prefix+name] = value[:50]+"-0123456789", value
			}
		}
		require.Equal(t, want, titleOf(&m))
	}
}
