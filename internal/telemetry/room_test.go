package telemetry_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/telemetry"
)

// spansCounted is what is shown of spans, by outcome.
func spansCounted(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, m := range gather(t)["drover_spans_total"].GetMetric() {
		found[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
	}
	return found
}

// TestSpansThatFindNoRoom are counted, as is each that was sent: a collector that stands still loses what is beyond the room, and
// nothing else. The tracer is the process's.
func TestSpansThatFindNoRoom(t *testing.T) {
	const ended, room = 5000, 1000
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1000")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	var received atomic.Int64
	stands := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-stands
		data, err := io.ReadAll(r.Body)
		var sent collectorpb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(data, &sent) != nil {
			t.Errorf("spans that were sent cannot be read")
		}
		for _, resource := range sent.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				received.Add(int64(len(scope.GetSpans())))
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	tracing, err := telemetry.Start(t.Context(), server.URL, "test", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	before := spansCounted(t)
	require.Contains(t, before, measure.Dropped, "it is shown before there is one")
	for range ended {
		_, s := otel.Tracer("test").Start(t.Context(), "one")
		s.End()
	}
	dropped := spansCounted(t)[measure.Dropped] - before[measure.Dropped]
	require.Equal(t, ended-room, dropped)
	close(stands)
	require.NoError(t, tracing.Stop(t.Context()))
	after := spansCounted(t)
	require.Equal(t, room, after[measure.Sent]-before[measure.Sent])
	require.Equal(t, int64(room), received.Load())
	require.Equal(t, before[measure.Failed], after[measure.Failed])
}

// TestWhereSpansAreSent: to the path that collectors have, unless the endpoint names one. A slash is none.
func TestWhereSpansAreSent(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	var at atomic.Value
	var size atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at.Store(r.URL.Path)
		size.Store(r.ContentLength)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	for path, want := range map[string]string{"": "/v1/traces", "/": "/v1/traces", "/ingest/v1/traces": "/ingest/v1/traces", "/ingest/": "/ingest"} {
		tracing, err := telemetry.Start(t.Context(), server.URL+path, "test", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		_, s := otel.GetTracerProvider().Tracer("test").Start(t.Context(), "one")
		s.SetAttributes(attribute.String("url.path", strings.Repeat("x", 64<<10)))
		s.End()
		require.NoError(t, tracing.Stop(t.Context()))
		require.Equal(t, want, at.Load(), "%q", path)
		require.Less(t, size.Load(), int64(4<<10), "what a caller makes as long as he likes is cut")
	}
}

// TestACollectorThatRefuses is logged when it begins to and when it has ended to, however many spans it has refused; what else goes wrong is a
// line of the log, too.
func TestACollectorThatRefuses(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	var refuses atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refuses.Load() {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	var logged bytes.Buffer
	tracing, err := telemetry.Start(t.Context(), server.URL, "test", slog.New(slog.NewTextHandler(&logged, nil)))
	require.NoError(t, err)
	export := func(outcome string) {
		t.Helper()
		before := spansCounted(t)[outcome]
		_, s := otel.Tracer("test").Start(t.Context(), "one")
		s.End()
		require.NoError(t, otel.GetTracerProvider().(*sdktrace.TracerProvider).ForceFlush(t.Context()))
		require.Equal(t, before+1, spansCounted(t)[outcome])
	}
	for range 2 {
		refuses.Store(true)
		for range 3 {
			export(measure.Failed)
		}
		refuses.Store(false)
		for range 3 {
			export(measure.Sent)
		}
	}
	require.NoError(t, tracing.Stop(t.Context()))
	otel.Handle(errors.New("something else"))
	var levels []string
	for line := range strings.Lines(logged.String()) {
		_, rest, _ := strings.Cut(line, "level=")
		level, _, _ := strings.Cut(rest, " ")
		levels = append(levels, level)
	}
	require.Equal(t, []string{"WARN", "INFO", "WARN", "INFO", "WARN"}, levels, logged.String())
}
