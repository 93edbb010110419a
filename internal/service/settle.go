package service

import (
	"cmp"
	"context"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Operations record themselves in several writes. What is there between two of them lasts when a person ends the workflow
// there, and is put right when something is asked of the owner next:
//
//	a migrate has the first of two groups' writes          the group that had the instance takes it back (handover.go)
//	a terminate has the owner's state, not the context's   the owner's state is taken back: nothing was deleted yet
//	what takes over from a context has its record alone    the record goes: nothing was sent yet
//	or the owner's state, not all that follows             what follows is written

// Settle puts right what operations have left of an owner whose workflows were ended by hand between two of their writes,
// and returns it as it is then. Conflict when such an operation goes on.
func (l *Lifecycle) Settle(ctx context.Context, owner domain.Owner) (domain.Owner, error) {
	key := domain.KeyOf(owner)
	known := true
	err := cas.Do(ctx, func() (err error) {
		if !known {
			if owner, err = l.owner(ctx, key); err != nil {
				return err
			}
		}
		known = false // should it be overtaken
		return l.settle(ctx, owner)
	})
	return owner, err
}

func (l *Lifecycle) settle(ctx context.Context, owner domain.Owner) error {
	if len(owner.Track().Actions) < 2 { // nothing was ever asked of it
		return nil
	}
	for _, step := range []func(context.Context, domain.Owner) error{l.reclaim, l.revive, l.passOn, l.dropUnknown} {
		if err := step(ctx, owner); err != nil {
			return err
		}
	}
	return nil
}

// unbegun is the terminate of which an owner's state tells and its context's record does not, nil for none.
func (l *Lifecycle) unbegun(ctx context.Context, owner domain.Owner) (*domain.Scope, error) {
	last := owner.Track().Last()
	if last.State != domain.Terminated {
		return nil, nil
	}
	i, err := l.records.Instance(ctx, last.ContextID)
	if fail.Is(err, fail.NotFound) { // nothing was ever sent
		return nil, nil
	}
	if err != nil || i.Working() == domain.OpTerminate {
		return nil, err
	}
	return &domain.Scope{Owner: domain.KeyOf(owner), ContextID: last.ContextID, Operation: domain.OpTerminate}, nil
}

// revive takes such a terminate back when it has ended.
func (l *Lifecycle) revive(ctx context.Context, owner domain.Owner) error {
	s, err := l.unbegun(ctx, owner)
	if err != nil || s == nil {
		return err
	}
	running, err := l.engine.Running(ctx, *s)
	if err != nil {
		return err
	}
	if running {
		return fail.New(fail.Conflict, "%s is being terminated: wait until that is recorded", describe(owner.Noun(), s.Owner))
	}
	owner.Track().TakeBack()
	return cas.Overtaken(l.store.Replace(ctx, owner))
}

// foresee shows an owner in the state in which revive will leave it; nothing is written.
func (l *Lifecycle) foresee(ctx context.Context, owner domain.Owner) error {
	s, err := l.unbegun(ctx, owner)
	if err != nil || s == nil {
		return err
	}
	running, err := l.engine.Running(ctx, *s)
	if err == nil && !running {
		owner.Track().TakeBack()
	}
	return err
}

// shown is where a context of an owner stands, as passOn will have it.
func (l *Lifecycle) shown(ctx context.Context, owner domain.Owner, i *domain.Instance) (domain.ContextStatus, error) {
	stands, err := l.statusOf(ctx, i)
	if err != nil || stands.Over() {
		return stands, err
	}
	left := i.ContextID != owner.Track().ContextID()
	if !left && owner.Track().Last().By != "" {
		h, err := l.handover(ctx, owner)
		if err != nil {
			return "", err
		}
		left = h == nil
	}
	if left {
		stands = domain.ContextUpdated
	}
	return stands, nil
}

// passOn writes what follows when an owner's context has taken over from another one, or another owner's from its own.
func (l *Lifecycle) passOn(ctx context.Context, owner domain.Owner) error {
	given := owner.Track().Last().By
	id := cmp.Or(given, owner.Track().ContextID())
	if id == "" {
		return nil
	}
	i, err := l.records.Instance(ctx, id)
	switch {
	case fail.Is(err, fail.NotFound):
		return nil
	case err != nil:
		return err
	case i.From == "", given == "" && i.Owner != domain.KeyOf(owner):
		return nil
	}
	for _, earlier := range []string{i.From, i.Label} {
		if err := l.passOnto(ctx, i, earlier); err != nil && !fail.Is(err, fail.NotFound) {
			return err
		}
	}
	return nil
}

func (l *Lifecycle) passOnto(ctx context.Context, i *domain.Instance, earlier string) error {
	e, err := l.records.Instance(ctx, earlier)
	if err != nil {
		return err
	}
	owner, status := e.Owner, e.Status
	if e.PassOn(i); e.Owner == owner && e.Status == status {
		return nil
	}
	return l.records.UpdateInstance(ctx, earlier, func(e *domain.Instance) error { e.PassOn(i); return nil })
}

// dropUnknown removes the records of contexts that were to take over and of which their owner does not know. A last
// attempt at the owner's state may still be on its way, in a worker that does not know yet that its workflow has ended: it
// is made from the owner's revision, and fails when that is another.
func (l *Lifecycle) dropUnknown(ctx context.Context, owner domain.Owner) error {
	contexts, err := l.records.InstancesOf(ctx, domain.KeyOf(owner))
	if err != nil {
		return err
	}
	for _, i := range contexts {
		if i.From == "" || !i.Status.InProgress() || owner.Track().Knows(i.ContextID) {
			continue
		}
		running, err := l.engine.Running(ctx, working(i))
		if err != nil {
			return err
		}
		if running {
			continue
		}
		if err := l.giveBack(ctx, owner, i); err != nil {
			return err
		}
		if err := l.store.Replace(ctx, owner); err != nil {
			return cas.Overtaken(err)
		}
		if err := l.records.DeleteInstance(ctx, i.ContextID); err != nil {
			return err
		}
	}
	return nil
}

// giveBack is reclaim, seen from the group that a migrate was to give the context to.
func (l *Lifecycle) giveBack(ctx context.Context, owner domain.Owner, i *domain.Instance) error {
	from, err := l.records.Instance(ctx, i.From)
	if fail.Is(err, fail.NotFound) || err == nil && from.Owner == domain.KeyOf(owner) {
		return nil
	}
	if err != nil {
		return err
	}
	source, err := l.owner(ctx, from.Owner)
	if fail.Is(err, fail.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	h, err := l.handover(ctx, source)
	if err != nil || h == nil || h.ContextID != i.ContextID {
		return err
	}
	if err := l.takeBack(ctx, source, h); err != nil {
		return cas.Overtaken(err)
	}
	return cas.ErrOvertaken // the owner is h's target
}

// stands says whether the context of a record may have something in clusters, once its owner is settled.
func (l *Lifecycle) stands(ctx context.Context, i *domain.Instance) (bool, error) {
	owner, err := l.owner(ctx, i.Owner)
	if fail.Is(err, fail.NotFound) { // what is left of its records goes with the next owner of its name
		return false, nil
	}
	if err == nil {
		_, err = l.Settle(ctx, owner)
	}
	if fail.Is(err, fail.Conflict) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	i, err = l.records.Instance(ctx, i.ContextID)
	if fail.Is(err, fail.NotFound) {
		return false, nil
	}
	return err == nil && !i.Status.Over(), err
}
