package plan

import (
	"encoding/json"
	"slices"
)

// Definitions are what the CRDs among an app's resources say, as far as Collide goes by it.
type Definitions struct {
	deleted map[int]bool       // by index: a terminate deletes the CRD, and with it all objects of its kind
	kinds   map[groupKind]bool // that have no namespace, by the CRDs
}

// IsDefinition says whether it is a CRD.
func (id ResourceID) IsDefinition() bool {
	return id.Kind == "CustomResourceDefinition" && id.Group == "apiextensions.k8s.io"
}

// Definition is the kind that a CRD defines, with its versions that are served.
type Definition struct {
	Group, Kind string
	Served      []string
}

// DefinitionIn reads it off the manifest of a CRD, as it is sent or as a cluster has it; an empty one when it cannot be read, and the cluster says
// what is wrong.
func DefinitionIn(manifest []byte) (d Definition) {
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Served bool
			}
		}
	}
	if json.Unmarshal(manifest, &crd) != nil {
		return Definition{}
	}
	d.Group, d.Kind = crd.Spec.Group, crd.Spec.Names.Kind
	for _, v := range crd.Spec.Versions {
		if v.Served {
			d.Served = append(d.Served, v.Name)
		}
	}
	return d
}

// DefinitionsOf reads them off the resources of a bundle.
func DefinitionsOf(resources []Resource) *Definitions {
	d := &Definitions{}
	for i := range resources {
		r := &resources[i]
		if !r.IsDefinition() {
			continue
		}
		if !r.Keep {
			if d.deleted == nil {
				d.deleted = map[int]bool{}
			}
			d.deleted[i] = true
		}
		var crd struct {
			Spec struct {
				Group, Scope string
				Names        struct{ Kind string }
			}
		}
		if json.Unmarshal(r.Manifest, &crd) == nil && crd.Spec.Scope == "Cluster" { // what is none the cluster refuses
			if d.kinds == nil {
				d.kinds = map[groupKind]bool{}
			}
			d.kinds[groupKind{crd.Spec.Group, crd.Spec.Names.Kind}] = true
		}
	}
	return d
}

// keeps says whether the app's CRD with an index outlives it. Of an app whose definitions nobody has read it is said of all of them.
func (a *App) keeps(i int) bool { return a.Definitions == nil || !a.Definitions.deleted[i] }

// Undefined are the apps of b whose definitions Collide has to know: those that have a CRD which a has as well, on a cluster that both go
// to.
func Undefined(a, b *Plan) (apps []*App) {
	on := map[ResourceID][]*App{} // a's, by the places of their CRDs
	for i := range a.Apps {
		for _, r := range a.Apps[i].Resources {
			if r.IsDefinition() {
				at := Place(r, "")
				on[at] = append(on[at], &a.Apps[i])
			}
		}
	}
	if len(on) == 0 {
		return nil
	}
	for i := range b.Apps {
		app := &b.Apps[i]
		meets := func(other *App) bool { return len(shared(other.Targets, app.Targets)) > 0 }
		if app.Definitions == nil && slices.ContainsFunc(app.Resources, func(r ResourceID) bool {
			return r.IsDefinition() && slices.ContainsFunc(on[Place(r, "")], meets)
		}) {
			apps = append(apps, app)
		}
	}
	return apps
}

// scopes are the kinds without a namespace, by the CRDs of plans.
type scopes map[groupKind]bool

func scopesOf(plans ...*Plan) scopes {
	s := scopes{}
	for _, p := range plans {
		for i := range p.Apps {
			if d := p.Apps[i].Definitions; d != nil {
				for k := range d.kinds {
					s[k] = true
				}
			}
		}
	}
	return s
}

// has says whether the objects of a resource's kind have no namespace.
func (s scopes) has(r ResourceID) bool { return len(s) > 0 && s[groupKind{r.Group, r.Kind}] }

// place is Place by what CRDs say of scopes.
func (s scopes) place(r ResourceID, namespace string) ResourceID {
	r = Place(r, namespace)
	if s.has(r) {
		r.Namespace = ""
	}
	return r
}
