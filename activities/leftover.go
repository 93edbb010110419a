package activities

import (
	"context"
	"fmt"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/repair"
)

// leftover is the record of the owner's last context when a terminate has not brought it to its end, nil for none.
// Conflict while that terminate goes on. The owner was read before, so that one that begins later finds a newer revision of it,
// or makes it.
func (l *Control) leftover(ctx context.Context, owner domain.Owner) (*domain.Instance, error) {
	id := owner.Track().ContextID()
	i, err := l.known(ctx, id)
	if err != nil || i == nil || !repair.Unfinished(i) {
		return nil, err
	}
	running, err := l.Runs.Running(ctx, domain.Scope{Owner: i.Owner, ContextID: id, Operation: domain.OpTerminate})
	if err != nil {
		return nil, err
	}
	if running {
		return nil, fail.New(fail.Conflict, "instance %s is being terminated: wait until that has ended, or stop it", id)
	}
	// It may have ended between the two questions.
	if i, err = l.Store.Instance(ctx, id); err != nil || !repair.Unfinished(i) {
		return nil, err
	}
	return i, nil
}

// inherit plans the way from what a terminate has left in clusters to what is wanted now: all that is wanted is applied,
// and then the rest pruned. Conflict when that is not in the same logical cloud.
func (l *Control) inherit(ctx context.Context, d *draft, left *domain.Instance) (*Prepared, error) {
	rest, err := l.rest(ctx, left, d.bundles)
	if err != nil {
		return nil, err
	}
	var out *Prepared
	from := &From{ContextID: left.ContextID, Owner: left.Owner}
	if rest == nil {
		from.Ended, from.Plan = left.LabelID(), left.Plan
		out, err = l.planned(ctx, d, &d.plan, left.ContextID)
	} else {
		if err := d.takesOver(left); err != nil {
			return nil, err
		}
		out, err = l.plannedChange(ctx, d, plan.Diff(*rest, plan.Side{Plan: &d.plan, Bundles: d.bundles, Overlays: d.overlays}, domain.OpInstantiate), left)
	}
	if err != nil {
		return nil, err
	}
	out.From = from
	return out, nil
}

// rest is what a terminate has left in clusters, nil for nothing. The bundles are those that are wanted.
func (l *Control) rest(ctx context.Context, left *domain.Instance, wanted map[string]*plan.Bundle) (*plan.Installed, error) {
	inOrder, err := l.end(ctx, left, domain.OpTerminate)
	if err != nil {
		return nil, err
	}
	installed, err := l.installed(ctx, left, wanted)
	if err != nil {
		return nil, err
	}
	installed.Incomplete = installed.Incomplete || !inOrder
	return installed.Rest(), nil
}

// takesOver warns that an instantiate takes over what a terminate has left, or refuses it.
func (d *draft) takesOver(left *domain.Instance) error {
	if d.cloud != left.LogicalCloud || d.plan.Namespace != left.Namespace {
		return fail.New(fail.Conflict, "instance %s was not terminated to its end, and what it has left is in logical cloud %q, namespace %s, not in %q, namespace %s: go back to that, instantiate and terminate, or leave it there by deleting this and creating it anew",
			left.ContextID, left.LogicalCloud.Name(), left.Namespace, d.cloud.Name(), d.plan.Namespace)
	}
	d.warnings = append(d.warnings, fmt.Sprintf(
		"instance %s was not terminated to its end: what it has left in clusters goes over to this one, which prunes what it does not want", left.ContextID))
	return nil
}

// holds says whether an active record tells what may be in clusters, as repair.Holds decides.
func (l *Control) holds(ctx context.Context, i *domain.Instance) (bool, error) {
	running, err := l.Runs.Running(ctx, domain.Scope{Owner: i.Owner, ContextID: i.ContextID, Operation: i.Working()}) // first: it may end meanwhile
	if err != nil {
		return false, err
	}
	owner, err := l.owner(ctx, i.Owner)
	if fail.Is(err, fail.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	taker, err := l.known(ctx, repair.TakerOf(owner.Track(), i.ContextID))
	return repair.Holds(owner.Track(), i, running, taker), err
}
