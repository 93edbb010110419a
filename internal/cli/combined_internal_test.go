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

// TestValuesThatCannotBeToldAreShown below the table, with the reasons, and how many more there are.
func TestValuesThatCannotBeToldAreShown(t *testing.T) {
	var out strings.Builder
	s := &session{Options: Options{Out: &out, Err: &out}}
	result := &combine.Result{
		Name: "ready", ColumnNames: []string{"n"}, Rows: []combine.ResultRow{{Columns: []combine.Cell{{Type: combine.CellNull}}}}, TotalRows: 1,
		RowErrors: []combine.RowError{
			{WEC: combine.WEC{ClusterID: "cp+a"}, ColumnName: "n", Error: "no such key: status\x1b[2J"},
			{WEC: combine.WEC{ClusterID: "cp+b"}, Object: "Pod/default/web", Error: "no such overload"},
		},
		TotalRowErrors: 3,
	}
	list := &combined.List{Items: []*combined.CombinedStatus{{Results: []*combine.Result{result}}}}
	words, err := newValuePrinter("")
	require.NoError(t, err)
	require.NoError(t, s.showCombined(words, list))
	require.Contains(t, out.String(), "\n3 values could not be told:\n  cp+a, n: no such key: status[2J\n  Pod/default/web on cp+b, the filter: no such overload\n  and 1 more\n\n")
}

// TestATableThatIsMissingFails, in whatever form the others are shown, and says why where that is for people to read.
func TestATableThatIsMissingFails(t *testing.T) {
	late := &combine.Result{Name: "late", Errors: []string{"it took\x1b too long"}}
	for form, c := range map[string]struct {
		results []*combine.Result
		out     string
		err     string
	}{
		"":     {[]*combine.Result{late}, "it took too long", ""},
		"json": {[]*combine.Result{late}, `"late"`, "1 table could not be made; late: it took too long\n"},
		"jsonpath={.items[0].results[0].name}": {
			[]*combine.Result{late, {Name: "later", Errors: []string{"so did it"}}}, "whole", "2 tables could not be made; late: it took too long\n",
		},
	} {
		var out, said strings.Builder
		s := &session{Options: Options{Out: &out, Err: &said}}
		s.flags.quiet = true
		p, err := newValuePrinter(form)
		require.NoError(t, err)
		list := &combined.List{Items: []*combined.CombinedStatus{{Results: append([]*combine.Result{{Name: "whole"}}, c.results...)}}}
		require.Equal(t, errSaid{exitFailed}, s.showCombined(p, list))
		require.Contains(t, out.String(), "whole")
		require.Contains(t, out.String(), c.out)
		require.Equal(t, c.err, said.String())
	}
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
