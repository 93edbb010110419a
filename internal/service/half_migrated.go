package service

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/repair"
)

// A migrate is recorded in two writes: the group that gives its instance away comes first, the one that gets it second.
// In between nobody has the instance, which lasts when a person ends the workflow there. What the migrate had to do in
// clusters has not begun then, so the group that has given the instance away takes it back.

// halfMigrated is a migrate that has the first of its writes and not the second.
type halfMigrated struct {
	domain.Scope              // of the group that is to get the instance
	target       domain.Owner // nil when that group is gone
}

// halfMigrated finds the one that an owner is in, nil for none. Errors: those of the store.
func (l *Lifecycle) halfMigrated(ctx context.Context, owner domain.Owner) (*halfMigrated, error) {
	id := repair.Taker(owner.Track())
	if id == "" {
		return nil, nil
	}
	taker, err := l.records.Instance(ctx, id)
	if fail.Is(err, fail.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := &halfMigrated{Scope: working(taker)}
	var known *domain.History
	switch target, err := l.owner(ctx, taker.Owner); {
	case err == nil:
		h.target, known = target, target.Track()
	case !fail.Is(err, fail.NotFound):
		return nil, err
	}
	if !repair.Halfway(owner.Track(), taker, known) {
		return nil, nil
	}
	return h, nil
}

// reclaim gives an owner back what a migrate has taken from it whose workflow has ended before the other group had it.
func (l *Lifecycle) reclaim(ctx context.Context, owner domain.Owner) error {
	h, err := l.halfMigrated(ctx, owner)
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
	return l.takeBack(ctx, owner, h)
}

// takeBack undoes the first write.
func (l *Lifecycle) takeBack(ctx context.Context, owner domain.Owner, h *halfMigrated) error {
	if h.target == nil {
		return l.write(ctx, repair.OfHalfway(domain.KeyOf(owner), "", h.ContextID), owner)
	}
	return l.write(ctx, repair.OfHalfway(domain.KeyOf(owner), domain.KeyOf(h.target), h.ContextID), owner, h.target)
}
