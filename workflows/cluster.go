package workflows

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
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
	l.state.Marks = activities.First(in.Operation, in.Prune, in.Held, in.Resources).Encode()
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

func (l *leaf) run(ctx workflow.Context) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // stopped before anything was sent, which is an end in order
	}
	activity := kube.ApplyToCluster
	if l.in.Deletes() {
		activity = kube.DeleteFromCluster
	}
	var end domain.Leaf
	err := errNotTried
	if l.in.Resources <= atOnceResources && !l.in.Suspect {
		err = workflow.ExecuteLocalActivity(atOnce(l.whole), activity, l.in).Get(l.whole, &end)
	}
	if err != nil {
		end, err = l.attempt(ctx, activity)
	}
	if err != nil {
		return l.record(err)
	}
	l.state.Connectivity, l.state.Marks, l.state.Error = end.Connectivity, end.Marks, end.LastError
	return nil
}

// attempt is the work as an activity. When it is cancelled, it ends as soon as its heartbeat tells it, or at
// once where the worker that has the workflow's task has the attempt too.
func (l *leaf) attempt(ctx workflow.Context, activity any) (end domain.Leaf, err error) {
	attempts := workflow.ExecuteActivity(clusterWork(ctx), activity, l.in)
	var halted *domain.Leaf
	workflow.Go(l.whole, func(c workflow.Context) {
		ctx.Done().Receive(c, nil)
		if workflow.ExecuteLocalActivity(atOnce(c), kube.Halt).Get(c, &halted) != nil {
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

var errNotTried = errors.New("not tried")

// record stores what is known of a leaf whose activity could not do so itself, because it was cancelled
// between two attempts, its worker died, or it gave up.
func (l *leaf) record(cause error) error {
	var cancelled *temporal.CanceledError
	gaveUp := !errors.As(cause, &cancelled)
	marks := domain.DecodeMarks(l.state.Marks)
	for i, m := range marks {
		if m.ToDelete() == l.in.Deletes() { // the other round's are as they were
			marks[i] = unsettled(m, gaveUp, l.contacted)
		}
	}
	l.state.Marks = marks.Encode()
	if gaveUp {
		l.state.Error = cause.Error()
	}
	in := domain.Leaf{
		ContextID: l.in.ContextID, Operation: l.in.Operation, App: l.in.App, Cluster: l.in.Cluster,
		Connectivity: l.state.Connectivity, Marks: l.state.Marks, LastError: l.state.Error,
	}
	return briefly(l.whole, lifecycle.RecordLeaf, in, nil)
}

// unsettled is what must be believed of a resource when the activity left without a word. An activity
// that has made itself heard announces what it sends from then on; one that never did may have sent all.
func unsettled(m domain.Mark, gaveUp, contacted bool) domain.Mark {
	if contacted && !gaveUp {
		return m
	}
	switch m {
	case domain.MarkPending, domain.MarkOutdated:
		return domain.MarkSent
	case domain.MarkDoomed:
		return domain.MarkDeleting
	default:
		return m
	}
}

// listen takes what the activity says of the cluster and passes it on.
func (l *leaf) listen(ctx workflow.Context) {
	parent := workflow.GetInfo(ctx).ParentWorkflowExecution
	contacts := workflow.GetSignalChannel(ctx, ContactSignal)
	for {
		var c activities.Contact
		contacts.Receive(ctx, &c)
		l.contacted = true
		l.state.Connectivity, l.state.Marks, l.state.Error = c.Connectivity, c.Marks, c.Error
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%s: %s", c.Connectivity, c.Error))
		if parent != nil {
			workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, ContactSignal, l.state)
		}
	}
}
