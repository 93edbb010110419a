package telemetry_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/telemetry"
)

func gather(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := telemetry.Metrics("worker")
	require.NoError(t, err)
	require.NoError(t, registry.Register(metrics))
	families, err := registry.Gather()
	require.NoError(t, err)
	found := map[string]*dto.MetricFamily{}
	for _, f := range families {
		found[f.GetName()] = f
	}
	return found
}

// TestLatenciesAreToldApart below a second, where nearly all of them are.
func TestLatenciesAreToldApart(t *testing.T) {
	handler, err := telemetry.TemporalMetrics()
	require.NoError(t, err)
	for _, took := range []time.Duration{3 * time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second} {
		handler.Timer("temporal_test_latency").Record(took)
	}
	f := gather(t)["temporal_test_latency_seconds"]
	require.NotNil(t, f)
	filled, before := 0, uint64(0)
	for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
		if b.GetCumulativeCount() > before {
			filled++
		}
		before = b.GetCumulativeCount()
	}
	require.Equal(t, 4, filled)
}

// TestCountersOfTemporalAreCounters: rate() over a gauge takes every restart for a change.
func TestCountersOfTemporalAreCounters(t *testing.T) {
	handler, err := telemetry.TemporalMetrics()
	require.NoError(t, err)
	handler.WithTags(map[string]string{"operation": "Poll"}).Counter("temporal_test_request").Inc(2)
	handler.Gauge("temporal_test_slots").Update(3)
	found := gather(t)
	require.Equal(t, dto.MetricType_COUNTER, found["temporal_test_request_total"].GetType())
	require.Equal(t, dto.MetricType_GAUGE, found["temporal_test_slots"].GetType())
}

// TestWhatTheProcessIs is told, and what was recorded is in the form that the list of instruments says.
func TestWhatTheProcessIs(t *testing.T) {
	measure.StoreDuration.Record(.003, "find", measure.Done)
	measure.Attempts.Add(1, "Prepare", "first", measure.Done)
	found := gather(t)
	build := found["drover_build_info"].GetMetric()
	require.Len(t, build, 1)
	require.InDelta(t, 1, build[0].GetGauge().GetValue(), 0)
	require.Equal(t, dto.MetricType_HISTOGRAM, found["drover_store_duration_seconds"].GetType())
	require.Equal(t, dto.MetricType_COUNTER, found["drover_attempts_total"].GetType())
	for name := range found {
		if len(name) > 7 && name[:7] == "drover_" {
			require.True(t, measure.Known(name), name)
		}
	}
}
