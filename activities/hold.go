package activities

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// kept is a resource that is to be kept, and may be in the cluster.
type kept struct {
	app      string
	resource plan.ResourceID
}

// hold has a terminate leave what would take something with it that is to be kept: the namespace that it is in, or the CRD of its kind. Who has it may
// be another app of the plan, or none any more. A logical cloud's own namespace goes with all that is in it.
func (a *attempt) hold(ctx context.Context, marks domain.Marks) ([]domain.Note, error) {
	holders := plan.Holders(a.resources, marks)
	if len(holders) == 0 || domain.Certifies(a.in.Owner) {
		return nil, nil
	}
	all, err := a.kept(ctx, marks, func(r plan.ResourceID) bool {
		return slices.ContainsFunc(holders, func(h plan.Holder) bool { return h.Has(r, a.in.Namespace) })
	})
	if err != nil {
		return nil, err
	}
	var notes []domain.Note
	for _, h := range holders {
		i := slices.IndexFunc(all, func(k kept) bool { return h.Has(k.resource, a.in.Namespace) })
		if i < 0 {
			continue
		}
		marks[h.Index] = marks[h.Index].Keep()
		notes = append(notes, domain.Note{Index: h.Index, Message: fmt.Sprintf(
			"it stays: with it would go %s %q of app %q, which is to be kept", all[i].resource.Kind, all[i].resource.Name, all[i].app)})
	}
	return notes, nil
}

// kept are those of the context on the leaf's cluster, among the resources that count.
func (a *attempt) kept(ctx context.Context, marks domain.Marks, counts func(plan.ResourceID) bool) (all []kept, err error) {
	add := func(app string, resources []plan.Resource, marks domain.Marks) {
		for i := range min(len(resources), len(marks)) {
			if r := &resources[i]; r.Keep && marks[i].MayBeThere() && counts(r.ResourceID) {
				all = append(all, kept{app, r.ResourceID})
			}
		}
	}
	add(a.in.App, a.resources, marks)
	if a.in.Plan == "" { // of a workflow of before
		return all, nil
	}
	p, err := a.kube.plan(ctx, a.in.Plan)
	if err != nil {
		return nil, err
	}
	for _, h := range p.KeptOn(a.in.Cluster) {
		if counts(h.Resource) {
			all = append(all, kept{h.App, h.Resource})
		}
	}
	for i := range p.Apps {
		app := &p.Apps[i]
		n := slices.IndexFunc(app.Targets, func(t plan.Target) bool { return t.ClusterName == a.in.Cluster })
		if app.Name == a.in.App || n < 0 || !slices.ContainsFunc(app.Resources, counts) {
			continue
		}
		t := &app.Targets[n]
		bundle, err := a.kube.varied(ctx, a.in.Owner, app.Bundle, app.OverlayOf(t))
		if err != nil {
			return nil, err
		}
		record, err := a.kube.leaves.Leaf(ctx, domain.LeafID(a.in.ContextID, app.Name, a.in.Cluster))
		if err != nil && !fail.Is(err, fail.NotFound) {
			return nil, err
		}
		start := plan.Start{Operation: domain.OpTerminate, TookOver: a.in.Label != "", Incomplete: a.in.Incomplete, Record: record}
		if t.Inherited != nil {
			start.Inherited = t.Inherited.Marks
		}
		add(app.Name, bundle.Resources, plan.Begin(bundle.Resources, start).Marks)
	}
	return all, nil
}

// plan is one by its digest, which must not be changed.
func (k *Kube) plan(ctx context.Context, digest domain.Digest) (*plan.Plan, error) {
	return k.Plans.get(ctx, k.leaves, digest)
}
