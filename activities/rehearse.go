package activities

import (
	"context"
	"slices"
	"sync"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// Rehearsal plans instantiations of deployment intent groups that nobody has asked for. It is no activity: its answer is
// for whoever approves, and no history keeps it.
type Rehearsal struct {
	lifecycle *Control
	slots     chan struct{}

	mu sync.Mutex
	of map[domain.Key]*projectSlots // by project, of those that rehearse or wait
}

// projectSlots are those of a project.
type projectSlots struct {
	slots chan struct{}
	users int
}

// AskNodes has it ask clusters for their nodes, as Prepare does. It is called before the first rehearsal.
func (r *Rehearsal) AskNodes(nodes Nodes) { r.lifecycle.Nodes = nodes }

// AskElsewhere has it ask hosts for values, as Prepare does. It is called before the first rehearsal.
func (r *Rehearsal) AskElsewhere(hosts Elsewhere) { r.lifecycle.Elsewhere = hosts }

// Bound is how many apps times clusters a group may have, as for Prepare. It is called before the first rehearsal.
func (r *Rehearsal) Bound(targets int) { r.lifecycle.MaxTargets = targets }

// MaxRehearsals is how many go on at a time; others wait. Each has the bundle of one app in memory at a time, of
// which the charts of one group may make 256 MiB, and one more in place of each rehearsal that there might be beside it.
const MaxRehearsals = 4

// MaxProjectRehearsals is how many of one project go on at a time: they ask clusters and hosts that may be slow, and others have rehearsals, too.
const MaxProjectRehearsals = MaxRehearsals / 2

// Looks tells of runs, and ends none.
type Looks interface {
	// Running says whether the operation's workflow is open.
	Running(ctx context.Context, s domain.Scope) (bool, error)
	// Ended says how the operation has ended; RunUnknown for one that goes on.
	Ended(ctx context.Context, s domain.Scope) (RunEnd, error)
}

// looking is Runs for who only looks.
type looking struct{ Looks }

// Close implements Runs: it ends nothing.
func (l looking) Close(ctx context.Context, s domain.Scope) (RunEnd, error) {
	return l.Ended(ctx, s)
}

// NewRehearsal makes one.
func NewRehearsal(store Store, runs Looks, charts Charts) *Rehearsal {
	return &Rehearsal{
		lifecycle: &Control{Store: store, Runs: looking{runs}, Charts: charts, dry: true},
		slots:     make(chan struct{}, MaxRehearsals), of: map[domain.Key]*projectSlots{},
	}
}

// slot waits for one of the project of an owner, and for one of those that there are.
func (r *Rehearsal) slot(ctx context.Context, owner domain.Key) (release func(), err error) {
	own, leave := r.enter(domain.ScopeOf(owner))
	for n, slots := range []chan struct{}{own, r.slots} {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			if n > 0 {
				<-own
			}
			leave()
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		<-r.slots
		<-own
		leave()
	}, nil
}

// spare is slot for a rehearsal that has one already, and does not wait for another: who waits for one comes first.
func (r *Rehearsal) spare(owner domain.Key) (release func(), ok bool) {
	own, leave := r.enter(domain.ScopeOf(owner))
	select {
	case own <- struct{}{}:
	default:
		leave()
		return nil, false
	}
	select {
	case r.slots <- struct{}{}:
	default:
		<-own
		leave()
		return nil, false
	}
	return func() {
		<-r.slots
		<-own
		leave()
	}, true
}

// enter finds the slots of a project.
func (r *Rehearsal) enter(project domain.Key) (slots chan struct{}, leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.of[project]
	if p == nil {
		p = &projectSlots{slots: make(chan struct{}, MaxProjectRehearsals)}
		r.of[project] = p
	}
	p.users++
	return p.slots, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(r.of, project)
		}
	}
}

// Foresee plans an operation as Prepare or PrepareChange does, and stores nothing and ends nothing: all manifests are in what it
// answers with. An update with a context to revert to is that which would follow the rollback to it. It is refused for the reasons of the operation, but that an instantiate need not be approved, and may lack what
// Rehearse warns of.
func (r *Rehearsal) Foresee(ctx context.Context, s domain.Scope, goal domain.Goal) (*plan.Way, error) {
	release, err := r.slot(ctx, s.Owner)
	if err != nil {
		return nil, err
	}
	defer release()
	if s.Operation == domain.OpInstantiate {
		return r.foreseeInstantiate(ctx, s)
	}
	var t *takeover
	if s.Operation == domain.OpUpdate && goal.Revert != "" {
		t, err = r.lifecycle.after(ctx, s, goal.Revert)
	} else {
		t, err = r.lifecycle.takeoverOf(ctx, ChangeInput{Scope: s, Goal: goal})
	}
	if err != nil {
		return nil, err
	}
	way := &plan.Way{From: *t.installed, Change: t.diff(s.Operation)}
	way.Warnings, err = r.warnings(ctx, t.wanted, way.Change.Plan, t.from.ContextID, way.Change.Warnings...)
	return way, err
}

// after is what an update would have before it once all is as an earlier context wanted it: as after a rollback to that.
func (l *Control) after(ctx context.Context, s domain.Scope, contextID string) (*takeover, error) {
	owner, err := l.owner(ctx, s.Owner)
	if err != nil {
		return nil, err
	}
	t := &takeover{owner: owner, source: owner}
	if t.from, err = l.Store.Instance(ctx, contextID); err != nil {
		return nil, err
	}
	if t.wanted, err = l.draft(ctx, owner, s, t.from, true); err != nil {
		return nil, err
	}
	side, err := l.side(ctx, t.from, t.wanted.bundles)
	if err != nil {
		return nil, err
	}
	t.installed = plan.Wanted(*side).Done()
	return t, nil
}

func (r *Rehearsal) foreseeInstantiate(ctx context.Context, s domain.Scope) (*plan.Way, error) {
	l := r.lifecycle
	owner, err := l.owner(ctx, s.Owner)
	if err != nil {
		return nil, err
	}
	d := &draft{
		plan: plan.Plan{ContextID: s.ContextID, Owner: s.Owner}, rehearsal: true, keeps: true,
		bundles: map[string]*plan.Bundle{}, overlays: map[string][]*plan.Overlay{},
	}
	if d.unreachable, err = l.Store.Unreachable(ctx); err != nil {
		return nil, err
	}
	if err := planners[owner.Noun()](l, ctx, owner, d); err != nil {
		return nil, err
	}
	left, err := l.leftover(ctx, owner)
	if err != nil {
		return nil, err
	}
	from, context := &plan.Installed{Side: plan.Side{Plan: &plan.Plan{Namespace: d.plan.Namespace}}}, ""
	if left != nil {
		context = left.ContextID
		rest, err := l.rest(ctx, left, d.bundles)
		if err == nil && rest != nil {
			from, err = rest, d.takesOver(left)
		}
		if err != nil {
			return nil, err
		}
	}
	way := &plan.Way{From: *from}
	way.Change = plan.Diff(*from, plan.Side{Plan: &d.plan, Bundles: d.bundles, Overlays: d.overlays}, domain.OpInstantiate)
	way.Warnings, err = r.warnings(ctx, d, way.Change.Plan, context, way.Change.Warnings...)
	return way, err
}

// warnings are those of a draft that has come to a plan, which takes over from a context where one is named. What somebody else
// has already is one. The error is why the plan is refused, as tooManyWithOld says.
func (r *Rehearsal) warnings(ctx context.Context, d *draft, p *plan.Plan, from string, ofChange ...string) ([]string, error) {
	if err := tooManyWithOld(p); err != nil {
		return nil, err
	}
	warnings := slices.Concat(d.warnings, ofChange, sharedWithin(&d.plan))
	err := r.lifecycle.checkCollisions(ctx, p, from)
	if fail.Is(err, fail.Conflict) {
		return append(warnings, fail.TextOf(err)), nil
	}
	return warnings, err
}

// Rehearse renders and places a group as Prepare does, and stores nothing: the plan has no bundles. The error is why what is there
// cannot be instantiated: a template that cannot render, a placement that no cluster fits. Of what is not there yet, and may still
// come, the warnings tell: a logical cloud that is not instantiated, intents, apps. Apps of an instance that is there stay where
// they are, as by an update.
func (r *Rehearsal) Rehearse(ctx context.Context, group *domain.DeploymentIntentGroup) (p *plan.Plan, warnings []string, err error) {
	release, err := r.slot(ctx, domain.KeyOf(group))
	if err != nil {
		return nil, nil, err
	}
	defer release()
	l := r.lifecycle
	d := &draft{plan: plan.Plan{Owner: domain.KeyOf(group)}, rehearsal: true}
	d.spare = func() (func(), bool) { return r.spare(domain.KeyOf(group)) }
	if group.History.State() == domain.Instantiated {
		if d.from, err = l.known(ctx, group.History.ContextID()); err != nil {
			return nil, nil, err
		}
	}
	if d.unreachable, err = l.Store.Unreachable(ctx); err != nil {
		return nil, nil, err
	}
	if err := l.planGroup(ctx, group, d); err != nil {
		return nil, nil, err
	}
	warnings, err = r.warnings(ctx, d, &d.plan, "")
	return &d.plan, warnings, err
}
