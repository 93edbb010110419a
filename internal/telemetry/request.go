package telemetry

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/span"
)

// keyRequest and keyTrace are the keys of the ids of a request and of its trace in logs. A worker's lines have WorkflowID and RunID of
// the operation too.
const (
	keyRequest = "requestId"
	keyTrace   = "traceId"
)

// header carries the request's id from the API to all that is done for it.
const header = "drover-request"

// Requests carries the id of the request that an operation was asked for by into its workflows and activities, by a
// header of each (workflow.ContextPropagator).
type Requests struct{}

type requestKey struct{} // of a workflow's context

// Inject implements workflow.ContextPropagator.
func (Requests) Inject(ctx context.Context, to workflow.HeaderWriter) error {
	return put(caller.RequestID(ctx), to)
}

// InjectFromWorkflow implements workflow.ContextPropagator.
func (Requests) InjectFromWorkflow(ctx workflow.Context, to workflow.HeaderWriter) error {
	id, _ := ctx.Value(requestKey{}).(string)
	return put(id, to)
}

// Extract implements workflow.ContextPropagator.
func (Requests) Extract(ctx context.Context, from workflow.HeaderReader) (context.Context, error) {
	if id := get(from); id != "" {
		ctx = caller.WithRequest(ctx, &caller.Request{ID: id})
	}
	return ctx, nil
}

// ExtractToWorkflow implements workflow.ContextPropagator.
func (Requests) ExtractToWorkflow(ctx workflow.Context, from workflow.HeaderReader) (workflow.Context, error) {
	if id := get(from); id != "" {
		ctx = workflow.WithValue(ctx, requestKey{}, id)
	}
	return ctx, nil
}

func put(id string, to workflow.HeaderWriter) error {
	if id == "" {
		return nil
	}
	payload, err := converter.GetDefaultDataConverter().ToPayload(id)
	if err != nil {
		return err
	}
	to.Set(header, payload)
	return nil
}

// get is the id, "" for what is none: it is for people to read, and nothing fails for it.
func get(from workflow.HeaderReader) (id string) {
	var payload *commonpb.Payload
	payload, ok := from.Get(header)
	if !ok || converter.GetDefaultDataConverter().FromPayload(payload, &id) != nil {
		return ""
	}
	return id
}

// RequestLogs has workflows and activities log the id that Requests carries.
type RequestLogs struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*RequestLogs) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activityLogs{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type activityLogs struct {
	interceptor.ActivityInboundInterceptorBase
}

// Init puts the logger's interceptor before the others.
func (a *activityLogs) Init(out interceptor.ActivityOutboundInterceptor) error {
	return a.Next.Init(&activityLogger{interceptor.ActivityOutboundInterceptorBase{Next: out}})
}

type activityLogger struct {
	interceptor.ActivityOutboundInterceptorBase
}

// GetLogger adds the id.
func (a *activityLogger) GetLogger(ctx context.Context) log.Logger {
	return with(with(a.Next.GetLogger(ctx), keyRequest, caller.RequestID(ctx)), keyTrace, span.TraceOf(ctx))
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*RequestLogs) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &workflowLogs{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type workflowLogs struct {
	interceptor.WorkflowInboundInterceptorBase
}

// Init puts the logger's interceptor before the others.
func (w *workflowLogs) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return w.Next.Init(&workflowLogger{interceptor.WorkflowOutboundInterceptorBase{Next: out}})
}

type workflowLogger struct {
	interceptor.WorkflowOutboundInterceptorBase
}

// GetLogger adds the id.
func (w *workflowLogger) GetLogger(ctx workflow.Context) log.Logger {
	id, _ := ctx.Value(requestKey{}).(string)
	l := with(w.Next.GetLogger(ctx), keyRequest, id)
	c, _ := ctx.Value(goesKey{}).(Carried)
	if s := span.Parse(c.Parent); s.IsValid() {
		l = with(l, keyTrace, s.TraceID().String())
	}
	return l
}

func with(l log.Logger, key, id string) log.Logger {
	if id == "" {
		return l
	}
	return log.With(l, key, id)
}
