package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/workflows"
)

// describing is a server with runs that it describes, by their ids, and the events that closed them.
type describing struct {
	client.Client
	runs    map[string]*workflowservice.DescribeWorkflowExecutionResponse
	closed  *historypb.HistoryEvent
	queried string
	down    bool
	memo    map[string]any
	hangs   map[string]bool // runs
	lists   error           // of every list
}

func (s *describing) DescribeWorkflowExecution(ctx context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	switch {
	case s.hangs[id]:
		<-ctx.Done()
		return nil, ctx.Err()
	case s.down:
		return nil, serviceerror.NewUnavailable("down")
	case s.runs[id] == nil:
		return nil, serviceerror.NewNotFound("no workflow")
	}
	return s.runs[id], nil
}

// other is another operation of the scope's owner.
var other = domain.Scope{Owner: scope.Owner, ContextID: "2", Operation: domain.OpTerminate}

func (s *describing) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if s.queried = r.GetQuery(); s.lists != nil {
		return nil, s.lists
	}
	found := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, o := range []domain.Scope{scope, other} {
		if id := workflows.OperationID(o); s.runs[id] != nil {
			found.Executions = append(found.Executions, &workflowpb.WorkflowExecutionInfo{
				Execution: &commonpb.WorkflowExecution{WorkflowId: id},
				Type:      &commonpb.WorkflowType{Name: workflows.OperationName(o.Operation)},
			})
		}
	}
	return found, nil
}

func (s *describing) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return &events{s.closed}
}

func (s *describing) NewWithStartWorkflowOperation(o client.StartWorkflowOptions, _ any, _ ...any) client.WithStartWorkflowOperation {
	s.memo = o.Memo
	return nil
}

func (s *describing) UpdateWithStartWorkflow(context.Context, client.UpdateWithStartWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return handle{}, nil
}

type events struct{ next *historypb.HistoryEvent }

func (e *events) HasNext() bool { return e.next != nil }

func (e *events) Next() (*historypb.HistoryEvent, error) {
	next := e.next
	e.next = nil
	return next, nil
}

var (
	second = time.Date(2026, 11, 21, 14, 0, 1, 0, time.UTC)
	later  = second.Add(time.Minute)
)

func described(status enumspb.WorkflowExecutionStatus, pending ...*workflowpb.PendingActivityInfo) *workflowservice.DescribeWorkflowExecutionResponse {
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			Status: status, Execution: &commonpb.WorkflowExecution{RunId: "run"}, StartTime: timestamppb.New(second),
		},
		PendingActivities: pending,
	}
}

// pending is an activity that has failed with an error of the product's.
func pending(name string, err error) *workflowpb.PendingActivityInfo {
	return &workflowpb.PendingActivityInfo{
		ActivityType: &commonpb.ActivityType{Name: name}, Attempt: 3, State: enumspb.PENDING_ACTIVITY_STATE_SCHEDULED,
		LastAttemptCompleteTime: timestamppb.New(second), NextAttemptScheduleTime: timestamppb.New(later),
		LastFailure: temporal.GetDefaultFailureConverter().ErrorToFailure(workflows.ToTemporal(err, 2)),
	}
}

// TestExecution: of one run Temporal itself is asked, which knows it before visibility does.
func TestExecution(t *testing.T) {
	id := workflows.OperationID(scope)
	d := described(enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED)
	d.WorkflowExecutionInfo.CloseTime = timestamppb.New(later)
	x, err := engine.New(&describing{runs: map[string]*workflowservice.DescribeWorkflowExecutionResponse{id: d}}).Execution(t.Context(), scope)
	require.NoError(t, err)
	require.Equal(t, operations.Execution{
		Scope: scope, Run: explain.Run{Operation: domain.OpInstantiate, RunID: "run", Status: explain.Terminated, Started: second}, Closed: later,
	}, x)
	_, err = engine.New(&describing{}).Execution(t.Context(), scope)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	_, err = engine.New(&describing{down: true}).Execution(t.Context(), scope)
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
}

func TestRun(t *testing.T) {
	id := workflows.OperationID(scope)
	want := explain.Run{Operation: domain.OpInstantiate, ID: id, RunID: "run", Started: second}
	with := func(change func(r *explain.Run)) explain.Run {
		r := want
		change(&r)
		return r
	}
	alice, err := converter.GetDefaultDataConverter().ToPayload("alice")
	require.NoError(t, err)
	running := described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		pending("Prepare", fail.Wrap(context.DeadlineExceeded, fail.Unavailable, "the database is away")))
	running.WorkflowExecutionInfo.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{"requestedBy": alice}}
	running.PendingWorkflowTask = &workflowpb.PendingWorkflowTaskInfo{
		State: enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED, OriginalScheduledTime: timestamppb.New(later), Attempt: 2,
	}
	parent := described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	for i := range 20 { // as Temporal has them, in no order
		parent.PendingChildren = append(parent.PendingChildren, &workflowpb.PendingChildExecutionInfo{WorkflowId: fmt.Sprint("app-", 19-i), InitiatedId: int64(19 - i)})
	}
	first := []string{}
	for i := range 16 {
		first = append(first, fmt.Sprint("app-", i))
	}
	onHold := described(enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED)
	onHold.WorkflowExtendedInfo = &workflowpb.WorkflowExecutionExtendedInfo{
		PauseInfo: &workflowpb.WorkflowExecutionPauseInfo{Identity: "alice@desk", Reason: "look at it"},
	}
	for name, c := range map[string]struct {
		run    *workflowservice.DescribeWorkflowExecutionResponse
		closed *historypb.HistoryEvent
		want   explain.Run
	}{
		"running": {run: running, want: with(func(r *explain.Run) {
			r.Status, r.By = explain.Running, "alice"
			r.Steps = []explain.Attempt{{Step: "Prepare", Number: 3, Last: second, Next: later, Error: "the database is away"}}
			r.Task = &explain.Task{Workflow: id, Since: later, Attempt: 2}
		})},
		"with children": {run: parent, want: with(func(r *explain.Run) { r.Status, r.Children = explain.Running, first })},
		"paused": {run: onHold, want: with(func(r *explain.Run) {
			r.Status, r.Paused = explain.RunPaused, &explain.Pause{By: "alice@desk", Why: "look at it"}
		})},
		"completed": {
			run:  described(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED),
			want: with(func(r *explain.Run) { r.Status = explain.Completed }),
		},
		"terminated by hand": {
			run: described(enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED),
			closed: &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
				WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Reason: "enough", Identity: "me"},
			}},
			want: with(func(r *explain.Run) { r.Status, r.End = explain.Terminated, "enough, by me" }),
		},
		"failed": {
			run: described(enumspb.WORKFLOW_EXECUTION_STATUS_FAILED),
			closed: &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
				WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{
					Failure: &failurepb.Failure{Message: "secret"},
				},
			}},
			want: with(func(r *explain.Run) { r.Status, r.End = explain.Failed, "internal error; the worker's log has it" }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &describing{runs: map[string]*workflowservice.DescribeWorkflowExecutionResponse{id: c.run}, closed: c.closed}
			got, err := engine.New(s).Run(t.Context(), scope)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(c.want, got))
		})
	}

	got, err := engine.New(&describing{}).Run(t.Context(), scope)
	require.Equal(t, fail.NotFound, fail.KindOf(err))
	require.Equal(t, explain.Run{Operation: domain.OpInstantiate, ID: id}, got)
	_, err = engine.New(&describing{down: true}).Run(t.Context(), scope)
	require.Equal(t, fail.Unavailable, fail.KindOf(err))
}

// TestWaiting says of children which one waits longest, and nothing of those that are not described in time: the rest is known by then.
func TestWaiting(t *testing.T) {
	waits := func(since time.Time, attempt int32) *workflowservice.DescribeWorkflowExecutionResponse {
		d := described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
		d.PendingWorkflowTask = &workflowpb.PendingWorkflowTaskInfo{
			State: enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED, OriginalScheduledTime: timestamppb.New(since), Attempt: attempt,
		}
		return d
	}
	place := explain.Place{App: "sink", Cluster: domain.ClusterName{Provider: "p", Name: "c"}}
	parent := described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	parent.PendingChildren = []*workflowpb.PendingChildExecutionInfo{{WorkflowId: "hangs"}}
	s := &describing{hangs: map[string]bool{"hangs": true}, runs: map[string]*workflowservice.DescribeWorkflowExecutionResponse{
		workflows.OperationID(scope): parent, workflows.LeafID(scope, "sink", place.Cluster): described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING),
		"web": waits(later, 1), "sink": waits(second, 7), "db": described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING),
	}}
	e := engine.New(s)
	require.Equal(t, &explain.Task{Workflow: "sink", Since: second, Attempt: 7}, e.Waiting(t.Context(), []string{"web", "gone", "sink", "db"}))
	require.Nil(t, e.Waiting(t.Context(), []string{"db", "gone"}))

	asking, cancel := context.WithTimeout(t.Context(), policy.Explain)
	defer cancel()
	began := time.Now()
	run, err := e.Run(asking, scope)
	require.NoError(t, err)
	attempts, err := e.Attempts(asking, scope, []explain.Place{place})
	require.NoError(t, err)
	require.Contains(t, attempts, place)
	require.Less(t, time.Since(began), policy.DescribeChildren, "no child was waited for")
	require.Nil(t, e.Waiting(asking, run.Children))
	require.NoError(t, asking.Err())
}

func TestStarting(t *testing.T) {
	run := described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	s := &describing{runs: map[string]*workflowservice.DescribeWorkflowExecutionResponse{workflows.OperationID(scope): run}}
	got, err := engine.New(s).Starting(t.Context(), scope.Owner, workflows.OperationID(scope))
	require.NoError(t, err)
	require.Nil(t, got, "that one is known")
	require.Contains(t, s.queried, "'Instantiate', 'Terminate'")

	s.runs[workflows.OperationID(other)] = run
	got, err = engine.New(s).Starting(t.Context(), scope.Owner, workflows.OperationID(scope))
	require.NoError(t, err)
	require.Equal(t, domain.OpTerminate, got.Operation)
	require.Equal(t, "run", got.RunID)
}

func TestAttempts(t *testing.T) {
	places := []explain.Place{}
	runs := map[string]*workflowservice.DescribeWorkflowExecutionResponse{}
	for _, c := range []string{"dead", "silent", "young", "slow", "paused", "gone"} {
		places = append(places, explain.Place{App: "sink", Cluster: domain.ClusterName{Provider: "p", Name: c}})
	}
	id := func(i int) string { return workflows.LeafID(scope, "sink", places[i].Cluster) }
	dead := pending("ApplyToCluster", fail.New(fail.Unavailable, "connection refused"))
	dead.State, dead.LastStartedTime = enumspb.PENDING_ACTIVITY_STATE_STARTED, timestamppb.New(second)
	silent := pending("ApplyToCluster", nil)
	silent.LastFailure = &failurepb.Failure{FailureInfo: &failurepb.Failure_TimeoutFailureInfo{
		TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{TimeoutType: enumspb.TIMEOUT_TYPE_HEARTBEAT},
	}}
	runs[id(0)] = described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, dead)
	runs[id(1)] = described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, silent)
	runs[id(2)] = described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	runs[id(2)].PendingWorkflowTask = &workflowpb.PendingWorkflowTaskInfo{
		State: enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED, OriginalScheduledTime: timestamppb.New(second), Attempt: 3,
	}
	slow := pending("ApplyToCluster", nil)
	slow.LastFailure = &failurepb.Failure{FailureInfo: &failurepb.Failure_TimeoutFailureInfo{
		TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{TimeoutType: enumspb.TIMEOUT_TYPE_START_TO_CLOSE},
	}}
	runs[id(3)] = described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, slow)
	paused := pending("ApplyToCluster", nil)
	paused.State, paused.Paused, paused.ActivityId, paused.LastFailure = enumspb.PENDING_ACTIVITY_STATE_PAUSED, true, "5", nil
	paused.PauseInfo = &workflowpb.PendingActivityInfo_PauseInfo{PausedBy: &workflowpb.PendingActivityInfo_PauseInfo_Manual_{
		Manual: &workflowpb.PendingActivityInfo_PauseInfo_Manual{Identity: "alice@desk", Reason: "the site moves"},
	}}
	runs[id(4)] = described(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, paused)
	s := &describing{runs: runs}
	got, err := engine.New(s).Attempts(t.Context(), scope, places)
	require.NoError(t, err)
	attempt := explain.Attempt{Step: "ApplyToCluster", RunID: "run", Since: second, Number: 3, Last: second, Next: later}
	first, other := attempt, attempt
	first.ID, first.Trying, first.Begun, first.Error = id(0), true, second, "connection refused"
	other.ID, other.Error = id(1), "the worker that was at it was not heard of any more"
	third := attempt
	third.ID, third.Error, third.Late = id(3), "it took too long", true
	fourth := attempt
	fourth.ID, fourth.Paused = id(4), &explain.Pause{Activity: "5", By: "alice@desk", Why: "the site moves"}
	stuck := explain.Attempt{ID: id(2), RunID: "run", Since: second, Task: &explain.Task{Workflow: id(2), Since: second, Attempt: 3}}
	require.Empty(t, cmp.Diff(map[explain.Place]explain.Attempt{
		places[0]: first, places[1]: other, places[2]: stuck, places[3]: third, places[4]: fourth,
	}, got))

	s.down = true
	_, err = engine.New(s).Attempts(t.Context(), scope, places)
	require.Equal(t, fail.Unavailable, fail.KindOf(err))
}

func TestWhoAsks(t *testing.T) {
	s := &describing{}
	_, err := engine.New(s).Start(t.Context(), scope, domain.Seen{})
	require.NoError(t, err)
	require.Nil(t, s.memo, "nobody said")
	_, err = engine.New(s).Start(caller.With(t.Context(), "alice"), scope, domain.Seen{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"requestedBy": "alice"}, s.memo)
}
