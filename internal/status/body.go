package status

import (
	"encoding/json"
	"fmt"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/view"
)

// layout is what a document has of the places that its rows are of.
type layout int

const (
	inApps     layout = iota // apps, in them clusters
	inClusters               // clusters, as there is one app
	inOne                    // the one cluster; empty where there is none
)

// body writes what follows the overview of a status document, row by row: apps, in them clusters, in them resources.
type body struct {
	out    *stream
	layout layout
	// cluster gives the members of a cluster beside its resources, manifest the manifest of a resource where it is shown, and entry writes
	// what of a resource follows its name, and that.
	cluster  func(*view.Place) any
	manifest func(*view.Row) (json.RawMessage, error)
	entry    func(*body, *view.Row)
	// counts has a place say how many of its resources are in each state, in place of them; reported by readiness too.
	counts, reported bool

	place   *view.Place     // the one that is being written, nil before the first
	tally   view.Tally      // of its rows, where they are counted
	names   [][]byte        // of the app's resources, by their rank, as far as they were needed
	sound   map[[2]int]bool // the app's manifests that are JSON, by variant and rank, as far as they were needed
	written int             // resources of the place

	state domain.ResourceState // of the row before: neighbours mostly share one
	word  string               // and its member
}

type gvk struct {
	Group   string `json:"Group"`
	Version string `json:"Version"`
	Kind    string `json:"Kind"`
}

func gvkOf(id *plan.ResourceID) gvk { return gvk{id.Group, id.Version, id.Kind} }

// resource is what is the same on every cluster; its manifest and its state follow it.
type resource struct {
	GVK  gvk    `json:"GVK"`
	Name string `json:"name"`
}

type bodyApp struct {
	Name string `json:"name"`
}

// row writes a row, after the beginning of its app and its cluster when it is the first of them. It is false when
// nothing more can be written.
func (b *body) row(r *view.Row) bool {
	if r.Place != b.place {
		b.enter(r.Place)
	}
	if b.counts {
		b.tally.Add(r)
		return b.out.err == nil
	}
	b.out.comma(b.written)
	b.written++
	from := b.out.written
	b.out.bytes(b.name(r))
	if b.manifest != nil {
		b.detail(r)
	}
	b.entry(b, r)
	b.out.text("}")
	if b.out.parts != nil && b.layout == inApps {
		b.out.parts.row(r, from, b.out.written)
	}
	return b.out.err == nil
}

// enter begins a cluster.
func (b *body) enter(p *view.Place) {
	b.leave()
	if b.place == nil || b.place.App != p.App {
		b.begin(p.App)
	} else {
		b.out.text(",")
	}
	b.place, b.written, b.tally = p, 0, view.Tally{}
	if !b.counts { // those are known when the place is left
		b.open()
	}
}

// open writes what is said of the cluster itself.
func (b *body) open() {
	from := b.out.written
	b.out.open(b.cluster(b.place))
	if b.counts {
		b.out.text(`,"deployedCounts":`)
		b.out.value(b.tally.States())
		if b.reported {
			b.out.text(`,"readyCounts":`)
			b.out.value(camelCounts(&b.tally))
		}
	}
	if b.out.parts != nil && b.layout == inApps {
		b.out.parts.enter(b.place, from, b.out.written)
	}
	b.out.text(`,"resources":[`)
}

// leave ends the cluster, if there is one.
func (b *body) leave() {
	if b.place == nil {
		return
	}
	if b.counts {
		b.open()
	}
	b.out.text("]}")
	if b.out.parts != nil && b.layout == inApps {
		b.out.parts.leave(b.out.written)
	}
}

// begin begins an app.
func (b *body) begin(app *view.App) {
	b.names, b.sound = make([][]byte, len(app.Resources)), map[[2]int]bool{}
	switch {
	case b.layout == inClusters:
		b.out.member("clusters")
		b.out.text("[")
		return
	case b.layout == inOne:
		b.out.member("cluster")
		return
	case b.place == nil:
		b.out.text(`,"apps":[`)
	default:
		b.out.text("]},")
	}
	b.out.open(bodyApp{app.Name})
	b.out.text(`,"clusters":[`)
}

// end ends what there is.
func (b *body) end() {
	b.leave()
	switch {
	case b.place == nil && b.layout == inOne:
		b.out.member("cluster")
		b.out.text("{}")
		b.out.finish()
	case b.place == nil:
	case b.layout == inOne:
		b.out.finish()
	case b.layout == inClusters:
		b.out.text("]")
		b.out.finish()
	default:
		b.out.text("]}]")
	}
}

// name is the row's resource without its closing brace, encoded once for all clusters.
func (b *body) name(r *view.Row) []byte {
	if r.Rank >= 0 && b.names[r.Rank] != nil {
		return b.names[r.Rank]
	}
	name, err := opened(resource{GVK: gvkOf(r.Resource), Name: r.Resource.Name})
	if err != nil {
		b.out.fail(err)
	}
	if r.Rank >= 0 {
		b.names[r.Rank] = name
	}
	return name
}

// detail writes the row's manifest, if it has one, as it is: it may be large, and no document has a copy of it.
func (b *body) detail(r *view.Row) {
	if b.out.err != nil {
		return
	}
	manifest, err := b.manifest(r)
	if err != nil {
		b.out.end(err)
		return
	}
	if len(manifest) == 0 {
		return
	}
	if id := [2]int{r.Place.Cluster.Variant, r.Rank}; !b.sound[id] {
		if !json.Valid(manifest) {
			b.out.fail(fmt.Errorf("the manifest of %s %q is no JSON", r.Resource.Kind, r.Resource.Name))
			return
		}
		b.sound[id] = true
	}
	b.out.text(`,"detail":`)
	b.out.bytes(manifest)
}

// doneEntry writes what was done to a resource.
func (f *form) doneEntry(b *body, r *view.Row) {
	if r.State != b.state {
		b.state, b.word = r.State, f.states[r.State]
	}
	b.out.text(b.word)
	if r.Message != "" {
		b.out.text(`,"message":`)
		b.out.value(r.Message)
	}
	if len(r.Warnings) > 0 {
		b.out.text(`,"warnings":`)
		b.out.value(r.Warnings)
	}
	if b.manifest != nil {
		b.effects(r)
	}
}

// effects writes what intents have made of a resource. It is a member of Drover's own in the detail of a resource, and there
// only when it says something.
func (b *body) effects(r *view.Row) {
	if effects := r.Effects(); len(effects) > 0 {
		b.out.text(`,"effects":`)
		b.out.value(effects)
	}
}

// reportedEntry writes what is reported of a resource. Of one whose kind cannot be heard it says what a cluster says
// that cannot be.
func (f *form) reportedEntry(b *body, r *view.Row) {
	b.out.text(f.report(r))
	if d := r.Doubt; d != nil && !r.Moot {
		if r.Observed {
			b.out.text(`,"stale":true`)
		}
		if !d.LastSeen.IsZero() {
			b.out.text(`,"` + f.seen + `":`)
			b.out.value(stamp(d.LastSeen))
		}
		b.out.text(`,"reason":`)
		b.out.value(d.Reason)
	}
	if r.Unready != "" {
		b.out.text(`,"message":`)
		b.out.value(r.Unready)
	}
}

// objectEntry is reportedEntry, with the object. What is not JSON is left out: one cluster must not spoil the
// document for the others.
func (f *form) objectEntry(b *body, r *view.Row) {
	object, err := r.Object()
	if err != nil {
		b.out.end(err)
		return
	}
	if encoded, err := json.Marshal(object); err == nil && len(object) > 0 {
		b.out.text(`,"detail":`)
		b.out.bytes(encoded)
	}
	f.reportedEntry(b, r)
	b.effects(r)
}
