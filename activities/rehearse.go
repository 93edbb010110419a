package activities

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// Rehearsal plans instantiations of deployment intent groups that nobody has asked for. It is no activity: its answer is
// for whoever approves, and no history keeps it.
type Rehearsal struct {
	lifecycle *Control
	slots     chan struct{}
}

// AskNodes has it ask clusters for their nodes, as Prepare does. It is called before the first rehearsal.
func (r *Rehearsal) AskNodes(nodes Nodes) { r.lifecycle.Nodes = nodes }

// AskElsewhere has it ask hosts for values, as Prepare does. It is called before the first rehearsal.
func (r *Rehearsal) AskElsewhere(hosts Elsewhere) { r.lifecycle.Elsewhere = hosts }

// Bound is how many apps times clusters a group may have, as for Prepare. It is called before the first rehearsal.
func (r *Rehearsal) Bound(targets int) { r.lifecycle.MaxTargets = targets }

// MaxRehearsals is how many go on at a time; others wait. Each has the bundle of one app in memory at a time, of
// which the charts of one group may make 256 MiB.
const MaxRehearsals = 4

// NewRehearsal makes one.
func NewRehearsal(store Store, runs Runs, charts Charts) *Rehearsal {
	return &Rehearsal{&Control{Store: store, Runs: runs, Charts: charts}, make(chan struct{}, MaxRehearsals)}
}

// Rehearse renders and places a group as Prepare does, and stores nothing: the plan has no bundles. The error is why what is there
// cannot be instantiated: a template that cannot render, a placement that no cluster fits. Of what is not there yet, and may still
// come, the warnings tell: a logical cloud that is not instantiated, intents, apps. Apps of an instance that is there stay where
// they are, as by an update.
func (r *Rehearsal) Rehearse(ctx context.Context, group *domain.DeploymentIntentGroup) (p *plan.Plan, warnings []string, err error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	l := r.lifecycle
	d := &draft{plan: plan.Plan{Owner: domain.KeyOf(group)}, rehearsal: true}
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
	warnings = append(d.warnings, sharedWithin(&d.plan)...)
	err = l.checkCollisions(ctx, &d.plan, "")
	if fail.Is(err, fail.Conflict) {
		return &d.plan, append(warnings, fail.TextOf(err)), nil
	}
	return &d.plan, warnings, err
}
