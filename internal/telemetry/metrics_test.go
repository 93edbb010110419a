package telemetry_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/telemetry"
)

// TestLatenciesAreToldApart below a second, where nearly all of them are.
func TestLatenciesAreToldApart(t *testing.T) {
	handler, err := telemetry.TemporalMetrics()
	require.NoError(t, err)
	for _, took := range []time.Duration{3 * time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second} {
		handler.Timer("temporal_test_latency").Record(took)
	}
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	filled := 0
	for _, f := range families {
		if f.GetName() != "temporal_test_latency_seconds" {
			continue
		}
		before := uint64(0)
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			if b.GetCumulativeCount() > before {
				filled++
			}
			before = b.GetCumulativeCount()
		}
	}
	require.Equal(t, 4, filled)
}
