package telemetry

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/measure"
)

// mostWaiting is how many spans may wait to be sent, when OTEL_BSP_MAX_QUEUE_SIZE says nothing: some seconds of a busy worker, of which
// each is a kilobyte or two.
const mostWaiting = 8192

// waiting is how many may.
func waiting() int64 {
	if n, err := strconv.ParseInt(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"), 10, 32); err == nil && n > 0 {
		return n
	}
	return mostWaiting
}

// room hands on spans to a batch processor as long as that has room, and counts those that it has none for: the processor drops them
// without a word. Its queue has as much room as this one, so that it is never full.
type room struct {
	sdktrace.SpanProcessor
	most  int64
	waits *atomic.Int64 // that wait, or are being sent
}

// send makes the processor that sends spans by an exporter.
func send(exporter sdktrace.SpanExporter, log *slog.Logger) sdktrace.SpanProcessor {
	measure.Spans.Begin()
	r := &room{most: waiting(), waits: &atomic.Int64{}}
	r.SpanProcessor = sdktrace.NewBatchSpanProcessor(&counting{SpanExporter: exporter, waits: r.waits, log: log}, sdktrace.WithMaxQueueSize(int(r.most)))
	return r
}

// OnEnd implements sdktrace.SpanProcessor.
func (r *room) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if r.waits.Add(1) > r.most {
		r.waits.Add(-1)
		measure.Spans.Add(1, measure.Dropped)
		return
	}
	r.SpanProcessor.OnEnd(s)
}

// counting counts what becomes of spans that are sent, and logs when the collector begins not to take them, and when it takes them again.
type counting struct {
	sdktrace.SpanExporter
	waits *atomic.Int64
	log   *slog.Logger
	fails lasting.Trouble
}

// ExportSpans implements sdktrace.SpanExporter. Its errors are said here: the processor would say each of them, every few seconds.
func (c *counting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	c.waits.Add(-int64(len(spans)))
	outcome := measure.Sent
	if err != nil {
		outcome = measure.Failed
	}
	measure.Spans.Add(int64(len(spans)), outcome)
	switch {
	case err != nil && c.fails.Begins(""):
		c.log.WarnContext(ctx, "spans of traces cannot be sent, and are lost", "error", err)
	case err == nil && c.fails.Ends():
		c.log.InfoContext(ctx, "spans of traces are taken again")
	}
	return nil
}
