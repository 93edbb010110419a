package status

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

// ClusterState is where a resource stands in its cluster, by the last report of it.
type ClusterState string

// The states. TypeCluster has the first three, TypeReady all but ClusterPresent and ClusterUnknown; "" is
// for what TypeReady lists without a state and does not count.
const (
	ClusterPresent    ClusterState = "Present"
	ClusterNotPresent ClusterState = "NotPresent"
	ClusterUnknown    ClusterState = "Unknown"
	ClusterReady      ClusterState = ClusterState(readiness.Ready)
	ClusterNotReady   ClusterState = ClusterState(readiness.NotReady)
)

// bundleKinds are the kinds that a ResourceBundleState has arrays for, in the order of the seeds' examples.
var bundleKinds = []schema.GroupKind{
	{Kind: "Pod"},
	{Kind: "Service"},
	{Group: "apps", Kind: "Deployment"},
	{Kind: "ConfigMap"},
	{Kind: "Secret"},
	{Group: "apps", Kind: "DaemonSet"},
	{Group: "networking.k8s.io", Kind: "Ingress"},
	{Group: "batch", Kind: "Job"},
	{Group: "apps", Kind: "StatefulSet"},
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"},
}

// ranks gives kinds their place.
func ranks(kinds []schema.GroupKind) map[schema.GroupKind]int {
	m := make(map[schema.GroupKind]int, len(kinds))
	for i, k := range kinds {
		m[k] = i
	}
	return m
}

var bundleRanks = ranks(bundleKinds)

func kindOf(id *plan.ResourceID) schema.GroupKind {
	return schema.GroupKind{Group: id.Group, Kind: id.Kind}
}

// byKind is the order of the seeds' lists of resources in clusters: kinds as a ResourceBundleState has
// them, then all others.
func byKind(a, b *plan.ResourceID) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Kind, b.Kind), byResource(a, b))
}

func rank(id *plan.ResourceID) int {
	if n, ok := bundleRanks[kindOf(id)]; ok {
		return n
	}
	return len(bundleKinds)
}

// report is what a document keeps of an observation: states and names, never the objects.
type report struct {
	cluster *Cluster
	from    Observation // without resources and objects
	planned []entry     // one per resource of the section, in its order
	others  []entry     // what else the cluster reports: Pods and the like, in the order of the form
}

// entry is one resource in one cluster.
type entry struct {
	id       *plan.ResourceID
	state    ClusterState // as last reported
	observed bool
	gone     bool         // not the context's on this cluster, and not reported
	message  string       // why it is not ready; OutputDetail only
	unheard  *UnheardKind // why it is not confirmed though the cluster is
	index    int          // in the observation, when observed
}

// shown is the state that the form vouches for: nothing good is said of what is not confirmed.
func (r *report) shown(f *reportForm, e *entry) ClusterState {
	if worse, ok := f.unproven[e.state]; ok && (!r.from.confirmed() || e.unheard != nil) {
		return worse
	}
	return e.state
}

// entries gives the resources of a report in the order of the form, with their place in the section, -1
// for those that the plan does not know.
func (r *report) entries(f *reportForm, yield func(place int, e *entry)) {
	planned := func(n int) {
		if e := &r.planned[n]; !e.gone {
			yield(n, e)
		}
	}
	n := 0
	for i := range r.others {
		for ; n < len(r.planned) && (!f.merged || f.order(r.planned[n].id, r.others[i].id) <= 0); n++ {
			planned(n)
		}
		yield(-1, &r.others[i])
	}
	for ; n < len(r.planned); n++ {
		planned(n)
	}
}

// identity is what an object is found by in a report. The version is no part of it: a cluster reports an
// object in the version that its agent prefers.
type identity struct{ group, kind, namespace, name string }

// reporter makes reports of the clusters of one section.
type reporter struct {
	q       Query
	s       *Source
	f       *reportForm
	sec     *section
	names   set[string]
	planned map[identity]int // to the place in the section
	twins   map[int][]int    // by index of a resource: others that are the same object
}

// newReporter puts the section in the order of the form. Of resources that are the same object, as a hook that is run
// twice, or that the release has too, the first one stands for all.
func newReporter(q Query, s *Source, f *reportForm, sec *section) *reporter {
	r := &reporter{q: q, s: s, f: f, sec: sec, names: setOf(q.Resources), planned: map[identity]int{}, twins: map[int][]int{}}
	if q.List == ListResources {
		r.names = nil // as in EMCO
	}
	slices.SortStableFunc(sec.order, func(i, j int) int {
		return f.order(&sec.app.Resources[i], &sec.app.Resources[j])
	})
	kept := sec.order[:0]
	for _, i := range sec.order {
		id := r.identity(i)
		if place, taken := r.planned[id]; taken && r.identity(kept[place]) == id {
			r.twins[kept[place]] = append(r.twins[kept[place]], i)
			continue
		}
		place := len(kept)
		kept = append(kept, i)
		r.planned[id] = place
		// A kind without namespaces is reported without, whatever the manifest says.
		if whole := (identity{id.group, id.kind, "", id.name}); id.namespace != "" {
			if _, taken := r.planned[whole]; !taken {
				r.planned[whole] = place
			}
		}
	}
	sec.order = kept
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

// report matches an observation with the plan.
func (r *reporter) report(c *Cluster, o *Observation) (*report, error) {
	rep := &report{cluster: c, from: *o, planned: make([]entry, len(r.sec.order))}
	rep.from.Resources, rep.from.Object = nil, nil
	for i := range o.Resources {
		id := &o.Resources[i].ResourceID
		if !r.names.has(id.Name) {
			continue
		}
		e := entry{observed: true, index: i, state: ClusterPresent, unheard: o.unheard(kindOf(id))}
		if r.f.judged && r.q.List == ListNone {
			state, err := o.ready(i, r.s.Rules)
			if err != nil {
				return nil, err
			}
			e.state = ClusterState(state.Status)
			if r.q.Output == OutputDetail {
				e.message = state.Message
			}
		}
		if place, ok := r.planned[identity{id.Group, id.Kind, id.Namespace, id.Name}]; ok {
			e.id = &r.sec.app.Resources[r.sec.order[place]]
			rep.planned[place] = e
			continue
		}
		copied := *id // the observation is not kept
		e.id = &copied
		rep.others = append(rep.others, e)
	}
	for place, i := range r.sec.order {
		e := &rep.planned[place]
		if !e.observed {
			e.id = &r.sec.app.Resources[i]
			e.unheard = o.unheard(kindOf(e.id))
			e.state = r.f.missing(o, kindOf(e.id))
			e.gone = r.none(i, c.has)
		}
		if r.f.judged && e.state != ClusterReady && r.none(i, func(i int) bool { return r.matters(c, e, i) }) {
			e.state, e.message, e.unheard = "", "", nil // what does not matter need not be heard
		}
	}
	slices.SortStableFunc(rep.others, func(a, b entry) int { return r.f.order(a.id, b.id) })
	return rep, nil
}

// matters says whether it counts that an entry is not Ready.
func (r *reporter) matters(c *Cluster, e *entry, i int) bool {
	m := c.mark(i)
	return !r.s.over(r.sec.app, i, m) && (e.observed || !r.s.absent(m))
}

// reports reads what the clusters of the section report and calls visit, in their order, for each that has
// a resource; the observation is what the report is from. It ends with the first error.
func (r *reporter) reports(visit func(*report, *Observation) error) error {
	return r.s.observe(r.q, r.sec, func(i int, o *Observation) error {
		rep, err := r.report(r.sec.clusters[i], o)
		if err != nil || len(rep.planned)+len(rep.others) == 0 {
			return err
		}
		return visit(rep, o)
	})
}

// tally is what a document says of all its resources together.
type tally struct {
	counts      map[ClusterState]int
	unconfirmed map[domain.ClusterName]struct{} // clusters whose reports do not hold now, or in part, or that have none
}

func newTally() *tally {
	return &tally{counts: map[ClusterState]int{}, unconfirmed: map[domain.ClusterName]struct{}{}}
}

func (t *tally) add(f *reportForm, r *report) {
	if !r.from.confirmed() {
		t.unconfirmed[r.cluster.ClusterName] = struct{}{}
	}
	r.entries(f, func(_ int, e *entry) {
		if e.unheard != nil {
			t.unconfirmed[r.cluster.ClusterName] = struct{}{}
		}
		if state := r.shown(f, e); state != "" {
			t.counts[state]++
		}
	})
}

// ready is the state of everything together: Ready when something is, nothing is not, and every cluster
// has been heard.
func (t *tally) ready() ClusterState {
	short := t.counts[ClusterNotReady] + t.counts[ClusterNotPresent] + len(t.unconfirmed)
	if t.counts[ClusterReady] > 0 && short == 0 {
		return ClusterReady
	}
	return ClusterNotReady
}
