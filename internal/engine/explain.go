package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/workflows"
)

const (
	// describeLimit is how many runs are described at a time.
	describeLimit = 8
	// describedChildren is how many of the runs that an operation has begun are described.
	describedChildren = 16
	// callerMemo is the memo of an operation's run that says who asked for it.
	callerMemo = "requestedBy"
	// requestMemo is the one that says by which request, as logs have it.
	requestMemo = "requestId"
	// traceMemo is the one that says in which trace it is.
	traceMemo = "traceId"
)

// memo is what a run keeps of who asked for it, nil when nothing was said.
func memo(ctx context.Context) map[string]any {
	var known map[string]any
	note := func(key, value string) {
		if known == nil {
			known = map[string]any{}
		}
		known[key] = value
	}
	if name := caller.Of(ctx); name != "" {
		note(callerMemo, name)
	}
	if id := caller.RequestID(ctx); id != "" {
		note(requestMemo, id)
	}
	if id := span.TraceOf(ctx); id != "" {
		note(traceMemo, id)
	}
	return known
}

// Run describes the last run of an operation. With an error, which is NotFound for a run that Temporal does not know
// (any more), it has the id alone.
func (e *Engine) Run(ctx context.Context, s domain.Scope) (explain.Run, error) {
	run := explain.Run{Operation: s.Operation, ID: workflows.OperationID(s)}
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	d, err := e.temporal.DescribeWorkflowExecution(ctx, run.ID, "")
	if err != nil {
		return run, kindOf(err, workflow(run.ID))
	}
	run, err = e.run(ctx, run, d)
	run.Children = childrenOf(d)
	return run, err
}

// childrenOf are the ids of the first describedChildren that a run has begun and that go on.
func childrenOf(d *workflowservice.DescribeWorkflowExecutionResponse) (ids []string) {
	children := slices.SortedFunc(slices.Values(d.GetPendingChildren()), func(a, b *workflowpb.PendingChildExecutionInfo) int {
		return cmp.Compare(a.GetInitiatedId(), b.GetInitiatedId())
	})
	for _, c := range children[:min(len(children), describedChildren)] {
		ids = append(ids, c.GetWorkflowId())
	}
	return ids
}

// Waiting is the task of workflows that waits longest for a worker, nil for none. It is a hint, for which nobody waits long: of one that is not
// described in time, or cannot be, nothing is said.
func (e *Engine) Waiting(ctx context.Context, children []string) *explain.Task {
	ctx, cancel := context.WithTimeout(ctx, policy.DescribeChildren)
	defer cancel()
	tasks := make([]*explain.Task, len(children))
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(describeLimit)
	for i, id := range children {
		g.Go(func() error {
			d, err := e.temporal.DescribeWorkflowExecution(ctx, id, "")
			if err == nil {
				tasks[i] = taskOf(id, d)
			}
			return nil
		})
	}
	if g.Wait() != nil {
		return nil
	}
	var longest *explain.Task
	for _, t := range tasks {
		if t != nil && (longest == nil || t.Since.Before(longest.Since)) {
			longest = t
		}
	}
	return longest
}

// taskOf is the task of a workflow that waits for a worker, nil for none.
func taskOf(id string, d *workflowservice.DescribeWorkflowExecutionResponse) *explain.Task {
	t := d.GetPendingWorkflowTask()
	if t.GetState() != enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED {
		return nil
	}
	return &explain.Task{Workflow: id, Since: moment(t.GetOriginalScheduledTime()), Attempt: int(t.GetAttempt())}
}

// Starting finds an operation of the owner that runs, beside the one whose run has the id; nil when there is none. It
// asks Temporal's visibility, which may be a moment late.
func (e *Engine) Starting(ctx context.Context, owner domain.Key, beside string) (*explain.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	found, err := e.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: 2, Query: workflows.OperationsQuery(workflows.Wanted{Owner: owner, Open: true}),
	})
	if err != nil {
		return nil, kindOf(err, "operations of "+domain.NameOwner(owner))
	}
	for _, x := range found.GetExecutions() {
		id := x.GetExecution().GetWorkflowId()
		if id == beside {
			continue
		}
		d, err := e.temporal.DescribeWorkflowExecution(ctx, id, x.GetExecution().GetRunId())
		if err != nil {
			return nil, kindOf(err, workflow(id))
		}
		run, err := e.run(ctx, explain.Run{Operation: workflows.OperationOf(x.GetType().GetName()), ID: id}, d)
		return &run, err
	}
	return nil, nil
}

// run completes what is known of a run.
func (e *Engine) run(ctx context.Context, run explain.Run, d *workflowservice.DescribeWorkflowExecutionResponse) (explain.Run, error) {
	info := d.GetWorkflowExecutionInfo()
	run.RunID = info.GetExecution().GetRunId()
	run.Status = runStatuses[info.GetStatus()]
	run.Started, run.Paused = moment(info.GetStartTime()), runPauseOf(d)
	run.By, run.Trace = e.requestedBy(info), e.memoOf(info, traceMemo)
	for _, p := range d.GetPendingActivities() {
		run.Steps = append(run.Steps, e.attemptOf(p))
	}
	run.Task = taskOf(run.ID, d)
	switch run.Status {
	case explain.Terminated, explain.Failed:
		return run, e.end(ctx, &run)
	default:
		return run, nil
	}
}

// end reads why a run was closed from the last event of its history.
func (e *Engine) end(ctx context.Context, run *explain.Run) error {
	events := e.temporal.GetWorkflowHistory(ctx, run.ID, run.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return kindOf(err, workflow(run.ID))
		}
		if a := event.GetWorkflowExecutionTerminatedEventAttributes(); a != nil {
			run.End = strings.TrimPrefix(a.GetReason()+", by "+a.GetIdentity(), ", ")
		}
		if a := event.GetWorkflowExecutionFailedEventAttributes(); a != nil {
			run.End = e.said(a.GetFailure())
		}
	}
	return nil
}

var runStatuses = map[enumspb.WorkflowExecutionStatus]explain.RunStatus{
	enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:    explain.Running,
	enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:     explain.RunPaused,
	enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:  explain.Completed,
	enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:     explain.Failed,
	enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:   explain.Canceled,
	enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED: explain.Terminated,
	enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:  explain.TimedOut,
}

// Attempts describes where the work of an operation stands at places, side by side. Places without a run are left out.
// With an error it has what was found until then.
func (e *Engine) Attempts(ctx context.Context, s domain.Scope, places []explain.Place) (map[explain.Place]explain.Attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	var mu sync.Mutex
	found := make(map[explain.Place]explain.Attempt, len(places))
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(describeLimit)
	for _, p := range places {
		g.Go(func() error {
			a, err := e.attempt(ctx, workflows.LeafID(s, p.App, p.Cluster))
			if fail.Is(err, fail.NotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			found[p] = a
			return nil
		})
	}
	err := g.Wait()
	return found, err
}

// attempt describes the activity that a leaf's workflow waits for.
func (e *Engine) attempt(ctx context.Context, id string) (explain.Attempt, error) {
	d, err := e.temporal.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return explain.Attempt{}, kindOf(err, workflow(id))
	}
	var a explain.Attempt
	if pending := d.GetPendingActivities(); len(pending) > 0 {
		a = e.attemptOf(pending[0])
	}
	a.Paused = cmp.Or(runPauseOf(d), a.Paused)
	info := d.GetWorkflowExecutionInfo()
	a.Task = taskOf(id, d)
	a.ID, a.RunID, a.Since = id, info.GetExecution().GetRunId(), moment(info.GetStartTime())
	return a, nil
}

func (e *Engine) attemptOf(p *workflowpb.PendingActivityInfo) explain.Attempt {
	return explain.Attempt{
		Step: p.GetActivityType().GetName(), Number: int(p.GetAttempt()),
		Trying: p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED,
		Last:   moment(p.GetLastAttemptCompleteTime()), Next: moment(p.GetNextAttemptScheduleTime()),
		Begun: moment(p.GetLastStartedTime()), Error: e.said(p.GetLastFailure()), Late: late(p.GetLastFailure()),
		Paused: pauseOf(p),
	}
}

// pauseOf is who has paused an activity, in person or by a rule of the namespace, nil where nobody has.
func pauseOf(p *workflowpb.PendingActivityInfo) *explain.Pause {
	if !p.GetPaused() {
		return nil
	}
	info := p.GetPauseInfo()
	by := cmp.Or(info.GetManual().GetIdentity(), info.GetRule().GetIdentity())
	why := cmp.Or(info.GetManual().GetReason(), info.GetRule().GetReason())
	return &explain.Pause{Activity: p.GetActivityId(), By: by, Why: why}
}

// runPauseOf is who has paused a run as a whole, nil where nobody has.
func runPauseOf(d *workflowservice.DescribeWorkflowExecutionResponse) *explain.Pause {
	if d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED {
		return nil
	}
	info := d.GetWorkflowExtendedInfo().GetPauseInfo()
	return &explain.Pause{By: info.GetIdentity(), Why: info.GetReason()}
}

// late says of a failure whether more time was taken than there was, by a worker that was heard of all the while.
func late(f *failurepb.Failure) bool {
	t := f.GetTimeoutFailureInfo()
	return t != nil && t.GetTimeoutType() != enumspb.TIMEOUT_TYPE_HEARTBEAT
}

// said is what may be shown of a failure, "" for none.
func (e *Engine) said(f *failurepb.Failure) string {
	if f == nil {
		return ""
	}
	if t := f.GetTimeoutFailureInfo(); t != nil {
		if t.GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT {
			return "the worker that was at it was not heard of any more"
		}
		return "it took too long"
	}
	if err, ok := workflows.FromTemporal(e.failures.FailureToError(f)); ok {
		return fail.TextOf(err)
	}
	return "internal error; the worker's log has it"
}

// moment is a time, zero when it is not set.
func moment(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
