package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/workflows"
)

// Executions lists runs of operations from Temporal's visibility, which may be a moment late: those that go on first, then
// those that have ended, the last one first, as long as Temporal keeps them. It reads one page of about limit runs after
// the one whose token is given, nil for the first, and returns the token of the next one, nil at the end; a page may be
// empty in between.
func (e *Engine) Executions(ctx context.Context, f operations.Filter, limit int, after []byte) (found []operations.Execution, next []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Call)
	defer cancel()
	if f.Cluster != (domain.ClusterName{}) {
		return e.executionsOn(ctx, f, limit, after)
	}
	infos, next, err := e.visible(ctx, workflows.OperationsQuery(of(f)), limit, after)
	if err != nil {
		return nil, nil, err
	}
	return e.executions(infos), next, nil
}

// CountRunning is how many operations of a project go on, by Temporal's visibility, which may be a moment late.
func (e *Engine) CountRunning(ctx context.Context, project string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	r, err := e.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: workflows.OperationsQuery(workflows.Wanted{Project: project, Open: true}),
	})
	if err != nil {
		return 0, kindOf(err, fmt.Sprintf("operations of project %q", project))
	}
	return int(r.GetCount()), nil
}

// ExecutionsOf finds the runs of one operation on a context, the last one first.
func (e *Engine) ExecutionsOf(ctx context.Context, s domain.Scope) ([]operations.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Call)
	defer cancel()
	infos, _, err := e.visible(ctx, workflows.OperationsQuery(workflows.Wanted{ContextID: s.ContextID, Operation: s.Operation}), maxIDs, nil)
	if err != nil {
		return nil, err
	}
	return e.executions(infos), nil
}

// Execution describes the last run of an operation as Temporal has it now, also while its visibility does not list it yet or does not answer. NotFound
// when Temporal does not know the run (any more).
func (e *Engine) Execution(ctx context.Context, s domain.Scope) (operations.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	info, err := e.described(ctx, workflows.OperationID(s), "")
	if err != nil {
		return operations.Execution{}, err
	}
	x := e.execution(info)
	x.Scope, x.Run.Operation = s, s.Operation
	return x, nil
}

// maxIDs is how many ids one query names.
const maxIDs = 100

// executionsOn lists the operations that have, or had, something to do on a cluster: the work there is a workflow of its
// own, which tells of what operation it is a part.
func (e *Engine) executionsOn(ctx context.Context, f operations.Filter, limit int, after []byte) (found []operations.Execution, next []byte, err error) {
	infos, next, err := e.visible(ctx, workflows.ClusterQuery(of(f)), min(limit, maxIDs), after)
	if err != nil || len(infos) == 0 {
		return nil, next, err
	}
	var ids []string
	for _, x := range infos {
		if id := cmp.Or(x.GetRootExecution().GetWorkflowId(), workflows.OperationID(scopeOf(x))); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	w := of(f)
	w.Cluster, w.IDs = domain.ClusterName{}, ids
	roots, _, err := e.visible(ctx, workflows.OperationsQuery(w), 10*maxIDs, nil)
	if err != nil {
		return nil, nil, err
	}
	return e.executions(roots), next, nil
}

func of(f operations.Filter) workflows.Wanted {
	w := workflows.Wanted{Project: f.Project, Owner: f.Owner, Within: f.Within, Cluster: f.Cluster, Operation: f.Kind, Since: f.Since}
	switch {
	case f.State == operations.Running:
		w.Open = true
	case f.State != "" || f.Ended:
		w.Closed = true
	}
	return w
}

func (e *Engine) visible(ctx context.Context, query string, limit int, after []byte) ([]*workflowpb.WorkflowExecutionInfo, []byte, error) {
	r, err := e.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(limit), Query: query, NextPageToken: after, //nolint:gosec // a page
	})
	if len(after) > 0 && refusesPlace(err, after) {
		wrong := fail.Query("continue", "the workflow engine does not take it; begin with the first page")
		wrong.Cause = err
		return nil, nil, wrong
	}
	if err != nil {
		return nil, nil, kindOf(err, "the list of operations")
	}
	return r.GetExecutions(), r.GetNextPageToken(), nil
}

// refusesPlace says whether the error of a list is that the place behind which it was to go on is none of Temporal's. With a SQL database Temporal gives what
// is no JSON no code.
func refusesPlace(err error, after []byte) bool {
	var refused *serviceerror.InvalidArgument
	var coded serviceerror.ServiceError
	return errors.As(err, &refused) || err != nil && !errors.As(err, &coded) && !json.Valid(after)
}

func (e *Engine) executions(infos []*workflowpb.WorkflowExecutionInfo) []operations.Execution {
	found := make([]operations.Execution, 0, len(infos))
	for _, i := range infos {
		found = append(found, e.execution(i))
	}
	return found
}

func (e *Engine) execution(i *workflowpb.WorkflowExecutionInfo) operations.Execution {
	x := operations.Execution{Scope: scopeOf(i), Run: explain.Run{
		ID: i.GetExecution().GetWorkflowId(), RunID: i.GetExecution().GetRunId(),
		Status: runStatuses[i.GetStatus()], Started: moment(i.GetStartTime()), By: e.requestedBy(i), Trace: e.memoOf(i, traceMemo),
	}, Closed: moment(i.GetCloseTime()), Refused: e.memoOf(i, workflows.RefusedMemo)}
	x.Run.Operation = x.Operation
	return x
}

// scopeOf reads what the search attributes of a workflow of an operation say.
func scopeOf(i *workflowpb.WorkflowExecutionInfo) domain.Scope {
	fields := i.GetSearchAttributes().GetIndexedFields()
	return workflows.ScopeOf(func(attribute string) (value string) {
		if payload := fields[attribute]; payload != nil {
			if err := converter.GetDefaultDataConverter().FromPayload(payload, &value); err != nil {
				return "" // not one of ours
			}
		}
		return value
	})
}

// requestedBy reads who asked for a run.
func (e *Engine) requestedBy(i *workflowpb.WorkflowExecutionInfo) string {
	return e.memoOf(i, callerMemo)
}

func (e *Engine) memoOf(i *workflowpb.WorkflowExecutionInfo, name string) (value string) {
	if payload := i.GetMemo().GetFields()[name]; payload != nil {
		if err := e.data.FromPayload(payload, &value); err != nil {
			return "" // not one of ours
		}
	}
	return value
}
