// Package engine is the product's side of Temporal: it starts, stops, cancels and asks workflows by their
// types, and turns Temporal's errors back into the product's.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/outcome"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/workflows"
)

// Engine runs operations.
type Engine struct {
	temporal client.Client
	data     converter.DataConverter // of what is read without the client's help
	failures converter.FailureConverter
	// counts are the last answers to Counts, by operation. Callers that wait for an operation ask often, and
	// the root learns of progress twice a second: asking it more than twice as often tells nothing new.
	counts *lru.Cache[string, counted]
}

// counted is an answer to Counts and its time.
type counted struct {
	at     time.Time
	counts map[domain.ResourceState]int
}

// countsMax is of how many operations the last answer to Counts is kept.
const countsMax = 1000

// New makes an engine on a connection, which stays the caller's.
func New(c client.Client) *Engine {
	return NewReading(c, converter.GetDefaultDataConverter(), temporal.GetDefaultFailureConverter())
}

// NewReading is New for a connection with converters of its own.
func NewReading(c client.Client, data converter.DataConverter, failures converter.FailureConverter) *Engine {
	return &Engine{temporal: c, data: data, failures: failures, counts: lru.New[string, counted](countsMax)}
}

// Ping says whether Temporal answers.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, policy.Call)
	defer cancel()
	_, err := e.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return kindOf(err, "")
}

// oldest is the first Temporal that has all that Drover needs.
const oldest = "1.28"

// Outdated is the version of a Temporal that is too old for Drover, with the least that it needs; has is "" for one that is not, or does not say.
func (e *Engine) Outdated(ctx context.Context) (has, least string, err error) {
	err = e.call(ctx, "", func(ctx context.Context) error {
		info, err := e.temporal.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
		has = info.GetServerVersion()
		return err
	})
	if err != nil || !version.Older(has, oldest) {
		has = ""
	}
	return has, oldest, err
}

// Start begins an operation and waits until it is accepted: rendered, planned and recorded in its owner's
// state. A refusal is the operation's own error. Conflict when the same operation runs already.
func (e *Engine) Start(ctx context.Context, s domain.Scope, seen domain.Seen) (warnings []string, err error) {
	accepted, err := e.start(ctx, workflows.OperationInput{Scope: s, Seen: seen})
	return accepted.Warnings, err
}

// Change is Start for an operation whose context takes over from another one; revision is that of the instance then.
func (e *Engine) Change(ctx context.Context, s domain.Scope, seen domain.Seen, goal domain.Goal) (revision int, warnings []string, err error) {
	accepted, err := e.start(ctx, workflows.OperationInput{Scope: s, Seen: seen, Goal: goal})
	return accepted.Revision, accepted.Warnings, err
}

func (e *Engine) start(ctx context.Context, in workflows.OperationInput) (accepted workflows.Acceptance, err error) {
	s, begun := in.Scope, time.Now()
	known := memo(ctx) // of the request
	ctx, end := span.Begin(ctx, "accept "+string(s.Operation), span.Client,
		span.String(span.Owner, string(s.Owner)), span.String(span.Context, s.ContextID), span.String(span.Operation, string(s.Operation)))
	defer func() {
		outcome := measure.Accepted
		if err != nil {
			outcome = measure.OutcomeOf(err)
		}
		end(outcome, fail.IsFault(err))
		measure.OperationAcceptance.Record(time.Since(begun).Seconds(), string(s.Operation), outcome)
	}()
	in.By = caller.Of(ctx)
	ctx, cancel := context.WithTimeout(ctx, policy.Accept)
	defer cancel()
	id := workflows.OperationID(s)
	caller.RequestOf(ctx).Begin(id)
	options := client.StartWorkflowOptions{
		ID:                       id,
		TaskQueue:                workflows.LifecycleQueue,
		WorkflowTaskTimeout:      policy.Task,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		TypedSearchAttributes:    workflows.OperationAttributes(s),
		StaticSummary:            workflows.Summary(s),
		Memo:                     known,
	}
	accepted, err = e.begin(ctx, options, in)
	if runs(err) && e.leaves(ctx, id) {
		accepted, err = e.begin(ctx, options, in)
	}
	if err != nil {
		var gone *serviceerror.NotFound // as the server has it: what the workflow has not found is an application's error
		if errors.As(err, &gone) {
			err = unanswered(err, named(s))
		}
		err = kindOf(err, named(s))
		if fail.Is(err, fail.Timeout) {
			err = e.undecided(ctx, id, begun, err)
		}
		return accepted, fmt.Errorf("%s %s: %w", s.Operation, s.Owner, err)
	}
	return accepted, nil
}

// begin starts an operation's workflow and waits for its answer.
func (e *Engine) begin(ctx context.Context, options client.StartWorkflowOptions, in workflows.OperationInput) (accepted workflows.Acceptance, err error) {
	handle, err := e.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: e.temporal.NewWithStartWorkflowOperation(options, workflows.OperationName(in.Operation), in),
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateName: workflows.AcceptUpdate, WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err == nil {
		err = handle.Get(ctx, &accepted)
	}
	return accepted, err
}

// runs says of a start's error whether the workflow is open.
func runs(err error) bool {
	var running *serviceerror.WorkflowExecutionAlreadyStarted
	var multi *serviceerror.MultiOperationExecution
	if errors.As(err, &multi) {
		return slices.ContainsFunc(multi.OperationErrors(), func(err error) bool { return errors.As(err, &running) })
	}
	return errors.As(err, &running)
}

// leaves waits for the end of an operation's workflow whose end is recorded, and says whether it has come. A workflow is open for
// some time after that, and who has read that the operation has ended may ask for it again.
func (e *Engine) leaves(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, policy.Leave)
	defer cancel()
	var p workflows.OperationProgress
	switch err := e.query(ctx, id, &p); {
	case fail.Is(err, fail.NotFound):
		return true
	case err != nil || p.Status.InProgress():
		return false
	}
	for ctx.Err() == nil {
		if e.hears(ctx, id, "", policy.Poll) {
			return true
		}
		if status, err := e.status(ctx, id); fail.Is(err, fail.NotFound) || err == nil && !open(status) {
			return true
		}
	}
	return false
}

// hears waits for the end of a run, for a time at the most, and says whether it has heard of it. Temporal drops the word of an end now and then: nobody
// waits long without a look at the run itself.
func (e *Engine) hears(ctx context.Context, id, runID string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_ = e.temporal.GetWorkflow(ctx, id, runID).Get(unhurried{ctx}, nil) // its result does not matter, its end does
	return ctx.Err() == nil
}

// unhurried is a context that ends and does not say when. Temporal answers a long poll a second before its deadline, without the end, and the SDK asks
// again at once: hundreds of times in that second.
type unhurried struct{ context.Context }

// Deadline implements context.Context.
func (unhurried) Deadline() (time.Time, bool) { return time.Time{}, false }

// named names an operation for people: `the instantiate of deployment intent group "p/ca/v1/web"`.
func named(s domain.Scope) string {
	word := string(s.Operation)
	if n := domain.OwnerNoun(s.Owner); n != nil {
		word = n.Owner.Word(s.Operation)
	}
	return fmt.Sprintf("the %s of %s", word, domain.NameOwner(s.Owner))
}

// workflow names one for people. Its id has the names of what it is about.
func workflow(id string) string { return "workflow " + id }

// unanswered is the answer of a workflow that has ended before it gave one, as a person has ended it. It may have recorded what it was
// asked for, so that this is no refusal.
func unanswered(cause error, about string) error {
	e := fail.Wrap(cause, fail.Unavailable, "the workflow of %s was ended before it answered; ask for the status before you ask for it again", about)
	e.RetryAfter = policy.AskAgain
	return e
}

// undecided is the answer about an operation that was asked for at a time, and neither accepted nor refused in time: it may have been begun, and be
// accepted later.
func (e *Engine) undecided(ctx context.Context, id string, asked time.Time, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Look)
	defer cancel()
	what := "it was not begun as far as is known"
	d, err := e.temporal.DescribeWorkflowExecution(ctx, id, "")
	switch run := d.GetWorkflowExecutionInfo(); {
	case err != nil:
	case open(run.GetStatus()):
		what = fmt.Sprintf("it was begun, and is given up unless it is accepted within %s of that", policy.Accept)
	case !run.GetStartTime().AsTime().Before(asked.Add(-policy.ClocksApart)): // another one of the id was before that
		what = "it was begun, and has ended since"
	}
	late := fail.Wrap(cause, fail.Unavailable, "the operation %s is not decided yet: %s; look at GET /v2/operations/%s before you ask for it again", id, what, id)
	late.RetryAfter = policy.AskAgain
	return late
}

// Stop ends a running operation in order and returns when that is recorded. NotFound when it does not run.
func (e *Engine) Stop(ctx context.Context, s domain.Scope) error {
	ctx, cancel := context.WithTimeout(ctx, policy.Stop)
	defer cancel()
	handle, err := e.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflows.OperationID(s), UpdateName: workflows.StopUpdate, Args: []any{caller.Of(ctx)},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	return kindOf(err, named(s))
}

// Running says whether the operation's workflow is open.
func (e *Engine) Running(ctx context.Context, s domain.Scope) (bool, error) {
	status, err := e.status(ctx, workflows.OperationID(s))
	if fail.Is(err, fail.NotFound) {
		return false, nil
	}
	return open(status), err
}

func (e *Engine) status(ctx context.Context, id string) (enumspb.WorkflowExecutionStatus, error) {
	run, err := e.described(ctx, id, "")
	return run.GetStatus(), err
}

// described is what Temporal knows of a run; "" is the last one of the workflow.
func (e *Engine) described(ctx context.Context, id, runID string) (*workflowpb.WorkflowExecutionInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Call)
	defer cancel()
	d, err := e.temporal.DescribeWorkflowExecution(ctx, id, runID)
	if err != nil {
		return nil, kindOf(err, workflow(id))
	}
	return d.GetWorkflowExecutionInfo(), nil
}

// Close implements activities.Runs. A workflow that does not end in policy.Close is terminated.
func (e *Engine) Close(ctx context.Context, s domain.Scope) (activities.RunEnd, error) {
	end, err := e.shut(ctx, workflows.OperationID(s))
	if err == nil && end != activities.RunInOrder {
		if err = e.below(ctx, s); end == activities.RunUnknown && fail.IsUnanswered(err) && ctx.Err() == nil {
			err = nil // mostly it has ended long ago, and there is nothing to wait for
		}
	}
	return end, err
}

// below waits until nothing of an operation runs any more whose root came to no end of its own, or is not known any more: Temporal terminates what
// runs below one that was terminated or deleted, one after the other, and many in its own time. It asks visibility, and for policy.Below at the most: a run whose end was lost there
// would be waited for without end.
func (e *Engine) below(ctx context.Context, s domain.Scope) error {
	for deadline := time.Now().Add(policy.Below); ; {
		var left int64
		err := e.call(ctx, named(s), func(ctx context.Context) error {
			r, err := e.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: workflows.PartsQuery(s)})
			left = r.GetCount()
			return err
		})
		if err != nil || left == 0 || time.Now().After(deadline) {
			return err
		}
		if err := pause.For(ctx, policy.LookAgain); err != nil {
			return err
		}
	}
}

// Ended implements activities.Looks.
func (e *Engine) Ended(ctx context.Context, s domain.Scope) (activities.RunEnd, error) {
	status, err := e.status(ctx, workflows.OperationID(s))
	if fail.Is(err, fail.NotFound) {
		return activities.RunUnknown, nil
	}
	return endOf(status), err
}

// open says of a workflow whether it has not ended: one that somebody has paused goes on as soon as somebody wishes.
func open(status enumspb.WorkflowExecutionStatus) bool {
	return status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED
}

// endOf says of a workflow how it has ended.
func endOf(status enumspb.WorkflowExecutionStatus) activities.RunEnd {
	switch status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return activities.RunUnknown
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return activities.RunInOrder
	default:
		return activities.RunBroken
	}
}

// shut cancels a workflow and waits until it is closed. It is the run that is found first, with those that it goes on as: who was held up since ends no
// other one that was begun meanwhile.
func (e *Engine) shut(ctx context.Context, id string) (activities.RunEnd, error) {
	run, err := e.described(ctx, id, "")
	for first := run.GetFirstRunId(); err == nil && open(run.GetStatus()); {
		if run, err = e.shutRun(ctx, id, run.GetExecution().GetRunId()); err != nil || run.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			break
		}
		var next *workflowpb.WorkflowExecutionInfo
		if next, err = e.described(ctx, id, ""); err == nil && next.GetFirstRunId() == first {
			run = next
		}
	}
	switch {
	case fail.Is(err, fail.NotFound):
		return activities.RunUnknown, nil
	case err != nil:
		return activities.RunUnknown, err
	default:
		return endOf(run.GetStatus()), nil
	}
}

// shutRun cancels a run, terminates it when it does not end in policy.Close, and says what it is like when it has ended.
func (e *Engine) shutRun(ctx context.Context, id, runID string) (*workflowpb.WorkflowExecutionInfo, error) {
	end := func(how func(ctx context.Context) error) error {
		if err := lease.Check(ctx); err != nil {
			return err
		}
		if err := e.call(ctx, workflow(id), how); err != nil && !fail.Is(err, fail.NotFound) { // it may have ended meanwhile
			return err
		}
		return nil
	}
	if err := end(func(ctx context.Context) error { return e.temporal.CancelWorkflow(ctx, id, runID) }); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(policy.Close)
	for {
		run, err := e.described(ctx, id, runID)
		if err != nil || !open(run.GetStatus()) {
			return run, err
		}
		if time.Now().After(deadline) {
			err := end(func(ctx context.Context) error {
				return e.temporal.TerminateWorkflow(ctx, id, runID, "did not end when cancelled")
			})
			if err != nil {
				return nil, err
			}
		}
		e.hears(ctx, id, runID, min(policy.Poll, max(time.Until(deadline), policy.PollLeast)))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// Contact implements activities.Reporter.
func (e *Engine) Contact(ctx context.Context, workflowID, runID string, c activities.Contact) error {
	return e.call(ctx, workflow(workflowID), func(ctx context.Context) error {
		return ofFull(e.temporal.SignalWorkflow(ctx, workflowID, runID, workflows.ContactSignal, c), workflow(workflowID))
	})
}

// signalsLimit is how servers say that a run has had as many signals as it may have, 10,000 unless they are set otherwise.
const signalsLimit = "exceeded workflow execution limit for signal events"

// ofFull is err, or Exhausted where the run takes no more signals. No time puts that right, so who has only something to tell goes on without.
func ofFull(err error, about string) error {
	var refused *serviceerror.InvalidArgument
	if errors.As(err, &refused) && strings.Contains(refused.Message, signalsLimit) {
		return fail.Wrap(err, fail.Exhausted, "%s takes no more signals", about)
	}
	return err
}

// Lacking implements activities.Reporter.
func (e *Engine) Lacking(ctx context.Context, workflowID, runID string, l activities.Lacking) error {
	return e.call(ctx, workflow(workflowID), func(ctx context.Context) error {
		return e.temporal.SignalWorkflow(ctx, workflowID, runID, workflows.LackingSignal, l)
	})
}

// NotStarted asks the root of a running operation which apps wait, and for what. NotFound when it does not run.
func (e *Engine) NotStarted(ctx context.Context, s domain.Scope) (map[string]string, error) {
	var p workflows.OperationProgress
	if err := e.query(ctx, workflows.OperationID(s), &p); err != nil {
		return nil, err
	}
	waiting := map[string]string{}
	for _, a := range p.Apps {
		if a.Reason != "" {
			waiting[a.App] = a.Reason
		}
	}
	return waiting, nil
}

// Counts asks the root of a running operation how many resources are in which state; the answer may be
// policy.Counts old and must not be changed. NotFound when it does not run.
func (e *Engine) Counts(ctx context.Context, s domain.Scope) (map[domain.ResourceState]int, error) {
	id := workflows.OperationID(s)
	if last, ok := e.counts.Get(id); ok && time.Since(last.at) < policy.Counts {
		return last.counts, nil
	}
	var p workflows.OperationProgress
	if err := e.query(ctx, id, &p); err != nil {
		return nil, err
	}
	counts := map[domain.ResourceState]int{}
	for _, a := range p.Apps {
		counts = outcome.Rollup(counts, a.Counts)
	}
	e.counts.Add(id, counted{at: time.Now(), counts: counts})
	return counts, nil
}

// Open asks the workflow of one app for the clusters that it has work open on.
func (e *Engine) Open(ctx context.Context, s domain.Scope, app string) ([]domain.Leaf, error) {
	var d workflows.AppDetail
	if err := e.query(ctx, workflows.AppID(s, app, 0, 0), &d); err != nil {
		return nil, err
	}
	open := leaves(s, app, d.Open)
	for _, id := range d.Batches {
		var b workflows.AppDetail
		if err := e.query(ctx, id, &b); err != nil && !fail.Is(err, fail.NotFound) {
			return nil, err
		}
		open = append(open, leaves(s, app, b.Open)...)
	}
	return open, nil
}

func leaves(s domain.Scope, app string, open []workflows.ClusterProgress) []domain.Leaf {
	out := make([]domain.Leaf, 0, len(open))
	for _, c := range open {
		out = append(out, domain.Leaf{
			ID: domain.LeafID(s.ContextID, app, c.Cluster), ContextID: s.ContextID, Operation: s.Operation,
			App: app, Cluster: c.Cluster, Connectivity: c.Connectivity, Marks: c.Marks, LastError: c.Error, Reason: c.Reason,
			Notes: c.Notes, Open: true,
		})
	}
	return out
}

func (e *Engine) query(ctx context.Context, id string, answer any) error {
	return e.call(ctx, workflow(id), func(ctx context.Context) error {
		r, err := e.temporal.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
			WorkflowID: id, QueryType: workflows.ProgressQuery,
			QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NOT_OPEN,
		})
		switch {
		case err != nil:
			return err
		case r.QueryRejected != nil:
			return fail.New(fail.NotFound, "%s is not running", workflow(id))
		default:
			return r.QueryResult.Get(answer)
		}
	})
}

// sent is call for what signals: who does not wait any more leaves it on its way. Temporal cannot know what became of a write that is
// cut off in its store, and then acquires the shard anew, for which all else on it waits.
func (e *Engine) sent(ctx context.Context, about string, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		ctx := context.WithoutCancel(ctx)
		done <- panics.Do(ctx, func() error { return e.call(ctx, about, f) })
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return kindOf(context.Cause(ctx), about)
	}
}

func (e *Engine) call(ctx context.Context, about string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, policy.Call)
	defer cancel()
	return kindOf(f(ctx), about)
}

// alreadyRuns is that what was asked for runs, as it was asked for before.
func alreadyRuns(cause error, about string) error {
	return fail.Wrap(cause, fail.Conflict, "%s is running already; wait until it has ended, or stop it", about)
}

// updateOutlived is the type of the server's failure of an update that was under way when its workflow ended.
const updateOutlived = "AcceptedUpdateCompletedWorkflow"

// lacking is how servers say which search attribute their namespace does not have, of a start and of a query.
var lacking = regexp.MustCompile(`no mapping defined for search attribute (\w+)|search attribute (\w+) is not defined|invalid search attribute: (\w+)`)

// lackedBy is the search attribute for which Temporal refused something, "" when that was not the reason.
func lackedBy(err error) string {
	var refused *serviceerror.InvalidArgument
	if !errors.As(err, &refused) {
		return ""
	}
	if found := lacking.FindStringSubmatch(refused.Message); found != nil {
		return cmp.Or(found[1:]...)
	}
	return ""
}

// withoutAttribute is that the namespace lacks a search attribute, which somebody has removed since the last process began.
func withoutAttribute(cause error, first, name string) error {
	return fail.Wrap(cause, fail.Unavailable, "%sthe workflow engine's namespace lacks the search attribute %s: if Drover has just added it, try again in a minute; else restart an API or a worker, which adds it", first, name)
}

// kindOf turns Temporal's errors into the product's. What our own workflows and activities failed with
// comes back as it was. about is what was asked for or after, which the message names; "" when there is nothing but the engine.
func kindOf(err error, about string) error {
	var known *fail.Error
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, &known) {
		return err
	}
	if e, ok := workflows.FromTemporal(err); ok {
		return e
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() == updateOutlived {
		return unanswered(err, about)
	}
	var (
		running     *serviceerror.WorkflowExecutionAlreadyStarted
		multi       *serviceerror.MultiOperationExecution
		notFound    *serviceerror.NotFound
		nsNotFound  *serviceerror.NamespaceNotFound
		elsewhere   *serviceerror.NamespaceNotActive
		unavailable *serviceerror.Unavailable
		exhausted   *serviceerror.ResourceExhausted
		deadline    *serviceerror.DeadlineExceeded
		denied      *serviceerror.PermissionDenied
		unknown     *serviceerror.Unimplemented
		notReady    *serviceerror.WorkflowNotReady
		updateLate  *client.WorkflowUpdateServiceTimeoutOrCanceledError
		timeout     *temporal.TimeoutError
		cancelled   *temporal.CanceledError
	)
	first := ""
	if about != "" {
		first = about + ": "
	}
	switch {
	case errors.As(err, &multi):
		if runs(err) {
			return alreadyRuns(err, about)
		}
		for _, e := range multi.OperationErrors() {
			if name := lackedBy(e); name != "" {
				return withoutAttribute(err, first, name)
			}
		}
		return fail.Wrap(err, fail.Unavailable, "%sthe workflow engine refused it; try again later", first)
	case errors.As(err, &running):
		return alreadyRuns(err, about)
	case errors.As(err, &nsNotFound):
		return fail.Wrap(err, fail.Unavailable, "%sthe workflow engine does not have the namespace %q (--temporal-namespace)", first, nsNotFound.Namespace)
	case errors.As(err, &elsewhere):
		return fail.Wrap(err, fail.Unavailable, "%sthe namespace %q is active in the Temporal cluster %q, and %q was asked (--temporal-address); try again when it is active there",
			first, elsewhere.Namespace, elsewhere.ActiveCluster, elsewhere.CurrentCluster)
	case lackedBy(err) != "":
		return withoutAttribute(err, first, lackedBy(err))
	case errors.As(err, &notFound):
		return fail.Wrap(err, fail.NotFound, "%s is not running", about)
	case errors.As(err, &denied):
		return fail.Wrap(err, fail.Unavailable, "%sthe workflow engine denies Drover access: %s", first, denied.Message)
	case errors.As(err, &unknown): // an older one, or a proxy before it
		return fail.Wrap(err, fail.Unavailable, "%sthe workflow engine does not know what it was asked for: Drover needs Temporal %s or later, without a proxy that knows less", first, oldest)
	case errors.As(err, &updateLate), errors.As(err, &deadline), errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return fail.Wrap(err, fail.Timeout, "%sthe workflow engine did not answer in time; ask for the status before you try again", first)
	case errors.As(err, &unavailable), errors.As(err, &exhausted), errors.As(err, &notReady):
		return fail.Wrap(err, fail.Unavailable, "%sthe workflow engine is not available; try again later", first)
	case errors.As(err, &cancelled):
		return fail.Wrap(err, fail.Conflict, "%s was cancelled", about)
	default:
		return fail.Wrap(err, fail.Internal, "%sthe workflow engine failed", first)
	}
}
