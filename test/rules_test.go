package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/measure"
)

// telemetry is a file of deploy/telemetry.
func telemetry(name string) string {
	return filepath.Join("..", "deploy", "telemetry", filepath.FromSlash(name))
}

const rulesFile = "prometheus/rules.yml"

// language is that of the queries.
var language = parser.NewParser(parser.Options{})

// rules are those of a file, as Prometheus reads them.
func rules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	read, wrong := rulefmt.ParseFile(telemetry(rulesFile), false, model.UTF8Validation, language)
	require.Empty(t, wrong)
	for _, g := range read.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// TestRules: Prometheus' own tool finds nothing wrong with configuration and rules, and of series that stand for what may happen, the
// alerts that fire are those that are to, and say what they are to. There is a case for each alert, and one in which all is well has all that
// alerts look at: one of which nothing is there fires never, whatever it says.
func TestRules(t *testing.T) {
	t.Parallel()
	ctx, tool, folder := within(t), built.Binary(t, "promtool"), t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(telemetry("prometheus"))))
	for _, name := range []string{"ca.crt", "token"} { // which each installation has of its own
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), out)
	}
	run("check", "config", "--lint=all", "--lint-fatal", "prometheus.yml")
	run("check", "rules", "--lint=all", "--lint-fatal", "rules.yml")
	run("test", "rules", "rules_test.yml")

	data, err := os.ReadFile(telemetry("prometheus/rules_test.yml"))
	require.NoError(t, err)
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		require.Contains(t, string(data), fmt.Sprintf("{labels: '{alertname=%q}', value: 1}", r.Alert), "%s never fires in prometheus/rules_test.yml", r.Alert)
		if strings.Contains(r.Annotations["summary"], "{{") {
			require.Contains(t, string(data), "alertname: "+r.Alert, "what %s says is in no alert_rule_test of prometheus/rules_test.yml", r.Alert)
		}
	}
	healthy := seriesOf(t, data, "all is well")
	for name, alerts := range alertsOn(t) {
		require.True(t, healthy[name], "%s looks at %s, of which prometheus/rules_test.yml has nothing where all is well", alerts, name)
	}
}

// seriesOf are the names of the series that a case of rules_test.yml has.
func seriesOf(t *testing.T, data []byte, name string) map[string]bool {
	t.Helper()
	var file struct {
		Tests []struct {
			Name  string `json:"name"`
			Input []struct {
				Series string `json:"series"`
			} `json:"input_series"`
		} `json:"tests"`
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	found := map[string]bool{}
	for _, c := range file.Tests {
		for _, s := range c.Input {
			if metric, _, _ := strings.Cut(s.Series, "{"); c.Name == name {
				found[metric] = true
			}
		}
	}
	return found
}

// alertsOn are the metrics that alerts look at, also by way of what is recorded, with one of the alerts.
func alertsOn(t *testing.T) map[string]string {
	t.Helper()
	recorded, found := map[string]string{}, map[string]string{}
	for _, r := range rules(t) {
		recorded[r.Record] = r.Expr
	}
	var look func(alert, expr string)
	look = func(alert, expr string) {
		parsed, err := language.ParseExpr(expr)
		require.NoError(t, err)
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok {
				if from := recorded[s.Name]; from != "" {
					look(alert, from)
				} else {
					found[s.Name] = alert
				}
			}
			return nil
		})
	}
	for _, r := range rules(t) {
		if r.Alert != "" {
			look(r.Alert, r.Expr)
		}
	}
	return found
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
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		require.True(t, left[r.Alert], "docs/how-to/runbooks.md has no %s", r.Alert)
		delete(left, r.Alert)
		require.Equal(t, "docs/how-to/runbooks.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
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
	for _, r := range rules(t) {
		ofRules[r.Expr] = r.Record + r.Alert
	}
	return ofDashboards, ofRules
}

// TestQueriesKnowTheMetrics: dashboards and rules ask for metrics, labels and values that there are, and take what several processes
// say of the whole as a maximum or a minimum.
func TestQueriesKnowTheMetrics(t *testing.T) {
	t.Parallel()
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
		expression, err := language.ParseExpr(query)
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
