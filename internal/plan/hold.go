package plan

import (
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// With a namespace, or a CRD, goes all that is in it. What holds one that is not wanted any more is what would go with it, and is wanted, or is to be kept
// though it is not wanted any more either.

// held is one that stays for that.
type held struct {
	app      string // that had it
	resource ResourceID
	by       resident
	first    domain.ClusterName
	clusters int
}

// resident is a wanted resource, or, where kept says so, one of the old plan that stays in clusters when it is not wanted any more.
type resident struct {
	app  *App
	n    int
	kept bool
}

// holding finds what holds resources, for one Diff.
type holding struct {
	residents map[ResourceID][]resident // by the place of what they are in
	of        []*held                   // in the order in which they were found
}

// mayHold says whether deleting a resource may delete others that somebody wants.
func mayHold(r ResourceID) bool { return r.IsDefinition() || r.Group == "" && r.Kind == "Namespace" }

// holds says whether a resource of an app stays on a cluster though it is not wanted there any more. Where another app has it, that one's label
// saves it.
func (d *differ) holds(app string, r *Resource, c domain.ClusterName) bool {
	if !mayHold(r.ResourceID) {
		return false
	}
	for _, owner := range d.owners[d.place(r.ResourceID)] {
		if owner.app.Name != app && owner.on(c) {
			return false
		}
	}
	for _, by := range d.within(r) {
		if by.kept && d.mayHave(by, c) || !by.kept && by.on(c) {
			d.hold(app, r.ResourceID, by, c)
			return true
		}
	}
	return false
}

// on says whether the resource is wanted on a cluster.
func (w resident) on(c domain.ClusterName) bool {
	t := w.app.goesTo(c)
	return t != nil && !w.app.lacksOn(t).lacks(w.n)
}

// mayHave says whether a cluster may have a resource of the old plan.
func (d *differ) mayHave(old resident, c domain.ClusterName) bool {
	i := slices.IndexFunc(old.app.Targets, func(t Target) bool { return t.ClusterName == c })
	return i >= 0 && d.marks(old.app, old.app.Targets[i])[old.n].MayBeThere()
}

// within are the resources that are in a namespace, or of the kind that a CRD defines: the wanted ones, and those that are kept.
func (d *differ) within(r *Resource) []resident {
	at := d.place(r.ResourceID)
	if all, known := d.holding.residents[at]; known {
		return all
	}
	in := func(id ResourceID) bool { return !mayHold(id) && d.place(id).Namespace == r.Name }
	if r.IsDefinition() {
		kind := DefinitionIn(r.Manifest)
		in = func(id ResourceID) bool { return kind.Kind != "" && id.Group == kind.Group && id.Kind == kind.Kind }
	}
	var all []resident
	for i := range d.wanted.Plan.Apps {
		app := &d.wanted.Plan.Apps[i]
		for n, id := range app.Resources {
			if in(id) {
				all = append(all, resident{app: app, n: n})
			}
		}
	}
	for i := range d.old.Plan.Apps {
		app := &d.old.Plan.Apps[i]
		bundle := d.bundleOf(app)
		for n, id := range app.Resources {
			if in(id) && bundle != nil && n < len(bundle.Resources) && bundle.Resources[n].Keep {
				all = append(all, resident{app, n, true})
			}
		}
	}
	if d.holding.residents == nil {
		d.holding.residents = map[ResourceID][]resident{}
	}
	d.holding.residents[at] = all
	return all
}

func (d *differ) hold(app string, r ResourceID, by resident, c domain.ClusterName) {
	for _, h := range d.holding.of {
		if h.app == app && h.resource == r {
			h.clusters++
			return
		}
	}
	d.holding.of = append(d.holding.of, &held{app: app, resource: r, by: by, first: c, clusters: 1})
}

// warnings say what stays, and why.
func (h *holding) warnings() (out []string) {
	for _, h := range h.of {
		where := fmt.Sprintf("cluster %s", h.first)
		if h.clusters > 1 {
			where += fmt.Sprintf(" and %d more", h.clusters-1)
		}
		by := h.by.app.Resources[h.by.n]
		text := fmt.Sprintf("%s %q, which app %q does not have any more, stays on %s: with it would go %s %q of app %q",
			h.resource.Kind, h.resource.Name, h.app, where, by.Kind, by.Name, h.by.app.Name)
		if h.by.kept {
			text += ", which is to be kept"
		}
		out = append(out, text)
	}
	return out
}
