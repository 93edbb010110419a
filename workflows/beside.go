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
		// Until then all that there is belongs to the operation: a short one is over before.
		if _, err := workflow.AwaitWithTimeout(ctx, watchDelay, func() bool { return o.ended }); err != nil {
			return
		}
		if err := workflow.ExecuteActivity(waiting(ctx), activity, in).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Error("watch", "error", err)
		}
	})
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
