package measure_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/drover-io/drover/internal/measure"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

// shown is what Prometheus would see of the process.
var shown = prometheus.NewRegistry()

func TestMain(m *testing.M) {
	reader, err := exporter.New(exporter.WithRegisterer(shown), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		panic(err)
	}
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	os.Exit(m.Run())
}

// TestTheDocument: what is measured is documented by the code that measures it.
func TestTheDocument(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "metrics.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(measure.Document()), 0o644)) //nolint:gosec // a document
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, measure.Document(), string(written), "go test ./internal/measure -update")
}

// TestLabelsAreBounded by construction: each has a list or a number, and none names what users make without end.
func TestLabelsAreBounded(t *testing.T) {
	names := map[string]bool{}
	for _, i := range measure.All() {
		require.False(t, names[i.Name], i.Name)
		names[i.Name] = true
		require.NotEmpty(t, i.Help, i.Name)
		require.NotEmpty(t, i.From, i.Name)
		require.NotEmpty(t, i.Across, i.Name)
		series := 1
		for _, l := range i.Labels {
			require.True(t, (l.Values != nil) != (l.Most > 0), "%s of %s has a list or a number", l.Name, i.Name)
			require.NotRegexp(t, `(?i)project|owner|app|group|context|user|cloud|namespace`, l.Name, i.Name)
			if l.Name != "cluster" { // which comes with its provider: the two together are bounded
				series *= max(len(l.Values)+1, l.Most)
			}
		}
		if i.Name != "drover_http_request_duration_seconds" { // by the code's own routes
			require.LessOrEqual(t, series, 3000, "%s may have %d series in a process", i.Name, series)
		}
		require.Regexp(t, regexp.MustCompile(`^drover_[a-z_]+$`), i.Name)
		require.Equal(t, i.Kind == measure.CounterKind, strings.HasSuffix(i.Name, "_total"), i.Name)
		require.Equal(t, i.Unit == "s", strings.HasSuffix(i.Name, "_seconds"), i.Name)
		require.Equal(t, i.Kind == measure.HistogramKind, i.Bounds != nil, i.Name)
	}
}

// TestValuesBeyondTheBound come together, and memory does not grow with them.
func TestValuesBeyondTheBound(t *testing.T) {
	for n := range 300 {
		measure.Attempts.Add(1, fmt.Sprintf("activity-%d", n), "first", "a new word")
		measure.LeafDuration.Record(1, fmt.Sprintf("work-%d", n), measure.Done)
	}
	end := measure.Read(func(say measure.Say) {
		for n := range 300 {
			say(measure.ClusterUnheard, float64(300-n), "p", fmt.Sprintf("c%03d", n))
		}
	}, measure.ClusterUnheard)
	defer end()
	families, err := shown.Gather()
	require.NoError(t, err)
	seen := 0
	for _, f := range families {
		require.True(t, measure.Known(f.GetName()), f.GetName())
		switch f.GetName() {
		case "drover_attempts_total":
			seen++
			require.Len(t, f.GetMetric(), 61)
			sum := 0.0
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
			require.InDelta(t, 300, sum, 0, "nothing is lost")
		case "drover_leaf_duration_seconds":
			seen++
			require.Len(t, f.GetMetric(), 1)
			require.Equal(t, measure.Other, f.GetMetric()[0].GetLabel()[1].GetValue())
		case "drover_cluster_unheard_seconds":
			seen++
			require.Len(t, f.GetMetric(), measure.MostClusters)
		}
	}
	require.Equal(t, 3, seen)
}

// BenchmarkRecord is what a leaf pays for each of its figures.
func BenchmarkRecord(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		measure.StoreDuration.Record(.001, "find", measure.Done)
	}
}
