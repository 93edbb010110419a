package plan

import "slices"

// Definitions are what the CRDs among an app's resources say, as far as Collide goes by it.
type Definitions struct {
	deleted map[int]bool // by index: a terminate deletes the CRD, and with it all objects of its kind
}

// IsDefinition says whether it is a CRD.
func (id ResourceID) IsDefinition() bool {
	return id.Kind == "CustomResourceDefinition" && id.Group == "apiextensions.k8s.io"
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
