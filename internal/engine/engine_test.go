package engine_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/span/spantest"
	"github.com/drover-io/drover/workflows"
)

var scope = domain.Scope{
	Owner: "projects/p/composite-apps/ca/v1/deployment-intent-groups/d", ContextID: "1", Operation: domain.OpInstantiate,
}

// server stands for Temporal: it answers what a test says, and keeps what was asked.
type server struct {
	client.Client

	err      error // of every call
	statuses []enumspb.WorkflowExecutionStatus
	parts    []int64   // how many run of an operation, one answer after the other; none in the end
	started  time.Time // of a run that is described
	blind    error     // of counts
	starts   []error   // of starts, one after the other; err in the end
	update   error     // what an update ends with
	answers  map[string]any
	asked    []string
}

func (s *server) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return nil, s.err
}

func (s *server) CancelWorkflow(_ context.Context, id, _ string) error {
	s.asked = append(s.asked, "cancel "+id)
	return s.err
}

func (s *server) SignalWorkflow(_ context.Context, id, _, name string, _ any) error {
	s.asked = append(s.asked, "signal "+id+" "+name)
	return s.err
}

// DescribeWorkflowExecution gives the statuses one after the other.
func (s *server) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case len(s.statuses) == 0:
		return nil, serviceerror.NewNotFound("no workflow")
	}
	status := s.statuses[0]
	s.statuses = s.statuses[1:]
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status, StartTime: timestamppb.New(s.started)}}, nil
}

func (s *server) CountWorkflow(_ context.Context, r *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	s.asked = append(s.asked, "count "+r.GetQuery())
	if s.blind != nil {
		return nil, s.blind
	}
	if len(s.parts) == 0 {
		return &workflowservice.CountWorkflowExecutionsResponse{}, nil
	}
	n := s.parts[0]
	s.parts = s.parts[1:]
	return &workflowservice.CountWorkflowExecutionsResponse{Count: n}, nil
}

func (s *server) GetWorkflow(context.Context, string, string) client.WorkflowRun { return run{} }

type run struct{ client.WorkflowRun }

func (run) Get(context.Context, any) error { return nil }

func (s *server) NewWithStartWorkflowOperation(o client.StartWorkflowOptions, workflow any, _ ...any) client.WithStartWorkflowOperation {
	s.asked = append(s.asked, "start "+o.ID+" "+workflow.(string))
	return nil
}

func (s *server) UpdateWithStartWorkflow(_ context.Context, o client.UpdateWithStartWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	s.asked = append(s.asked, "update "+o.UpdateOptions.UpdateName)
	if len(s.starts) > 0 {
		err := s.starts[0]
		s.starts = s.starts[1:]
		return nil, err
	}
	return handle{err: s.update}, s.err
}

func (s *server) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	s.asked = append(s.asked, "update "+o.WorkflowID+" "+o.UpdateName)
	return handle{err: s.update}, s.err
}

type handle struct {
	client.WorkflowUpdateHandle
	err error
}

func (h handle) Get(_ context.Context, into any) error {
	if a, ok := into.(*workflows.Acceptance); ok && h.err == nil {
		a.Warnings = []string{"beware"}
	}
	return h.err
}

func (s *server) QueryWorkflowWithOptions(_ context.Context, in *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	answer, ok := s.answers[in.WorkflowID]
	switch {
	case !ok:
		return nil, serviceerror.NewNotFound("no workflow")
	case answer == nil && in.QueryRejectCondition == enumspb.QUERY_REJECT_CONDITION_NOT_OPEN:
		return &client.QueryWorkflowWithOptionsResponse{QueryRejected: &querypb.QueryRejected{Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED}}, nil
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(answer)
	return &client.QueryWorkflowWithOptionsResponse{QueryResult: encoded{payloads}}, err
}

type encoded struct{ payloads *commonpb.Payloads }

func (e encoded) HasValue() bool { return true }

func (e encoded) Get(into any) error {
	return converter.GetDefaultDataConverter().FromPayloads(e.payloads, into)
}

// TestUndecided: an operation that is neither accepted nor refused in time is named, with what became of it.
func TestUndecided(t *testing.T) {
	late := client.NewWorkflowUpdateServiceTimeoutOrCanceledError(context.DeadlineExceeded)
	for name, c := range map[string]struct {
		statuses []enumspb.WorkflowExecutionStatus
		text     string
		started  time.Time
	}{
		"begun":                    {[]enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, "was begun, and is given up unless it is accepted within 1m0s", time.Time{}},
		"paused":                   {[]enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED}, "was begun, and is given up unless it is accepted within 1m0s", time.Time{}},
		"not begun":                {nil, "was not begun", time.Time{}},
		"ended":                    {[]enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED}, "was begun, and has ended since", time.Now()},
		"an earlier one has ended": {[]enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED}, "was not begun", time.Now().Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			r := &caller.Request{ID: "r1"}
			_, err := engine.New(&server{update: late, statuses: c.statuses, started: c.started}).Start(caller.WithRequest(t.Context(), r), scope, domain.Seen{})
			require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
			require.Contains(t, fail.TextOf(err), c.text)
			require.Contains(t, fail.TextOf(err), "look at GET /v2/operations/"+workflows.OperationID(scope))
			require.NotZero(t, fail.RetryAfterOf(err))
			require.Equal(t, workflows.OperationID(scope), r.Operation())
		})
	}
}

// TestErrors: whoever has the one line knows which operation of which owner it is about.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind fail.Kind
		text string
	}{
		"no server":    {serviceerror.NewUnavailable("x"), fail.Unavailable, "WHAT: the workflow engine is not available; try again later"},
		"too much":     {serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "x"), fail.Unavailable, "WHAT: the workflow engine is not available; try again later"},
		"no namespace": {serviceerror.NewNamespaceNotFound("x"), fail.Unavailable, `WHAT: the workflow engine does not have the namespace "x" (--temporal-namespace)`},
		"active elsewhere": {
			serviceerror.NewNamespaceNotActive("x", "here", "there"), fail.Unavailable,
			`WHAT: the namespace "x" is active in the Temporal cluster "there", and "here" was asked (--temporal-address); try again when it is active there`,
		},
		"no attribute, of a start": {
			serviceerror.NewInvalidArgument("Namespace x has no mapping defined for search attribute DroverApp"), fail.Unavailable,
			"WHAT: the workflow engine's namespace lacks the search attribute DroverApp: if Drover has just added it, try again in a minute; else restart an API or a worker, which adds it",
		},
		"no attribute, of two calls": {
			serviceerror.NewMultiOperationExecution("x", []error{
				serviceerror.NewInvalidArgument("search attribute DroverApp is not defined"), serviceerror.NewMultiOperationAborted("x"),
			}), fail.Unavailable, "WHAT: the workflow engine's namespace lacks the search attribute DroverApp: if Drover has just added it, try again in a minute; else restart an API or a worker, which adds it",
		},
		"no attribute, of a query": {
			serviceerror.NewInvalidArgument("invalid query: invalid search attribute: DroverApp"), fail.Unavailable,
			"WHAT: the workflow engine's namespace lacks the search attribute DroverApp: if Drover has just added it, try again in a minute; else restart an API or a worker, which adds it",
		},
		"another argument": {serviceerror.NewInvalidArgument("search attribute DroverApp value size 3000 exceeds size limit"), fail.Internal, "WHAT: the workflow engine failed"},
		"no access":        {serviceerror.NewPermissionDenied("x", "y"), fail.Unavailable, "WHAT: the workflow engine denies Drover access: x"},
		"switched off": {
			serviceerror.NewPermissionDenied("ExecuteMultiOperation API is disabled on this namespace.", ""), fail.Unavailable,
			"WHAT: the workflow engine denies Drover access: ExecuteMultiOperation API is disabled on this namespace.",
		},
		"an older one": {
			serviceerror.NewUnimplemented("unknown method ExecuteMultiOperation for service temporal.api.workflowservice.v1.WorkflowService"), fail.Unavailable,
			"WHAT: the workflow engine does not know what it was asked for: Drover needs Temporal 1.28 or later, without a proxy that knows less",
		},
		"no workflow":  {serviceerror.NewNotFound("x"), fail.NotFound, "WHAT is not running"},
		"runs already": {serviceerror.NewWorkflowExecutionAlreadyStarted("x", "y", "z"), fail.Conflict, "WHAT is running already; wait until it has ended, or stop it"},
		"runs already, of two calls": {
			serviceerror.NewMultiOperationExecution("x", []error{
				serviceerror.NewWorkflowExecutionAlreadyStarted("x", "y", "z"), serviceerror.NewMultiOperationAborted("x"),
			}), fail.Conflict, "WHAT is running already; wait until it has ended, or stop it",
		},
		"refused, of two calls": {
			serviceerror.NewMultiOperationExecution("x", []error{serviceerror.NewMultiOperationAborted("x")}), fail.Unavailable,
			"WHAT: the workflow engine refused it; try again later",
		},
		"too late":         {serviceerror.NewDeadlineExceeded("x"), fail.Timeout, "WHAT: the workflow engine did not answer in time; ask for the status before you try again"},
		"our own deadline": {context.DeadlineExceeded, fail.Timeout, "WHAT: the workflow engine did not answer in time; ask for the status before you try again"},
		"cancelled":        {temporal.NewCanceledError(), fail.Conflict, "WHAT was cancelled"},
		"ended": {
			temporal.NewNonRetryableApplicationError("ended", "AcceptedUpdateCompletedWorkflow", nil), fail.Unavailable,
			"the workflow of WHAT was ended before it answered; ask for the status before you ask for it again",
		},
		"a refusal of an activity": {
			workflows.ToTemporal(fail.New(fail.Invalid, "chart is broken"), 1), fail.Invalid, "chart is broken",
		},
		"anything else": {errors.New("x"), fail.Internal, "WHAT: the workflow engine failed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := engine.New(&server{err: c.err}).Stop(t.Context(), scope)
			require.Equal(t, c.kind, fail.KindOf(err))
			require.Equal(t, strings.ReplaceAll(c.text, "WHAT", `the instantiate of deployment intent group "p/ca/v1/d"`), fail.TextOf(err))
			require.Equal(t, c.kind, fail.KindOf(engine.New(&server{err: c.err}).Ping(t.Context())))
		})
	}
	down := engine.New(&server{err: serviceerror.NewUnavailable("x")})
	_, err := down.Running(t.Context(), scope)
	require.Equal(t, "workflow p/ca/v1/d/1/instantiate: the workflow engine is not available; try again later", fail.TextOf(err))
	_, err = down.Start(t.Context(), domain.Scope{Owner: "cluster-providers/cp/clusters/c", ContextID: "1", Operation: domain.OpInstantiate}, domain.Seen{})
	require.Equal(t, `the apply of cluster "cp/c": the workflow engine is not available; try again later`, fail.TextOf(err))
	require.Equal(t, "the workflow engine is not available; try again later", fail.TextOf(down.Ping(t.Context())))
	require.NoError(t, engine.New(&server{}).Ping(t.Context()))
	require.ErrorIs(t, engine.New(&server{err: context.Canceled}).Ping(t.Context()), context.Canceled)
}

// TestContactOfARunThatIsFull of signals is told from one that Temporal does not take now, or never.
func TestContactOfARunThatIsFull(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind fail.Kind
	}{
		"full":             {serviceerror.NewInvalidArgument("exceeded workflow execution limit for signal events"), fail.Exhausted},
		"another argument": {serviceerror.NewInvalidArgument("BadSignalInput"), fail.Internal},
		"too much":         {serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "x"), fail.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			err := engine.New(&server{err: c.err}).Contact(t.Context(), "w", "r", activities.Contact{})
			require.Equal(t, c.kind, fail.KindOf(err), "%v", err)
		})
	}
	require.NoError(t, engine.New(&server{}).Contact(t.Context(), "w", "r", activities.Contact{}))
}

func TestStart(t *testing.T) {
	s := &server{}
	warnings, err := engine.New(s).Start(t.Context(), scope, domain.Seen{})
	require.NoError(t, err)
	require.Equal(t, []string{"beware"}, warnings)
	require.Equal(t, []string{"start " + workflows.OperationID(scope) + " Instantiate", "update accept"}, s.asked)
}

func TestStartIsRefused(t *testing.T) {
	r := spantest.Record(t)
	ctx := span.Below(t.Context(), span.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	s := &server{update: workflows.ToTemporal(fail.New(fail.Invalid, "chart is broken"), 1)}
	_, err := engine.New(s).Start(ctx, scope, domain.Seen{})
	require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	require.Equal(t, "chart is broken", fail.MessageOf(err))
	require.Len(t, r.Ended(), 1)
	require.Equal(t, codes.Unset, r.Ended()[0].Status().Code, "a refusal is no fault")
	require.Contains(t, r.Ended()[0].Attributes(), span.String(span.Outcome, string(fail.Invalid)))
}

// TestStartBesideOneThatEnds: the workflow of an operation is open for some time after its end is recorded. Who asks for the same operation
// then is not told that it is running.
func TestStartBesideOneThatEnds(t *testing.T) {
	runs := serviceerror.NewMultiOperationExecution("x", []error{
		serviceerror.NewWorkflowExecutionAlreadyStarted("x", "y", "z"), serviceerror.NewMultiOperationAborted("x"),
	})
	id := workflows.OperationID(scope)
	for name, c := range map[string]struct {
		answer any
		starts []error
		ok     bool
	}{
		"recorded as ended":         {workflows.OperationProgress{Status: domain.ContextInstantiateFailed}, []error{runs}, true},
		"closed meanwhile":          {nil, []error{runs}, true},
		"at work":                   {workflows.OperationProgress{Status: domain.ContextInstantiating}, []error{runs}, false},
		"another one was faster":    {workflows.OperationProgress{Status: domain.ContextInstantiateFailed}, []error{runs, runs}, false},
		"refused for other reasons": {nil, []error{serviceerror.NewUnavailable("x")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{starts: c.starts, answers: map[string]any{id: c.answer}}
			warnings, err := engine.New(s).Start(t.Context(), scope, domain.Seen{})
			if c.ok {
				require.NoError(t, err)
				require.Equal(t, []string{"beware"}, warnings)
				return
			}
			require.Error(t, err)
			require.Empty(t, s.starts)
		})
	}
}

// deaf is a server that does not tell who waits of a workflow's end.
type deaf struct{ *server }

func (deaf) GetWorkflow(context.Context, string, string) client.WorkflowRun { return deafRun{} }

type deafRun struct{ client.WorkflowRun }

func (deafRun) Get(ctx context.Context, _ any) error {
	if _, hurried := ctx.Deadline(); hurried {
		panic("Temporal answers a second before a deadline, and the SDK asks again all through that second")
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestAnEndThatNobodyTellsOf: Temporal drops the word of an end now and then, and an end that is there is seen soon all the same.
func TestAnEndThatNobodyTellsOf(t *testing.T) {
	running, ended := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
	const soon = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		end, err := engine.New(deaf{&server{statuses: []enumspb.WorkflowExecutionStatus{running, running, ended}}}).Close(t.Context(), scope)
		require.NoError(t, err)
		require.Equal(t, activities.RunInOrder, end)
		require.Less(t, time.Since(begun), soon)
	})
	runs := serviceerror.NewMultiOperationExecution("x", []error{
		serviceerror.NewWorkflowExecutionAlreadyStarted("x", "y", "z"), serviceerror.NewMultiOperationAborted("x"),
	})
	for name, statuses := range map[string][]enumspb.WorkflowExecutionStatus{"ended": {running, ended}, "not known any more": {running}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				s := &server{starts: []error{runs}, statuses: statuses, answers: map[string]any{
					workflows.OperationID(scope): workflows.OperationProgress{Status: domain.ContextInstantiateFailed},
				}}
				_, err := engine.New(deaf{s}).Start(t.Context(), scope, domain.Seen{})
				require.NoError(t, err)
				require.Less(t, time.Since(begun), soon)
			})
		})
	}
}

// TestEndedByHandBeforeItAnswers: an operation whose workflow a person ends before it has answered may have recorded something; it is
// neither refused nor an error of ours.
func TestEndedByHandBeforeItAnswers(t *testing.T) {
	for name, s := range map[string]*server{
		"while it decided":     {update: temporal.NewNonRetryableApplicationError("ended", "AcceptedUpdateCompletedWorkflow", nil)},
		"before it was asked":  {update: serviceerror.NewNotFound("workflow execution already completed")},
		"as the start is told": {err: serviceerror.NewNotFound("workflow execution already completed")},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := engine.New(s).Start(t.Context(), scope, domain.Seen{})
			require.Equal(t, fail.Unavailable, fail.KindOf(err), "%v", err)
			require.Contains(t, fail.TextOf(err), "ask for the status")
			require.NotZero(t, fail.RetryAfterOf(err))
		})
	}
	refused := &server{update: workflows.ToTemporal(fail.New(fail.NotFound, "there is no revision 7"), 1)}
	_, err := engine.New(refused).Start(t.Context(), scope, domain.Seen{})
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
}

func TestStop(t *testing.T) {
	s := &server{}
	require.NoError(t, engine.New(s).Stop(t.Context(), scope))
	require.Equal(t, []string{"update " + workflows.OperationID(scope) + " stop"}, s.asked)
	s.err = serviceerror.NewNotFound("x")
	require.True(t, fail.Is(engine.New(s).Stop(t.Context(), scope), fail.NotFound))
}

func TestRunning(t *testing.T) {
	for status, want := range map[enumspb.WorkflowExecutionStatus]bool{
		enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING: true, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED: false,
		enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED: false, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED: true,
	} {
		got, err := engine.New(&server{statuses: []enumspb.WorkflowExecutionStatus{status}}).Running(t.Context(), scope)
		require.NoError(t, err)
		require.Equal(t, want, got, status)
	}
	got, err := engine.New(&server{}).Running(t.Context(), scope)
	require.NoError(t, err, "an operation that is not known does not run")
	require.False(t, got)
	_, err = engine.New(&server{err: serviceerror.NewUnavailable("x")}).Running(t.Context(), scope)
	require.Error(t, err)
}

func TestClose(t *testing.T) {
	const running, paused = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED
	for name, c := range map[string]struct {
		statuses []enumspb.WorkflowExecutionStatus
		want     activities.RunEnd
	}{
		"ended long ago":     {[]enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED}, activities.RunInOrder},
		"ends as cancelled":  {[]enumspb.WorkflowExecutionStatus{running, running, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED}, activities.RunInOrder},
		"was killed by hand": {[]enumspb.WorkflowExecutionStatus{running, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED}, activities.RunBroken},
		"is paused":          {[]enumspb.WorkflowExecutionStatus{paused, paused, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED}, activities.RunInOrder},
		"failed":             {[]enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_FAILED}, activities.RunBroken},
		"is not known":       {nil, activities.RunUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{statuses: c.statuses, parts: []int64{2, 1}}
			ended, err := engine.New(s).Close(t.Context(), scope)
			require.NoError(t, err)
			require.Equal(t, c.want, ended)
			var asked []string
			if len(c.statuses) > 0 && (c.statuses[0] == running || c.statuses[0] == paused) {
				asked = []string{"cancel " + workflows.OperationID(scope)}
			}
			if c.want != activities.RunInOrder { // what runs for its apps and clusters ends after it, or after it was deleted
				count := "count DroverContext = '1' AND DroverOperation = 'instantiate' AND CloseTime IS NULL"
				asked = append(asked, count, count, count)
			}
			require.Equal(t, asked, s.asked)
		})
	}
	_, err := engine.New(&server{err: serviceerror.NewUnavailable("x")}).Close(t.Context(), scope)
	require.True(t, fail.Is(err, fail.Unavailable), "the terminate tries again")

	blind := serviceerror.NewUnavailable("visibility")
	_, err = engine.New(&server{blind: blind}).Close(t.Context(), scope)
	require.NoError(t, err, "what Temporal has forgotten has mostly ended long ago")
	_, err = engine.New(&server{blind: blind, statuses: []enumspb.WorkflowExecutionStatus{enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED}}).Close(t.Context(), scope)
	require.True(t, fail.Is(err, fail.Unavailable))
}

// TestEnded: what somebody has paused goes on as soon as somebody wishes.
func TestEnded(t *testing.T) {
	for status, want := range map[enumspb.WorkflowExecutionStatus]activities.RunEnd{
		enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING: activities.RunUnknown, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED: activities.RunUnknown,
		enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED: activities.RunInOrder, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT: activities.RunBroken,
	} {
		got, err := engine.New(&server{statuses: []enumspb.WorkflowExecutionStatus{status}}).Ended(t.Context(), scope)
		require.NoError(t, err)
		require.Equal(t, want, got, status)
	}
}

// runs is a workflow that may be begun anew.
type runs struct {
	client.Client

	ids    []string // of its runs, the last one goes on
	closed map[string]enumspb.WorkflowExecutionStatus
	firsts map[string]string // the run that one goes on from
	looks  func()            // after each look
	asked  []string
}

func (r *runs) DescribeWorkflowExecution(_ context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	defer r.looks()
	run = cmp.Or(run, r.ids[len(r.ids)-1])
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: run}, FirstRunId: cmp.Or(r.firsts[run], run),
		Status: cmp.Or(r.closed[run], enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING),
	}}, nil
}

func (r *runs) CancelWorkflow(_ context.Context, _, run string) error {
	r.asked = append(r.asked, run)
	if r.closed[run] != 0 {
		return serviceerror.NewNotFound("it has ended")
	}
	r.closed[run] = enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
	return nil
}

// TestCloseEndsNoOtherRun: who was held up behind its look at the workflow has another run before it.
func TestCloseEndsNoOtherRun(t *testing.T) {
	once := func(r *runs, then func()) *runs {
		r.closed = map[string]enumspb.WorkflowExecutionStatus{}
		r.looks = func() {
			r.looks = func() {}
			then()
		}
		return r
	}
	t.Run("begun since", func(t *testing.T) {
		r := &runs{ids: []string{"one"}}
		once(r, func() {
			r.closed["one"], r.ids = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, append(r.ids, "two")
		})
		ended, err := engine.New(r).Close(t.Context(), scope)
		require.NoError(t, err)
		require.Equal(t, activities.RunInOrder, ended)
		require.Equal(t, []string{"one"}, r.asked)
	})
	t.Run("as which it goes on", func(t *testing.T) {
		r := &runs{ids: []string{"one"}, firsts: map[string]string{"two": "one"}}
		once(r, func() {
			r.closed["one"], r.ids = enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, append(r.ids, "two")
		})
		require.NoError(t, engine.New(r).Release(t.Context(), "projects/p/logical-clouds/c"))
		require.Equal(t, []string{"one", "two"}, r.asked)
	})
	t.Run("when its work is another attempt's", func(t *testing.T) {
		x := lease.New(lease.Now, lease.Now(), time.Hour)
		t.Cleanup(x.Close)
		r := &runs{ids: []string{"one"}}
		once(r, x.Lose)
		_, err := engine.New(r).Close(lease.With(t.Context(), x), scope)
		require.ErrorIs(t, err, lease.ErrLost)
		require.Empty(t, r.asked)
	})
}

func TestContact(t *testing.T) {
	s := &server{}
	require.NoError(t, engine.New(s).Contact(t.Context(), "id", "run", activities.Contact{}))
	require.Equal(t, []string{"signal id contact"}, s.asked)
}

func TestProgress(t *testing.T) {
	dead := workflows.ClusterProgress{
		Cluster: domain.ClusterName{Provider: "p", Name: "c"}, Connectivity: domain.ConnectivityRetrying, Marks: "1A1p", Error: "down",
	}
	other := workflows.ClusterProgress{Cluster: domain.ClusterName{Provider: "p", Name: "d"}, Marks: "2p"}
	batches := []string{workflows.AppID(scope, "big", 0, 250), workflows.AppID(scope, "big", 250, 500)}
	e := engine.New(&server{answers: map[string]any{
		workflows.OperationID(scope): workflows.OperationProgress{Apps: []workflows.AppProgress{
			{App: "web", Counts: workflows.Counts{domain.ResourceApplied: 2}},
			{App: "big", Counts: workflows.Counts{domain.ResourceApplied: 1, domain.ResourcePending: 3}},
		}},
		workflows.AppID(scope, "web", 0, 0): workflows.AppDetail{Open: []workflows.ClusterProgress{dead}},
		workflows.AppID(scope, "big", 0, 0): workflows.AppDetail{Batches: batches},
		batches[0]:                          workflows.AppDetail{Open: []workflows.ClusterProgress{dead}},
		batches[1]:                          workflows.AppDetail{Open: []workflows.ClusterProgress{other}},
	}})
	counts, err := e.Counts(t.Context(), scope)
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceApplied: 3, domain.ResourcePending: 3}, counts)

	open, err := e.Open(t.Context(), scope, "web")
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.Equal(t, "1A1p", open[0].Marks)
	require.Equal(t, dead.Cluster, open[0].Cluster)
	require.Equal(t, "down", open[0].LastError)
	require.True(t, open[0].Open)
	open, err = e.Open(t.Context(), scope, "big")
	require.NoError(t, err)
	require.Len(t, open, 2, "of all batches")

	e = engine.New(&server{answers: map[string]any{workflows.OperationID(scope): nil}})
	_, err = e.Counts(t.Context(), scope)
	require.True(t, fail.Is(err, fail.NotFound), "somebody ended it by hand: %v", err)
}

// slow takes its time for signals.
type slow struct {
	client.Client
	asked   chan context.Context
	release chan struct{}
}

func (s *slow) SignalWithStartWorkflow(ctx context.Context, _, _ string, _ any, _ client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	s.asked <- ctx
	<-s.release
	return nil, ctx.Err()
}

// TestSignalsAreNotCutOff when who has sent them does not wait any more: what became of them in Temporal nobody would know.
func TestSignalsAreNotCutOff(t *testing.T) {
	s := &slow{asked: make(chan context.Context), release: make(chan struct{})}
	defer close(s.release)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- engine.New(s).Settle(ctx, "t") }()
	on := <-s.asked
	cancel()
	require.ErrorIs(t, <-left, context.Canceled, "nobody waits for it")
	require.NoError(t, on.Err())
}
