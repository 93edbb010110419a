package panics_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/panics"
)

// TestDo: a panic is an error, is counted, and is logged with its stack and the request that it is of.
func TestDo(t *testing.T) {
	var log bytes.Buffer
	panics.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { panics.LogTo(slog.Default()) })
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	counted := func() (n int64) {
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
					n += point.Value
				}
			}
		}
		return n
	}
	ctx := caller.WithRequest(t.Context(), &caller.Request{ID: "r-1"})

	other := errors.New("no panic")
	require.NoError(t, panics.Do(ctx, func() error { return nil }))
	require.Same(t, other, panics.Do(ctx, func() error { return other }))
	require.Zero(t, counted())
	require.Empty(t, log.String())

	err := panics.Do(ctx, func() error { panic(context.Canceled) })
	var caught *panics.Error
	require.ErrorAs(t, err, &caught)
	require.EqualError(t, err, "panic: context canceled")
	require.NotErrorIs(t, err, context.Canceled, "else who asked is taken for one who has left")
	require.Equal(t, int64(1), counted())
	for _, said := range []string{"requestId=r-1", "panics_test.go", "context canceled"} {
		require.Contains(t, log.String(), said)
	}
}

// TestGroup: who waits for a group in which one panics gets that as an error, and the others are told as by any error.
func TestGroup(t *testing.T) {
	g, ctx := panics.WithContext(t.Context())
	g.SetLimit(2)
	g.Go(func() error { <-ctx.Done(); return nil })
	g.Go(func() error { panic("one") })
	require.EqualError(t, g.Wait(), "panic: one")

	done := 0
	all := panics.New(t.Context())
	all.SetLimit(1)
	all.Go(func() error { panic("one") })
	all.Go(func() error { done++; return nil })
	require.EqualError(t, all.Wait(), "panic: one")
	require.Equal(t, 1, done)
}
