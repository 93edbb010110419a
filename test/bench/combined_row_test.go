package bench

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

// collectorsOnARow are five collectors, of the kinds that the examples of KubeStellar are: a macro over conditions, a histogram, a
// filter, whole statuses, and aggregates.
var collectorsOnARow = map[string]string{
	"conditions": `{"groupBy":[{"name":"a","def":"returned.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')"}],"combinedFields":[{"name":"n","type":"COUNT"}]}`,
	"histogram":  `{"groupBy":[{"name":"a","def":"returned.status.availableReplicas"}],"combinedFields":[{"name":"n","type":"COUNT"}]}`,
	"filter":     `{"filter":"obj.spec.replicas != returned.status.availableReplicas","select":[{"name":"wec","def":"inventory.name"}]}`,
	"whole":      `{"select":[{"name":"wec","def":"inventory.name"},{"name":"status","def":"returned.status"},{"name":"at","def":"propagation.lastReturnedUpdateTimestamp"}]}`,
	"aggregates": `{"combinedFields":[{"name":"n","type":"COUNT"},{"name":"sum","type":"SUM","subject":"returned.status.replicas"},{"name":"least","type":"MIN","subject":"returned.status.readyReplicas"}]}`,
}

// onARow compares the evaluation of five collectors on what a cluster reports of a Deployment with the decoding of its JSON.
func onARow(ctx context.Context, t *trial) {
	data, err := os.ReadFile("../../internal/readiness/testdata/deployment.json")
	require.NoError(t, err)
	object, err := combine.Decode(json.RawMessage(data))
	require.NoError(t, err)
	var tables []*combine.Table
	for name, text := range collectorsOnARow {
		var spec domain.StatusCollectorSpec
		require.NoError(t, json.Unmarshal([]byte(text), &spec))
		program, err := combine.Compile(name, &spec)
		require.NoError(t, err)
		tables = append(tables, combine.NewTable(program))
	}
	rows := make([]*combine.Row, 2)
	for i := range rows {
		rows[i] = &combine.Row{Object: object, Returned: object, Propagation: combine.Propagation{Reported: true, Present: true}}
		rows[i].Cluster = domain.ClusterName{Provider: "provider", Name: "edge-" + string(rune('0'+i))}
	}
	const rounds, each = 41, 200
	var evaluations, decodings []time.Duration
	t.finally(func() []figure {
		return []figure{
			measured("combined_decode_ms", "decoding what a cluster reports of a Deployment", decodings),
			measured("combined_eval_ms", "five collectors on it", evaluations),
			ratio("combined_eval_over_decode", "five collectors on a row over decoding its JSON", evaluations, decodings,
				"≤ 0.5", func(m float64) bool { return m <= 0.5 }),
		}
	})
	for range rounds {
		began := time.Now()
		for range each {
			_, err := combine.Decode(data)
			require.NoError(t, err)
		}
		decodings = append(decodings, time.Since(began)/each)
		began = time.Now()
		for i := range each {
			for _, table := range tables {
				table.Put(ctx, rows[i%2])
			}
		}
		evaluations = append(evaluations, time.Since(began)/each)
	}
}
