package combine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

// fiveCollectors are the specs that figures are measured with: the seed's examples 2 to 5, and drift.
func fiveCollectors(tb testing.TB) (programs []*combine.Program) {
	tb.Helper()
	count := []domain.NamedAggregator{{Name: "count", Type: domain.AggregatorCount}}
	for name, spec := range map[string]domain.StatusCollectorSpec{
		"phase":     {GroupBy: []domain.NamedExpression{{Name: "available", Def: "returned.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')"}}, CombinedFields: count},
		"available": {GroupBy: []domain.NamedExpression{{Name: "available", Def: "returned.status.availableReplicas"}}, CombinedFields: count},
		"missing":   {Filter: "obj.spec.replicas != returned.status.availableReplicas", Select: []domain.NamedExpression{{Name: "wec", Def: "inventory.name"}}},
		"full": {Select: []domain.NamedExpression{
			{Name: "wec", Def: "inventory.name"}, {Name: "status", Def: "returned.status"}, {Name: "time", Def: "propagation.lastReturnedUpdateTimestamp"},
		}},
		"sums": {CombinedFields: []domain.NamedAggregator{
			{Name: "count", Type: domain.AggregatorCount},
			{Name: "replicas", Type: domain.AggregatorSum, Subject: "returned.status.replicas"},
			{Name: "least", Type: domain.AggregatorMin, Subject: "returned.status.readyReplicas"},
		}},
	} {
		p, err := combine.Compile(name, &spec)
		if err != nil {
			tb.Fatal(err)
		}
		programs = append(programs, p)
	}
	return programs
}

func deploymentRow(tb testing.TB, n int) *combine.Row {
	tb.Helper()
	data, err := os.ReadFile("../readiness/testdata/deployment.json")
	if err != nil {
		tb.Fatal(err)
	}
	object, err := combine.Decode(json.RawMessage(data))
	if err != nil {
		tb.Fatal(err)
	}
	return &combine.Row{
		Key:    combine.Key{Cluster: domain.ClusterName{Provider: "provider", Name: fmt.Sprintf("edge-%05d", n)}},
		Object: object, Returned: object, Propagation: combine.Propagation{Reported: true, Present: true},
	}
}

// BenchmarkRow evaluates five collectors on a row, and decodes the row's JSON: the ratio is the figure
// [combined_eval_over_decode].
func BenchmarkRow(b *testing.B) {
	data, err := os.ReadFile("../readiness/testdata/deployment.json")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := combine.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	var tables []*combine.Table
	for _, p := range fiveCollectors(b) {
		tables = append(tables, combine.NewTable(p))
	}
	rows := []*combine.Row{deploymentRow(b, 1), deploymentRow(b, 2)}
	b.Run("evaluate", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			for _, t := range tables {
				t.Put(b.Context(), rows[i%2])
			}
		}
	})
}

// BenchmarkTable puts rows into the tables of five collectors, and changes one of them; each time the results are asked for.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		rows := make([]*combine.Row, n)
		shared := deploymentRow(b, 0)
		for i := range rows {
			row := *shared
			row.Cluster.Name = fmt.Sprintf("edge-%05d", (i*7919)%n)
			rows[i] = &row
		}
		programs := fiveCollectors(b)
		fill := func() (tables []*combine.Table) {
			for _, p := range programs {
				t := combine.NewTable(p)
				for _, row := range rows {
					t.Put(b.Context(), row)
				}
				t.Result()
				tables = append(tables, t)
			}
			return tables
		}
		b.Run(fmt.Sprintf("whole/%d", n), func(b *testing.B) {
			for b.Loop() {
				fill()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
		})
		b.Run(fmt.Sprintf("change/%d", n), func(b *testing.B) {
			tables := fill()
			i := 0
			for b.Loop() {
				i++
				row := *rows[i%n]
				row.Returned = map[string]any{"status": map[string]any{"replicas": int64(i)}}
				for _, t := range tables {
					t.Put(b.Context(), &row)
					t.Result()
				}
			}
		})
	}
}
