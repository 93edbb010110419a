package explore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/operations"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/workflows"
)

// An owner has one operation at a time that was accepted and has not ended: two would undo in clusters what the other one does. A terminate
// begins beside the operation that it ends on the same instance, and one that is not decided yet may be refused.

// lookAlone is how often it is looked which operations go on: one question for all sequences.
const lookAlone = time.Second

// open is a workflow of an operation that is open.
type open struct {
	owner, instance string // the former is the beginning of workflow ids
	operation       domain.Operation
	id, run         string
}

func openOf(id, run string) (o open, ok bool) {
	words := strings.Split(id, "/")
	if len(words) < 3 {
		return o, false
	}
	n := len(words) - 2
	return open{strings.Join(words[:n], "/"), words[n], domain.Operation(words[n+1]), id, run}, true
}

// acceptedIn says whether a history has the operation.
func (o open) acceptedIn(actions []domain.Action) bool {
	return slices.ContainsFunc(actions, func(a domain.Action) bool {
		return a.ContextID == o.instance && (o.operation != domain.OpTerminate || a.State == domain.Terminated)
	})
}

// several says whether they are of more than one instance.
func several(all []open) bool {
	return slices.ContainsFunc(all, func(o open) bool { return o.instance != all[0].instance })
}

// alone looks until ctx ends that no owner of the lanes has two operations, and says whether it could look at all.
func (w *world) alone(ctx context.Context, lanes []*lane) (looked bool) {
	said := map[string]bool{}
	for pause.For(ctx, lookAlone) == nil {
		byOwner, err := w.open(ctx)
		if err != nil { // Temporal may be harmed
			continue
		}
		looked = true
		for _, l := range lanes {
			for owner, summary := range l.summaries() {
				if all := byOwner[owner]; len(all) > 1 && several(all) && !said[owner] {
					said[owner] = w.judgeAlone(ctx, l, all, summary)
				}
			}
		}
	}
	return looked
}

// open are the workflows of operations that are open, by owner.
func (w *world) open(ctx context.Context) (byOwner map[string][]open, err error) {
	byOwner = map[string][]open{}
	ask := &workflowservice.ListWorkflowExecutionsRequest{Query: workflows.OperationsQuery(workflows.Wanted{Open: true})}
	for {
		page, err := w.temporal.ListWorkflow(ctx, ask)
		if err != nil {
			return nil, err
		}
		for _, x := range page.GetExecutions() {
			if o, ok := openOf(x.GetExecution().GetWorkflowId(), x.GetExecution().GetRunId()); ok {
				byOwner[o.owner] = append(byOwner[o.owner], o)
			}
		}
		if ask.NextPageToken = page.GetNextPageToken(); len(ask.NextPageToken) == 0 {
			return byOwner, nil
		}
	}
}

// summaries ask for the owners of a lane, by the beginning of their workflows' ids.
func (l *lane) summaries() map[string]func(context.Context) (*status.Document, error) {
	path := func(key domain.Key) string {
		o, _ := openOf(workflows.OperationID(domain.Scope{Owner: key, ContextID: "1", Operation: domain.OpUpdate}), "")
		return o.owner
	}
	all := map[string]func(context.Context) (*status.Document, error){}
	for _, g := range l.groups {
		all[path(g.Key())] = g.Summary
	}
	for _, o := range l.owners() {
		all[path(o.key)] = o.of(l)
	}
	return all
}

// judgeAlone says whether several operations of an owner, which were open, go on at the same time. The history comes first: what is
// accepted by then, and is said to run later, ran in between.
func (w *world) judgeAlone(ctx context.Context, l *lane, all []open, summary func(context.Context) (*status.Document, error)) (wrong bool) {
	got, err := summary(ctx)
	if err != nil {
		return false
	}
	all = slices.DeleteFunc(all, func(o open) bool { return !o.acceptedIn(got.States.Actions) })
	all = slices.DeleteFunc(all, func(o open) bool { // one whose end is recorded may have an open workflow for a moment
		is, err := l.api.Operation(ctx, operations.ID(domain.Scope{ContextID: o.instance, Operation: o.operation}))
		return err != nil || is.State != operations.Running
	})
	all = slices.DeleteFunc(all, func(o open) bool { // what lists Temporal's runs may be late
		is, err := w.temporal.DescribeWorkflowExecution(ctx, o.id, o.run)
		return err != nil || is.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
	if len(all) < 2 || !several(all) {
		return false
	}
	l.wrong("operations of %s run at the same time: %+v; %s", all[0].owner, all, spell(got.States.Actions))
	return true
}

func TestWhoIsAlone(t *testing.T) {
	of := func(id string) open {
		t.Helper()
		o, ok := openOf(id, "r")
		require.True(t, ok)
		return o
	}
	first, second := of("p1/composite/v1/a/7/instantiate"), of("p1/composite/v1/a/8/update")
	ends := of("p1/composite/v1/a/7/terminate")
	require.Equal(t, open{"p1/composite/v1/a", "7", domain.OpInstantiate, "p1/composite/v1/a/7/instantiate", "r"}, first)
	require.False(t, several([]open{first, ends}), "a terminate ends the other one")
	require.True(t, several([]open{first, second}))
	history := []domain.Action{{State: domain.Created}, {State: domain.Instantiated, ContextID: "7"}}
	require.True(t, first.acceptedIn(history))
	require.False(t, second.acceptedIn(history), "it is not decided yet")
	require.False(t, ends.acceptedIn(history))
	require.True(t, ends.acceptedIn(append(history, domain.Action{State: domain.Terminated, ContextID: "7"})))
	_, ok := openOf("watch-clusters", "")
	require.False(t, ok)
	l := (&world{apis: make([]*client.API, 1), tenants: make([]string, 1), clusters: make([]domain.ClusterName, clustersEach)}).lane(&ground{}, nil)
	require.Contains(t, l.summaries(), "p1/composite/v1/a")
}
