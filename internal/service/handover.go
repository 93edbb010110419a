package service

import (
	"context"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// A migrate is recorded in two writes: the group that gives its instance away comes first, the one that gets it second.
// In between nobody has the instance, which lasts when a person ends the workflow there. What the migrate had to do in
// clusters has not begun then, so the group that has given the instance away takes it back.

// handover is a migrate that has the first of its writes and not the second.
type handover struct {
	domain.Scope              // of the group that is to get the instance
	target       domain.Owner // nil when that group is gone
}

// handover finds the one that an owner is in, nil for none. Errors: those of the store.
func (l *Lifecycle) handover(ctx context.Context, owner domain.Owner) (*handover, error) {
	last := owner.Track().Last()
	if last.State != domain.Updated || last.By == "" {
		return nil, nil
	}
	i, err := l.records.Instance(ctx, last.By)
	if fail.Is(err, fail.NotFound) { // with the group that had it
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	target, err := l.owner(ctx, i.Owner)
	switch {
	case fail.Is(err, fail.NotFound):
		target = nil
	case err != nil:
		return nil, err
	case target.Track().Knows(last.By):
		return nil, nil
	}
	return &handover{Scope: working(i), target: target}, nil
}

// reclaim gives an owner back what a migrate has taken from it whose workflow has ended before the other group had it.
func (l *Lifecycle) reclaim(ctx context.Context, owner domain.Owner) error {
	h, err := l.handover(ctx, owner)
	if err != nil || h == nil {
		return err
	}
	running, err := l.engine.Running(ctx, h.Scope)
	if err != nil {
		return err
	}
	if running {
		return fail.New(fail.Conflict, "%s is being migrated to %s: wait until that is recorded", describe(owner.Noun(), domain.KeyOf(owner)), h.Owner)
	}
	return cas.Overtaken(l.takeBack(ctx, owner, h))
}

// takeBack undoes the first write. A last attempt at the second one may still be on its way, in a worker that does not
// know yet that its workflow has ended: it is made from the other group's revision, and fails when that is another.
func (l *Lifecycle) takeBack(ctx context.Context, owner domain.Owner, h *handover) error {
	if h.target != nil {
		if err := l.store.Replace(ctx, h.target); err != nil {
			return err
		}
	}
	owner.Track().TakeBack()
	if err := l.store.Replace(ctx, owner); err != nil {
		return err
	}
	return l.records.DeleteInstance(ctx, h.ContextID)
}
