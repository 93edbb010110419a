package vary

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// union is all that any sort of clusters gets.
type union struct {
	app     *App
	added   map[plan.ResourceID]int // by place: what any sort has beside what was rendered
	further []plan.Resource         // these, without manifests
	lacking []lacked
	met     map[string]bool
}

// lacked is what an intent has not found on some clusters.
type lacked struct {
	id       string
	err      error
	clusters []*Cluster
}

// unmet is the first thing that an intent has found on no cluster, nil for none; some is what it has found on others.
func (u *union) unmet() (some []string, err error) {
	for _, l := range u.lacking {
		err := on(l.clusters, l.err)
		if !u.met[l.id] {
			return nil, err
		}
		some = append(some, fail.TextOf(err))
	}
	return some, nil
}

// on is an error with the clusters for which it holds, of many the first ones.
func on(clusters []*Cluster, err error) error {
	if clusters[0].Name == "" {
		return err
	}
	clusters = slices.SortedFunc(slices.Values(clusters), func(a, b *Cluster) int { return a.Compare(b.ClusterName) })
	names := make([]string, 0, maxNamed)
	for _, c := range clusters[:min(len(clusters), maxNamed)] {
		names = append(names, c.String())
	}
	cluster := "cluster"
	if len(clusters) > 1 {
		cluster = "clusters"
	}
	if more := len(clusters) - maxNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fail.Wrap(err, fail.KindOf(err), "%s (%s %s)", fail.TextOf(err), cluster, strings.Join(names, ", "))
}

// begin begins the work for the clusters of a sort.
func (u *union) begin(clusters []*Cluster) *Work {
	return &Work{App: u.app.Name, Cluster: clusters[0], clusters: clusters, union: u, edits: map[int]json.RawMessage{}}
}

func (u *union) len() int { return len(u.app.Resources) + len(u.further) }

func (u *union) resource(index int) *plan.Resource {
	if n := len(u.app.Resources); index >= n {
		return &u.further[index-n]
	}
	return &u.app.Resources[index]
}

// index is that of a resource, which gets one if it has none. A hook is another thing than a resource of its name.
func (u *union) index(id plan.ResourceID) int {
	at := plan.Place(id, u.app.Namespace)
	for i := range u.app.Resources {
		if r := &u.app.Resources[i]; r.Hook == nil && r.Kind == id.Kind && r.Name == id.Name && plan.Place(r.ResourceID, u.app.Namespace) == at {
			return i
		}
	}
	index, found := u.added[at]
	if !found {
		index = u.len()
		u.added[at] = index
		u.further = append(u.further, plan.Resource{ResourceID: id, Stage: plan.StageOf(id.Group, id.Kind)})
	}
	return index
}

// sum is that of a manifest, or of what a sort of clusters gets.
type sum [sha256.Size]byte

// kept is what sorts of clusters have come to, each once. Manifests that several have are kept once.
type kept struct {
	union     *union
	room      int // bytes
	bytes     int
	results   []result
	of        []int       // by sort: its result
	at        map[sum]int // by what a result is
	manifests map[sum]json.RawMessage
	sums      map[*byte]sum // of those that are kept, by where they are
}

// result is what some clusters get.
type result struct {
	*Work
	n int // clusters
}

// add takes what the n clusters of one more sort get. An error is Malformed: there is no room for it.
func (k *kept) add(w *Work, n int) error {
	for i, manifest := range w.edits {
		if i < len(k.union.app.Resources) && bytes.Equal(manifest, k.union.app.Resources[i].Manifest) {
			delete(w.edits, i)
		}
	}
	sums := make(map[int]sum, len(w.edits))
	for i, manifest := range w.edits {
		s, known := k.sums[&manifest[0]]
		if !known {
			s = sha256.Sum256(manifest)
		}
		sums[i] = s
	}
	is := w.sum(sums)
	at, found := k.at[is]
	if !found {
		at = len(k.results)
		k.at[is] = at
		k.results = append(k.results, result{Work: w})
		for _, e := range w.effects {
			k.bytes += e.Size()
		}
		for i, s := range sums {
			if _, known := k.manifests[s]; !known {
				k.manifests[s], k.sums[&w.edits[i][0]] = w.edits[i], s
				k.bytes += len(w.edits[i])
			}
			w.edits[i] = k.manifests[s]
		}
	}
	k.results[at].n += n
	k.of = append(k.of, at)
	if k.bytes > k.room {
		return fail.New(fail.Malformed, "app %q: what intents make of it for %d sorts of clusters, with what they make of the apps before it, has more than %d bytes in all: have fewer clusters get something of their own, or less of it",
			w.App, len(k.results), limits.Varied)
	}
	return nil
}

// sum tells apart what differs, and the intents by which it was made.
func (w *Work) sum(manifests map[int]sum) (s sum) {
	h := sha256.New()
	number := func(n int) { _ = binary.Write(h, binary.BigEndian, int64(n)) }
	text := func(t string) { number(len(t)); h.Write([]byte(t)) }
	for _, i := range slices.Sorted(maps.Keys(manifests)) {
		number(i)
		of := manifests[i]
		h.Write(of[:])
	}
	for _, e := range w.effects {
		number(e.Resource)
		text(e.What)
		text(e.By)
	}
	h.Sum(s[:0])
	return s
}

// share takes what most clusters get for the app's bundle.
func (k *kept) share(of []int) *Varied {
	most := slices.MaxFunc(k.results, func(a, b result) int { return cmp.Compare(a.n, b.n) })
	bundle, places := k.bundle(most.Work)
	out := &Varied{Bundle: bundle, Lacks: most.lacks(bundle, places), Effects: most.noted(places), Of: make([]int, len(of)), Bytes: k.bytes}
	variant := make([]int, len(k.results))
	for i, r := range k.results {
		if r.Work != most.Work {
			out.Variants = append(out.Variants, Variant{Overlay: r.over(most.Work, bundle, places), Lacks: r.lacks(bundle, places), Effects: r.noted(places)})
			variant[i] = len(out.Variants)
		}
	}
	for i := range of {
		out.Of[i] = variant[k.of[of[i]]]
	}
	return out
}

// bundle is all that any cluster gets, with manifests as the base has them, and its indices by those of the work. Resources that
// were added come to the end of their stage, and all before the hooks.
func (k *kept) bundle(base *Work) (b *plan.Bundle, places map[int]int) {
	order := make([]int, k.union.len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := k.union.resource(a), k.union.resource(b)
		switch {
		case x.Hook != nil && y.Hook != nil:
			return 0
		case x.Hook != nil:
			return 1
		case y.Hook != nil:
			return -1
		default:
			return cmp.Compare(x.Stage, y.Stage)
		}
	})
	b, places = &plan.Bundle{App: base.App, Resources: make([]plan.Resource, 0, len(order))}, make(map[int]int, len(order))
	for place, i := range order {
		places[i] = place
		r := *k.union.resource(i)
		has := base
		if !base.Has(i) { // any that has it: no cluster of the base will look
			has = k.results[slices.IndexFunc(k.results, func(r result) bool { return r.Has(i) })].Work
		}
		r.Manifest = has.manifest(i)
		// What is to be kept in one cluster is kept in all: rather too much stays than too little.
		r.Keep = r.Keep || r.Hook == nil && slices.ContainsFunc(k.results, func(r result) bool { return keeps(r.edits[i]) })
		sayKept(&r)
		b.Resources = append(b.Resources, r)
	}
	return b, places
}

// keeps says whether a manifest says that its object is never deleted.
func keeps(manifest json.RawMessage) bool {
	if !bytes.Contains(manifest, []byte(plan.KeepAnnotation)) {
		return false
	}
	var of struct {
		Metadata struct{ Annotations map[string]string }
	}
	err := json.Unmarshal(manifest, &of)
	return err == nil && plan.IsKept(of.Metadata.Annotations)
}

// sayKept has the manifest of what is to be kept say so: who looks in clusters for what is left there after a terminate goes by what objects say. A
// CRD is never looked for. What cannot be said stays as it is, for the cluster to refuse.
func sayKept(r *plan.Resource) {
	if !r.Keep || r.IsDefinition() || keeps(r.Manifest) {
		return
	}
	object, err := decode(r.Manifest)
	if err != nil {
		return
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok && metadata["annotations"] != nil {
		return
	}
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[plan.KeepAnnotation] = plan.KeepPolicy
	if manifest, err := json.Marshal(object); err == nil {
		r.Manifest = manifest
	}
}

// lacks are the marks with which clusters begin that do not get all of the bundle, "" for those that do.
func (w *Work) lacks(b *plan.Bundle, places map[int]int) string {
	marks := domain.NewMarks(len(b.Resources), domain.MarkPending)
	for i, place := range places {
		if !w.Has(i) {
			marks[place] = domain.MarkGone
		}
	}
	if !marks.Has(func(m domain.Mark) bool { return m == domain.MarkGone }) {
		return ""
	}
	return marks.Encode()
}

// noted are the effects, with the indices of the bundle.
func (w *Work) noted(places map[int]int) []plan.Effect {
	effects := slices.Clone(w.effects)
	for i := range effects {
		effects[i].Resource = places[effects[i].Resource]
	}
	return effects
}

// over is what is otherwise than in the bundle, which is the base's.
func (w *Work) over(base *Work, b *plan.Bundle, places map[int]int) *plan.Overlay {
	changed := maps.Clone(w.edits)
	maps.Copy(changed, base.edits)
	o := &plan.Overlay{}
	for i := range changed {
		if !w.Has(i) {
			continue
		}
		r := b.Resources[places[i]]
		r.Manifest = w.manifest(i)
		sayKept(&r)
		if !bytes.Equal(r.Manifest, b.Resources[places[i]].Manifest) {
			o.Resources = append(o.Resources, plan.Overlaid{Index: places[i], Resource: r})
		}
	}
	slices.SortFunc(o.Resources, func(a, b plan.Overlaid) int { return a.Index - b.Index })
	return o
}
