// Package telemetry has what the process measures and records of itself seen outside: metrics, traces, logs and profiles. Traces are
// sent where they are wanted; without an endpoint nothing is recorded.
package telemetry

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/version"
)

// Tracing is the process's tracing. The zero value records nothing.
type Tracing struct {
	provider *sdktrace.TracerProvider
}

// Start sends the process's traces to an OTLP endpoint over HTTP, below /v1/traces if it has no path; "" makes a Tracing that records nothing. The process is called
// drover-<name> there. Which traces are recorded, OTEL_TRACES_SAMPLER says: all, when it is not set. What goes wrong with traces and metrics is
// logged like all else, whether or not there is an endpoint.
func Start(ctx context.Context, endpoint, name string, log *slog.Logger) (Tracing, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "error", err) }))
	if endpoint == "" {
		return Tracing{}, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimRight(endpoint, "/"))) // a slash alone would be a path
	if err != nil {
		return Tracing{}, fmt.Errorf("start tracing: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(send(exporter, log)), sdktrace.WithIDGenerator(ids{}), sdktrace.WithRawSpanLimits(bounds()),
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName("drover-"+name), semconv.ServiceVersion(version.Of().Version))))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	span.Record(true)
	return Tracing{provider: provider}, nil
}

// longestValue bounds what spans say, in bytes, where OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT bounds nothing: a path and the name of a client are as long as
// whoever asks makes them, and thousands of spans wait in memory.
const longestValue = 1 << 10

func bounds() sdktrace.SpanLimits {
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = longestValue
	}
	return limits
}

// Propagators carry what workflows and activities are done for, beside what they are given.
func (t Tracing) Propagators() []workflow.ContextPropagator {
	if t.provider == nil {
		return []workflow.ContextPropagator{Requests{}}
	}
	return []workflow.ContextPropagator{Requests{}, Traces{}}
}

// Stop sends what is left.
func (t Tracing) Stop(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	span.Record(false)
	return t.provider.Shutdown(ctx)
}

// ids makes the ids of spans: those that are asked for, or chance.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if s, ok := span.IDsOf(ctx); ok {
		return s.TraceID(), s.SpanID()
	}
	var t trace.TraceID
	_, _ = rand.Read(t[:]) // it never fails
	return t, random()
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if s, ok := span.IDsOf(ctx); ok {
		return s.SpanID()
	}
	return random()
}

func random() (s trace.SpanID) {
	_, _ = rand.Read(s[:])
	return s
}
