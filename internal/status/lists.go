package status

import (
	"slices"

	"github.com/drover-io/drover/internal/plan"
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
	names := make([]string, 0, len(s.Apps))
	for i := range s.Apps {
		names = append(names, s.Apps[i].Name)
	}
	slices.Sort(names)
	out.open(f.head(s))
	out.text(`,"apps":`)
	out.value(names)
	out.text("}\n")
}

// writeClusters lists the clusters that each app goes to.
func writeClusters(out *stream, f *form, s *Source, secs []section) {
	out.open(f.head(s))
	out.text(`,"` + f.clustersByApp + `":[`)
	for n := range secs {
		out.comma(n)
		out.open(listedApp{secs[n].app.Name})
		out.text(`,"clusters":[`)
		for i, c := range secs[n].clusters {
			out.comma(i)
			out.value(f.target(c.ClusterName))
		}
		out.text("]}")
	}
	out.text("]}\n")
}

// writeResources lists the resources of each app, or of each app on each cluster, as the form has it. A logical cloud of
// level 0 has none, and EMCO lists its clusters all the same.
func writeResources(out *stream, f *form, s *Source, secs []section) {
	out.open(f.head(s))
	out.text(`,"` + f.resourcesByApp + `":[`)
	written := 0
	if s.Subject != SubjectCloud {
		secs = occupied(secs)
	}
	for _, sec := range secs {
		for _, place := range f.places(&sec) {
			list := make([]listed, 0, len(sec.order))
			var last plan.ResourceID
			for _, i := range sec.order {
				id := &sec.app.Resources[i]
				if *id == last { // of a hook with two runs
					continue
				}
				if slices.ContainsFunc(place.of, func(c *Cluster) bool { return c.has(i) }) {
					last = *id
					list = append(list, listed{Name: id.Name, GVK: gvkOf(id)})
				}
			}
			out.comma(written)
			out.open(place.head)
			out.text(`,"resources":`)
			out.value(list)
			out.text("}")
			written++
		}
	}
	out.text("]}\n")
}
