package service

import (
	"context"
	"slices"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/repair"
)

// Operations record themselves in several writes. What is there between two of them lasts when a person ends the workflow
// there, and is put right when something is asked of the owner next. What that is, package repair decides.

// Repair puts right what operations have left of an owner whose workflows were ended by hand between two of their writes,
// and returns it as it is then. Conflict when such an operation goes on.
func (l *Lifecycle) Repair(ctx context.Context, owner domain.Owner) (domain.Owner, error) {
	key := domain.KeyOf(owner)
	known := true
	err := cas.Do(ctx, func() (err error) {
		if !known {
			if owner, err = l.owner(ctx, key); err != nil {
				return err
			}
		}
		known = false // should it be overtaken
		return l.repair(ctx, owner)
	})
	return owner, err
}

func (l *Lifecycle) repair(ctx context.Context, owner domain.Owner) error {
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
	id := repair.Ending(owner.Track())
	if id == "" {
		return nil, nil
	}
	i, err := l.records.Instance(ctx, id)
	if err != nil && !fail.Is(err, fail.NotFound) {
		return nil, err
	}
	if !repair.Unbegun(owner.Track(), i) {
		return nil, nil
	}
	return &domain.Scope{Owner: domain.KeyOf(owner), ContextID: id, Operation: domain.OpTerminate}, nil
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
	return l.write(ctx, repair.OfUnbegun(s.Owner), owner)
}

// write does the writes of a repair, on the owners as they were read.
func (l *Lifecycle) write(ctx context.Context, writes []repair.Write, owners ...domain.Owner) error {
	for _, w := range writes {
		if w.Do == repair.Drop {
			if err := l.records.DeleteInstance(ctx, w.ContextID); err != nil {
				return err
			}
			continue
		}
		owner := owners[slices.IndexFunc(owners, func(o domain.Owner) bool { return domain.KeyOf(o) == w.Owner })]
		if w.Do == repair.TakeBack {
			owner.Track().TakeBack()
		}
		if err := l.store.Replace(ctx, owner); err != nil {
			return cas.Overtaken(err)
		}
	}
	return nil
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
	h, err := l.halfMigrated(ctx, owner)
	if err != nil || !repair.Left(owner.Track(), i.ContextID, h != nil) {
		return stands, err
	}
	successor, err := l.records.Instance(ctx, repair.Successor(owner.Track()))
	if err != nil && !fail.Is(err, fail.NotFound) {
		return "", err
	}
	left := *i
	left.Status = stands
	return repair.Shown(left, successor), nil
}

// passOn writes what follows when an owner's context has taken over from another one, or another owner's from its own.
func (l *Lifecycle) passOn(ctx context.Context, owner domain.Owner) error {
	id := repair.Successor(owner.Track())
	if id == "" {
		return nil
	}
	successor, err := l.records.Instance(ctx, id)
	if fail.Is(err, fail.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	given, err := l.given(ctx, domain.KeyOf(owner), successor)
	if err != nil {
		return err
	}
	for _, earlier := range repair.PassedOn(domain.KeyOf(owner), owner.Track(), successor, given) {
		if err := l.passOnto(ctx, successor, earlier); err != nil && !fail.Is(err, fail.NotFound) {
			return err
		}
	}
	return nil
}

// given are the records of the group that has given its instance to the one of the successor, if a migrate did so: the owner, or whoever has
// the record of the context that was taken over.
func (l *Lifecycle) given(ctx context.Context, owner domain.Key, successor *domain.Instance) ([]*domain.Instance, error) {
	if successor.Origin != domain.OpMigrate {
		return nil, nil
	}
	if owner == successor.Owner {
		from, err := l.records.Instance(ctx, successor.From)
		if fail.Is(err, fail.NotFound) || err == nil && from.Owner == owner {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		owner = from.Owner
	}
	return l.records.InstancesOf(ctx, owner)
}

func (l *Lifecycle) passOnto(ctx context.Context, successor *domain.Instance, earlier string) error {
	e, err := l.records.Instance(ctx, earlier)
	if err != nil || repair.Told(*e, successor) {
		return err
	}
	return l.records.UpdateInstance(ctx, earlier, func(e *domain.Instance) error { e.PassOn(successor); return nil })
}

// Awaits is as Instances has it.
func (l *Lifecycle) Awaits(ctx context.Context, owner domain.Owner) error {
	return l.unknown(ctx, owner, func(i *domain.Instance, running bool) error {
		if !running {
			return nil // it is dropped by whoever asks for something else
		}
		return fail.New(fail.Conflict, "%s of %s begins: wait until that is recorded", working(i).Operation, describe(owner.Noun(), domain.KeyOf(owner)))
	})
}

// dropUnknown removes the records of contexts that were to take over and of which their owner does not know.
func (l *Lifecycle) dropUnknown(ctx context.Context, owner domain.Owner) error {
	return l.unknown(ctx, owner, func(i *domain.Instance, running bool) error {
		if running {
			return nil
		}
		if err := l.giveBack(ctx, owner, i); err != nil {
			return err
		}
		return l.write(ctx, repair.OfUnknown(domain.KeyOf(owner), i.ContextID), owner)
	})
}

// unknown has each of those records, with whether its operation runs.
func (l *Lifecycle) unknown(ctx context.Context, owner domain.Owner, each func(i *domain.Instance, running bool) error) error {
	contexts, err := l.records.InstancesOf(ctx, domain.KeyOf(owner))
	if err != nil {
		return err
	}
	for _, i := range contexts {
		if !repair.Unknown(owner.Track(), i) {
			continue
		}
		running, err := l.engine.Running(ctx, working(i))
		if err != nil {
			return err
		}
		if err := each(i, running); err != nil {
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
	h, err := l.halfMigrated(ctx, source)
	if err != nil || h == nil || h.ContextID != i.ContextID {
		return err
	}
	if err := l.takeBack(ctx, source, h); err != nil {
		return err
	}
	return cas.ErrOvertaken // the owner is h's target
}

// stands says whether the context of a record may have something in clusters, once its owner is repaired. What its owner does not know is an
// earlier one's of its name, or nothing was sent for it yet: it counts while it runs, as repair.Holds has it.
func (l *Lifecycle) stands(ctx context.Context, i *domain.Instance) (bool, error) {
	owner, err := l.owner(ctx, i.Owner)
	if fail.Is(err, fail.NotFound) { // what is left of its records goes with the next owner of its name
		return false, nil
	}
	if err == nil {
		owner, err = l.Repair(ctx, owner)
	}
	if fail.Is(err, fail.Conflict) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	of := i.Owner
	i, err = l.records.Instance(ctx, i.ContextID)
	if err == nil && i.Owner != of { // a migrate has given it away
		owner, err = l.owner(ctx, i.Owner)
	}
	if fail.Is(err, fail.NotFound) {
		return false, nil
	}
	if err != nil || i.Status.Over() {
		return false, err
	}
	if owner.Track().Knows(i.ContextID) {
		return true, nil
	}
	return l.engine.Running(ctx, working(i))
}
