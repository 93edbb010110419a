package view

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/readiness"
)

// identity is what an object is found by in a report. The version is no part of it: a cluster reports an
// object in the version that its agent prefers.
type identity struct{ group, kind, namespace, name string }

// reporter makes the rows of one section of what its clusters report.
type reporter struct {
	s       *Source
	a       *Ask
	sec     *section
	names   set[string]
	planned map[identity]int // to the rank
	twins   map[int][]int    // by index of a resource: others that are the same object
	kinds   []known          // by rank

	// Of the cluster that is being looked at.
	known  []Row // by rank
	others []Row // what else the cluster reports: Pods and the like, in order
}

// newReporter matches the resources of the section with what reports call them. Of resources that are the same object,
// as a hook that is run twice, or that the release has too, the first one stands for all.
func newReporter(s *Source, a *Ask, sec *section) *reporter {
	r := &reporter{s: s, a: a, sec: sec, names: setOf(a.Resources), planned: map[identity]int{}, twins: map[int][]int{}}
	kept := sec.order[:0]
	for _, i := range sec.order {
		id := r.identity(i)
		if rank, taken := r.planned[id]; taken && r.identity(kept[rank]) == id {
			r.twins[kept[rank]] = append(r.twins[kept[rank]], i)
			continue
		}
		rank := len(kept)
		kept = append(kept, i)
		r.planned[id] = rank
		// A kind without namespaces is reported without, whatever the manifest says.
		if whole := (identity{id.group, id.kind, "", id.name}); id.namespace != "" {
			if _, taken := r.planned[whole]; !taken {
				r.planned[whole] = rank
			}
		}
	}
	sec.order = kept
	r.kinds = make([]known, 0, len(kept))
	for _, i := range kept {
		r.kinds = append(r.kinds, knownOf(&sec.app.Resources[i]))
	}
	r.known = make([]Row, len(kept))
	return r
}

func (r *reporter) identity(i int) identity {
	id := &r.sec.app.Resources[i]
	return identity{id.Group, id.Kind, cmp.Or(id.Namespace, r.s.Namespace), id.Name}
}

// none says whether it is so neither of a resource nor of what is the same object.
func (r *reporter) none(i int, is func(i int) bool) bool {
	return !is(i) && !slices.ContainsFunc(r.twins[i], is)
}

// rows gives the rows of all clusters of the section. It ends with the first error; errEnough is the reader's.
func (r *reporter) rows(yield func(*Row, error) bool) error {
	return r.observe(func(c *Cluster, o *Observation) error {
		if err := r.look(c, o); err != nil {
			return err
		}
		return r.give(yield)
	})
}

// look makes the rows of a cluster.
func (r *reporter) look(c *Cluster, o *Observation) error {
	place := &Place{App: r.sec.app, Cluster: c, Connectivity: o.connectivity(c), Doubt: o.doubt(), source: r.s, observed: o}
	doubts := o.doubts()
	said := r.a.said(c)
	for rank, i := range r.sec.order {
		m := c.mark(i)
		row := &r.known[rank]
		*row = Row{Place: place, Resource: &r.sec.app.Resources[i], Index: i, Rank: rank, Mark: m, State: c.state(m)}
		if said != nil {
			said.tell(row)
		}
	}
	clear(r.others)
	r.others = r.others[:0]
	for i := range o.Resources {
		id := &o.Resources[i].ResourceID
		if !r.names.has(id.Name) {
			continue
		}
		var row *Row
		if rank, ok := r.planned[identity{id.Group, id.Kind, id.Namespace, id.Name}]; ok {
			row = &r.known[rank]
		} else {
			r.others = append(r.others, Row{Place: place, Resource: id, Index: -1, Rank: -1})
			row = &r.others[len(r.others)-1]
		}
		row.Observed, row.index, row.Presence = true, i, Present
		row.Stored, row.Sum = o.Resources[i].Stored, o.Resources[i].Sum
		row.Doubt = o.doubtOf(doubts, schema.GroupKind{Group: id.Group, Kind: id.Kind})
		if err := r.judge(row, o, i); err != nil {
			return err
		}
		if row.Rank < 0 {
			row.weigh()
		}
	}
	for rank, i := range r.sec.order {
		row := &r.known[rank]
		if !row.Observed {
			r.missing(row, o, doubts)
		}
		if r.a.Judged && row.Readiness != Ready && r.none(i, func(i int) bool { return r.matters(row, i) }) {
			row.Readiness, row.Unready, row.Moot = Uncounted, "", true
		}
		row.weigh()
	}
	slices.SortStableFunc(r.others, func(a, b Row) int { return r.a.Order.compare(a.Resource, b.Resource) })
	return nil
}

// doubtOf is the doubt about a kind, nil for none.
func (o *Observation) doubtOf(doubts []Doubt, kind schema.GroupKind) *Doubt {
	for i := range doubts {
		if o.Unheard[i].GroupKind == kind {
			return &doubts[i]
		}
	}
	return nil
}

// judge says of a row that is reported whether it is ready.
func (r *reporter) judge(row *Row, o *Observation, i int) error {
	if !r.a.Judged {
		return nil
	}
	state, err := o.ready(i, r.s.Rules)
	if err != nil {
		return err
	}
	switch state.Status {
	case readiness.Ready:
		row.Readiness = Ready
	case readiness.NotPresent:
		row.Readiness = NotThere
	default:
		row.Readiness = NotReady
	}
	if r.a.Detail {
		row.Unready = state.Message
	}
	return nil
}

// missing says of a row that is not reported what that means.
func (r *reporter) missing(row *Row, o *Observation, doubts []Doubt) {
	k := &r.kinds[row.Rank]
	row.Doubt = o.doubtOf(doubts, k.kind)
	row.Presence = Unknown
	if o.Seen && o.watches(k.kind, k.reported) {
		row.Presence = Missing
	}
	if len(o.Gone) > 0 {
		id := r.identity(row.Index)
		row.gone(o, domain.IdentityOf(id.group, id.kind, id.namespace, id.name), domain.IdentityOf(id.group, id.kind, "", id.name))
	}
	// Certificate requests go by themselves when they are answered: that one is missing says nothing.
	if r.a.Judged && k.kind != requestKind && (o.watches(k.kind, k.still) || row.Doubt != nil) {
		row.Readiness = NotThere
	}
}

// gone notes that an earlier report had the resource, by one of its identities.
func (r *Row) gone(o *Observation, identities ...uint64) {
	for _, g := range o.Gone {
		if slices.Contains(identities, g.Identity) {
			r.Was, r.Stored = true, g.Since
		}
	}
}

// matters says whether it counts that a row is not Ready, by the mark of a resource that it stands for.
func (r *reporter) matters(row *Row, i int) bool {
	m := row.Place.Cluster.mark(i)
	return !r.s.over(r.sec.app, i, m) && (row.Observed || !r.s.absent(m) && !r.s.expired(r.sec.app, i, m))
}

// weigh takes back from a row what nobody vouches for.
func (r *Row) weigh() {
	if r.Confirmed() {
		return
	}
	if r.Presence != Unknown {
		r.Presence, r.LastPresence = Unknown, r.Presence
	}
	if r.Readiness == Ready {
		r.Readiness, r.LastReadiness = NotReady, r.Readiness
	}
}

// give gives the rows of the cluster that was looked at in their order, without what is not the context's there and not
// reported either.
func (r *reporter) give(yield func(*Row, error) bool) error {
	n := 0
	planned := func() bool {
		row := &r.known[n]
		n++
		if !row.Observed && r.none(row.Index, row.Place.Cluster.has) {
			return true
		}
		return yield(row, nil)
	}
	for i := range r.others {
		for n < len(r.known) && (r.a.Order != ByKind || byKind(r.known[n].Resource, r.others[i].Resource) <= 0) {
			if !planned() {
				return errEnough
			}
		}
		if !yield(&r.others[i], nil) {
			return errEnough
		}
	}
	for n < len(r.known) {
		if !planned() {
			return errEnough
		}
	}
	return nil
}

// observe calls visit for every cluster of the section, in order, with what it reports. It ends with the first error.
func (r *reporter) observe(visit func(c *Cluster, o *Observation) error) error {
	app, clusters, next := r.sec.app.Name, r.sec.clusters, 0
	unreported := func() error {
		c := clusters[next]
		next++
		return visit(c, r.s.unreported(app, c.ClusterName))
	}
	if r.s.Observations != nil {
		var last domain.ClusterName
		for o, err := range r.s.Observations(app, r.a.Clusters) {
			if err != nil {
				return err
			}
			if last.Compare(o.ClusterName) >= 0 {
				return fail.New(fail.Internal, "observations of %s come out of order: %s after %s", app, o.ClusterName, last)
			}
			last = o.ClusterName
			for next < len(clusters) && clusters[next].Compare(last) < 0 { // those have reported nothing
				if err := unreported(); err != nil {
					return err
				}
			}
			if next == len(clusters) {
				break
			}
			if clusters[next].ClusterName != last {
				continue // filtered out, or no longer a target
			}
			next++
			if err := visit(clusters[next-1], o); err != nil {
				return err
			}
		}
	}
	for next < len(clusters) {
		if err := unreported(); err != nil {
			return err
		}
	}
	return nil
}
