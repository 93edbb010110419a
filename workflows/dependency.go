package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
)

// appRun is what others that need the app know of it.
type appRun struct {
	activities.PreparedApp
	prepared        activities.Prepared
	ended, deployed bool
	asked, ready    bool // whether it is Ready
	// waits says by each of Needs what is waited for, "" for what is there.
	waits []string
}

// admit waits for all that an app needs before it is started; false when it is never to be. What is needed is
// waited for side by side.
func (o *operation) admit(ctx workflow.Context, i int) bool {
	needs := o.apps[i].Needs
	if len(needs) == 0 {
		return true
	}
	open, refused := len(needs), false
	waits := make([]string, len(needs))
	for n, need := range needs {
		if o.app(need.App) != nil {
			waits[n] = fmt.Sprintf("waits until app %s is %s", need.App, need.Until())
		}
	}
	o.apps[i].waits = waits
	o.waiting(i)
	for n := range needs {
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { open-- }()
			if !o.meet(ctx, i, n) {
				refused = true
			}
		})
	}
	err := workflow.Await(ctx, func() bool { return open == 0 || refused })
	switch {
	case ctx.Err() != nil:
		o.reason(i, "not started: the operation was stopped while the app waited for others")
		return false
	case err != nil || refused:
		return false
	}
	o.reason(i, "")
	return true
}

// wait says of one of the apps that another one needs what is waited for.
func (o *operation) wait(i, n int, what string) {
	o.apps[i].waits[n] = what
	o.waiting(i)
}

// waiting makes what is waited for the reason: what all apps that another one needs have to say.
func (o *operation) waiting(i int) {
	o.reason(i, strings.Join(slices.DeleteFunc(slices.Clone(o.apps[i].waits), func(w string) bool { return w == "" }), "; "))
}

// meet waits for the n-th of the apps that another one needs; false when that will never be what it has to, or by a stop.
func (o *operation) meet(ctx workflow.Context, i, n int) bool {
	need := o.apps[i].Needs[n]
	needed := o.app(need.App)
	if needed == nil { // another operation's
		return true
	}
	if workflow.Await(ctx, func() bool { return needed.ended }) != nil {
		return false
	}
	if !needed.deployed {
		o.reason(i, fmt.Sprintf("not started: app %s, which it needs, is not Deployed", need.App))
		return false
	}
	if need.Ready {
		o.ask(needed)
		if workflow.Await(ctx, func() bool { return needed.ready }) != nil {
			return false
		}
	}
	if need.Wait > 0 {
		o.wait(i, n, fmt.Sprintf("waits for %s since app %s is %s", need.Wait, need.App, need.Until()))
		if workflow.Sleep(ctx, need.Wait) != nil {
			return false
		}
	}
	o.wait(i, n, "")
	return true
}

// ask finds out when an app is Ready on all its clusters, once for all that need it.
func (o *operation) ask(app *appRun) {
	if app.asked {
		return
	}
	app.asked = true
	open, beside := 0, o.questions()
	for from := 0; from < app.Clusters; from += batchSize {
		in := activities.ReadyInput{
			Plan: app.prepared.Plan, App: app.Name, Namespace: app.prepared.Namespace,
			From: from, To: min(from+batchSize, app.Clusters), Beside: beside,
		}
		open++
		workflow.Go(o.work, func(ctx workflow.Context) {
			if awaitReady(ctx, in) != nil {
				return
			}
			open--
			app.ready = open == 0
		})
	}
}

// questions is how often ask asks in all for apps that others need to be Ready.
func (o *operation) questions() (n int) {
	needed := map[string]bool{}
	for _, a := range o.apps {
		for _, need := range a.Needs {
			needed[need.App] = needed[need.App] || need.Ready
		}
	}
	for _, a := range o.apps {
		if needed[a.Name] {
			n += batchesOf(a.Clusters)
		}
	}
	return n
}

// awaitReady waits until an app is Ready on some clusters, or ctx is cancelled. That the activity has given up is no end to
// what others wait for.
func awaitReady(ctx workflow.Context, in activities.ReadyInput) error {
	for {
		err := workflow.ExecuteActivity(readying(ctx), kube.AwaitReady, in).Get(ctx, nil)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		workflow.GetLogger(ctx).Error("await ready", "app", in.App, "error", err)
		if err := workflow.Sleep(ctx, readyInterval); err != nil {
			return err
		}
	}
}

// lack takes what an app lacks to be Ready, and tells it of those that need it.
func (o *operation) lack(ctx workflow.Context) {
	words := workflow.GetSignalChannel(ctx, LackingSignal)
	for {
		var l activities.Lacking
		words.Receive(ctx, &l)
		app := o.app(l.App)
		for i := range o.apps {
			for n, waits := range o.apps[i].waits {
				need := o.apps[i].Needs[n]
				if need.Ready && need.App == l.App && app != nil && !app.ready && waits != "" {
					o.wait(i, n, fmt.Sprintf("waits until app %s is Ready: %s", l.App, l.Reason))
				}
			}
		}
	}
}

// reason says why an app is not started.
func (o *operation) reason(i int, reason string) {
	if o.apps[i].ended {
		return
	}
	o.progress.Apps[i].Reason = reason
	o.show()
}

// notStarted are the apps that were not started, with the reason.
func (o *operation) notStarted() map[string]string {
	notStarted := map[string]string{}
	for _, a := range o.progress.Apps {
		if a.Reason != "" {
			notStarted[a.App] = a.Reason
		}
	}
	return notStarted
}

func (o *operation) app(name string) *appRun {
	for _, a := range o.apps {
		if a.Name == name {
			return a
		}
	}
	return nil
}
