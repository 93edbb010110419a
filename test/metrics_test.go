package test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/test/harness"
)

// families are the metrics that a process shows.
func families(ctx context.Context, t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	_, data := harness.Exposition(ctx, t, url)
	text := expfmt.NewTextParser(model.UTF8Validation)
	found, err := text.TextToMetricFamilies(bytes.NewReader(data))
	require.NoError(t, err)
	return found
}

// mayBeEmpty are panels about what does not happen in a run that goes well.
var mayBeEmpty = []string{
	"Not heard for longest", "Credentials that expire", "Retries, by activity", "Attempts that fail, by kind", "Refused as over a share",
	"Watches: age", "Temporal: requests that fail", "Spans of traces, by outcome", "Documents that cannot be read",
}

// TestMetricsOfARun: a run exports what is documented and nothing else, counters are counters, and a real Prometheus that
// scrapes it has something to show on every dashboard and evaluates every rule.
func TestMetricsOfARun(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	p := harness.NewPrometheus(ctx, t, telemetry(rulesFile), map[string]string{"drover-api": s.URL(), "drover-worker": s.WorkerURL()})
	operate := func() {
		d := s.Deployment(ctx, clusters, twoApps(t)...)
		do(ctx, t, d, "approve", "instantiate")
		s.Await(ctx, d, "Instantiated")
		do(ctx, t, d, "terminate")
		s.Await(ctx, d, "Terminated")
	}
	operate() // what was never counted has no series of which one could see the first
	p.Scraped(ctx, t)
	operate()
	ofAPI := map[string]*dto.MetricFamily{}
	harness.Until(ctx, t, "what Temporal says of the whole, which a slow one says later", func() bool {
		ofAPI = families(ctx, t, s.URL())
		return ofAPI["drover_operations_running"] != nil && ofAPI["drover_task_queue_backlog"] != nil
	})
	p.Scraped(ctx, t)

	known, seen := map[string]measure.Instrument{}, map[string]bool{}
	for _, i := range measure.All() {
		known[i.Name] = i
	}
	types := map[measure.Kind]dto.MetricType{
		measure.CounterKind: dto.MetricType_COUNTER, measure.GaugeKind: dto.MetricType_GAUGE, measure.HistogramKind: dto.MetricType_HISTOGRAM,
	}
	for _, all := range []map[string]*dto.MetricFamily{ofAPI, families(ctx, t, s.WorkerURL())} {
		for name, f := range all {
			if strings.HasPrefix(name, "temporal_") && strings.HasSuffix(name, "_total") {
				seen["a counter of Temporal's"] = true
				require.Equal(t, dto.MetricType_COUNTER, f.GetType(), name)
			}
			if !strings.HasPrefix(name, "drover_") {
				continue
			}
			i, ok := known[name]
			require.True(t, ok, "%s is not documented", name)
			require.Equal(t, types[i.Kind], f.GetType(), name)
			require.Equal(t, i.Help, f.GetHelp(), name)
			var labels []string
			for _, l := range i.Labels {
				labels = append(labels, l.Name)
			}
			for _, m := range f.GetMetric() {
				var has []string
				for _, l := range m.GetLabel() {
					has = append(has, l.GetName())
				}
				require.ElementsMatch(t, labels, has, name)
			}
			seen[name] = true
		}
	}
	for _, name := range []string{
		"a counter of Temporal's", "drover_build_info", "drover_operation_acceptance_seconds", "drover_operation_duration_seconds", "drover_operations_running",
		"drover_operations_ended_total", "drover_leaves_stuck",
		"drover_leaf_duration_seconds", "drover_leaves_open", "drover_attempts_total", "drover_clusters", "drover_worker_slots",
		"drover_task_queue_backlog", "drover_render_duration_seconds", "drover_store_duration_seconds", "drover_cluster_request_duration_seconds",
		"drover_cache_lookups_total", "drover_cache_entries", "drover_status_subscribers", "drover_app_windows", "drover_app_window_leaves", "drover_panics_total",
	} {
		require.True(t, seen[name], name)
	}
	ofDashboards, ofRules := queries(t)
	for query, where := range ofDashboards {
		found := p.Query(ctx, t, query)
		if _, title, _ := strings.Cut(where, ": "); !slices.Contains(mayBeEmpty, title) {
			require.NotEmpty(t, found, "%s\n%s", where, query)
		}
	}
	evaluated := p.Rules(ctx, t)
	require.Len(t, evaluated, len(ofRules))
	for _, r := range evaluated {
		require.Empty(t, r.Wrong, r.Name) // what it comes to, TestRules says
	}
	require.NotEmpty(t, p.Query(ctx, t, "drover:leaf_duration_seconds:p95"))
}
