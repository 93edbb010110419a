// Package vary changes rendered apps as the intents of a group ask for it, cluster by cluster: what EMCO's action
// controllers do (network interfaces, …), as intents between rendering and planning. All of it is pure. An app is rendered once;
// clusters of which the intents look at nothing that differs are varied once, and those that get the same share it.
package vary

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

// Cluster is what intents know of a cluster.
type Cluster struct {
	domain.ClusterName
	Pairs    []domain.KVSpec // its key-value pairs, of all documents
	Networks map[string]bool // by name, those of its network intents and provider network intents
}

// pair looks a key up in all documents.
func (c *Cluster) pair(key string) (string, bool) {
	for _, p := range c.Pairs {
		if value, ok := p.Value(key); ok {
			return value, true
		}
	}
	return "", false
}

// Intent is one that a deployment intent binds to its group, with all that is below it.
type Intent interface {
	// Concerns says whether there is anything to do with an app.
	Concerns(app string) bool
	// Check looks once at an app, as the intents before have left it on its first cluster, and at all of its clusters. The error
	// is Malformed: what the intent asks for cannot be done.
	Check(w *Work, clusters []*Cluster) (warnings []string, err error)
	// Sort is a word for what of a cluster decides what Vary does: on clusters with equal words it does the same.
	Sort(app string, c *Cluster) string
	// Vary changes the app for clusters of a sort. The error is Malformed.
	Vary(w *Work) error
}

// App is a rendered app, and the clusters to which it goes.
type App struct {
	Name      string
	Resources []plan.Resource
	Clusters  []*Cluster // in the order of the plan's targets; none in a rehearsal of what is not placed yet
}

// Work is an app on its way to the clusters of a sort. What is changed is all that it has of its own.
type Work struct {
	App      string
	Cluster  *Cluster // the first one of them
	rendered []plan.Resource
	edits    map[int]json.RawMessage // manifests by index
	effects  []plan.Effect
	n        int // how many clusters
}

// Resources are the app's, with the manifests that they have by now.
func (w *Work) Resources(yield func(int, *plan.Resource) bool) {
	for i := range w.rendered {
		r := w.rendered[i]
		r.Manifest = w.manifest(i)
		if !yield(i, &r) {
			return
		}
	}
}

func (w *Work) manifest(index int) json.RawMessage {
	if edited, ok := w.edits[index]; ok {
		return edited
	}
	return w.rendered[index].Manifest
}

// object is a resource as JSON decodes it. Numbers are kept to the digit.
func (w *Work) object(index int) (object map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(w.manifest(index)))
	d.UseNumber()
	if err := d.Decode(&object); err != nil || object == nil {
		r := &w.rendered[index]
		return nil, fail.Wrap(err, fail.Malformed, "the manifest of %s %q is not an object", r.Kind, r.Name)
	}
	return object, nil
}

// Edit changes the object of a resource.
func (w *Work) Edit(index int, change func(object map[string]any) error) error {
	object, err := w.object(index)
	if err != nil {
		return err
	}
	if err := change(object); err != nil {
		return err
	}
	manifest, err := encode(object)
	if err == nil {
		w.edits[index] = manifest
	}
	return err
}

// encode is JSON as people write it: nothing is escaped that need not be.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Effect notes what was made of a resource, and by which intent.
func (w *Work) Effect(index int, what, by string) {
	e := plan.Effect{Resource: index, What: what, By: by}
	if !slices.Contains(w.effects, e) {
		w.effects = append(w.effects, e)
	}
}

// Varied is an app as its clusters get it.
type Varied struct {
	Bundle   *plan.Bundle // for clusters without a variant, which are the most
	Effects  []plan.Effect
	Variants []Variant
	// Of is the variant by cluster, in the order in which they were given: 0 for none, else its place in Variants and one.
	Of       []int
	Warnings []string
}

// Variant is what some clusters get otherwise.
type Variant struct {
	Overlay *plan.Overlay
	Effects []plan.Effect
}

// Apply takes the intents one after the other: a later one sees what the earlier ones have made. The app itself is not changed.
func Apply(intents []Intent, app *App) (*Varied, error) {
	intents = slices.DeleteFunc(slices.Clone(intents), func(s Intent) bool { return !s.Concerns(app.Name) })
	if len(intents) == 0 {
		return &Varied{Bundle: &plan.Bundle{App: app.Name, Resources: app.Resources}, Of: make([]int, len(app.Clusters))}, nil
	}
	sorts, of := sort(intents, app)
	var warnings []string
	for i, w := range sorts {
		for _, s := range intents {
			if i == 0 {
				found, err := s.Check(w, app.Clusters)
				if err != nil {
					return nil, err
				}
				warnings = append(warnings, found...)
			}
			if err := s.Vary(w); err != nil {
				return nil, w.refuse(err)
			}
		}
	}
	out := share(sorts, of)
	out.Warnings = warnings
	return out, nil
}

// refuse names the cluster for which an intent cannot be carried out.
func (w *Work) refuse(err error) error {
	if w.Cluster.Name == "" {
		return err
	}
	return fail.Wrap(err, fail.KindOf(err), "%s (cluster %s)", fail.TextOf(err), w.Cluster)
}

// sort puts the clusters together of which the intents look at the same; of are the places of their sorts. Where there is no
// cluster yet, one of which nothing is known stands for those to come.
func sort(intents []Intent, app *App) (sorts []*Work, of []int) {
	add := func(c *Cluster) {
		sorts = append(sorts, &Work{App: app.Name, Cluster: c, rendered: app.Resources, edits: map[int]json.RawMessage{}})
	}
	if len(app.Clusters) == 0 {
		add(&Cluster{})
	}
	known := map[string]int{}
	words := make([]string, len(intents))
	for _, c := range app.Clusters {
		for i, s := range intents {
			words[i] = s.Sort(app.Name, c)
		}
		word := strings.Join(words, "\x00")
		at, found := known[word]
		if !found {
			at = len(sorts)
			known[word] = at
			add(c)
		}
		sorts[at].n++
		of = append(of, at)
	}
	return sorts, of
}

// share finds the sorts that have come to the same, and takes what most clusters get for the app's bundle.
func share(sorts []*Work, of []int) *Varied {
	var results []*Work
	at := make([]int, len(sorts)) // by sort
	known := map[string]int{}
	for i, w := range sorts {
		sum := w.sum()
		j, found := known[sum]
		if !found {
			j = len(results)
			known[sum] = j
			results = append(results, w)
		} else {
			results[j].n += w.n
		}
		at[i] = j
	}
	most := slices.MaxFunc(results, func(a, b *Work) int { return cmp.Compare(a.n, b.n) })
	out := &Varied{Bundle: most.bundle(), Effects: most.effects, Of: make([]int, len(of))}
	variant := make([]int, len(results))
	for i, w := range results {
		if w != most {
			out.Variants = append(out.Variants, Variant{Overlay: w.over(most), Effects: w.effects})
			variant[i] = len(out.Variants)
		}
	}
	for i := range of {
		out.Of[i] = variant[at[of[i]]]
	}
	return out
}

// sum tells apart what differs, and the intents by which it was made.
func (w *Work) sum() string {
	h := sha256.New()
	say := func(text []byte) { fmt.Fprintf(h, "%d:%s", len(text), text) }
	for _, i := range slices.Sorted(maps.Keys(w.edits)) {
		if !bytes.Equal(w.edits[i], w.rendered[i].Manifest) {
			fmt.Fprintf(h, "%d=", i)
			say(w.edits[i])
		}
	}
	for _, e := range w.effects {
		fmt.Fprintf(h, "%d=", e.Resource)
		say([]byte(e.What))
		say([]byte(e.By))
	}
	return string(h.Sum(nil))
}

// bundle is all that the clusters get.
func (w *Work) bundle() *plan.Bundle {
	b := &plan.Bundle{App: w.App, Resources: slices.Clone(w.rendered)}
	for i, manifest := range w.edits {
		b.Resources[i].Manifest = manifest
	}
	return b
}

// over is what is otherwise than in the base.
func (w *Work) over(base *Work) *plan.Overlay {
	changed := maps.Clone(w.edits)
	maps.Copy(changed, base.edits)
	o := &plan.Overlay{}
	for _, i := range slices.Sorted(maps.Keys(changed)) {
		if r := w.rendered[i]; !bytes.Equal(w.manifest(i), base.manifest(i)) {
			r.Manifest = w.manifest(i)
			o.Resources = append(o.Resources, plan.Overlaid{Index: i, Resource: r})
		}
	}
	return o
}

// Bound is an intent, and where it comes in the order.
type Bound struct {
	Priority int // of the controller's registration, 0 when there is none
	Actor    domain.Actor
	Intent   Intent
}

// order is that of intents with the same priority, where EMCO has none: who patches whatever there is comes last.
var order = []domain.Actor{domain.ActorOVN}

// InOrder are the intents in the order in which they are taken. Those of one actor keep theirs.
func InOrder(bound []Bound) []Intent {
	bound = slices.Clone(bound)
	slices.SortStableFunc(bound, func(a, b Bound) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(slices.Index(order, a.Actor), slices.Index(order, b.Actor)))
	})
	intents := make([]Intent, len(bound))
	for i := range bound {
		intents[i] = bound[i].Intent
	}
	return intents
}
