package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/logicalcloud"
	"github.com/drover-io/drover/internal/outcome"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/vary"
)

// Sealer seals what must not lie open in the store, for the document with the key aad.
type Sealer interface {
	Seal(aad string, plain []byte) (domain.Sealed, error)
}

// cloudNamespace is where a cloud's own reports are: its namespace goes before they do (reference 3.9).
const cloudNamespace = "default"

// planCloud renders what a logical cloud of level 1 has in each of its clusters.
func (l *Control) planCloud(ctx context.Context, owner domain.Owner, d *draft) error {
	cloud := owner.(*domain.LogicalCloud)
	key := domain.KeyOf(cloud)
	references, err := list[*domain.ClusterReference](l.Store.List(ctx, domain.ClusterReferences, key))
	if err != nil {
		return err
	}
	if len(references) == 0 {
		return fail.New(fail.Invalid, "No Cluster References associated: logical cloud %q has no clusters", cloud.Name)
	}
	c := logicalcloud.Cloud{LogicalCloud: cloud, Lifetime: l.CertificateSeconds, PodSecurity: l.PodSecurity}
	if c.Permissions, err = list[*domain.UserPermission](l.Store.List(ctx, domain.UserPermissions, key)); err != nil {
		return err
	}
	if c.Quotas, err = list[*domain.ClusterQuota](l.Store.List(ctx, domain.ClusterQuotas, key)); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	if err := l.ensureKey(ctx, cloud); err != nil {
		return err
	}
	bundle, err := logicalcloud.Render(c)
	if err != nil {
		return err
	}
	d.cloud, d.plan.Namespace = key, cloudNamespace
	return l.add(ctx, d, cloudTargets(references), &vary.Varied{Bundle: bundle})
}

// stillMembers refuses a group's plan that goes to a cluster which has left the logical cloud since it was made, one in a cloud whose
// terminate is recorded, and one for which the cloud had other rights or another namespace: what a person may not write is there until it is
// taken back, and a plan that was made meanwhile has it. It comes after the record of the context: who deletes a cluster reference, or terminates a cloud, looks for records
// before and after, so that one of the two sees the other.
func (l *Control) stillMembers(ctx context.Context, owner domain.Owner, prepared *Prepared, p *plan.Plan) error {
	if _, ok := owner.(*domain.DeploymentIntentGroup); !ok || prepared.LogicalCloud == "" {
		return nil
	}
	o, err := l.Store.Get(ctx, domain.LogicalClouds, prepared.LogicalCloud)
	if fail.Is(err, fail.NotFound) {
		return fail.New(fail.Conflict, "logical cloud %q was deleted meanwhile", prepared.LogicalCloud.Name())
	}
	if err != nil {
		return err
	}
	cloud := o.(*domain.LogicalCloud)
	if state := cloud.History.State(); state == domain.Terminated || state == domain.TerminateStopped {
		return fail.New(fail.Conflict, "logical cloud %q was terminated meanwhile; instantiate it first", prepared.LogicalCloud.Name())
	}
	members, err := l.members(ctx, prepared.LogicalCloud)
	if err != nil {
		return err
	}
	switch m := misfitOf(p, cloud, members); {
	case m == nil:
		return nil
	case m.app == "":
		return fail.New(fail.Conflict, "logical cloud %q was changed meanwhile; try again", cloud.Name)
	default:
		return fail.New(fail.Conflict, "app %q was to go to cluster %s, which has left logical cloud %q meanwhile; try again", m.app, m.cluster, cloud.Name)
	}
}

// misfit is what of a group's plan is not of its logical cloud as that is: an app goes to a cluster that is no member or, where app is "", the cloud has
// other rights or another namespace.
type misfit struct {
	app     string
	cluster domain.ClusterName
}

// misfitOf compares a group's plan with its logical cloud, which has these members; nil where all fits.
func misfitOf(p *plan.Plan, cloud *domain.LogicalCloud, members map[domain.ClusterName]bool) *misfit {
	if cloud.Admin() != (p.User == "") || cloud.Spec.Namespace != p.Namespace {
		return &misfit{}
	}
	for _, a := range p.Apps {
		for _, t := range a.Targets {
			if !t.Leaving && !members[t.ClusterName] {
				return &misfit{a.Name, t.ClusterName}
			}
		}
	}
	return nil
}

// stillMay is stillMembers, and whether nobody else's instance has the same resource: two that were prepared at the same time have not seen each
// other. Each looks again when its record is there, so that one of them sees the other, or both do and both are refused.
func (l *Control) stillMay(ctx context.Context, owner domain.Owner, prepared *Prepared) error {
	p, err := l.plan(ctx, prepared.Plan)
	if err == nil {
		err = l.stillMembers(ctx, owner, prepared, p)
	}
	if err == nil {
		err = l.define(ctx, p, p) // a plan that is stored does not say which of its CRDs are deleted with it
	}
	if err != nil {
		return err
	}
	from := ""
	if prepared.From != nil {
		from = prepared.From.ContextID
	}
	err = l.checkCollisions(ctx, p, from)
	if unreadable, _ := domain.UnreadableOf(err); len(unreadable) > 0 { // no time puts that right
		return fail.Wrap(err, fail.Precondition, "nobody can tell whether another instance has the same resource: %s", fail.TextOf(err))
	}
	return err
}

// beginWithin is begin for an instantiate that has been recorded in the history of its owner. One that stillMay refuses is taken back,
// its record first: without that a next attempt begins anew, whereas nobody would look for a record that its owner does not know.
func (l *Control) beginWithin(ctx context.Context, owner domain.Owner, in RecordInput) error {
	if err := l.begin(ctx, l.instance(in, owner.Track())); err != nil {
		return err
	}
	refusal := l.stillMay(ctx, owner, in.Prepared)
	if refusal == nil || fail.KindOf(refusal).Retryable() {
		return refusal
	}
	h := owner.Track()
	// A cluster's networks are Applied. Any other state was asked for since.
	if last := h.Last(); last.State != domain.Instantiated && last.State != domain.Applied || last.ContextID != in.ContextID {
		return nil
	}
	if err := lease.Check(ctx); err != nil {
		return err
	}
	begun := func(i *domain.Instance) bool { return i.Status == domain.ContextInstantiating } // as it is until something else is asked, such as a terminate
	if retracted, err := l.Store.RetractInstance(ctx, in.ContextID, begun); err != nil || !retracted {
		return err
	}
	h.Retract()
	before, err := l.known(ctx, h.ContextID())
	if err != nil {
		return err
	}
	if before != nil {
		h.StatusContextID = before.LabelID()
	}
	return l.refuse(ctx, owner, refusal)
}

// cloudTargets are the clusters of the references, each once.
func cloudTargets(references []*domain.ClusterReference) []plan.Target {
	var targets []plan.Target
	seen := map[domain.ClusterName]bool{}
	for _, r := range references {
		if c := r.ClusterName(); !seen[c] {
			seen[c] = true
			targets = append(targets, plan.Target{ClusterName: c, Reason: fmt.Sprintf("cluster reference %s", r.Name)})
		}
	}
	plan.SortTargets(targets)
	return targets
}

// ensureKey gives the cloud's user a key and a request for certificates, unless it has them. They are stored
// before they are used: whoever comes again finds the same.
func (l *Control) ensureKey(ctx context.Context, cloud *domain.LogicalCloud) error {
	if logicalcloud.MadeFor(cloud.Request, cloud.Spec.User.UserName) {
		return nil
	}
	key, request, err := logicalcloud.NewKey(cloud.Spec.User.UserName)
	if err != nil {
		return err
	}
	if cloud.Key, err = l.Sealer.Seal(string(domain.KeyOf(cloud)), key); err != nil {
		return err
	}
	cloud.Request = request
	return l.replace(ctx, cloud)
}

// cloudSentences are EMCO's refusals of a group whose cloud is not instantiated, by the status of the cloud's context.
var cloudSentences = map[domain.ContextStatus]string{
	domain.ContextNone:              "The Logical Cloud has never been instantiated",
	domain.ContextInstantiating:     "The Logical Cloud is still instantiating, please wait and try again.",
	domain.ContextInstantiateFailed: "The Logical Cloud has failed instantiating, so it can't receive DIGs.",
	domain.ContextTerminating:       "The Logical Cloud is terminating, so it can no longer receive DIGs.",
	domain.ContextTerminated:        "The Logical Cloud is not currently instantiated (has been terminated).",
	domain.ContextTerminateFailed:   "The Logical Cloud has failed terminating, so for safety it can no longer receive DIGs.",
}

// cloudAdvice says what makes a cloud that is in the status take groups: an instantiate is not allowed in all of them.
// One that groups are in cannot be terminated, but updated again where that was what has failed: i is the record of the context.
func cloudAdvice(status domain.ContextStatus, i *domain.Instance) string {
	switch status {
	case domain.ContextInstantiating:
		return "try again when that has ended"
	case domain.ContextInstantiateFailed:
		if i != nil && i.Origin.TakesOver() {
			return "update it again"
		}
		return "terminate it, then instantiate it"
	case domain.ContextTerminating:
		return "instantiate it when that has ended"
	case domain.ContextTerminateFailed:
		return "terminate it again, then instantiate it"
	default:
		return "instantiate it first"
	}
}

// checkCloud refuses a cloud that groups cannot be put into. An admin cloud that is stopped takes none either. What is there already is let be
// changed while an update of the cloud goes on, or after it has failed: behind is the context of such an update then (decision 106).
func (l *Control) checkCloud(ctx context.Context, cloud *domain.LogicalCloud, isThere bool) (behind *domain.Instance, err error) {
	status, i, err := l.cloudStatus(ctx, cloud)
	if err != nil {
		return nil, err
	}
	sentence, refused := cloudSentences[status]
	if !refused && cloud.History.State() == domain.InstantiateStopped {
		sentence, refused = "The Logical Cloud is stopped", true
	}
	if !refused {
		return nil, nil
	}
	if isThere && i != nil && i.Origin.TakesOver() && !status.Deleting() {
		return i, nil
	}
	return nil, fail.New(fail.Conflict, "%s: logical cloud %q is in state %s; %s", strings.TrimSuffix(sentence, "."), cloud.Name, cloud.History.State(), cloudAdvice(status, i))
}

// cloudStatus is where the cloud's last context stands, as its status shows it, and its record where there is one.
func (l *Control) cloudStatus(ctx context.Context, cloud *domain.LogicalCloud) (domain.ContextStatus, *domain.Instance, error) {
	id := cloud.History.ContextID()
	if cloud.Admin() || id == "" {
		return cloud.AdminStatus(), nil, nil
	}
	i, err := l.Store.Instance(ctx, id)
	if fail.Is(err, fail.NotFound) { // its state is recorded first
		return domain.ContextInstantiating, nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	status, err := l.stands(ctx, i)
	return status, i, err
}

// checkBehind refuses a change by which an app would go to a cluster that is new to its instance, and that the update of the cloud which is behind
// has not got through to: the namespace may not be there, nor the user's rights.
func (l *Control) checkBehind(ctx context.Context, behind *domain.Instance, installed, wanted *plan.Plan) error {
	has := map[domain.ClusterName]bool{}
	for i := range installed.Apps {
		for _, t := range installed.Apps[i].Targets {
			has[t.ClusterName] = true
		}
	}
	isNew := func(t plan.Target) bool { return !t.Leaving && !has[t.ClusterName] }
	if !slices.ContainsFunc(wanted.Apps, func(a plan.App) bool { return slices.ContainsFunc(a.Targets, isNew) }) {
		return nil
	}
	through, err := l.through(ctx, behind)
	if err != nil {
		return err
	}
	for i := range wanted.Apps {
		for _, t := range wanted.Apps[i].Targets {
			if isNew(t) && !through[t.ClusterName] {
				return fail.New(fail.Conflict, "app %q would go to cluster %s, to which the update of logical cloud %q has not got through; wait for that, or have it go elsewhere",
					wanted.Apps[i].Name, t.ClusterName, wanted.User.Name())
			}
		}
	}
	return nil
}

// through are the clusters that have all of a cloud's context.
func (l *Control) through(ctx context.Context, i *domain.Instance) (map[domain.ClusterName]bool, error) {
	p, err := l.plan(ctx, i.Plan)
	if err != nil {
		return nil, err
	}
	recorded, err := l.Store.LeafMarks(ctx, i.ContextID)
	if err != nil {
		return nil, err
	}
	left := outcome.LeftBy(i.ContextID, recorded)
	through := map[domain.ClusterName]bool{}
	for n := range p.Apps {
		app := &p.Apps[n]
		for _, t := range app.Targets {
			marks := left(app, &t)
			through[t.ClusterName] = !t.Leaving && !marks.Has(func(m domain.Mark) bool { return !m.Stays() && m != domain.MarkGone })
		}
	}
	return through, nil
}
