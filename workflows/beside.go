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
		if err := o.soonest(ctx, waiting, activity, in, nil); err != nil {
			workflow.GetLogger(ctx).Error("watch", "error", err)
		}
	})
}

// lasting waits until the operation is over, or is one that lasts: something holds it up after watchDelay, or watchLatest has passed. Until then all
// that there is belongs to its own work, of which watches take away: a list and a watch of each kind of a cluster, and workflows of their own. See
// docs/decisions/0097.
func (o *operation) lasting(ctx workflow.Context) error {
	ended := func() bool { return o.ended }
	if !o.atOnce { // as v0.1.0 does
		_, err := workflow.AwaitWithTimeout(ctx, watchDelay, ended)
		return err
	}
	began := workflow.Now(ctx)
	_, err := workflow.AwaitWithTimeout(ctx, watchLatest, func() bool { return o.ended || o.heldUp() })
	// One timer is all that most runs need: a second one is for what is held up from the beginning.
	if left := watchDelay - workflow.Now(ctx).Sub(began); err == nil && !o.ended && left > 0 {
		_, err = workflow.AwaitWithTimeout(ctx, left, ended)
	}
	return err
}

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
		if err := o.soonest(ctx, waiting, lifecycle.KeepCertificates, o.in.Owner, nil); err != nil {
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
