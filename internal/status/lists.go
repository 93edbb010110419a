package status

import (
	"slices"

	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/view"
)

// listed is a resource in a list: unlike in a status document the name comes first.
type listed struct {
	Name string `json:"name"`
	GVK  gvk    `json:"GVK"`
}

// listedApp is the head of an entry of the lists by app.
type listedApp struct {
	App string `json:"app"`
}

// writeApps lists the apps of the context; no filter applies to it.
func writeApps(out *stream, f *form, s *Source) {
	names := s.Names()
	slices.Sort(names)
	out.head(f.head(s))
	out.member("apps")
	out.value(names)
	out.finish()
	out.text("}\n")
}

// writeClusters lists the clusters that each app goes to.
func writeClusters(out *stream, f *form, s *Source, ask view.Ask) {
	out.head(f.head(s))
	out.member(f.clustersByApp)
	out.text("[")
	var app *view.App
	for p := range s.Places(ask) {
		switch {
		case app == p.App:
			out.text(",")
		case app != nil:
			out.text("]},")
			fallthrough
		default:
			app = p.App
			out.open(listedApp{app.Name})
			out.text(`,"clusters":[`)
		}
		out.value(f.target(p.Cluster.ClusterName))
	}
	if app != nil {
		out.text("]}")
	}
	out.text("]")
	out.finish()
	out.text("}\n")
}

// writeResources lists the resources of each app, or of each app on each cluster, as the form has it. A logical cloud of
// level 0 has none, and EMCO lists its clusters all the same.
func writeResources(out *stream, f *form, s *Source, ask view.Ask) {
	out.head(f.head(s))
	out.member(f.resourcesByApp)
	out.text("[")
	l := lister{out: out, form: f}
	if s.Subject == SubjectCloud && s.Bare() {
		for p := range s.Places(ask) {
			l.enter(p)
		}
	}
	for r, err := range s.Rows(ask) {
		if err != nil {
			out.end(err)
			return
		}
		if l.place == nil || l.place.App != r.Place.App || f.places != nil && l.place != r.Place {
			l.enter(r.Place)
		}
		l.resources[r.Rank] = r.Resource
	}
	l.end()
	out.text("]")
	out.finish()
	out.text("}\n")
}

// lister writes the entries of a list of resources.
type lister struct {
	out  *stream
	form *form

	place     *view.Place        // the first one that the entry is about, nil before the first
	resources []*plan.ResourceID // of the entry, by their rank
	written   int                // entries
}

func (l *lister) enter(p *view.Place) {
	l.end()
	l.place, l.resources = p, make([]*plan.ResourceID, len(p.App.Resources))
}

// end writes the entry.
func (l *lister) end() {
	if l.place == nil {
		return
	}
	list := make([]listed, 0, len(l.resources))
	var last plan.ResourceID
	for _, id := range l.resources {
		if id != nil && *id != last { // it is the last one where a hook has two runs
			last = *id
			list = append(list, listed{Name: id.Name, GVK: gvkOf(id)})
		}
	}
	l.out.comma(l.written)
	l.written++
	if l.form.places != nil {
		l.out.open(l.form.places(l.place))
	} else {
		l.out.open(listedApp{l.place.App.Name})
	}
	l.out.text(`,"resources":`)
	l.out.value(list)
	l.out.text("}")
}

// writeReportedResources lists what each app has in each cluster, where it has anything. No filter by name
// applies.
func writeReportedResources(out *stream, f *form, s *Source, ask view.Ask) {
	out.head(f.head(s))
	out.member(f.resourcesByApp)
	out.text("[")
	var place *view.Place
	for r, err := range s.Rows(ask) {
		if err != nil {
			out.end(err)
			return
		}
		switch {
		case !r.Observed:
			continue
		case place == r.Place:
			out.text(",")
		case place != nil:
			out.text("]},")
			fallthrough
		default:
			place = r.Place
			out.open(f.listed(place.App.Name, place))
			out.text(`,"resources":[`)
		}
		out.value(listed{Name: r.Resource.Name, GVK: gvkOf(r.Resource)})
		if out.err != nil {
			return
		}
	}
	if place != nil {
		out.text("]}")
	}
	out.text("]")
	out.finish()
	out.text("}\n")
}
