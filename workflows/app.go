package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
)

// AppInput is the work of one app on its clusters [From, To).
type AppInput struct {
	domain.Scope
	App       activities.PreparedApp `json:"app"`
	Plan      domain.Digest          `json:"plan"`
	Namespace string                 `json:"namespace"`
	User      domain.Key             `json:"user,omitempty"`
	Unsettled bool                   `json:"unsettled,omitempty"`
	Label     string                 `json:"label,omitempty"`
	Prune     bool                   `json:"prune,omitempty"`
	From      int                    `json:"from,omitempty"`
	To        int                    `json:"to"`
}

// deletes says whether the work is to delete.
func (in AppInput) deletes() bool { return in.Operation == domain.OpTerminate || in.Prune }

// tookOver says whether the work is to make of what another context has left in clusters what is wanted now.
func (in AppInput) tookOver() bool { return in.Operation != domain.OpTerminate && in.Label != "" }

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
	a := &app{in: in, progress: AppProgress{App: in.App.Name, From: in.From, Clusters: in.To - in.From}}
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
	return a.count(), nil
}

// app is one run of WorkApp.
type app struct {
	in       AppInput
	whole    workflow.Context // never cancelled
	progress AppProgress
	leaves   []leafState
	batches  []AppProgress
	batchIDs []string
	changed  bool
	crowded  bool // a leaf waits for a place in the window
	moves    int  // how often a leaf has ended or has left the window
	stirred  bool // something has come of the leaves, see gather
	ended    bool
}

// leafState is what the app knows of one cluster.
type leafState struct {
	ClusterProgress
	started, done bool
	lost          bool   // see AppProgress
	suspect       bool   // see activities.Targets
	installs      bool   // see activities.Targets
	slow          bool   // it has lost its place in the window, see loosen
	held, report  string // see activities.LeafInput
	cancel        workflow.CancelFunc
}

func (a *app) run(ctx workflow.Context) error {
	if a.in.To-a.in.From > batchSize {
		return a.split(ctx)
	}
	targets, err := a.targets()
	if err != nil {
		return err
	}
	for i, c := range targets.Clusters {
		marks := activities.First(a.in.Operation, a.in.Prune, targets.Held(i), a.in.App.Resources)
		a.leaves = append(a.leaves, leafState{
			ClusterProgress: ClusterProgress{Cluster: c, Connectivity: domain.ConnectivityUnknown, Marks: marks.Encode()},
			done:            a.in.idle(marks), held: targets.Held(i), report: targets.Reports[i],
		})
	}
	for _, i := range targets.Suspect {
		a.leaves[i].suspect = true
	}
	for _, i := range targets.Installs {
		a.leaves[i].installs = true
	}
	workflow.Go(a.whole, a.listen)
	return a.slide(ctx)
}

func (a *app) targets() (*activities.Targets, error) {
	if a.in.App.Targets != nil {
		return a.in.App.Targets, nil
	}
	var t activities.Targets
	in := activities.TargetsInput{Plan: a.in.Plan, App: a.in.App.Name, From: a.in.From, To: a.in.To}
	err := briefly(a.whole, lifecycle.Targets, in, &t)
	return &t, err
}

// split starts a child per batch and waits for all of them.
func (a *app) split(ctx workflow.Context) error {
	open := 0
	for from := a.in.From; from < a.in.To; from += batchSize {
		in, i := a.in, len(a.batches)
		in.From, in.To = from, min(from+batchSize, a.in.To)
		id := AppID(in.Scope, in.App.Name, in.From, in.To)
		a.batches = append(a.batches, AppProgress{
			From: from, Clusters: in.To - from,
			Counts: Counts{domain.ResourcePending: in.App.Resources * (in.To - from)},
		})
		a.batchIDs = append(a.batchIDs, id)
		open++
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { open-- }()
			var result AppProgress
			if err := startApp(ctx, in, id).Get(ctx, &result); err != nil {
				workflow.GetLogger(ctx).Error("batch", "app", in.App.Name, "from", in.From, "error", err)
				a.batches[i].Unapplied, a.batches[i].Lost = in.App.Resources*(in.To-in.From), in.To-in.From // nobody knows better
				return
			}
			a.batches[i] = result
			a.changed = true
		})
	}
	workflow.Go(a.whole, a.listen)
	return workflow.Await(a.whole, func() bool { return open == 0 })
}

// slide runs a child per cluster; a leaf leaves the window when it is done, its cluster does not answer,
// it waits for something there, or it is slow.
func (a *app) slide(ctx workflow.Context) error {
	stopped := func() bool { return ctx.Err() != nil }
	workflow.Go(a.whole, func(c workflow.Context) {
		ctx.Done().Receive(c, nil)
		a.stop(c)
	})
	batches := (a.in.App.Clusters + batchSize - 1) / batchSize
	window := max(openLeaves/max(batches, 1), fewestOpen)
	workflow.Go(a.whole, a.loosen)
	workflow.Go(a.whole, a.gather)
	for _, l := range a.order() {
		a.crowded = a.atWork() >= window
		if err := workflow.Await(a.whole, func() bool { return stopped() || a.atWork() < window }); err != nil {
			return err
		}
		if stopped() {
			break
		}
		a.start(l)
	}
	a.crowded = false
	return workflow.Await(a.whole, a.quiet)
}

// order is that in which leaves are started that have work: those last whose clusters did not answer when they were last
// tried, so that none waits for a place that one of them has.
func (a *app) order() (order []*leafState) {
	for _, suspect := range []bool{false, true} {
		for i := range a.leaves {
			if l := &a.leaves[i]; !l.done && l.suspect == suspect {
				order = append(order, l)
			}
		}
	}
	return order
}

// gather keeps the app's task for a moment when something has come of its leaves and much is at work, so that a task takes
// what comes of many. For each event that finds none Temporal makes a task of its own, which takes it as long as the event.
func (a *app) gather(ctx workflow.Context) {
	for {
		if err := workflow.Await(ctx, func() bool { return a.stirred && a.atWork() >= gatherLeast }); err != nil {
			return
		}
		a.stirred = false
		d := min(time.Duration(a.atWork())*gatherEach, gatherMost)
		_ = workflow.ExecuteLocalActivity(once(ctx, briefTimeout), kube.Gather, d).Get(ctx, nil)
	}
}

// loosen gives the places of all leaves to others when for patience nobody has left the window, though some wait for a place:
// that a cluster hangs is known only when its requests have reached their deadline, and no cluster waits so long for another.
func (a *app) loosen(ctx workflow.Context) {
	for {
		if err := workflow.Await(ctx, func() bool { return a.crowded }); err != nil {
			return
		}
		moves := a.moves
		if err := workflow.Sleep(ctx, patience); err != nil || a.ended {
			return
		}
		if a.moves != moves {
			continue
		}
		for i := range a.leaves {
			a.leaves[i].slow = a.leaves[i].slow || a.leaves[i].started
		}
	}
}

// quiet says whether no leaf is at work.
func (a *app) quiet() bool {
	return !slices.ContainsFunc(a.leaves, func(l leafState) bool { return l.started && !l.done })
}

// stop ends the leaves that are at work. Those whose attempts this worker has come to their end by themselves
// once it halts them, which takes half the rounds through Temporal of a cancellation; all others are cancelled.
func (a *app) stop(ctx workflow.Context) {
	var halted []domain.ClusterName
	in := activities.HaltInput{Scope: a.in.Scope, App: a.in.App.Name}
	if err := workflow.ExecuteLocalActivity(once(ctx, haltTimeout), kube.HaltApp, in).Get(ctx, &halted); err != nil {
		halted = nil
	}
	a.cancel(func(c domain.ClusterName) bool { return !slices.Contains(halted, c) })
	if _, err := workflow.AwaitWithTimeout(ctx, haltGrace, a.quiet); err != nil {
		return
	}
	a.cancel(func(domain.ClusterName) bool { return true })
}

func (a *app) cancel(which func(domain.ClusterName) bool) {
	for i := range a.leaves {
		if l := &a.leaves[i]; l.started && !l.done && which(l.Cluster) {
			l.cancel()
		}
	}
}

func (a *app) start(l *leafState) {
	ctx, cancel := workflow.WithCancel(a.whole)
	l.started, l.cancel = true, cancel
	in := activities.LeafInput{
		Scope: a.in.Scope, App: a.in.App.Name, Cluster: l.Cluster, Bundle: a.in.App.Bundle,
		Resources: a.in.App.Resources, Namespace: a.in.Namespace, Unsettled: a.in.Unsettled, Suspect: l.suspect,
		HookTime: hookTime, Label: a.in.Label, Held: l.held, Report: l.report, Prune: a.in.Prune, User: a.in.User,
		Installs: l.installs && !a.in.deletes(),
	}
	in.Hooked = in.Runs(a.in.App.Events)
	name := ApplyToClusterName
	if in.Deletes() {
		name = DeleteFromClusterName
	}
	options := child(ctx, LeafID(in.Scope, in.App, in.Cluster),
		searchAttributes(in.Scope, appAttribute.ValueSet(in.App), clusterAttribute.ValueSet(fit(in.Cluster.String()))),
		in.App+" on "+in.Cluster.String())
	future := workflow.ExecuteChildWorkflow(options, name, in)
	workflow.Go(a.whole, func(c workflow.Context) {
		if future.GetChildWorkflowExecution().Get(c, nil) == nil {
			a.stirred = true
		}
		var result ClusterProgress
		if err := future.Get(c, &result); err != nil {
			workflow.GetLogger(c).Error("cluster", "app", in.App, "cluster", in.Cluster, "error", err)
			l.lost = true
		} else {
			l.ClusterProgress = result
		}
		l.done = true
		a.moves++
		a.changed, a.stirred = true, true
	})
}

// atWork counts the leaves that hold a place in the window.
func (a *app) atWork() int {
	n := 0
	for i := range a.leaves {
		if l := &a.leaves[i]; l.started && !l.done && !l.slow && l.Connectivity != domain.ConnectivityRetrying && l.Reason == "" {
			n++
		}
	}
	return n
}

// listen takes what leaves and batches report about themselves.
func (a *app) listen(ctx workflow.Context) {
	if len(a.batches) > 0 {
		reports := workflow.GetSignalChannel(ctx, ProgressSignal)
		for {
			var p AppProgress
			reports.Receive(ctx, &p)
			for i := range a.batches {
				if a.batches[i].From == p.From && a.batches[i].Done <= p.Done {
					a.batches[i] = p
					a.changed = true
				}
			}
		}
	}
	contacts := workflow.GetSignalChannel(ctx, ContactSignal)
	for {
		var p ClusterProgress
		contacts.Receive(ctx, &p)
		for i := range a.leaves {
			if l := &a.leaves[i]; l.Cluster == p.Cluster && !l.done {
				l.ClusterProgress = p
				a.moves++
				a.changed = true
			}
		}
	}
}

// report tells the parent how far the app is, at most once an interval; the end is told by the result.
func (a *app) report(ctx workflow.Context) {
	parent := workflow.GetInfo(ctx).ParentWorkflowExecution
	for parent != nil {
		if err := workflow.Await(ctx, func() bool { return a.changed }); err != nil {
			return
		}
		if err := workflow.Sleep(ctx, progressInterval); err != nil || a.ended {
			return
		}
		a.changed = false
		workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, ProgressSignal, a.count())
	}
}

// count adds up what is known.
func (a *app) count() *AppProgress {
	p := a.progress
	p.Counts = Counts{}
	for i := range a.leaves {
		l := &a.leaves[i]
		marks := domain.DecodeMarks(l.Marks)
		toPrune := a.in.tookOver() && marks.Has(domain.Mark.ToDelete)
		p.Counts = status.Rollup(p.Counts, marks.Count(!l.done || toPrune, l.Connectivity))
		p.Unapplied += a.unapplied(marks)
		if l.lost {
			p.Lost++
		}
		switch {
		case l.done:
			p.Done++
			if !status.Succeeded(a.in.Operation, marks) {
				p.Failed++
			}
		case l.Connectivity == domain.ConnectivityRetrying:
			p.Retrying++
		}
	}
	for i := range a.batches {
		p.Counts = status.Rollup(p.Counts, a.batches[i].Counts)
		p.Unapplied += a.batches[i].Unapplied
		p.Lost += a.batches[i].Lost
		p.Done += a.batches[i].Done
		p.Retrying += a.batches[i].Retrying
		p.Failed += a.batches[i].Failed
	}
	return &p
}

// unapplied counts what an operation that takes over has not applied.
func (a *app) unapplied(marks domain.Marks) (n int) {
	if !a.in.tookOver() || a.in.Prune {
		return 0
	}
	for _, m := range marks {
		if m.ToApply() || m == domain.MarkRefused || m == domain.MarkUndeleted {
			n++
		}
	}
	return n
}

// detail answers ProgressQuery.
func (a *app) detail() (AppDetail, error) {
	d := AppDetail{Batches: a.batchIDs}
	for i := range a.leaves {
		if a.leaves[i].started && !a.leaves[i].done {
			d.Open = append(d.Open, a.leaves[i].ClusterProgress)
		}
	}
	return d, nil
}

// startApp starts the child for an app or a batch of its clusters.
func startApp(ctx workflow.Context, in AppInput, id string) workflow.ChildWorkflowFuture {
	name := DeployAppName
	if in.deletes() {
		name = RemoveAppName
	}
	return workflow.ExecuteChildWorkflow(child(ctx, id,
		searchAttributes(in.Scope, appAttribute.ValueSet(in.App.Name)),
		fmt.Sprintf("%s on %d clusters", in.App.Name, in.To-in.From)), name, in)
}
