package test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/test/harness"
)

// telemetry is a file of deploy/telemetry.
func telemetry(name string) string {
	return filepath.Join("..", "deploy", "telemetry", filepath.FromSlash(name))
}

const rulesFile = "prometheus/rules.yml"

// TestRules: of series that stand for what may happen, the alerts that fire are those that are to.
func TestRules(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(telemetry("prometheus/rules_test.yml"))
	require.NoError(t, err)
	var cases []struct {
		Name   string
		Series map[string]string
		Alerts map[string][]string // by the time
		Values map[string]float64  // at the end
	}
	require.NoError(t, yaml.Unmarshal(data, &cases))
	tested := map[string]bool{}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			p := harness.NewPrometheus()
			rules := p.NewRules(t, telemetry(rulesFile))
			begun, minutes := time.Unix(1e9, 0), 0
			due := map[time.Duration][]string{}
			for at, alerts := range c.Alerts {
				d, err := time.ParseDuration(at)
				require.NoError(t, err)
				due[d], minutes = alerts, max(minutes, int(d.Minutes()))
			}
			type one struct {
				labels labels.Labels
				values []parser.SequenceValue
			}
			var all []one
			for series, values := range c.Series {
				l, v, err := p.Parser.ParseSeriesDesc(series + " " + values)
				require.NoError(t, err)
				all = append(all, one{l, v})
			}
			for minute := range minutes + 1 {
				at := begun.Add(time.Duration(minute) * time.Minute)
				for _, s := range all {
					if minute < len(s.values) && !s.values[minute].Omitted {
						p.Add(s.labels, at, s.values[minute].Value)
					}
				}
				firing := p.Evaluate(t.Context(), t, rules, at)
				if want, ok := due[at.Sub(begun)]; ok {
					require.ElementsMatch(t, want, firing, "after %s", at.Sub(begun))
					delete(due, at.Sub(begun))
				}
				for _, alert := range firing {
					tested[alert] = true
				}
			}
			require.Empty(t, due)
			for expression, want := range c.Values {
				v := p.Query(t.Context(), t, expression, begun.Add(time.Duration(minutes)*time.Minute))
				require.Len(t, v, 1, expression)
				require.InDelta(t, want, v[0].F, 0, expression)
			}
		})
	}
	for _, g := range harness.NewPrometheus().NewRules(t, telemetry(rulesFile)).Groups {
		for _, r := range g.Rules {
			require.True(t, r.Alert == "" || tested[r.Alert], "%s never fires in prometheus/rules_test.yml", r.Alert)
		}
	}
}

var heading = regexp.MustCompile(`(?m)^## (Drover\w+)$`)

// TestRunbooks: each alert has a summary, a severity and a runbook, and there is none for what is no alert.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "docs", "how-to", "runbooks.md"))
	require.NoError(t, err)
	left := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(string(data), -1) {
		left[m[1]] = true
	}
	for _, g := range harness.NewPrometheus().NewRules(t, telemetry(rulesFile)).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			require.True(t, left[r.Alert], "docs/how-to/runbooks.md has no %s", r.Alert)
			delete(left, r.Alert)
			require.Equal(t, "docs/how-to/runbooks.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
			require.NotEmpty(t, r.Annotations["summary"], r.Alert)
			require.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
		}
	}
	require.Empty(t, left, "of no alert")
}

// queries are those of all dashboards, and of all rules.
func queries(t *testing.T) (ofDashboards, ofRules map[string]string) {
	t.Helper()
	ofDashboards, ofRules = map[string]string{}, map[string]string{}
	files, err := filepath.Glob(telemetry("grafana/*.json"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		require.NoError(t, json.Unmarshal(data, &d))
		for _, p := range d.Panels {
			require.NotEmpty(t, p.Targets, p.Title)
			for _, target := range p.Targets {
				ofDashboards[strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")] = filepath.Base(file) + ": " + p.Title
			}
		}
	}
	for _, g := range harness.NewPrometheus().NewRules(t, telemetry(rulesFile)).Groups {
		for _, r := range g.Rules {
			ofRules[r.Expr] = r.Record + r.Alert
		}
	}
	return ofDashboards, ofRules
}

// TestQueriesKnowTheMetrics: dashboards and rules ask for metrics, labels and values that there are, and take what several processes
// say of the whole as a maximum or a minimum.
func TestQueriesKnowTheMetrics(t *testing.T) {
	t.Parallel()
	p := harness.NewPrometheus()
	known := map[string]measure.Instrument{}
	for _, i := range measure.All() {
		known[i.Name] = i
		if i.Kind == measure.HistogramKind {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				known[i.Name+suffix] = i
			}
		}
	}
	ofDashboards, all := queries(t)
	recorded := slices.Collect(maps.Values(all))
	maps.Copy(all, ofDashboards)
	for query, where := range all {
		expression, err := p.Parser.ParseExpr(query)
		require.NoError(t, err, where)
		parser.Inspect(expression, func(n parser.Node, path []parser.Node) error {
			selector, ok := n.(*parser.VectorSelector)
			if !ok || !strings.HasPrefix(selector.Name, "drover") {
				return nil
			}
			if strings.Contains(selector.Name, ":") {
				require.Contains(t, recorded, selector.Name, where)
				return nil
			}
			i, ok := known[selector.Name]
			require.True(t, ok, "%s: there is no %s", where, selector.Name)
			for _, m := range selector.LabelMatchers {
				at := slices.IndexFunc(i.Labels, func(l measure.Label) bool { return l.Name == m.Name })
				if m.Name == "__name__" || m.Name == "job" || m.Name == "instance" {
					continue
				}
				require.GreaterOrEqual(t, at, 0, "%s: %s has no label %s", where, i.Name, m.Name)
				if values := i.Labels[at].Values; values != nil {
					require.True(t, slices.ContainsFunc(values, m.Matches), "%s: no %s of %s is %s", where, m.Name, i.Name, m.Value)
				}
			}
			if i.Across == measure.Max {
				aggregated := slices.ContainsFunc(path, func(n parser.Node) bool {
					a, ok := n.(*parser.AggregateExpr)
					return ok && (a.Op == parser.MAX || a.Op == parser.MIN)
				})
				require.True(t, aggregated, "%s: %s is of the whole, and to be taken as max or min", where, i.Name)
			}
			return nil
		})
	}
}
