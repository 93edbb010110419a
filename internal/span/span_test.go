package span_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/span/spantest"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParse(t *testing.T) {
	require.Equal(t, parent, span.Parent(span.Parse(parent)))
	for _, bad := range []string{
		"", "00", parent + "-more", parent[:54], "01" + parent[2:], parent[:35] + "x" + parent[36:], parent[:53] + "xx",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
	} {
		require.False(t, span.Parse(bad).IsValid(), bad)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(parent)
	f.Fuzz(func(t *testing.T, text string) {
		if s := span.Parse(text); s.IsValid() {
			require.True(t, span.Parse(span.Parent(s)).Equal(s))
		}
	})
}

// TestSpansAreLimited: an app of 5,000 resources is no reason for 5,000 spans below one attempt.
func TestSpansAreLimited(t *testing.T) {
	r := spantest.Record(t)
	ctx := span.Limited(span.Below(t.Context(), span.Parse(parent)))
	for range 5000 {
		if span.Allowed(ctx) {
			_, end := span.Begin(ctx, "call", span.Client)
			end("done", false)
		}
	}
	require.Len(t, r.Ended(), span.Most)
	for name, ctx := range map[string]context.Context{
		"outside of an attempt": span.Below(t.Context(), span.Parse(parent)),
		"in no trace":           span.Limited(t.Context()),
		"not recorded":          span.Limited(span.Unrecorded(span.Below(t.Context(), span.Parse(parent)))),
	} {
		require.False(t, span.Allowed(ctx), name)
	}
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", span.TraceOf(span.Unrecorded(ctx)), "logs have it all the same")
	leftOut := span.Below(t.Context(), span.Parse(strings.TrimSuffix(parent, "01")+"00"))
	require.Empty(t, span.TraceOf(leftOut), "there is none of it")
	require.Empty(t, span.TraceOf(span.Unrecorded(leftOut)))
}

// TestSpansOfRuns: whoever replays a run makes the same one.
func TestSpansOfRuns(t *testing.T) {
	from := span.Parse(parent)
	one := span.OfRun(from, "run-1", false)
	require.Equal(t, one, span.OfRun(from, "run-1", false))
	require.Equal(t, from.TraceID(), one.TraceID())
	require.NotEqual(t, one.SpanID(), span.OfRun(from, "run-2", false).SpanID())
	require.NotEqual(t, from.TraceID(), span.OfRun(from, "run-1", true).TraceID())
}

// BenchmarkOff is what a request to a cluster or to the store pays where no traces are recorded.
func BenchmarkOff(b *testing.B) {
	ctx := span.Below(context.Background(), span.Parse(parent))
	b.ReportAllocs()
	for b.Loop() {
		if span.Allowed(span.Limited(ctx)) {
			b.Fatal("recorded")
		}
	}
}
