package telemetry

import (
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// latencies are the bounds of what is measured in time, in seconds: the library's own are meant for milliseconds.
var latencies = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300}

// TemporalMetrics makes the metrics of the Temporal SDK (temporal_*: slots, pollers, latencies, failures by
// workflow and activity type) part of what the process serves at /metrics. All clients of a process share them.
var TemporalMetrics = sync.OnceValues(func() (client.MetricsHandler, error) {
	exporter, err := prometheus.New(prometheus.WithoutScopeInfo(), prometheus.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("start metrics of Temporal: %w", err)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithView(sdkmetric.NewView(
		sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: latencies}},
	)))
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter:   provider.Meter("temporal"),
		OnError: func(err error) { slog.Warn("metrics of Temporal", "error", err) },
	}), nil
})
