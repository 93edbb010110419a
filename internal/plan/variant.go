package plan

import (
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Effect is what an intent of a deployment intent group has made of a resource before it was planned.
type Effect struct {
	Resource int    `json:"resource"` // its index in the bundle
	What     string `json:"what"`     // such as "annotation k8s.v1.cni.cncf.io/networks"
	By       string `json:"by"`       // such as "ovnaction intent vfw"
}

// String says it to a user.
func (e Effect) String() string { return fmt.Sprintf("%s by %s", e.What, e.By) }

// Size is what it takes in a plan, in bytes, about.
func (e Effect) Size() int {
	const members = 40 // their names, and the index
	return members + len(e.What) + len(e.By)
}

// Variant is what some clusters of an app get otherwise than its bundle says. Clusters that get the same share one.
type Variant struct {
	Overlay domain.Part `json:"overlay"`           // an Overlay, in a blob with others
	Differs []int       `json:"differs,omitempty"` // the indices of the overlay's resources
	Lacks   string      `json:"lacks,omitempty"`   // in place of the app's
	Effects []Effect    `json:"effects,omitempty"` // all, in place of the app's
}

// lacking are the wanted resources of an app that clusters do not get. The zero value is none.
type lacking struct{ marks domain.Marks }

func (l lacking) lacks(i int) bool { return i < len(l.marks) && l.marks[i] == domain.MarkGone }

// LacksOn are the marks with which a target begins that does not get all of the app, and of which nothing is there; "" for one
// that gets all.
func (a *App) LacksOn(t *Target) string {
	if t.Variant == 0 {
		return a.Lacks
	}
	return a.Variants[t.Variant-1].Lacks
}

// lacksOn is what a target does not get. App and target may be nil.
func (a *App) lacksOn(t *Target) lacking {
	if a == nil || t == nil {
		return lacking{}
	}
	return lacking{domain.DecodeMarks(a.LacksOn(t))}
}

// Total is how many of the wanted resources there are to be on all targets together: some may not get all of them.
func (a *App) Total() (all int) {
	each := map[int]int{} // by variant
	for i := range a.Targets {
		t := &a.Targets[i]
		if t.Leaving {
			continue
		}
		n, known := each[t.Variant]
		if !known {
			without := a.lacksOn(t)
			for r := range a.Wanted() {
				if !without.lacks(r) {
					n++
				}
			}
			each[t.Variant] = n
		}
		all += n
	}
	return all
}

// Begin has the targets that do not get all of the app begin so.
func (a *App) Begin() {
	for i := range a.Targets {
		if marks := a.LacksOn(&a.Targets[i]); marks != "" {
			a.Targets[i].Inherited = &Inherited{Marks: marks}
		}
	}
}

// Overlay are the resources that clusters of a variant get in place of those of the app's bundle with the same index.
type Overlay struct {
	Resources []Overlaid `json:"resources"` // sorted by Index
}

// Overlaid is one of them.
type Overlaid struct {
	Index int `json:"index"`
	Resource
}

// On is the bundle that clusters of the variant get: that of the app, with what the overlay has.
func (o *Overlay) On(b *Bundle) *Bundle {
	out := &Bundle{App: b.App, Resources: slices.Clone(b.Resources)}
	for _, r := range o.Resources {
		if r.Index < len(out.Resources) {
			out.Resources[r.Index] = r.Resource
		}
	}
	return out
}

// At is what the overlay has of a resource; nil when that is as in the bundle.
func (o *Overlay) At(index int) *Resource {
	if o == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(o.Resources, index, func(r Overlaid, index int) int { return r.Index - index })
	if !found {
		return nil
	}
	return &o.Resources[i].Resource
}

// Overlays are those of the app's variants, in their order.
func (a *App) Overlays() []domain.Part {
	overlays := make([]domain.Part, 0, len(a.Variants))
	for _, v := range a.Variants {
		overlays = append(overlays, v.Overlay)
	}
	return overlays
}

// OverlayOf is the overlay of the app's bundle that a target gets, "" for none.
func (a *App) OverlayOf(t *Target) domain.Part {
	if t.Variant == 0 {
		return ""
	}
	return a.Variants[t.Variant-1].Overlay
}

// EffectsOn are what intents have made of the app's resources on a target.
func (a *App) EffectsOn(t *Target) []Effect {
	switch {
	case t.Leaving:
		return nil
	case t.Variant == 0:
		return a.Effects
	default:
		return a.Variants[t.Variant-1].Effects
	}
}

// overlay is that of a variant of an app, nil for none.
func (s *Side) overlay(app string, variant int) *Overlay {
	if variant == 0 || variant > len(s.Overlays[app]) {
		return nil
	}
	return s.Overlays[app][variant-1]
}

// Indices are those of the overlay's resources.
func (o *Overlay) Indices() []int {
	indices := make([]int, len(o.Resources))
	for i := range o.Resources {
		indices[i] = o.Resources[i].Index
	}
	return indices
}
