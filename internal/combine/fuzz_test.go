package combine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/combine/combinetest"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// FuzzSpec: whatever a spec says, it is refused with problems by field, or gives a table of JSON.
func FuzzSpec(f *testing.F) {
	file, err := combinetest.Load()
	require.NoError(f, err)
	for _, c := range file.Cases {
		for _, collector := range c.Collectors {
			f.Add([]byte(collector.Spec.JSON))
		}
	}
	for _, def := range []string{
		"returned.?a.b", "a.?b", "{'a': 1}.?b.c", "[obj].all(inventory, has(inventory.x))", "google.protobuf.Struct{fields: {}}.fields.a", "obj.?status",
		"returned[?'x']", ".returned.status", "has(has(obj.a))", "obj.a.b.c.d", "[1, 2][obj.a]", "-returned.status.a", "size(inventory.labels)",
	} {
		f.Add([]byte(written(f, selecting(def))))
	}
	f.Add([]byte(`{"combinedFields":[{"name":"v","type":"AVG","subject":"inventory.name == 'w1' ? '1e400' : '0'"}]}`))
	rows := fuzzRows(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &domain.StatusCollectorSpec{}
		if json.Unmarshal(data, s) != nil {
			t.Skip()
		}
		p, err := combine.Compile("c", s)
		if err != nil {
			require.True(t, fail.Is(err, fail.Invalid))
			require.NotEmpty(t, fail.FieldsOf(err))
			for _, field := range fail.FieldsOf(err) {
				require.True(t, strings.HasPrefix(field.Path, "spec"), "%v", field)
			}
			return
		}
		checkTable(t, p, rows)
	})
}

// FuzzObject: whatever a cluster reports, the tables are the same in every order of rows, and JSON.
func FuzzObject(f *testing.F) {
	for _, status := range statuses {
		f.Add([]byte(`{"status":` + status + `,"spec":{"replicas":3},"metadata":{"name":"a"}}`))
	}
	f.Add([]byte(`{"status":{"a":123456789012345678901234567890e5,"b":-0,"l":[[[{}]]]}}`))
	f.Add([]byte(`{"status":{"a":1e400,"b":-1e400,"l":[{"y":1e999}]}}`))
	f.Add([]byte(`{"status":"x","spec":[],"metadata":null}`))
	var programs []*combine.Program
	for _, expression := range expressions {
		programs = append(programs, compiled(f, selecting(expression, "returned")))
		grouped := &domain.StatusCollectorSpec{
			GroupBy:        []domain.NamedExpression{{Name: "k", Def: "returned.status.a"}},
			CombinedFields: []domain.NamedAggregator{{Name: "n", Type: domain.AggregatorSum, Subject: expression}, {Name: "x", Type: domain.AggregatorMax, Subject: expression}, {Name: "v", Type: domain.AggregatorAvg, Subject: expression}},
		}
		if p, err := combine.Compile("c", grouped); err == nil {
			programs = append(programs, p)
		}
	}
	others := fuzzRows(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		object, err := combine.Decode(data)
		if err != nil {
			t.Skip()
		}
		row := *others[0]
		row.Cluster.Name, row.Returned = "fuzzed", object
		summarised := row
		summarised.Cluster.Name, summarised.Propagation.Summarised = "summarised", true
		rows := append(slices.Clone(others), &row, &summarised)
		for _, p := range programs {
			checkTable(t, p, rows)
		}
	})
}

func fuzzRows(tb testing.TB) []*combine.Row {
	rows := []*combine.Row{reporting(tb, "w1", `{"a":1,"b":2.5,"l":[{"y":1}]}`), reporting(tb, "w2", `{"a":{"b":1}}`), reporting(tb, "w3", `{}`)}
	rows[2].Returned = nil
	rows[1].Propagation.Summarised = true
	return rows
}

func checkTable(t *testing.T, p *combine.Program, rows []*combine.Row) {
	t.Helper()
	there := written(t, combine.Evaluate(t.Context(), p, slices.Values(rows)))
	back := slices.Clone(rows)
	slices.Reverse(back)
	require.Equal(t, there, written(t, combine.Evaluate(t.Context(), p, slices.Values(back))))
	require.Less(t, len(there), limits.TableResult)
}
