package status

import (
	"cmp"
	"slices"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// section is what the filters of a query leave of one app: at least one cluster, perhaps no resource.
type section struct {
	app      *App
	clusters []*Cluster
	order    []int // indices of the app's resources in the order of the document
}

// sections applies the filters of a query to a source; the result is in the order of the source's apps.
// An app that an instantiated source does not have is Invalid; an unknown cluster or resource is not,
// it leaves nothing.
func sections(q Query, s *Source) ([]section, error) {
	for _, name := range q.Apps {
		if s.ContextID != "" && !slices.ContainsFunc(s.Apps, func(a App) bool { return a.Name == name }) {
			return nil, fail.New(fail.Invalid, "Filter app %s not in list of apps for %s", name, s.holder())
		}
	}
	apps, clusters, resources := setOf(q.Apps), setOf(q.Clusters), setOf(q.Resources)
	if q.List == ListResources {
		resources = nil // as in EMCO
	}
	var kept []section
	for i := range s.Apps {
		app := &s.Apps[i]
		if !apps.has(app.Name) {
			continue
		}
		sec := section{app: app, order: order(app.Resources, resources)}
		for j := range app.Clusters {
			if c := &app.Clusters[j]; clusters.has(c.ClusterName) && sec.shows(c) {
				sec.clusters = append(sec.clusters, c)
			}
		}
		if len(sec.clusters) == 0 {
			continue
		}
		kept = append(kept, sec)
	}
	return kept, nil
}

// holder is what the apps of a context belong to.
func (s *Source) holder() string {
	switch s.Subject {
	case SubjectNetworks:
		return "cluster " + s.Name
	case SubjectCloud:
		return "logical cloud " + s.Name
	default:
		return "composite app " + s.CompositeApp
	}
}

// shows says whether the section has something on the cluster, or nothing anywhere.
func (s *section) shows(c *Cluster) bool {
	return len(s.order) == 0 || slices.ContainsFunc(s.order, c.has)
}

// order gives the indices of the resources whose names are in the set, sorted by name, then kind, as the
// seeds' examples are. What shares both is told apart by the rest of its id, so that documents are stable
// from one version of a chart to the next.
func order(resources []plan.ResourceID, names set[string]) []int {
	indices := make([]int, 0, len(resources))
	for i := range resources {
		if names.has(resources[i].Name) {
			indices = append(indices, i)
		}
	}
	slices.SortStableFunc(indices, func(i, j int) int { return byResource(&resources[i], &resources[j]) })
	return indices
}

func byResource(a, b *plan.ResourceID) int {
	return cmp.Or(
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Namespace, b.Namespace),
	)
}

// byName puts sections in lexical order of their apps.
func byName(sections []section) []section {
	slices.SortFunc(sections, func(a, b section) int { return cmp.Compare(a.app.Name, b.app.Name) })
	return sections
}

// occupied leaves out sections without resources: documents have no empty entries.
func occupied(sections []section) []section {
	return slices.DeleteFunc(sections, func(s section) bool { return len(s.order) == 0 })
}

// set is a filter; nil lets everything pass.
type set[T comparable] map[T]struct{}

func setOf[T comparable](values []T) set[T] {
	if values == nil {
		return nil
	}
	s := make(set[T], len(values))
	for _, v := range values {
		s[v] = struct{}{}
	}
	return s
}

func (s set[T]) has(v T) bool {
	if s == nil {
		return true
	}
	_, ok := s[v]
	return ok
}
