package worker

import (
	"context"
	"errors"
	"math/bits"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/telemetry"
	"github.com/drover-io/drover/workflows"
)

// tracedLeaves is how many leaves of one app's workflow are recorded whole; of the others failed ones, by a span each: tracedFailures of them
// in a worker. A fleet that fails at once would push other spans out of the exporter's queue, such as that of the operation, which is last.
const (
	tracedLeaves   = 30
	tracedFailures = 30
)

// tracedApps is of how many apps' workflows a worker knows how many failures it has recorded.
const tracedApps = 1000

// tracedAttempts is up to which attempt each one at an activity is recorded; then it is every second, fourth, eighth one.
const tracedAttempts = 4

// tracing records the spans of workflows and activities. A workflow's span has an id that follows from its run, and is recorded when
// the run has come to its end, so that a run that is replayed is recorded once, and a worker that dies takes no span with it.
type tracing struct {
	interceptor.WorkerInterceptorBase

	mu       sync.Mutex
	failures *lru.Cache[string, int] // that were recorded of leaves, by run of their app's workflow
}

func newTracing() *tracing { return &tracing{failures: lru.New[string, int](tracedApps)} }

// tells says whether one more failure of a leaf is to be recorded, and counts it.
func (t *tracing) tells(parent *workflow.Execution) bool {
	if parent == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n, _ := t.failures.Get(parent.RunID)
	if n >= tracedFailures {
		return false
	}
	t.failures.Add(parent.RunID, n+1)
	return true
}

// InterceptActivity wraps one activity.
func (*tracing) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &tracedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type tracedActivity struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity runs an attempt.
func (t *tracedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if !span.On() {
		return t.Next.ExecuteActivity(ctx, in)
	}
	info := activity.GetInfo(ctx)
	if !recorded(info.Attempt) {
		ctx = span.Unrecorded(ctx)
	}
	attributes := append(argument(in.Args), span.Int(span.Attempt, int(info.Attempt)), attribute.Bool("drover.at_once", info.IsLocalActivity))
	ctx, end := span.Begin(ctx, info.ActivityType.Name, span.Consumer, attributes...)
	outcome, failed := string(fail.Internal), true // of a panic
	defer func() { end(outcome, failed) }()
	out, err := t.Next.ExecuteActivity(span.Limited(ctx), in)
	outcome = attempted(err)
	if errors.Is(ctx.Err(), context.Canceled) && outcome != measure.HandedOver {
		outcome = measure.Canceled
	}
	failed = isFault(err) && outcome != measure.Canceled && outcome != measure.HandedOver
	return out, err
}

// isFault is fail.IsFault, also of what has become Temporal's: what is refused to somebody is no error in a trace, as in that of the request.
func isFault(err error) bool {
	if ours, _ := workflows.FromTemporal(err); ours != nil {
		return fail.IsFault(ours)
	}
	return fail.IsFault(err)
}

// recorded says whether an attempt is one of those that are recorded: one that is tried again for weeks says nothing new.
func recorded(attempt int32) bool {
	return attempt <= tracedAttempts || bits.OnesCount32(uint32(attempt)) == 1 // #nosec G115 -- a number of attempts
}

// argument is what the input of a workflow or an activity says of what it is about: names.
func argument(args []any) []attribute.KeyValue {
	if len(args) == 0 {
		return nil
	}
	scoped := func(s domain.Scope, more ...attribute.KeyValue) []attribute.KeyValue {
		return append([]attribute.KeyValue{
			span.String(span.Owner, string(s.Owner)), span.String(span.Context, s.ContextID), span.String(span.Operation, string(s.Operation)),
		}, more...)
	}
	switch in := args[0].(type) {
	case workflows.OperationInput:
		return scoped(in.Scope)
	case workflows.AppInput:
		return scoped(in.Scope, span.String(span.App, in.App.Name), span.Int("drover.clusters", in.To-in.From))
	case activities.LeafInput:
		return scoped(in.Scope, span.String(span.App, in.App), span.String(span.Cluster, in.Cluster.String()))
	case domain.Scope:
		return scoped(in)
	case activities.RecordInput:
		return scoped(in.Scope)
	case activities.FinishInput:
		return scoped(in.Scope)
	case activities.StopInput:
		return scoped(in.Scope)
	case activities.ChangeInput:
		return scoped(in.Scope)
	default:
		return nil
	}
}

// InterceptWorkflow wraps one run.
func (t *tracing) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	w := &tracedWorkflow{of: t}
	w.Next = next
	return w
}

type tracedWorkflow struct {
	interceptor.WorkflowInboundInterceptorBase
	of     *tracing
	own    trace.SpanContext // the run's span, none where nothing is to be recorded
	leaves int               // that were started
}

// Init puts what starts children before the others.
func (t *tracedWorkflow) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return t.Next.Init(&tracedStarts{WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: out}, of: t})
}

// ExecuteWorkflow runs the workflow. An operation goes on in the trace of the request that began it, and children in that of their
// parent. What was begun for one and serves others, such as a watch, has a trace of its own with a link to it.
func (t *tracedWorkflow) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	came, info := telemetry.CameWith(ctx), workflow.GetInfo(ctx)
	from := span.Parse(came.Parent)
	if !from.IsSampled() {
		return t.Next.ExecuteWorkflow(ctx, in)
	}
	name := info.WorkflowType.Name
	outlives := info.ParentWorkflowExecution == nil && workflows.OperationOf(name) == ""
	own := span.OfRun(from, info.WorkflowExecution.RunID, outlives)
	if !came.Brief {
		t.own = own
		ctx = telemetry.Sends(ctx, own, false)
	}
	out, err := t.Next.ExecuteWorkflow(ctx, in)
	if workflow.IsReplaying(ctx) {
		return out, err
	}
	outcome, failed := outcomeOf(ctx, in.Args, out, err)
	if came.Brief && (!failed || !t.of.tells(info.ParentWorkflowExecution)) {
		return out, err
	}
	over := span.Over{
		Name: name, Own: own, Parent: from, Begun: info.WorkflowStartTime, Ended: workflow.Now(ctx), Outcome: outcome, Failed: failed,
		Attributes: append(argument(in.Args), span.String(span.Workflow, info.WorkflowExecution.ID), span.String(span.RunID, info.WorkflowExecution.RunID)),
	}
	if outlives {
		over.Parent, over.Link = trace.SpanContext{}, from
	}
	span.Say(over)
	return out, err
}

// outcomeOf is how a workflow ended. One that goes on as a new run has done its part, and one that was stopped has not failed.
func outcomeOf(ctx workflow.Context, args []any, out any, err error) (outcome string, failed bool) {
	if workflow.IsContinueAsNewError(err) {
		return measure.Done, false
	}
	if o, ok := out.(*activities.Outcome); ok && o != nil && err == nil {
		if o.Refused != "" {
			return "refused", false
		}
		if o.Stopped && !o.Status.Succeeded() {
			return measure.Stopped, false
		}
		return string(o.Status), !o.Status.Succeeded()
	}
	switch {
	case err == nil && done(args, out):
		return measure.Done, false
	case ctx.Err() != nil, err == nil && stopped(args, out):
		return measure.Stopped, false
	default:
		return measure.Failed, true
	}
}

// stopped says of a workflow that came to its end whether it was ended before its own.
func stopped(args []any, out any) bool {
	end, _ := out.(*workflows.ClusterProgress)
	in, ok := args[0].(activities.LeafInput)
	return ok && end != nil && end.Stopped(in)
}

// done says whether a workflow that came to its end did all that it was to do.
func done(args []any, out any) bool {
	switch out := out.(type) {
	case *workflows.ClusterProgress:
		in, ok := args[0].(activities.LeafInput)
		return !ok || out == nil || out.Succeeded(in)
	case *workflows.AppProgress:
		return out == nil || out.Failed+out.Lost == 0
	default:
		return true
	}
}

// ExecuteUpdate runs what a request asks of the run. That is a span of the operation, with a link to the request where that has a
// trace of its own.
func (t *tracedWorkflow) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	from, begun := span.Parse(telemetry.CameWith(ctx).Parent), workflow.Now(ctx)
	out, err := t.Next.ExecuteUpdate(ctx, in)
	if workflow.IsReplaying(ctx) || !t.own.IsValid() || in.Name == workflows.ChangesUpdate { // a watch asks for changes all the time
		return out, err
	}
	over := span.Over{Name: in.Name, Parent: t.own, Begun: begun, Ended: workflow.Now(ctx), Outcome: measure.SucceededOf(err), Failed: isFault(err)}
	if from.TraceID() != t.own.TraceID() {
		over.Link = from
	}
	span.Say(over)
	return out, err
}

// tracedStarts says of which leaves all is recorded.
type tracedStarts struct {
	interceptor.WorkflowOutboundInterceptorBase
	of *tracedWorkflow
}

// ExecuteChildWorkflow starts a child.
func (t *tracedStarts) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	if t.of.own.IsValid() && (name == workflows.ApplyToClusterName || name == workflows.DeleteFromClusterName) {
		if t.of.leaves++; t.of.leaves > tracedLeaves {
			ctx = telemetry.Sends(ctx, t.of.own, true)
		}
	}
	return t.Next.ExecuteChildWorkflow(ctx, name, args...)
}
