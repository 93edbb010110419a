package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/drover-io/drover/internal/span/spantest"
)

// TestWhatACallerSaysOfItsTraceIsALink: who knows the id of somebody's trace puts nothing into it, whether it is known who asks or not, and does not
// decide what is recorded.
func TestWhatACallerSaysOfItsTraceIsALink(t *testing.T) {
	spans := spantest.Record(t)
	w := newWorld(t)
	const theirs = "0af7651916cd43dd8448eb211c80319c"
	for _, flags := range []string{"01", "00"} {
		spans.Reset()
		asked := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:9015/v2/projects", nil)
		asked.Header.Set("Traceparent", "00-"+theirs+"-00f067aa0ba902b7-"+flags)
		r := httptest.NewRecorder()
		w.router.ServeHTTP(r, asked)
		require.Equal(t, http.StatusOK, r.Code)
		linked := 0
		for _, s := range spans.Ended() {
			require.NotEqual(t, theirs, s.SpanContext().TraceID().String(), s.Name())
			for _, l := range s.Links() {
				require.Equal(t, theirs, l.SpanContext.TraceID().String())
				require.False(t, s.Parent().IsValid())
				require.Contains(t, r.Header().Get("Traceparent"), s.SpanContext().TraceID().String())
				linked++
			}
		}
		require.Equal(t, 1, linked, "it is recorded whatever the caller's flags are")
	}
}

// TestTracesThatAreNotRecordedAreNotTold: nobody is to look for one that the sampler has left out.
func TestTracesThatAreNotRecordedAreNotTold(t *testing.T) {
	spantest.Record(t)
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))
	w := newWorld(t)
	asked, r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:9015/v2/projects/none", nil), httptest.NewRecorder()
	asked.Header.Set("Accept", "application/problem+json")
	w.router.ServeHTTP(r, asked)
	require.Equal(t, http.StatusNotFound, r.Code)
	require.Empty(t, r.Header().Get("Traceparent"))
	require.NotContains(t, r.Body.String(), "traceID")
	require.Contains(t, r.Body.String(), "requestID")
}
