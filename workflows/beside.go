package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// startWatching has the clusters watched in which the context is to have something.
func (o *operation) startWatching(prepared activities.Prepared) {
	o.watch(watcher.StartWatching, o.watched(prepared))
}

// narrowWatching has the clusters not watched any more that the context has left, where left is the plan without what has gone.
func (o *operation) narrowWatching(prepared activities.Prepared, left domain.Digest) {
	in := o.watched(prepared)
	in.Left = left
	o.watch(watcher.NarrowWatching, in)
}

// stopWatching has no cluster watched for the context any more.
func (o *operation) stopWatching(prepared activities.Prepared) {
	o.watch(watcher.StopWatching, o.watched(prepared))
}

func (o *operation) watched(prepared activities.Prepared) activities.WatchingInput {
	return activities.WatchingInput{
		ContextID: cmp.Or(prepared.Label, o.in.ContextID), Plan: prepared.Plan, Began: workflow.GetInfo(o.whole).WorkflowStartTime,
	}
}

// watch tells the watches of the context's clusters.
func (o *operation) watch(activity any, in activities.WatchingInput) {
	o.beside(func(ctx workflow.Context) {
		if err := o.lasting(ctx); err != nil {
			return
		}
		if err := workflow.ExecuteActivity(waiting(ctx), activity, in).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Error("watch", "error", err)
		}
	})
}

// lasting waits until the operation is over, or is one that lasts: something holds it up, or watchLatest has passed. Until then all that there is
// belongs to its own work, of which watches take away: a list and a watch of each kind of a cluster, and workflows of their own.
func (o *operation) lasting(ctx workflow.Context) error {
	over, err := workflow.AwaitWithTimeout(ctx, watchDelay, func() bool { return o.ended })
	if err != nil || over {
		return err
	}
	if workflow.GetVersion(ctx, laterWatches, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	_, err = workflow.AwaitWithTimeout(ctx, watchLatest-watchDelay, func() bool { return o.ended || o.heldUp() })
	return err
}

// laterWatches names the change by which watches wait for operations that go on, see docs/decisions/0097.
const laterWatches = "later-watches"

// heldUp says whether something of the operation waits for a cluster, a hook or another app, which may take any time.
func (o *operation) heldUp() bool {
	for i := range o.apps {
		if p := &o.progress.Apps[i]; p.Retrying > 0 || p.Reason != "" || !o.apps[i].ended && len(o.apps[i].Events) > 0 {
			return true
		}
	}
	return false
}

// keepCertificates has the certificates of a logical cloud renewed from now on.
func (o *operation) keepCertificates(out *activities.Outcome) {
	if out.Status != domain.ContextInstantiated || !domain.Certifies(o.in.Owner) {
		return
	}
	o.beside(func(ctx workflow.Context) {
		if err := workflow.ExecuteActivity(waiting(ctx), lifecycle.KeepCertificates, o.in.Owner).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Error("keep certificates", "error", err)
		}
	})
}

// beside does something beside whatever else goes on. The run does not end before it, see close.
func (o *operation) beside(do func(ctx workflow.Context)) {
	o.calls++
	workflow.Go(o.whole, func(ctx workflow.Context) {
		defer func() { o.calls-- }()
		do(ctx)
	})
}
