package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/stored"
)

func fillGroup(o domain.Object) { o.(*domain.DeploymentIntentGroup).Fill() }

// changeGroup guards a deployment intent group itself and carries its history from write to write.
func (s *Service) changeGroup(ctx context.Context, c change) error {
	switch {
	case c.from == nil:
		c.to.(*domain.DeploymentIntentGroup).History = domain.NewHistory(s.now())
		c.to.(*domain.DeploymentIntentGroup).History.Note("", caller.Of(ctx))
		c.to.(*domain.DeploymentIntentGroup).NoteChange(proven(ctx))
		return s.forgetNamesake(ctx, domain.KeyOf(c.to))
	case c.to == nil:
		_, err := s.decide(ctx, c.from.(*domain.DeploymentIntentGroup), domain.OpDelete)
		if err == nil {
			err = s.instances.Awaits(ctx, c.from.(*domain.DeploymentIntentGroup))
		}
		return err
	}
	old, group := c.from.(*domain.DeploymentIntentGroup), c.to.(*domain.DeploymentIntentGroup)
	t, err := s.decide(ctx, old, domain.OpChange)
	group.History, group.ChangedBy, group.Reviewing, group.Review = old.History, old.ChangedBy, old.Reviewing, old.Review
	group.NoteChange(proven(ctx))
	if err == nil && t.To != domain.Created && !old.SameInstance(group) {
		return fail.New(fail.Conflict, "deployment intent group %q cannot change its spec.version or spec.logicalCloud in state %s; terminate it first",
			old.Name, t.To)
	}
	if err == nil && !t.Same {
		group.History.Append(t.To, "", 0, s.now())
		group.History.Note("", caller.Of(ctx))
	}
	return err
}

// forgetInstances removes what is recorded of the contexts of an owner that is gone. It comes last: a
// deletion that is refused must leave them.
func (s *Service) forgetInstances(ctx context.Context, key domain.Key) error {
	_, err := s.instances.Forget(ctx, key)
	return err
}

// forgetNamesake is forgetInstances for an owner that is not there yet: somebody has died before he had done that for another one of its name,
// or does not know that it is gone. Else the new one would have what is recorded. What cannot be read keeps nobody from having the name.
func (s *Service) forgetNamesake(ctx context.Context, key domain.Key) error {
	_, err := domain.UnreadableOf(s.forgetInstances(ctx, key))
	return err
}

// unapprove guards what hangs below a deployment intent group: an approved group falls back to Created, since
// what was approved is not what is there any more; an instantiated one keeps its instance as it is until it is
// updated. It runs before the write, and unapproved after it, for an approval that came in between.
func (s *Service) unapprove(ctx context.Context, c change) error {
	if c.from == nil { // what is refused as it is there already is no change
		exists, err := s.store.Exists(ctx, c.to.Noun(), domain.KeyOf(c.to))
		if err == nil && exists {
			err = fail.New(fail.Conflict, "%s already exists", describe(c.to.Noun(), domain.KeyOf(c.to)))
		}
		if err != nil {
			return err
		}
	}
	return s.changeBelow(ctx, c, func(t domain.Transition) bool { return !t.Same })
}

// unapproved is unapprove after the write. It writes a group that is not approved, too, as it is: whoever rehearses it at the moment may not
// have seen the write, and his approval is overtaken then.
func (s *Service) unapproved(ctx context.Context, c change) error {
	return s.changeBelow(ctx, c, func(t domain.Transition) bool { return !t.Same || t.To == domain.Created })
}

// changeBelow writes the group above a document when writes says so of what the document's change means for it, or who changes it is new.
func (s *Service) changeBelow(ctx context.Context, c change, writes func(domain.Transition) bool) error {
	key, _ := domain.DeploymentIntentGroups.Above(c.object().Base().Parent)
	overtaken := false // by a write that has counted the group's revision since the document was written
	return cas.Do(ctx, func() error {
		o, err := s.store.Get(ctx, domain.DeploymentIntentGroups, key)
		if err != nil {
			return err
		}
		group := o.(*domain.DeploymentIntentGroup)
		t, err := s.decide(ctx, group, domain.OpChangeBelow)
		if err != nil {
			return err
		}
		if noted := group.NoteChange(proven(ctx)); !noted && (!writes(t) || overtaken && t.Same) {
			return nil
		}
		was := group.History.State()
		if !t.Same {
			group.History.Append(t.To, "", 0, s.now())
			group.History.Note("", caller.Of(ctx))
		}
		err = cas.Overtaken(s.store.Replace(ctx, group))
		overtaken = errors.Is(err, cas.ErrOvertaken)
		if err == nil {
			warnUnapproved(ctx, was, group)
		}
		return err
	})
}

// changedGroup says what a write to a group itself comes to: that it has ended its approval, or that an instance, for which EMCO refuses the write, does
// not have it yet.
func (s *Service) changedGroup(ctx context.Context, c change) error {
	from, replaced := c.from.(*domain.DeploymentIntentGroup)
	to, stays := c.to.(*domain.DeploymentIntentGroup)
	if !replaced || !stays {
		return nil
	}
	warnUnapproved(ctx, from.History.State(), to)
	if state := to.History.State(); (state == domain.Instantiated || state == domain.InstantiateStopped) && !from.SaysTheSame(to) {
		caller.RequestOf(ctx).Warn(AboutGroup(to.Name) + "is instantiated: what has changed is there when an update takes it over")
	}
	return nil
}

// AboutGroup is how a warning begins of what a write means to a group. Who deletes the group as well need not hear it.
func AboutGroup(name string) string { return "deployment intent group " + name + " " }

// warnUnapproved says that a change has ended an approval, or what is as good as one: a group that was terminated may be instantiated again. EMCO's
// clients that approve before they have described all would find out by the refusal of their instantiate alone.
func warnUnapproved(ctx context.Context, was domain.State, group *domain.DeploymentIntentGroup) {
	if group.History.State() != domain.Created {
		return
	}
	request := caller.RequestOf(ctx)
	if was == domain.Approved {
		request.Warn(AboutGroup(group.Name) + "is approved no more; approve it again")
	}
	if was == domain.Terminated || was == domain.TerminateStopped {
		request.Warn(AboutGroup(group.Name) + fmt.Sprintf("was %s and has to be approved now before it is instantiated again", was))
	}
}

// unenforced warns of what a deployment intent binds to its group and nothing brings about.
func (s *Service) unenforced(ctx context.Context, o domain.Object) ([]string, error) {
	return warningsOf(stored.Unenforced(ctx, s.store, []*domain.DeploymentIntent{o.(*domain.DeploymentIntent)}))
}

// unenforced warns of the same for all that is bound to an owner.
func (l *Lifecycle) unenforced(ctx context.Context, owner domain.Key) ([]string, error) {
	if domain.OwnerNoun(owner) != domain.DeploymentIntentGroups {
		return nil, nil
	}
	intents, err := stored.DeploymentIntents(ctx, l.store, owner)
	if err != nil {
		return nil, err
	}
	return warningsOf(stored.Unenforced(ctx, l.store, intents))
}

func warningsOf(unenforced []domain.Unenforced, err error) (warnings []string, _ error) {
	for _, u := range unenforced {
		warnings = append(warnings, u.String())
	}
	return warnings, err
}

// decide asks an owner's state machine.
func (s *Service) decide(ctx context.Context, owner domain.Owner, op domain.Operation) (domain.Transition, error) {
	owner, observed, err := s.observe(ctx, owner)
	if err != nil {
		return domain.Transition{}, err
	}
	return owner.Decide(observed, op)
}

// observe repairs an owner, and says where its last context stands.
func (s *Service) observe(ctx context.Context, owner domain.Owner) (domain.Owner, domain.ContextStatus, error) {
	owner, err := s.instances.Repair(ctx, owner)
	if err != nil {
		return nil, "", err
	}
	observed, err := s.instances.ContextStatus(ctx, domain.KeyOf(owner), owner.Track().ContextID())
	return owner, observed, err
}

// Bindings are what the intents of a deployment intent group bind to it: EMCO's list of intents, one map
// of controller to intent name per document, in the order of their names.
func (s *Service) Bindings(ctx context.Context, group domain.Key) ([]map[string]string, error) {
	list, unreadable := s.List(ctx, domain.DeploymentIntents, group)
	if _, err := domain.UnreadableOf(unreadable); err != nil {
		return nil, err
	}
	maps := make([]map[string]string, 0, len(list))
	for _, o := range list {
		maps = append(maps, o.(*domain.DeploymentIntent).Spec.Intent)
	}
	return maps, unreadable
}
