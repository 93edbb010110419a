package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// TestADeadMemberIsNotADeadDatabase: an alert is on failed looks, and one member of a replica set that is down is none of its business.
func TestADeadMemberIsNotADeadDatabase(t *testing.T) {
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	counted := func() (n uint64) {
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, point := range m.Data.(metricdata.Histogram[float64]).DataPoints {
					n += point.Count
				}
			}
		}
		return n
	}
	looks := serverMonitor()
	members := func(kinds ...string) {
		var now event.TopologyDescription
		for _, kind := range kinds {
			now.Servers = append(now.Servers, event.ServerDescription{Kind: kind})
		}
		looks.TopologyDescriptionChanged(&event.TopologyDescriptionChangedEvent{NewDescription: now})
	}
	fails := func(err error) uint64 {
		before := counted()
		looks.ServerHeartbeatFailed(&event.ServerHeartbeatFailedEvent{Failure: err, Duration: time.Millisecond})
		return counted() - before
	}
	answers := func(kind string) uint64 {
		before := counted()
		looks.ServerHeartbeatSucceeded(&event.ServerHeartbeatSucceededEvent{Reply: event.ServerDescription{Kind: kind}, Duration: 10 * time.Second, Awaited: true})
		return counted() - before
	}
	refused := errors.New("connection refused")

	require.Equal(t, uint64(1), fails(refused), "nothing has ever answered")
	members("RSPrimary", "RSSecondary", "Unknown")
	require.Zero(t, fails(refused), "the primary answers")
	require.Zero(t, answers("RSSecondary"))
	members("Unknown", "RSSecondary", "RSSecondary")
	require.Equal(t, uint64(1), fails(refused), "nobody takes commands")
	members("RSSecondary", "RSSecondary", "RSSecondary")
	require.Equal(t, uint64(1), answers("RSSecondary"), "all answer, and nobody takes commands")
	require.Zero(t, answers("RSPrimary"), "it was elected just now")
	require.Zero(t, fails(context.Canceled), "this process has ended its look")
	members("Unknown")
	require.Equal(t, uint64(1), fails(refused))
	for _, kind := range []string{"Standalone", "Mongos", "LoadBalancer"} {
		members(kind)
		require.Zero(t, fails(refused), kind)
	}
}
