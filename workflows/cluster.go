package workflows

import (
	"cmp"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

var kube *activities.Kube // names the methods; never called

// WorkCluster applies one app to one cluster or deletes it from there: one activity, tried at once when the
// work is little, and else or then retried until it gets through or the work is stopped.
func WorkCluster(ctx workflow.Context, in activities.LeafInput) (*ClusterProgress, error) {
	l := &leaf{in: in, state: ClusterProgress{Cluster: in.Cluster, Connectivity: domain.ConnectivityUnknown}}
	l.whole, _ = workflow.NewDisconnectedContext(ctx)
	if err := workflow.SetQueryHandler(ctx, ProgressQuery, func() (ClusterProgress, error) { return l.state, nil }); err != nil {
		return nil, fmt.Errorf("set query handler: %w", err)
	}
	l.state.Marks = plan.First(in.Operation, in.Prune, in.Inherited, in.Resources).Encode()
	workflow.Go(l.whole, l.listen)
	if err := l.run(ctx); err != nil {
		return nil, err
	}
	return &l.state, nil
}

// leaf is one run of WorkCluster.
type leaf struct {
	in        activities.LeafInput
	whole     workflow.Context
	state     ClusterProgress
	contacted bool // the activity has told of itself
}

// run does the work, which has several steps when there are hooks. A stop between two of them is an end in
// order: what was done is recorded.
func (l *leaf) run(ctx workflow.Context) error {
	for ctx.Err() == nil {
		end, err := l.do(ctx)
		if err == nil && l.blank(end.Marks) {
			err = errByHand
		}
		if err != nil {
			return l.record(err)
		}
		waited := l.state.Reason != ""
		l.state.Connectivity, l.state.Marks, l.state.Error, l.state.Reason = end.Connectivity, end.Marks, end.LastError, ""
		l.state.Notes = nil // they are in the leaf's record
		if end.Next == 0 {
			return nil
		}
		l.in.Step, l.contacted = end.Next, false
		if waited {
			l.tell(l.whole)
		}
	}
	return nil
}

// do does a step, at once when that is likely to be enough.
func (l *leaf) do(ctx workflow.Context) (end domain.Leaf, err error) {
	activity := kube.ApplyToCluster
	if l.in.Deletes() {
		activity = kube.DeleteFromCluster
	}
	if l.in.Resources <= atOnceResources && !l.in.Suspect && !l.in.Hooked {
		err := workflow.ExecuteLocalActivity(atOnce(l.whole), activity, l.in).Get(l.whole, &end)
		if err == nil {
			return end, nil
		}
	}
	return l.attempt(ctx, activity)
}

// attempt is the work as an activity. When it is cancelled, it ends as soon as its heartbeat tells it, or at
// once where the worker that has the workflow's task has the attempt too.
func (l *leaf) attempt(ctx workflow.Context, activity any) (end domain.Leaf, err error) {
	options := clusterWork(ctx)
	if l.in.Hooked {
		options = hookWork(ctx)
	}
	attempts := workflow.ExecuteActivity(options, activity, l.in)
	var halted *domain.Leaf
	workflow.Go(l.whole, func(c workflow.Context) {
		ctx.Done().Receive(c, nil)
		if attempts.IsReady() { // a step that is over
			return
		}
		err := workflow.ExecuteLocalActivity(atOnce(c), kube.Halt).Get(c, &halted)
		if err != nil {
			halted = nil
		}
	})
	if err := workflow.Await(l.whole, func() bool { return attempts.IsReady() || halted != nil }); err != nil {
		return end, err
	}
	if halted != nil {
		return *halted, nil
	}
	err = attempts.Get(l.whole, &end)
	return end, err
}

// record stores what is known of a leaf whose activity could not do so itself, because it was cancelled
// between two attempts, its worker died, or it gave up.
func (l *leaf) record(cause error) error {
	var cancelled *temporal.CanceledError
	gaveUp := !errors.As(cause, &cancelled)
	// An activity that has made itself heard announces what it sends from then on; one that never did may have sent all.
	if gaveUp || !l.contacted {
		l.state.Marks = plan.Silence{
			Operation: l.in.Operation, Prune: l.in.Prune, Hooked: l.in.Hooked, Whole: l.in.Step == 0 && !l.contacted,
		}.Believed(domain.DecodeMarks(l.state.Marks)).Encode()
	}
	if l.state.GaveUp = gaveUp; gaveUp {
		l.state.Error = textOf(cause)
	}
	in := domain.Leaf{
		ContextID: l.in.ContextID, Operation: l.in.Operation, App: l.in.App, Cluster: l.in.Cluster,
		Connectivity: l.state.Connectivity, Marks: l.state.Marks, LastError: l.state.Error, Notes: l.state.Notes,
		Turn: l.in.Turn(activities.ByWorkflow, 0),
	}
	l.state.Notes = nil // histories stay small
	return briefly(l.whole, lifecycle.RecordLeaf, in, nil)
}

// listen takes what the activity says of the cluster and passes it on.
func (l *leaf) listen(ctx workflow.Context) {
	contacts := workflow.GetSignalChannel(ctx, ContactSignal)
	for {
		var c activities.Contact
		contacts.Receive(ctx, &c)
		if !l.blank(c.Marks) {
			l.contacted = true
			l.state.Connectivity, l.state.Marks, l.state.Error, l.state.Reason = c.Connectivity, c.Marks, c.Error, c.Reason
			l.state.Notes = c.Notes
		}
		l.tell(ctx) // also of one by hand: a replay has to do what was done
	}
}

// errByHand is what a leaf has ended with whose activity somebody has completed in Temporal.
var errByHand = fail.New(fail.Conflict, "its activity was completed by hand, and what it has done is not known")

// blank says of marks that they say nothing of what the leaf is about: no activity of ours has sent them.
func (l *leaf) blank(marks string) bool {
	return l.in.Resources > 0 && len(domain.DecodeMarks(marks)) == 0
}

// tell shows where the leaf stands, also to its app.
func (l *leaf) tell(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%s: %s", l.state.Connectivity, cmp.Or(l.state.Error, l.state.Reason)))
	if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
		workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, ContactSignal, l.state)
	}
}
