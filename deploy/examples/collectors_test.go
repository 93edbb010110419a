package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/domain"
)

// silent is of a cluster that has reported nothing.
const silent = ""

const deployment = `{spec: {replicas: 3, template: {spec: {containers: [{image: web:2}]}}}}`

// collectors are the examples, by their names and what is special: objects as they were sent, what clusters w1, w2, … have, and the table as it must be.
var collectors = map[string]struct {
	object   string
	returned []string
	want     []string
}{
	"availability": {
		deployment,
		[]string{`{status: {availableReplicas: 3}}`, `{status: {availableReplicas: 1}}`, `{status: {}}`, silent},
		[]string{"p+w3 3 0 so", "p+w4 3 0 so", "p+w2 3 1 so"},
	},
	"phases": {
		`{}`, []string{`{status: {phase: Running}}`, `{status: {phase: Pending}}`, `{status: {phase: Running}}`, `{status: {}}`, silent},
		[]string{"Pending 1", "Running 2", "null 2"},
	},
	"images": {
		deployment,
		[]string{
			`{spec: {template: {spec: {containers: [{image: web:1}, {image: proxy}]}}}}`, `{spec: {template: {spec: {containers: [{image: web:2}]}}}}`,
			`{spec: {template: {spec: {containers: [{image: web:2}]}}}}`, silent,
		},
		[]string{"web:2 2", "web:1, proxy 1", "null 1"},
	},
	"drift": {
		deployment,
		[]string{deployment, `{spec: {replicas: 5, template: {spec: {containers: [{image: web:2}]}}}}`, `{spec: {replicas: 3, template: {spec: {containers: [{image: web:3}]}}}}`, silent},
		[]string{`p+w2 3 5 ["web:2"] ["web:2"]`, `p+w3 3 3 ["web:2"] ["web:3"]`},
	},
	"drift of what is scaled": {
		`{spec: {replicas: 1, template: {spec: {containers: [{image: web:2}]}}}}`,
		[]string{`{spec: {replicas: 5, template: {spec: {containers: [{image: web:2}]}}}}`},
		nil,
	},
	"jobs that are well": {
		`{}`, []string{`{status: {conditions: [{type: Complete, status: "True"}]}}`, `{status: {active: 1}}`}, []string{"complete 1 0", "running 1 0"},
	},
	"stale": {
		`{}`, []string{`{}`, silent}, []string{"p+w2 null Pending NotPresent"},
	},
	"oldest-report": {
		`{}`, []string{`{}`, `{}`, silent}, []string{"2 2024-11-07T20:00:00Z 2024-11-07T20:01:00Z"},
	},
	"jobs": {
		`{}`,
		[]string{
			`{status: {conditions: [{type: Complete, status: "True"}], failed: 2}}`, `{status: {conditions: [{type: Failed, status: "True"}], failed: 6}}`,
			`{status: {active: 1}}`, `{status: {conditions: [{type: Complete, status: "True"}]}}`, `{status: {conditions: [{type: Suspended, status: "True"}]}}`, silent,
		},
		[]string{"complete 2 2", "failed 1 6", "not reported 1 0", "running 2 0"},
	},
	"capacity": {
		`{spec: {resources: {requests: {storage: 1Gi}}}}`,
		[]string{
			`{spec: {storageClassName: fast}, status: {capacity: {storage: 1Gi}}}`, `{spec: {storageClassName: fast}, status: {capacity: {storage: 1500M}}}`,
			`{spec: {storageClassName: slow}, status: {}}`, silent,
		},
		[]string{"fast 2 2147483648 2573741824 1073741824", "slow 1 1073741824 0 null", "null 1 1073741824 0 null"},
	},
}

// TestStatusCollectors: each example is taken, and says what it should of a few clusters.
func TestStatusCollectors(t *testing.T) {
	files, err := filepath.Glob("status-collectors/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		require.Contains(t, collectors, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	for title, c := range collectors {
		name, _, _ := strings.Cut(title, " ")
		t.Run(title, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("status-collectors", name+".yaml"))
			require.NoError(t, err)
			var manifest struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Metadata   struct {
					Name string `json:"name"`
				} `json:"metadata"`
				Spec domain.StatusCollectorSpec `json:"spec"`
			}
			require.NoError(t, yaml.UnmarshalStrict(data, &manifest))
			require.Equal(t, name, manifest.Metadata.Name)
			require.Equal(t, "control.kubestellar.io/v1alpha1 StatusCollector", manifest.APIVersion+" "+manifest.Kind)
			program, err := combine.Compile(name, &manifest.Spec)
			require.NoError(t, err)
			var rows []*combine.Row
			for i, text := range c.returned {
				rows = append(rows, row(t, i, c.object, text))
			}
			result := combine.Evaluate(t.Context(), program, slices.Values(rows))
			require.Empty(t, result.RowErrors)
			require.Empty(t, result.AggregationErrors)
			require.Empty(t, result.Errors)
			require.Empty(t, result.Warnings)
			var got []string
			for _, row := range result.Rows {
				var cells []string
				for _, cell := range row.Columns {
					cells = append(cells, text(cell))
				}
				got = append(got, strings.Join(cells, " "))
			}
			require.Equal(t, c.want, got)
		})
	}
}

// row is that of a cluster: what was reported a minute after the one before it.
func row(t *testing.T, i int, object, returned string) *combine.Row {
	t.Helper()
	decode := func(text string) map[string]any {
		data, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err)
		decoded, err := combine.Decode(json.RawMessage(data))
		require.NoError(t, err)
		return decoded
	}
	r := &combine.Row{
		Key:    combine.Key{Cluster: domain.ClusterName{Provider: "p", Name: "w" + string(rune('1'+i))}},
		Object: decode(object),
		Propagation: combine.Propagation{
			LastReturnedUpdate: time.Date(2024, 11, 7, 20, i, 0, 0, time.UTC), Reported: true, Present: true, Ready: "Ready", State: "Applied", Message: "so",
		},
	}
	if returned == silent {
		r.Propagation = combine.Propagation{Stale: true, Ready: "NotPresent", State: "Pending", Message: "so"}
	} else {
		r.Returned = decode(returned)
	}
	return r
}

func text(c combine.Cell) string {
	switch c.Type {
	case combine.CellString:
		return *c.String
	case combine.CellNumber:
		return *c.Float
	case combine.CellNull:
		return "null"
	default:
		return string(c.Object) + string(c.Array)
	}
}
