package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// Update is update, rollback and migrate: it plans the way from what an app context has in clusters to what is wanted,
// records that a new context takes over, applies what is new or says something else, and when all of that is applied
// prunes what is not wanted any more. Without a difference it ends before it has recorded anything.
func Update(ctx workflow.Context, in OperationInput) (*activities.Outcome, error) {
	o, err := begin(ctx, in)
	if err != nil {
		return nil, err
	}
	prepared, err := o.prepareChange()
	if err == nil && !prepared.Unchanged {
		err = o.record(&prepared)
	}
	if o.settle(prepared, err); err != nil {
		return o.refused(err)
	}
	if prepared.Unchanged {
		o.ended = true
		out := &activities.Outcome{Status: domain.ContextInstantiated}
		o.keep(out) // references that came again have no certificates yet
		return o.close(out, nil)
	}
	return o.bring(prepared)
}

// bring brings clusters in line with the plan: it applies, and when all of that is applied prunes what there is of a
// context that this one takes over from.
func (o *operation) bring(prepared activities.Prepared) (*activities.Outcome, error) {
	o.watch(watcher.StartWatching, prepared, "")
	o.expect(prepared)
	o.fanOut(prepared, false)
	reason := ""
	if prepared.Label != "" {
		if reason = o.unapplied(); reason == "" {
			o.fanOut(prepared, true)
		}
	}
	out, err := o.finish(prepared, reason)
	// One that has failed may have emptied clusters all the same.
	if err == nil && prepared.Leaving && (out.Plan != "" || out.Status == domain.ContextInstantiated) {
		o.watch(watcher.NarrowWatching, prepared, out.Plan)
	}
	if err == nil {
		o.keep(out)
	}
	return o.close(out, err)
}

// prepareChange plans the way from what is there to what is wanted.
func (o *operation) prepareChange() (prepared activities.Prepared, err error) {
	in := activities.ChangeInput{Scope: o.in.Scope, Goal: o.in.Goal}
	err = workflow.ExecuteActivity(preparing(o.work), lifecycle.PrepareChange, in).Get(o.work, &prepared)
	return prepared, err
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
