package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// AppInput is the work of one app on its clusters [From, To).
type AppInput struct {
	domain.Scope
	App        activities.PreparedApp `json:"app"`
	Plan       domain.Digest          `json:"plan"`
	Namespace  string                 `json:"namespace"`
	User       domain.Key             `json:"user,omitempty"`
	Incomplete bool                   `json:"incomplete,omitempty"`
	Label      string                 `json:"label,omitempty"`
	Prune      bool                   `json:"prune,omitempty"`
	From       int                    `json:"from,omitempty"`
	To         int                    `json:"to"`
	// Beside is how many apps the operation has, or more, see besides.
	Beside int `json:"beside,omitempty"`
	// Batches is how many batches the app has, of a batch; 0 in a run of before, which tells its app all that there is to tell.
	Batches int `json:"batches,omitempty"`
}

// batch says whether it is a part of the app's clusters.
func (in AppInput) batch() bool { return in.To-in.From < in.App.Clusters }

// deletes says whether the work is to delete.
func (in AppInput) deletes() bool { return in.Operation == domain.OpTerminate || in.Prune }

// tookOver says whether the work is to make of what another context has left in clusters what is wanted now.
func (in AppInput) tookOver() bool { return tookOver(in.Operation, in.Label) }

func tookOver(op domain.Operation, label string) bool { return op != domain.OpTerminate && label != "" }

// idle says whether an operation that takes over has nothing to do where the marks are these.
func (in AppInput) idle(marks domain.Marks) bool {
	switch {
	case !in.tookOver():
		return false
	case in.Prune:
		return !marks.Has(domain.Mark.ToDelete)
	default:
		return !marks.Has(domain.Mark.ToApply)
	}
}

// WorkApp applies an app to its clusters or deletes it from them. Many clusters are split into batches,
// each a workflow of this kind again; else there is a child per cluster, with a sliding window.
func WorkApp(ctx workflow.Context, in AppInput) (*AppProgress, error) {
	a := &app{in: in}
	a.whole, _ = workflow.NewDisconnectedContext(ctx)
	if err := workflow.SetQueryHandler(ctx, ProgressQuery, a.detail); err != nil {
		return nil, fmt.Errorf("set query handler: %w", err)
	}
	workflow.Go(a.whole, a.report)
	err := a.run(ctx)
	a.ended = true
	if err != nil {
		return nil, err
	}
	return a.progress(), nil
}

// app is one run of WorkApp. Its clusters are in the window, or in batches when they are many.
type app struct {
	in      AppInput
	whole   workflow.Context // never cancelled
	window  window
	batches batches
	changed bool // since the parent was told
	ended   bool
}

func (a *app) run(ctx workflow.Context) error {
	if a.in.To-a.in.From > batchSize {
		return a.split(ctx)
	}
	targets, err := a.targets()
	if err != nil {
		return err
	}
	a.window = window{whole: a.whole, leaves: leavesOf(a.in, targets), slots: slots(a.in.App.Clusters, batchesAtOnce(ctx, a.in.App.Clusters)), begin: a.begin, halt: a.halt}
	if told, ok := ctx.Value(windowsKey{}).(Windows); ok {
		run := workflow.GetInfo(ctx).WorkflowExecution.RunID
		a.window.tell = func(s WindowState) { told.Tell(run, s) }
		defer told.End(run) // when the run is put out of memory, too
	}
	workflow.Go(a.whole, a.listen)
	return a.window.slide(ctx)
}

// targets are the clusters [From, To) of the app.
func (a *app) targets() (*activities.Targets, error) {
	if a.in.App.Targets != nil {
		return a.in.App.Targets, nil
	}
	var t activities.Targets
	in := activities.TargetsInput{Plan: a.in.Plan, App: a.in.App.Name, From: a.in.From, To: a.in.To}
	err := briefly(a.whole, lifecycle.Targets, in, &t)
	return &t, err
}

// leavesOf are the leaves of an app before anything is done. Those without work are done.
func leavesOf(in AppInput, targets *activities.Targets) []leafState {
	leaves := make([]leafState, 0, len(targets.Clusters))
	for i, c := range targets.Clusters {
		marks := plan.First(in.Operation, in.Prune, targets.Inherited(i), in.App.Resources)
		leaves = append(leaves, leafState{
			ClusterProgress: ClusterProgress{Cluster: c, Connectivity: domain.ConnectivityUnknown, Marks: marks.Encode()},
			done:            in.idle(marks), inherited: targets.Inherited(i), report: targets.Reports[i],
			overlay: targets.Overlays[i],
		})
	}
	for _, i := range targets.Suspect {
		leaves[i].suspect = true
	}
	for _, i := range targets.Installs {
		leaves[i].installs = true
	}
	return leaves
}

// begin starts the child for a cluster.
func (a *app) begin(ctx workflow.Context, l *leafState) {
	in := a.leafInput(l)
	name := ApplyToClusterName
	if in.Deletes() {
		name = DeleteFromClusterName
	}
	options := child(ctx, LeafID(in.Scope, in.App, in.Cluster),
		searchAttributes(in.Scope, appAttribute.ValueSet(in.App), clusterAttribute.ValueSet(fit(in.Cluster.String()))),
		in.App+" on "+in.Cluster.String())
	future := workflow.ExecuteChildWorkflow(options, name, in)
	workflow.Go(a.whole, func(c workflow.Context) {
		notBegun := future.GetChildWorkflowExecution().Get(c, nil)
		if notBegun == nil {
			a.window.stir()
		}
		var result ClusterProgress
		err := future.Get(c, &result)
		if err != nil {
			workflow.GetLogger(c).Error("cluster", "app", in.App, "cluster", in.Cluster, "error", err)
			l.lost = true
		} else {
			l.ClusterProgress = result
		}
		a.window.ended(l)
		a.changed = true
	})
}

func (a *app) leafInput(l *leafState) activities.LeafInput {
	in := activities.LeafInput{
		Scope: a.in.Scope, App: a.in.App.Name, Cluster: l.Cluster, Bundle: a.in.App.Bundle, Overlay: l.overlay,
		Resources: a.in.App.Resources, Namespace: a.in.Namespace, Incomplete: a.in.Incomplete, Suspect: l.suspect,
		HookTime: hookTime, Label: a.in.Label, Inherited: l.inherited, Report: l.report, Prune: a.in.Prune, User: a.in.User,
		Installs: l.installs && !a.in.deletes(),
	}
	if in.Operation == domain.OpTerminate {
		in.Plan = a.in.Plan
	}
	in.Hooked = in.Runs(a.in.App.Events)
	return in
}

// halt ends the attempts at the app that this worker has.
func (a *app) halt(ctx workflow.Context) (halted []domain.ClusterName) {
	in := activities.HaltInput{Scope: a.in.Scope, App: a.in.App.Name}
	err := workflow.ExecuteLocalActivity(once(ctx, haltTimeout), kube.HaltApp, in).Get(ctx, &halted)
	if err != nil {
		return nil
	}
	return halted
}

// listen takes what leaves report about themselves.
func (a *app) listen(ctx workflow.Context) {
	contacts := workflow.GetSignalChannel(ctx, ContactSignal)
	for {
		var p ClusterProgress
		contacts.Receive(ctx, &p)
		for i := range a.window.leaves {
			if l := &a.window.leaves[i]; l.Cluster == p.Cluster && !l.done {
				l.ClusterProgress = p
				a.window.moved()
				a.changed = true
			}
		}
	}
}

// report tells the parent how far the app is, as its pace has it; the end is told by the result. A batch that has told all that it may tells once
// more that it needs its place no longer, however long it goes on then.
func (a *app) report(ctx workflow.Context) {
	p := &pace{beside: a.in.Beside}
	if a.in.batch() {
		p = &pace{batch: true, beside: a.in.Batches}
	}
	for parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil; {
		idle := workflow.Now(ctx)
		if err := workflow.Await(ctx, func() bool { return a.changed }); err != nil {
			return
		}
		wait, ok := p.wait(age(ctx), workflow.Now(ctx).Sub(idle))
		if !ok {
			return
		}
		if err := workflow.Sleep(ctx, wait); err != nil || a.ended {
			return
		}
		a.changed = false
		told := a.progress()
		told.Quiet = a.in.Batches > 0 && p.spent() && !a.window.idle()
		workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, ProgressSignal, told)
		if !told.Quiet {
			continue
		}
		if err := workflow.Await(ctx, func() bool { return a.ended || a.window.idle() }); err == nil && !a.ended {
			workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, ProgressSignal, a.progress())
		}
		return
	}
}

// progress adds up what is known.
func (a *app) progress() *AppProgress {
	p := &AppProgress{App: a.in.App.Name, From: a.in.From, Clusters: a.in.To - a.in.From, Counts: Counts{}}
	for i := range a.window.leaves {
		p.addLeaf(a.in, &a.window.leaves[i])
	}
	for i := range a.batches.progress {
		p.addBatch(&a.batches.progress[i])
	}
	return p
}

// detail answers ProgressQuery.
func (a *app) detail() (AppDetail, error) {
	d := AppDetail{Batches: a.batches.ids[:a.batches.started]}
	for i := range a.window.leaves {
		if l := &a.window.leaves[i]; l.open() {
			d.Open = append(d.Open, l.ClusterProgress)
		}
	}
	return d, nil
}
