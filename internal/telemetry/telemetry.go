// Package telemetry sends traces where they are wanted. Without an endpoint nothing is recorded.
package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
)

// Tracing is the process's tracing. The zero value records nothing.
type Tracing struct {
	provider    *sdktrace.TracerProvider
	interceptor interceptor.Interceptor
}

// Start sends the process's traces to an OTLP endpoint over HTTP; "" makes a Tracing that records nothing.
// The provider becomes the process's default, for the HTTP server.
func Start(ctx context.Context, endpoint string) (Tracing, error) {
	if endpoint == "" {
		return Tracing{}, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return Tracing{}, fmt.Errorf("start tracing: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName("drover"))))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	i, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: provider.Tracer("drover")})
	if err != nil {
		return Tracing{}, fmt.Errorf("start tracing: %w", err)
	}
	return Tracing{provider: provider, interceptor: i}, nil
}

// ClientInterceptors are for the Temporal client; workers made with the client use them too.
func (t Tracing) ClientInterceptors() []interceptor.ClientInterceptor {
	if t.interceptor == nil {
		return nil
	}
	return []interceptor.ClientInterceptor{t.interceptor}
}

// Stop sends what is left.
func (t Tracing) Stop(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}
