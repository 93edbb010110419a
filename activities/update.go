package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/outcome"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/repair"
	"github.com/drover-io/drover/internal/stored"
)

// ChangeInput asks for the plan of an operation that takes over from another context.
type ChangeInput struct {
	domain.Scope
	domain.Goal `json:"goal"`
}

// PrepareChange plans the way from what the owner's context has in clusters, or for a migrate another group's, to what
// is wanted now, or for a rollback was wanted by an earlier context. Like Prepare it changes nothing.
func (l *Control) PrepareChange(ctx context.Context, in ChangeInput) (out *Prepared, err error) {
	stop := beat(ctx)
	defer stop()
	err = cas.Do(ctx, func() error {
		out, err = l.prepareChange(ctx, in)
		return err
	})
	return out, err
}

func (l *Control) prepareChange(ctx context.Context, in ChangeInput) (*Prepared, error) {
	t, err := l.takeoverOf(ctx, in)
	if err != nil {
		return nil, err
	}
	d, from := t.wanted, t.from
	revision := t.source.Track().Revision()
	change := t.diff(in.Operation)
	if change.Empty() && in.Operation != domain.OpMigrate && from.Status == domain.ContextInstantiated {
		return &Prepared{Unchanged: true, Revision: revision, Warnings: toldOf(append([]string{
			fmt.Sprintf("nothing to %s: revision %d has all that is wanted", in.Operation, revision) + orReapply(in),
		}, append(d.warnings, change.Warnings...)...))}, nil
	}
	out, err := l.plannedChange(ctx, d, change, from)
	if err != nil {
		return nil, err
	}
	if in.Operation != domain.OpMigrate {
		out.Revision = revision + 1
	}
	out.OwnerRevision = t.owner.Base().Revision
	out.From = &From{ContextID: from.ContextID, Owner: from.Owner, OwnerRevision: t.source.Base().Revision}
	return out, nil
}

// orReapply says what an update does not do unless it is asked to.
func orReapply(in ChangeInput) string {
	if in.Operation != domain.OpUpdate || in.Reapply {
		return ""
	}
	return "; an update with reapply puts back what others have changed in clusters, or taken away"
}

// takeover is what an operation has before it that takes over from another context.
type takeover struct {
	owner, source domain.Owner // source has the context, another one than owner in a migrate
	from          *domain.Instance
	installed     *plan.Installed
	wanted        *draft
}

// diff plans the way.
func (t *takeover) diff(op domain.Operation) *plan.Change {
	return plan.Diff(*t.installed, plan.Side{Plan: &t.wanted.plan, Bundles: t.wanted.bundles, Overlays: t.wanted.overlays}, op)
}

// takeoverOf reads it, or refuses the operation.
func (l *Control) takeoverOf(ctx context.Context, in ChangeInput) (*takeover, error) {
	owner, err := l.owner(ctx, in.Owner)
	if err != nil {
		return nil, err
	}
	t := &takeover{owner: owner, source: owner}
	if in.Operation == domain.OpMigrate {
		if t.source, err = l.owner(ctx, in.Source); err != nil {
			return nil, err
		}
	}
	from, err := l.mayTakeOver(ctx, owner, t.source, in)
	if err != nil {
		return nil, err
	}
	d, err := l.goal(ctx, owner, in, from)
	if fail.Is(err, fail.NotFound) && !errors.Is(err, errNoIntent) { // of what the owner is made of: whoever asked has named the owner, which is there
		return nil, fail.Wrap(err, fail.Conflict, "%s %q cannot %s: %s; its instance %s stays as it is",
			t.source.Noun().Title, t.source.LocalName(), in.Operation, fail.TextOf(err), from.ContextID)
	}
	if err != nil {
		return nil, err
	}
	if d.cloud != from.LogicalCloud || d.plan.Namespace != from.Namespace {
		return nil, fail.New(fail.Conflict, "the instance %s is in logical cloud %q, namespace %s; it cannot become one in %q, namespace %s: terminate it first",
			from.ContextID, from.LogicalCloud.Name(), from.Namespace, d.cloud.Name(), d.plan.Namespace)
	}
	t.from, t.wanted = from, d
	if t.installed, err = l.installed(ctx, from, d.bundles); err != nil {
		return nil, err
	}
	t.installed.Reapplied = in.Reapply
	if d.behind != nil {
		err = l.checkBehind(ctx, d.behind, t.installed.Plan, &d.plan)
	}
	return t, err
}

// mayTakeOver is the record of the source's context when the operation may take over from it. What runs is not ended for an
// operation that is refused: it may have been accepted since this one was asked for.
func (l *Control) mayTakeOver(ctx context.Context, owner, source domain.Owner, in ChangeInput) (*domain.Instance, error) {
	if in.SourceHistory != "" && source.Track().Sign() != in.SourceHistory {
		return nil, outcome.ChangedMeanwhile(source)
	}
	from, err := l.Store.Instance(ctx, source.Track().ContextID())
	if err != nil {
		return nil, err
	}
	stands, err := l.stands(ctx, from)
	if err != nil {
		return nil, err
	}
	if err := mayBegin(source, stands, in.Operation); err != nil || in.Operation != domain.OpMigrate {
		return from, err
	}
	takers := domain.ContextNone
	last, err := l.known(ctx, owner.Track().ContextID())
	if err == nil && last != nil {
		takers, err = l.stands(ctx, last)
	}
	if err != nil {
		return nil, err
	}
	return from, mayBegin(owner, takers, domain.OpReceive)
}

// mayBegin asks the owner's state machine. What is there already is refused: when the operation was asked for, it was not.
func mayBegin(owner domain.Owner, stands domain.ContextStatus, op domain.Operation) error {
	t, err := owner.Decide(stands, op)
	if err == nil && t.Same {
		err = outcome.ChangedMeanwhile(owner)
	}
	return err
}

// stands is where a context stands: as recorded, unless the workflow was ended by hand that was to go on.
func (l *Control) stands(ctx context.Context, i *domain.Instance) (domain.ContextStatus, error) {
	if !i.Status.InProgress() {
		return i.Status, nil
	}
	running, err := l.Runs.Running(ctx, domain.Scope{Owner: i.Owner, ContextID: i.ContextID, Operation: i.Working()})
	if err != nil || running {
		return i.Status, err
	}
	// It may have ended between the two questions.
	if i, err = l.Store.Instance(ctx, i.ContextID); err != nil || !i.Status.InProgress() {
		return i.Status, err
	}
	if i.Status.Deleting() { // what it was to end may go on
		running, err = l.Runs.Running(ctx, domain.Scope{Owner: i.Owner, ContextID: i.ContextID, Operation: cmp.Or(i.Origin, domain.OpInstantiate)})
	}
	return i.Status.Abandoned(running), err
}

// goal drafts what is wanted in place of what a context has.
func (l *Control) goal(ctx context.Context, owner domain.Owner, in ChangeInput, from *domain.Instance) (*draft, error) {
	if in.Operation != domain.OpRollback {
		return l.draft(ctx, owner, in.Scope, from, true)
	}
	i, err := l.Store.Instance(ctx, in.Revert)
	if err != nil {
		return nil, err
	}
	side, err := l.side(ctx, i, nil)
	if err != nil {
		return nil, err
	}
	wanted := plan.Wanted(*side)
	d := &draft{plan: *wanted.Plan, bundles: wanted.Bundles, overlays: wanted.Overlays, from: from, profile: i.Profile, cloud: i.LogicalCloud}
	d.plan.ContextID, d.plan.Owner = in.ContextID, in.Owner
	if d.unreachable, err = l.Store.Unreachable(ctx); err != nil {
		return nil, err
	}
	return d, l.checkMembers(ctx, owner, d)
}

// checkMembers refuses a plan that goes to a cluster which has left the logical cloud since, and one of a cloud in whose place there is another one: that
// no time puts right.
func (l *Control) checkMembers(ctx context.Context, owner domain.Owner, d *draft) error {
	group, ok := owner.(*domain.DeploymentIntentGroup)
	if !ok {
		return nil
	}
	w := &wanted{group: group, from: d.from}
	if err := l.loadCloud(ctx, w); err != nil {
		return err
	}
	d.warnings, d.behind = append(d.warnings, w.warnings...), w.behind
	switch m := misfitOf(&d.plan, w.cloud, w.members); {
	case d.cloud != domain.KeyOf(w.cloud) || m != nil && m.app == "":
		return fail.New(fail.Conflict,
			"the revision is of a logical cloud %q with namespace %s%s, and there is another one now, %q with namespace %s%s: terminate the group, then instantiate it",
			d.cloud.Name(), d.plan.Namespace, atLevel(d.plan.User == ""), w.cloud.Name, w.cloud.Spec.Namespace, atLevel(w.cloud.Admin()))
	case m != nil:
		return fail.New(fail.Conflict, "app %q was on cluster %s, which is no longer in logical cloud %q; add it again, or update instead",
			m.app, m.cluster, w.cloud.Name)
	default:
		return nil
	}
}

// atLevel says of a logical cloud which level it has.
func atLevel(admin bool) string {
	if admin {
		return " at level 0"
	}
	return " at level 1"
}

// sideBytes bounds the manifests of what is installed that are not wanted as they are, for the wanted ones see limits.Bundles: beside those of the
// operation before there may be what that has not pruned yet.
const sideBytes = 2 * limits.Bundles

// side reads the plan of a context and its bundles. Manifests that the other side of an operation has, too, are not in memory twice: known are its
// bundles. Malformed when all others are too large together.
func (l *Control) side(ctx context.Context, of *domain.Instance, known map[string]*plan.Bundle) (*plan.Side, error) {
	return l.sideWithin(ctx, of, known, sideBytes)
}

// sideWithin is side with so many bytes.
func (l *Control) sideWithin(ctx context.Context, of *domain.Instance, known map[string]*plan.Bundle, most int64) (*plan.Side, error) {
	p, err := l.plan(ctx, of.Plan)
	if err != nil {
		return nil, err
	}
	s, bytes := &plan.Side{Plan: p, Bundles: make(map[string]*plan.Bundle, len(p.Apps)), Overlays: map[string][]*plan.Overlay{}}, int64(0)
	for _, a := range p.Apps {
		b, err := stored.JSON[plan.Bundle](ctx, l.Store, a.Bundle)
		if err != nil {
			return nil, err
		}
		if bytes += b.Bytes() - b.Share(known[a.Name]); bytes > most {
			return nil, fail.New(fail.Malformed, "app %q: the manifests of instance %s that are not wanted as they are have more than %d bytes together: terminate it, and instantiate anew",
				a.Name, of.ContextID, most)
		}
		s.Bundles[a.Name] = b
		if s.Overlays[a.Name], err = stored.Parts[plan.Overlay](ctx, l.Store, a.Overlays()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// installed reads what a context has in clusters. Of one whose operation did not come to its own end nothing is taken
// at its word. The bundles are those that are wanted, see side.
func (l *Control) installed(ctx context.Context, from *domain.Instance, wanted map[string]*plan.Bundle) (*plan.Installed, error) {
	out := &plan.Installed{Origin: from.Origin}
	if from.Status != domain.ContextInstantiated {
		inOrder, err := l.end(ctx, from, from.Origin)
		if err != nil {
			return nil, err
		}
		// A record that says less than its run is older than that, as after a restore of the database.
		out.Incomplete = !inOrder || from.Status.InProgress()
	}
	side, err := l.side(ctx, from, wanted)
	if err != nil {
		return nil, err
	}
	out.Side = *side
	out.Leaves = map[string]domain.Leaf{}
	said := map[string]string{} // clusters mostly say the same
	err = l.Store.EachLeaf(ctx, from.ContextID, func(leaf domain.Leaf) error {
		leaf.Notes, leaf.LastError = nil, "" // of what failed, and is done anew
		leaf.Warnings = slices.Clone(leaf.Warnings)
		for i := range leaf.Warnings {
			text := &leaf.Warnings[i].Message
			if _, known := said[*text]; !known {
				said[*text] = *text
			}
			*text = said[*text]
		}
		out.Leaves[leaf.ID] = leaf
		return nil
	})
	return out, err
}

// plannedChange stores the plan of a change.
func (l *Control) plannedChange(ctx context.Context, d *draft, change *plan.Change, from *domain.Instance) (*Prepared, error) {
	p := change.Plan
	d.warnings = append(d.warnings, change.Warnings...)
	p.Label = from.LabelID()
	p.CarryFew()
	for i := range p.Apps {
		a := &p.Apps[i]
		if a.Bundle != "" {
			continue
		}
		var err error
		if a.Bundle, err = save(ctx, l.Store, change.Bundles[a.Name]); err != nil {
			return nil, err
		}
	}
	out, err := l.planned(ctx, d, p, from.ContextID)
	if err != nil {
		return nil, err
	}
	for i := range out.Apps {
		out.Apps[i].Work, out.Apps[i].Counts = work(&p.Apps[i])
		out.Leaving = out.Leaving || slices.ContainsFunc(p.Apps[i].Targets, func(t plan.Target) bool { return t.Leaving })
	}
	return out, nil
}

// work says on how many clusters there is work for an app, and what states its resources have before it.
func work(a *plan.App) (*Work, map[domain.ResourceState]int) {
	w, counts := &Work{}, map[domain.ResourceState]int{}
	for i := range a.Targets {
		marks := a.Targets[i].Begin(len(a.Resources))
		if marks.Has(domain.Mark.ToApply) {
			w.Apply++
		}
		if marks.Has(domain.Mark.ToDelete) {
			w.Prune++
		}
		counts = outcome.Rollup(counts, marks.Count(true, domain.ConnectivityUnknown))
	}
	return w, counts
}

// takeOver is Record for an operation whose context takes over from another one. The new context's record comes
// first: it is what says from then on what may be in clusters. A refusal takes it back.
func (l *Control) takeOver(ctx context.Context, owner domain.Owner, in RecordInput) error {
	next := l.instance(in, owner.Track())
	if err := l.begin(ctx, next); err != nil {
		return err
	}
	if !outcome.Recorded(owner.Track(), in.Scope) {
		err := l.stillMay(ctx, owner, in.Prepared)
		if err == nil {
			err = l.leaveSource(ctx, in)
		}
		if err == nil {
			err = l.advance(ctx, owner, in)
		}
		if err != nil && !errors.Is(err, cas.ErrOvertaken) && !fail.KindOf(err).Retryable() {
			return l.withdraw(ctx, owner, in, err)
		}
		if err != nil {
			return err
		}
	}
	given, err := l.given(ctx, in)
	if err != nil {
		return err
	}
	for _, earlier := range repair.Earlier(next, given) {
		err := l.update(ctx, earlier, func(i *domain.Instance) error { i.PassOn(next); return nil })
		if err != nil && !fail.Is(err, fail.NotFound) {
			return err
		}
	}
	return nil
}

// given are the records of the group that gives its instance away in a migrate, nil in any other operation.
func (l *Control) given(ctx context.Context, in RecordInput) ([]*domain.Instance, error) {
	if from := in.Prepared.From; from.Owner != in.Owner {
		return l.Store.InstancesOf(ctx, from.Owner)
	}
	return nil, nil
}

// leaveSource takes a migrate's context from the group that has it.
func (l *Control) leaveSource(ctx context.Context, in RecordInput) error {
	from := in.Prepared.From
	if from.Owner == in.Owner {
		return nil
	}
	source, err := l.owner(ctx, from.Owner)
	if err != nil {
		return err
	}
	if repair.Taker(source.Track()) == in.ContextID {
		return nil
	}
	i, err := l.Store.Instance(ctx, from.ContextID)
	if err != nil {
		return err
	}
	status, err := l.stands(ctx, i)
	if err != nil {
		return err
	}
	given := outcome.Given{ContextID: from.ContextID, OwnerRevision: from.OwnerRevision, Status: status, To: in.Scope, By: in.By}
	return l.carryOut(ctx, source, outcome.Give(source, given, l.Now()))
}

// withdraw takes back what a takeover that is refused has written, and returns the refusal. What an earlier attempt has sent to the owner, or to a
// migrate's source, comes to nothing (see refuse). An owner that was deleted meanwhile gets nothing any more.
func (l *Control) withdraw(ctx context.Context, owner domain.Owner, in RecordInput, refusal error) error {
	if err := l.replace(ctx, owner); err != nil && !fail.Is(err, fail.NotFound) {
		return err
	}
	if err := l.rejoinSource(ctx, in); err != nil {
		return err
	}
	if err := lease.Check(ctx); err != nil {
		return err
	}
	if err := l.Store.DeleteInstance(ctx, in.ContextID); err != nil {
		return err
	}
	return refusal
}

// targetGone takes back what an earlier attempt has written of a migrate whose target was deleted since, and returns that it is gone. A record that
// was passed on says that the target had the instance.
func (l *Control) targetGone(ctx context.Context, in RecordInput, gone error) error {
	i, err := l.known(ctx, in.Prepared.From.ContextID)
	if err != nil {
		return err
	}
	if i == nil || i.Owner != in.Prepared.From.Owner {
		return gone
	}
	if err := l.rejoinSource(ctx, in); err != nil {
		return err
	}
	if err := lease.Check(ctx); err != nil {
		return err
	}
	if err := l.Store.DeleteInstance(ctx, in.ContextID); err != nil {
		return err
	}
	return gone
}

// rejoinSource takes leaveSource back.
func (l *Control) rejoinSource(ctx context.Context, in RecordInput) error {
	from := in.Prepared.From
	if from.Owner == in.Owner {
		return nil
	}
	return cas.Do(ctx, func() error {
		source, err := l.owner(ctx, from.Owner)
		if err != nil {
			return err
		}
		if h := source.Track(); repair.Taker(h) == in.ContextID {
			h.TakeBack()
		}
		return l.replace(ctx, source)
	})
}

// trim stores the plan without what has gone from the clusters.
func (l *Control) trim(ctx context.Context, p *plan.Plan, digest domain.Digest, left outcome.Left) (domain.Digest, error) {
	trimmed := p.Trim(left)
	if trimmed == p {
		return digest, nil
	}
	return save(ctx, l.Store, trimmed)
}
