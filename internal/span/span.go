// Package span has the spans of traces: what is recorded of a request or an operation, for whom, and how much of it at most. Where no
// traces are recorded, it costs the look at a flag. Nothing but names, numbers and kinds of errors goes into a span: no bodies, no texts
// of errors.
package span

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of the tracer.
const Scope = "drover"

// on says whether this process records traces.
var on atomic.Bool

// Record has the process record traces, or not any more.
func Record(is bool) { on.Store(is) }

// On says whether it does.
func On() bool { return on.Load() }

// Names of attributes.
const (
	Owner     = "drover.owner"
	Context   = "drover.context"
	Operation = "drover.operation"
	App       = "drover.app"
	Cluster   = "drover.cluster"
	Attempt   = "drover.attempt"
	Outcome   = "drover.outcome"
	Workflow  = "drover.workflow"
	RunID     = "drover.run"
)

// String is an attribute. Values are names: never what may be secret.
func String(name, value string) attribute.KeyValue { return attribute.String(name, value) }

// Int is an attribute.
func Int(name string, value int) attribute.KeyValue { return attribute.Int(name, value) }

// Most is how many spans below one attempt at an activity, or one request, are recorded: its first.
const Most = 64

type budgetKey struct{}

// Limited is ctx for one attempt or request, below which Most spans are recorded.
func Limited(ctx context.Context) context.Context {
	if !sampled(ctx) {
		return ctx
	}
	left := &atomic.Int64{}
	left.Store(Most)
	return context.WithValue(ctx, budgetKey{}, left)
}

func sampled(ctx context.Context) bool { return On() && trace.SpanContextFromContext(ctx).IsSampled() }

// Allowed says whether one more call is to be recorded below ctx, and counts it. Calls outside of an attempt or a request, such as those
// of watches, are not.
func Allowed(ctx context.Context) bool {
	if !On() {
		return false
	}
	left, _ := ctx.Value(budgetKey{}).(*atomic.Int64)
	return left != nil && sampled(ctx) && left.Add(-1) >= 0
}

// Begin begins a span below that of ctx, for what is done in this process. Who has ended it calls end, with how it went.
func Begin(ctx context.Context, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) (in context.Context, end func(outcome string, failed bool)) {
	if !sampled(ctx) {
		return ctx, func(string, bool) {}
	}
	in, s := otel.Tracer(Scope).Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
	return in, ender(s)
}

// ender ends a span, with how it went.
func ender(s trace.Span) func(outcome string, failed bool) {
	return func(outcome string, failed bool) {
		if outcome != "" {
			s.SetAttributes(String(Outcome, outcome))
		}
		if failed {
			s.SetStatus(codes.Error, outcome)
		}
		s.End()
	}
}

// First begins the first span of a trace of its own, of what nobody has asked for: an agent's work. Below it Most spans are recorded.
func First(ctx context.Context, name string, attributes ...attribute.KeyValue) (in context.Context, end func(outcome string, failed bool)) {
	return Linked(ctx, trace.SpanContext{}, Internal, name, attributes...)
}

// Linked is First, of what comes from another trace, if that is one.
func Linked(ctx context.Context, from trace.SpanContext, kind trace.SpanKind, name string, attributes ...attribute.KeyValue) (in context.Context, end func(outcome string, failed bool)) {
	if !On() {
		return ctx, func(string, bool) {}
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(kind), trace.WithAttributes(attributes...)}
	if from.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	in, s := otel.Tracer(Scope).Start(ctx, name, options...)
	return Limited(in), ender(s)
}

// Kinds of spans.
const (
	Internal = trace.SpanKindInternal
	Client   = trace.SpanKindClient
	Consumer = trace.SpanKindConsumer
	Server   = trace.SpanKindServer
)

// TraceOf is the id of the trace that ctx belongs to, "" where none is recorded: nobody is to look for one that the sampler has left out.
func TraceOf(ctx context.Context) string {
	s := trace.SpanContextFromContext(ctx)
	if within, _ := ctx.Value(withinKey{}).(trace.TraceID); s.HasTraceID() && (s.IsSampled() || within == s.TraceID()) {
		return s.TraceID().String()
	}
	return ""
}

// ParentOf is how others are told of the span of ctx: W3C's traceparent, "" for none.
func ParentOf(ctx context.Context) string { return Parent(trace.SpanContextFromContext(ctx)) }

// Parent is a span as W3C's traceparent, "" for none.
func Parent(s trace.SpanContext) string {
	if !s.IsValid() {
		return ""
	}
	return "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()
}

// Parse reads a traceparent of this form; an invalid one is none.
func Parse(parent string) trace.SpanContext {
	const length = 55
	if len(parent) != length || parent[:3] != "00-" || parent[35] != '-' || parent[52] != '-' {
		return trace.SpanContext{}
	}
	t, err := trace.TraceIDFromHex(parent[3:35])
	if err != nil {
		return trace.SpanContext{}
	}
	s, err := trace.SpanIDFromHex(parent[36:52])
	if err != nil {
		return trace.SpanContext{}
	}
	flags, err := hex.DecodeString(parent[53:])
	if err != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.TraceFlags(flags[0]), Remote: true})
}

// Below is ctx with a span of another process.
func Below(ctx context.Context, s trace.SpanContext) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, s)
}

// withinKey is of the id of a trace that is recorded, where what belongs to it is not.
type withinKey struct{}

// Unrecorded is ctx for what belongs to the same trace and is not recorded.
func Unrecorded(ctx context.Context) context.Context {
	s := trace.SpanContextFromContext(ctx)
	if s.IsSampled() {
		ctx = context.WithValue(ctx, withinKey{}, s.TraceID())
	}
	return trace.ContextWithSpanContext(ctx, s.WithTraceFlags(s.TraceFlags().WithSampled(false)))
}

// OfRun is the span of a workflow's run below another one. It follows from the run's id, so that whoever replays the run knows it. With
// its own trace it is the first span of one that follows from the run, too.
func OfRun(from trace.SpanContext, runID string, ownTrace bool) trace.SpanContext {
	sum := sha256.Sum256([]byte("run " + runID))
	c := trace.SpanContextConfig{TraceID: from.TraceID(), TraceFlags: from.TraceFlags()}
	copy(c.SpanID[:], sum[:])
	if ownTrace {
		copy(c.TraceID[:], sum[len(c.SpanID):])
	}
	return trace.NewSpanContext(c)
}

// Over is something that is over: it is recorded in one go, by whoever knows of its end.
type Over struct {
	Name       string
	Own        trace.SpanContext // its ids; made up when there are none
	Parent     trace.SpanContext // of the same trace; none for the first of a trace
	Link       trace.SpanContext // another trace that it comes from; none
	Begun      time.Time
	Ended      time.Time
	Outcome    string
	Failed     bool
	Attributes []attribute.KeyValue
}

type idsKey struct{}

// Say records what is over.
func Say(o Over) {
	if !On() {
		return
	}
	ctx := context.Background()
	if o.Own.IsValid() {
		ctx = context.WithValue(ctx, idsKey{}, o.Own)
	}
	if o.Parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, o.Parent.WithTraceFlags(trace.FlagsSampled))
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(o.Begun), trace.WithAttributes(o.Attributes...), trace.WithSpanKind(Internal)}
	if o.Link.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: o.Link}))
	}
	_, s := otel.Tracer(Scope).Start(ctx, o.Name, options...)
	if o.Outcome != "" {
		s.SetAttributes(String(Outcome, o.Outcome))
	}
	if o.Failed {
		s.SetStatus(codes.Error, o.Outcome)
	}
	s.End(trace.WithTimestamp(o.Ended))
}

// IDsOf are the ids that the next span is to have, for who makes them; ok is false when they are to be made up.
func IDsOf(ctx context.Context) (s trace.SpanContext, ok bool) {
	s, ok = ctx.Value(idsKey{}).(trace.SpanContext)
	return s, ok
}
