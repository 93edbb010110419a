// Package spantest records the spans of tests.
package spantest

import (
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/drover-io/drover/internal/span"
)

// Record records the spans of a test, which come with W3C's header as in the processes. Such a test is not parallel: who
// records, and what is sent on, is the process's.
func Record(t *testing.T) *tracetest.SpanRecorder {
	t.Helper()
	r := tracetest.NewSpanRecorder()
	provider, carrying, on := otel.GetTracerProvider(), otel.GetTextMapPropagator(), span.On()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	span.Record(true)
	t.Cleanup(func() {
		span.Record(on)
		otel.SetTextMapPropagator(carrying)
		otel.SetTracerProvider(provider)
	})
	return r
}
