package plan

import (
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Deleting a namespace or a CRD deletes everything in it. So a resource in it that is still wanted, or that is to be kept, holds it: it stays though
// its app does not want it any more.

// Held is a namespace or a CRD that stays in clusters for something in it. No other group may have it meanwhile, since that group would delete it with
// everything in it. A resource in it that is to be kept, and is not wanted any more, is Held too: no other part of a plan would say that it is there.
type Held struct {
	App      string               `json:"app"` // that had it
	Resource ResourceID           `json:"resource"`
	Group    string               `json:"group,omitempty"` // of a CRD: of the kind that it defines
	Kind     string               `json:"kind,omitempty"`
	Kept     bool                 `json:"kept,omitempty"` // what holds it, or it itself, is to be kept: no plan says whether that is still there
	Clusters []domain.ClusterName `json:"clusters"`
}

// held is a Held that a Diff has found. by is what holds it on the first of its clusters, nil for a resource that is to be kept itself.
type held struct {
	Held
	by *resident
}

// resident is a resource that is wanted, or one that is to be kept (kept) though it is not wanted any more. The latter is of the old plan, or an
// earlier update has left it.
type resident struct {
	app  *App
	n    int
	kept bool
	left *Held // what an earlier update has left, else nil; app is nil where it is set
}

// names are those of the resource and of its app.
func (w *resident) names() (ResourceID, string) {
	if w.left != nil {
		return w.left.Resource, w.left.App
	}
	return w.app.Resources[w.n], w.app.Name
}

// holding finds what holds resources, for one Diff.
type holding struct {
	residents map[ResourceID][]resident // by the place of the namespace or CRD that they are in
	holders   []Held                    // see differ.holders
	of        []*held                   // in the order in which they were found
}

// mayHold says whether deleting a resource may delete others that somebody wants.
func mayHold(r ResourceID) bool { return r.IsDefinition() || r.IsNamespace() }

// holds says whether a resource of an app is held on a cluster where the app does not want it any more. It is false for a resource that another app
// wants there: the label of that app saves it.
func (d *differ) holds(app string, r *Resource, c domain.ClusterName) bool {
	if !mayHold(r.ResourceID) || d.wants(r.ResourceID, c, app) {
		return false
	}
	h := heldOf(app, r)
	by, found := d.holder(&h, c)
	if found {
		h.Kept = by.kept
		d.hold(h, &by, c)
	}
	return found
}

// keeps notes that a resource of an app stays on a cluster because it is to be kept. It notes only a resource that would be deleted with a namespace or
// CRD that may be deleted, and a namespace or CRD that something holds. Another group may take over any other resource.
func (d *differ) keeps(app string, r *Resource, c domain.ClusterName) {
	if d.wants(r.ResourceID, c, app) {
		return
	}
	h := heldOf(app, r)
	h.Kept = true
	if mayHold(r.ResourceID) {
		if _, found := d.holder(&h, c); !found {
			return
		}
	} else if !slices.ContainsFunc(d.holders(), func(by Held) bool { return by.has(r.ResourceID, d.wanted.Plan.Namespace) }) {
		return
	}
	d.hold(h, nil, c)
}

func heldOf(app string, r *Resource) Held {
	h := Held{App: app, Resource: r.ResourceID}
	if r.IsDefinition() {
		kind := DefinitionIn(r.Manifest)
		h.Group, h.Kind = kind.Group, kind.Kind
	}
	return h
}

// has says whether deleting h would delete r. namespace is that of r's plan, for a resource that names none.
func (h *Held) has(r ResourceID, namespace string) bool {
	if h.Resource.IsDefinition() {
		return h.Kind != "" && r.Group == h.Group && r.Kind == h.Kind
	}
	return mayHold(h.Resource) && !mayHold(r) && Place(r, namespace).Namespace == h.Resource.Name
}

// Holder is a resource of a leaf that a terminate would delete, and others with it.
type Holder struct {
	Index int
	held  Held
}

// Has says whether deleting h would delete r. namespace is that of r's plan, for a resource that names none.
func (h *Holder) Has(r ResourceID, namespace string) bool { return h.held.has(r, namespace) }

// HolderOf makes a Holder of the resource with the index. It is false for a resource in which there can be no others.
func HolderOf(index int, r *Resource) (h Holder, ok bool) {
	if !mayHold(r.ResourceID) {
		return Holder{}, false
	}
	return Holder{index, heldOf("", r)}, true
}

// Holders are the resources of a leaf that may hold others, where a terminate begins with the marks. It leaves out resources that are being
// deleted already: nothing can hold up their deletion.
func Holders(resources []Resource, marks domain.Marks) (all []Holder) {
	for i := range min(len(resources), len(marks)) {
		if h, ok := HolderOf(i, &resources[i]); ok && marks[i].ToDelete() && marks[i] != domain.MarkEnding {
			all = append(all, h)
		}
	}
	return all
}

// KeptOn are the resources that the plan keeps on a cluster though no app has them any more. It leaves out all namespaces and
// CRDs: what holds them says that they stay.
func (p *Plan) KeptOn(c domain.ClusterName) (all []Held) {
	for _, h := range p.Held {
		if h.Kept && !mayHold(h.Resource) && slices.Contains(h.Clusters, c) {
			all = append(all, h)
		}
	}
	return all
}

// holders are the resources that may hold others: those of both plans, and those that the old plan has held.
func (d *differ) holders() []Held {
	if d.holding.holders == nil {
		d.holding.holders = slices.Concat([]Held{}, d.old.Plan.Held)
		for _, side := range []Side{d.old.Side, d.wanted} {
			for name, bundle := range side.Bundles {
				for i := range bundle.Resources {
					if r := &bundle.Resources[i]; mayHold(r.ResourceID) {
						d.holding.holders = append(d.holding.holders, heldOf(name, r))
					}
				}
			}
		}
	}
	return d.holding.holders
}

// wants says whether any app but the one named but wants a resource on a cluster.
func (d *differ) wants(r ResourceID, c domain.ClusterName, but string) bool {
	return slices.ContainsFunc(d.owners[d.place(r)], func(by resident) bool { return by.app.Name != but && by.on(c) })
}

// holder is what would go with a resource on a cluster.
func (d *differ) holder(h *Held, c domain.ClusterName) (by resident, found bool) {
	for _, by := range d.within(h) {
		if by.kept && d.mayHave(by, c) || !by.kept && by.on(c) {
			return by, true
		}
	}
	return resident{}, false
}

// held are all that stay: those of before, as long as there is something in them and no app wants them again, and the new ones.
func (d *differ) held() (all []Held) {
	for _, h := range d.old.Plan.Held {
		wanted, kept := h, h
		wanted.Clusters, kept.Kept, kept.Clusters = nil, true, nil
		for _, c := range h.Clusters {
			if d.wants(h.Resource, c, "") {
				continue
			}
			if !mayHold(h.Resource) { // it is to be kept
				kept.Clusters = append(kept.Clusters, c)
				continue
			}
			switch by, found := d.holder(&h, c); {
			case h.Kept, by.kept:
				kept.Clusters = append(kept.Clusters, c)
			case found:
				wanted.Clusters = append(wanted.Clusters, c)
			}
		}
		for _, h := range []Held{wanted, kept} {
			if len(h.Clusters) > 0 {
				all = append(all, h)
			}
		}
	}
	for _, h := range d.holding.of {
		all = append(all, h.Held)
	}
	return all
}

// on says whether the resource is wanted on a cluster.
func (w resident) on(c domain.ClusterName) bool {
	t := w.app.goesTo(c)
	return t != nil && !w.app.lacksOn(t).lacks(w.n)
}

// mayHave says whether a cluster may have a resource of the old plan.
func (d *differ) mayHave(old resident, c domain.ClusterName) bool {
	if old.left != nil {
		return slices.Contains(old.left.Clusters, c)
	}
	i := slices.IndexFunc(old.app.Targets, func(t Target) bool { return t.ClusterName == c })
	return i >= 0 && d.marks(old.app, old.app.Targets[i])[old.n].MayBeThere()
}

// within are the resources that are in a namespace, or of the kind that a CRD defines: the wanted ones, and those that are kept.
func (d *differ) within(h *Held) []resident {
	at := d.place(h.Resource)
	if all, known := d.holding.residents[at]; known {
		return all
	}
	in := func(id ResourceID) bool { return h.has(id, d.wanted.Plan.Namespace) }
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
				all = append(all, resident{app: app, n: n, kept: true})
			}
		}
	}
	for i := range d.old.Plan.Held {
		if left := &d.old.Plan.Held[i]; in(left.Resource) {
			all = append(all, resident{kept: true, left: left})
		}
	}
	if d.holding.residents == nil {
		d.holding.residents = map[ResourceID][]resident{}
	}
	d.holding.residents[at] = all
	return all
}

func (d *differ) hold(of Held, by *resident, c domain.ClusterName) {
	for _, h := range d.holding.of {
		if h.App == of.App && h.Resource == of.Resource && h.Kept == of.Kept {
			h.Clusters = append(h.Clusters, c)
			return
		}
	}
	of.Clusters = []domain.ClusterName{c}
	d.holding.of = append(d.holding.of, &held{of, by})
}

// firstOf names the first of some clusters, and says how many there are beside it.
func firstOf(clusters []domain.ClusterName) string {
	where := fmt.Sprintf("cluster %s", clusters[0])
	if more := len(clusters) - 1; more > 0 {
		where += fmt.Sprintf(" and %d more", more)
	}
	return where
}

// warnings say what stays, and why.
func (h *holding) warnings() (out []string) {
	for _, h := range h.of {
		if h.by == nil {
			continue
		}
		by, app := h.by.names()
		text := fmt.Sprintf("%s %q, which app %q does not have any more, stays on %s: with it would go %s %q of app %q",
			h.Resource.Kind, h.Resource.Name, h.App, firstOf(h.Clusters), by.Kind, by.Name, app)
		if h.Kept {
			text += ", which is to be kept"
		}
		out = append(out, text)
	}
	return out
}
