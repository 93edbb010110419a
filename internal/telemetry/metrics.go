package telemetry

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"

	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/version"
)

// latencies are the bounds of what Temporal's SDK measures in time, in seconds: the library's own are meant for milliseconds.
var latencies = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300}

// temporalScope is the name of the meter of Temporal's SDK.
const temporalScope = "temporal"

// mostSeries bounds the series of any one metric, should all else fail: what is beyond is one series of its own.
const mostSeries = 2000

// meters are the process's: OpenTelemetry has one provider for all.
var meters = sync.OnceValues(func() (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("start metrics: %w", err)
	}
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(mostSeries),
		sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Scope: instrumentation.Scope{Name: temporalScope}},
			sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: latencies}},
		)),
	))
	return registry, nil
})

// built has the process say once what it is.
var built sync.Once

// Metrics begins to measure, and returns what the process has measured. The name is the process's: "api", "worker".
func Metrics(process string) (prometheus.Collector, error) {
	registry, err := meters()
	if err != nil {
		return nil, err
	}
	built.Do(func() {
		v := version.Of()
		measure.Read(func(say measure.Say) { say(measure.Build, 1, process, v.Version, v.Go) }, measure.Build)
	})
	return registry, nil
}

// TemporalMetrics makes the metrics of the Temporal SDK (temporal_*: slots, pollers, latencies, failures by workflow and activity
// type) part of what Metrics returns. All clients of a process share them.
var TemporalMetrics = sync.OnceValues(func() (client.MetricsHandler, error) {
	if _, err := meters(); err != nil {
		return nil, err
	}
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: otel.Meter(temporalScope),
		// Without this its counters can go down, as far as OpenTelemetry knows, and so are gauges to Prometheus.
		UseMonotonicCounters: true,
		OnError:              otel.Handle,
	}), nil
})
