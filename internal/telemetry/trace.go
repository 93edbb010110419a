package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/span"
)

// traceHeader carries the span that a workflow or an activity is done for.
const traceHeader = "drover-trace"

// Traces carries spans into workflows and activities (workflow.ContextPropagator).
type Traces struct{}

// Carried is what a workflow or an activity knows of what it is done for.
type Carried struct {
	Parent string `json:"parent,omitempty"` // W3C's traceparent
	// Brief has a workflow record nothing but its own end, if it failed: others like it tell enough.
	Brief bool `json:"brief,omitempty"`
}

type (
	cameKey struct{} // of a workflow's context: what it came with
	goesKey struct{} // what goes with what it starts
)

// CameWith is what a workflow came with.
func CameWith(ctx workflow.Context) Carried {
	c, _ := ctx.Value(cameKey{}).(Carried)
	return c
}

// Sends is ctx for what is started below a span of the workflow's; brief is Carried's.
func Sends(ctx workflow.Context, s trace.SpanContext, brief bool) workflow.Context {
	return workflow.WithValue(ctx, goesKey{}, Carried{Parent: span.Parent(s), Brief: brief})
}

// Inject implements workflow.ContextPropagator.
func (Traces) Inject(ctx context.Context, to workflow.HeaderWriter) error {
	return carry(Carried{Parent: span.ParentOf(ctx)}, to)
}

// InjectFromWorkflow implements workflow.ContextPropagator.
func (Traces) InjectFromWorkflow(ctx workflow.Context, to workflow.HeaderWriter) error {
	c, _ := ctx.Value(goesKey{}).(Carried)
	return carry(c, to)
}

// Extract implements workflow.ContextPropagator.
func (Traces) Extract(ctx context.Context, from workflow.HeaderReader) (context.Context, error) {
	c := carried(from)
	if s := span.Parse(c.Parent); s.IsValid() && !c.Brief {
		ctx = span.Below(ctx, s)
	}
	return ctx, nil
}

// ExtractToWorkflow implements workflow.ContextPropagator.
func (Traces) ExtractToWorkflow(ctx workflow.Context, from workflow.HeaderReader) (workflow.Context, error) {
	if c := carried(from); c.Parent != "" {
		ctx = workflow.WithValue(ctx, cameKey{}, c)
	}
	return ctx, nil
}

func carry(c Carried, to workflow.HeaderWriter) error {
	if c.Parent == "" {
		return nil
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(c)
	if err != nil {
		return err
	}
	to.Set(traceHeader, payload)
	return nil
}

// carried is what a header says, nothing for what is none: nothing fails for it.
func carried(from workflow.HeaderReader) (c Carried) {
	var payload *commonpb.Payload
	payload, ok := from.Get(traceHeader)
	if !ok || converter.GetDefaultDataConverter().FromPayload(payload, &c) != nil {
		return Carried{}
	}
	return c
}
