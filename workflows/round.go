package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// round is one way over all apps of an operation, each of which has a child.
type round struct {
	prepared activities.Prepared
	// clusters is on how many clusters an app has work whose operation takes over from another context; nil when all apps
	// have work on all clusters.
	clusters func(w activities.Work) int
	// admit waits until app i may be started; false when it never may. nil when all may at once.
	admit func(ctx workflow.Context, i int) bool
	prune bool // see AppInput
}

// apply has each app applied that is not as wanted, when the apps that it needs are there.
func (o *operation) apply(prepared activities.Prepared) {
	r := applying(prepared)
	r.admit = o.admit
	o.fanOut(r)
}

func applying(prepared activities.Prepared) round {
	return round{prepared: prepared, clusters: func(w activities.Work) int { return w.Apply }}
}

// prune has what is not wanted any more deleted of each app.
func (o *operation) prune(prepared activities.Prepared) { o.fanOut(pruning(prepared)) }

func pruning(prepared activities.Prepared) round {
	return round{prepared: prepared, clusters: func(w activities.Work) int { return w.Prune }, prune: true}
}

// remove has all apps deleted.
func (o *operation) remove(prepared activities.Prepared) {
	o.fanOut(round{prepared: prepared})
}

// fanOut starts the child of each app that has work in the round, and waits for all of them.
func (o *operation) fanOut(r round) {
	open := 0
	for i, app := range r.prepared.Apps {
		if r.idle(app) {
			o.progress.Apps[i].Done = app.Clusters
			o.apps[i].ended, o.apps[i].deployed = true, true
			continue
		}
		o.progress.Apps[i].Done = 0 // each round goes over all clusters
		open++
		workflow.Go(o.work, func(ctx workflow.Context) {
			defer func() { open--; o.apps[i].ended = true }()
			if r.admit == nil || r.admit(ctx, i) {
				o.runApp(ctx, i, o.appInput(app, r))
			}
		})
	}
	_ = workflow.Await(o.whole, func() bool { return open == 0 })
}

// idle says whether an app has no work in the round.
func (r round) idle(app activities.PreparedApp) bool {
	return r.clusters != nil && app.Work != nil && r.clusters(*app.Work) == 0
}

// children is how many apps have work in the round.
func (r round) children() (n int) {
	for _, app := range r.prepared.Apps {
		if !r.idle(app) {
			n++
		}
	}
	return n
}

// besides is of how many apps each child takes itself for one, see pace: of those that the operation has, and of more where all children of both rounds
// would tell more than Temporal takes to a run, beside what is told of apps that others need to be Ready.
func (o *operation) besides(prepared activities.Prepared) int {
	if o.in.Operation == domain.OpTerminate { // it has one round, and asks nothing about Ready
		return len(prepared.Apps)
	}
	children := applying(prepared).children()
	if prepared.Label != "" {
		children += pruning(prepared).children()
	}
	n := len(prepared.Apps)
	left := mostSignals - activities.MostWords(o.questions()) - children // each may tell once more than its part
	if left <= 0 {
		return max(n, mostReports+1)
	}
	return max(n, (mostReports*children+left-1)/left)
}

func (o *operation) appInput(app activities.PreparedApp, r round) AppInput {
	return AppInput{
		Scope: o.in.Scope, App: app, Plan: r.prepared.Plan, Namespace: r.prepared.Namespace, User: r.prepared.User,
		Incomplete: r.prepared.Incomplete, To: app.Clusters, Label: r.prepared.Label, Prune: r.prune,
		Beside: o.reporting,
	}
}

// runApp runs the child of app i to its end.
func (o *operation) runApp(ctx workflow.Context, i int, in AppInput) {
	if ctx.Err() != nil { // nothing was sent for it
		o.reason(i, "not started: the operation was stopped before")
		return
	}
	var result AppProgress
	err := startApp(ctx, in, AppID(in.Scope, in.App.Name, 0, 0)).Get(ctx, &result)
	if err != nil {
		workflow.GetLogger(ctx).Error("app", "app", in.App.Name, "error", err)
		o.failed += in.App.Resources * in.App.Clusters
		o.lost += in.App.Clusters
		return
	}
	o.lost += result.Lost
	o.progress.Apps[i] = result
	o.apps[i].deployed = result.Done == result.Clusters && result.Failed == 0
	o.show()
}

// unapplied is why nothing may be pruned, "" when everything is applied.
func (o *operation) unapplied() string {
	n := o.failed
	for i := range o.progress.Apps {
		n += o.progress.Apps[i].Unapplied
	}
	switch {
	case o.stopping:
		return "stopped: nothing was pruned"
	case n > 0:
		return fmt.Sprintf("nothing was pruned: %d of the resources could not be applied", n)
	default:
		return ""
	}
}

// expect shows what is before the operation.
func (o *operation) expect(prepared activities.Prepared) {
	for _, app := range prepared.Apps {
		p := AppProgress{App: app.Name, Clusters: app.Clusters, Counts: Counts(app.Counts)}
		if app.Counts == nil {
			p.Counts = Counts{domain.ResourcePending: app.Resources * app.Clusters}
		}
		o.progress.Apps = append(o.progress.Apps, p)
		o.apps = append(o.apps, &appRun{PreparedApp: app, prepared: prepared})
	}
	o.reporting = o.besides(prepared)
	o.show()
}

// listen takes the reports of the apps.
func (o *operation) listen(ctx workflow.Context) {
	reports := workflow.GetSignalChannel(ctx, ProgressSignal)
	for {
		var p AppProgress
		reports.Receive(ctx, &p)
		for i := range o.progress.Apps {
			if o.progress.Apps[i].App == p.App && o.progress.Apps[i].Done <= p.Done {
				o.progress.Apps[i] = p
			}
		}
		o.show()
	}
}

// show has the table of the progress made anew.
func (o *operation) show() { o.news = true }

// draw makes the table of the progress whenever there are news, for as long as the operation goes on. All that a task brings is in one table, or a
// few: one for each of some thousand apps that are waited for took longer than a task may, and the operation never went on.
func (o *operation) draw(ctx workflow.Context) {
	for workflow.Await(ctx, func() bool { return o.news }) == nil {
		o.table()
	}
}

// table shows the progress in the Web UI.
func (o *operation) table() {
	o.news = false
	workflow.SetCurrentDetails(o.whole, o.progress.table())
}
