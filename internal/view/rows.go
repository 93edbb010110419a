package view

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// Ask says which rows are wanted, and how much of each.
type Ask struct {
	// The filters, nil for everything. A name that is not there leaves nothing.
	Apps      []string
	Clusters  []domain.ClusterName
	Resources []string

	// Reported asks what clusters report; without it Source.Observations is not read, and resources that only clusters
	// know have no rows. Judged asks, with Reported, whether resources are ready, for which objects may have to be read.
	Reported, Judged bool
	// Detail asks for messages and warnings.
	Detail bool

	// Sorted puts apps in lexical order; else they are as in the composite app.
	Sorted bool
	Order  Order
}

// Rows gives the rows of a source: apps, in them clusters as plan.SortTargets sorts them, in them resources. Without
// Ask.Reported what is run twice as a hook has two rows; with it, one row stands for all that is the same object. A
// cluster of which no row remains is left out. Beside the source it holds what is known of the resources of one app, and
// one observation at a time. An error of Source.Observations or of an object ends the sequence; its row is nil.
func (s *Source) Rows(a Ask) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		for _, sec := range s.sections(&a) {
			if !a.Reported {
				if !sec.done(s, &a, yield) {
					return
				}
				continue
			}
			if err := newReporter(s, &a, &sec).rows(yield); err != nil {
				if !errors.Is(err, errEnough) {
					yield(nil, err)
				}
				return
			}
		}
	}
}

// errEnough ends a sequence whose reader has left.
var errEnough = errors.New("enough")

// Places gives the places of rows, without what is reported. Where the filters leave an app no resource, all its places
// remain.
func (s *Source) Places(a Ask) iter.Seq[*Place] {
	return func(yield func(*Place) bool) {
		for _, sec := range s.sections(&a) {
			for _, c := range sec.clusters {
				if !yield(sec.place(s, &a, c)) {
					return
				}
			}
		}
	}
}

// Rows gives the rows of what was done at a place; none of a place of rows that were made with Ask.Reported.
func (p *Place) Rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		var r Row
		p.done(&r, func(r *Row, _ error) bool { return yield(r) })
	}
}

// section is what the filters leave of one app: at least one cluster, perhaps no resource.
type section struct {
	app      *App
	clusters []*Cluster
	order    []int // indices of the app's resources in the order of rows
}

func (s *Source) sections(a *Ask) []section {
	apps, clusters, resources := setOf(a.Apps), setOf(a.Clusters), setOf(a.Resources)
	visible := s.visible()
	var kept []section
	for i := range visible {
		app := &visible[i]
		if !apps.has(app.Name) {
			continue
		}
		sec := section{app: app, order: a.order(app.Resources, resources)}
		for j := range app.Clusters {
			if c := &app.Clusters[j]; clusters.has(c.ClusterName) && sec.shows(c) {
				sec.clusters = append(sec.clusters, c)
			}
		}
		if len(sec.clusters) > 0 {
			kept = append(kept, sec)
		}
	}
	if a.Sorted {
		slices.SortFunc(kept, func(a, b section) int { return cmp.Compare(a.app.Name, b.app.Name) })
	}
	return kept
}

// shows says whether the section has something on the cluster, or nothing anywhere.
func (sec *section) shows(c *Cluster) bool {
	return len(sec.order) == 0 || slices.ContainsFunc(sec.order, c.has)
}

// order gives the indices of the resources whose names are in the set, sorted.
func (a *Ask) order(resources []plan.ResourceID, names set[string]) []int {
	indices := make([]int, 0, len(resources))
	for i := range resources {
		if names.has(resources[i].Name) {
			indices = append(indices, i)
		}
	}
	slices.SortStableFunc(indices, func(i, j int) int { return a.Order.compare(&resources[i], &resources[j]) })
	return indices
}

// done gives the rows of what was done. It is false when the reader has left.
func (sec *section) done(s *Source, a *Ask, yield func(*Row, error) bool) bool {
	var r Row
	for _, c := range sec.clusters {
		if !sec.place(s, a, c).done(&r, yield) {
			return false
		}
	}
	return true
}

func (sec *section) place(s *Source, a *Ask, c *Cluster) *Place {
	return &Place{App: sec.app, Cluster: c, Connectivity: c.connectivity(), source: s, order: sec.order, said: a.said(c)}
}

// done gives the rows of what was done at the place, one after the other in r. It is false when the reader has left.
func (p *Place) done(r *Row, yield func(*Row, error) bool) bool {
	*r = Row{Place: p}
	last := domain.Mark(0)
	for rank, i := range p.order {
		m := p.Cluster.mark(i)
		if m == domain.MarkGone {
			continue
		}
		if m != last { // neighbours mostly share a mark
			last, r.Mark, r.State = m, m, p.Cluster.state(m)
		}
		r.Resource, r.Index, r.Rank = &p.App.Resources[i], i, rank
		if p.said != nil {
			p.said.tell(r)
		}
		if !yield(r, nil) {
			return false
		}
	}
	return true
}

// said is what was said of the resources of a cluster, by their index.
type said struct {
	messages map[int]string
	warnings map[int][]string
}

// said is nil where nothing was, and without Ask.Detail.
func (a *Ask) said(c *Cluster) *said {
	if !a.Detail || len(c.Notes)+len(c.Warnings) == 0 {
		return nil
	}
	s := &said{messages: make(map[int]string, len(c.Notes)), warnings: make(map[int][]string, len(c.Warnings))}
	for _, n := range c.Notes {
		s.messages[n.Index] = n.Message
	}
	for _, n := range c.Warnings {
		s.warnings[n.Index] = append(s.warnings[n.Index], n.Message)
	}
	return s
}

func (s *said) tell(r *Row) {
	r.Message, r.Warnings = "", nil
	switch r.State {
	case domain.ResourceDeleted:
		r.Warnings = s.warnings[r.Index]
	case domain.ResourceApplied:
		r.Warnings = s.warnings[r.Index]
		if r.Mark == domain.MarkKept {
			r.Message = s.messages[r.Index] // why it is not as it would be
		}
	default:
		r.Message, r.Warnings = s.messages[r.Index], s.warnings[r.Index]
	}
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
