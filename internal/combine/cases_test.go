package combine_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combine/combinetest"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// TestCombinedStatusCases: the conformance table, in both directions in which the rows of a case may come.
func TestCombinedStatusCases(t *testing.T) {
	file, err := combinetest.Load()
	require.NoError(t, err)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			rows := make([]*combine.Row, 0, len(c.Clusters))
			for i := range c.Clusters {
				row, err := c.Clusters[i].Row()
				require.NoError(t, err)
				rows = append(rows, row)
			}
			results := make([]*combine.Result, 0, len(c.Collectors))
			var refused []fail.Field
			for _, collector := range c.Collectors {
				program, err := combine.Compile(collector.Name, &collector.Spec.StatusCollectorSpec)
				if err != nil {
					require.True(t, fail.Is(err, fail.Invalid), "%v", err)
					refused = append(refused, fail.FieldsOf(err)...)
					continue
				}
				there := combine.Evaluate(t.Context(), program, slices.Values(rows))
				slices.Reverse(rows)
				back := combine.Evaluate(t.Context(), program, slices.Values(rows))
				require.JSONEq(t, written(t, there), written(t, back), "the order of rows does not matter")
				results = append(results, there)
			}
			for i, want := range c.Expected.Refused {
				require.Less(t, i, len(refused), "%v", refused)
				require.Equal(t, want.Field, refused[i].Path, "%v", refused)
				require.Empty(t, combinetest.Missing(want.Field, refused[i].Message, want.Mentions))
			}
			require.Len(t, refused, len(c.Expected.Refused), "%v", refused)
			slices.SortFunc(results, func(a, b *combine.Result) int { return cmp.Compare(a.Name, b.Name) })
			require.Len(t, results, len(c.Expected.Results))
			for i := range c.Expected.Results {
				require.Empty(t, c.Expected.Results[i].Diff(results[i], func(name string) string { return name }))
			}
		})
	}
	for _, c := range file.SingletonCases {
		t.Run(c.Name, func(t *testing.T) {
			var want combine.Want
			for _, intent := range c.StatusIntents {
				want.Singleton, want.Multi = want.Singleton || intent.WantSingleton, want.Multi || intent.WantMulti
			}
			var reported []combine.Reported
			for _, name := range c.WECs {
				status, err := combine.Decode(json.RawMessage(c.Returned[name]))
				require.NoError(t, err)
				reported = append(reported, combine.Reported{Cluster: domain.ClusterName{Name: name}, Status: status})
			}
			got := combine.Aggregate(groups[c.Kind], c.Kind, want, reported)
			if c.Expected.ObjectStatus == nil {
				require.Nil(t, got.Status)
			} else {
				require.Equal(t, combinetest.Plain(c.Expected.ObjectStatus), combinetest.Plain([]byte(written(t, got.Status))))
			}
			require.Equal(t, c.Expected.ReportedState, string(got.State))
			require.Empty(t, combinetest.Missing("reason", got.Reason, c.Expected.ReasonMentions))
		})
	}
}

// groups are those of the kinds in the table.
var groups = map[string]string{"Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps", "DaemonSet": "apps", "Job": "batch"}

func written(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
