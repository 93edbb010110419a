package telemetry_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/drover-io/drover/internal/telemetry"
)

// TestTracesOfCallers go on here if they are recorded; else the request has one of its own.
func TestTracesOfCallers(t *testing.T) {
	t.Parallel()
	of := func(parent string) trace.SpanContext {
		carrier := propagation.MapCarrier{"traceparent": parent}
		return trace.SpanContextFromContext(telemetry.Callers{TextMapPropagator: propagation.TraceContext{}}.Extract(t.Context(), carrier))
	}
	const id = "0af7651916cd43dd8448eb211c80319c"
	recorded := of("00-" + id + "-00f067aa0ba902b7-01")
	require.Equal(t, id, recorded.TraceID().String())
	require.True(t, recorded.IsRemote())
	require.False(t, of("00-"+id+"-00f067aa0ba902b7-00").IsValid(), "who does not record it decides nothing here")
	require.False(t, of("nothing").IsValid())
}
