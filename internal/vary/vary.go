// Package vary changes rendered apps as the intents of a group ask for it, cluster by cluster: what EMCO's action
// controllers do (network interfaces, …), as intents between rendering and planning. All of it is pure. An app is rendered once;
// clusters of which the intents look at nothing that differs are varied once, and those that get the same share it.
package vary

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// Cluster is what intents know of a cluster.
type Cluster struct {
	domain.ClusterName
	Pairs    []domain.KVSpec // its key-value pairs, of all documents, as far as they have keys of Keys
	Networks map[string]bool // by name, those of its network intents and provider network intents
	Applied  bool            // these are applied; read where OVN asks for networks
	Labels   map[string]bool
}

// Keys are those of key-value pairs of a cluster that intents look up. Those of Generic.Keys are not among them.
var Keys = map[string]bool{
	nodusKey: true, wrapperKey: true,
	gatewayAddress: true, gatewayPort: true, gatewayInternal: true, gatewayHTTPS: true, gatewayHTTP: true,
}

// pair looks a key up in all documents. It has to be one of Keys.
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
	// Check looks once at an app as it was rendered, and at all of its clusters. It warns of what is odd whatever the cluster.
	// The error is Malformed: what the intent asks for can be done nowhere.
	Check(app *App) (warnings []string, err error)
	// Sort is a word for what of a cluster decides what Vary does: on clusters with equal words it does the same.
	Sort(app string, c *Cluster) string
	// Vary changes the app for clusters of a sort, as the intents before have left it there. The error is Malformed: what the
	// intent asks for cannot be done on them.
	Vary(w *Work) error
}

// App is a rendered app, and the clusters to which it goes.
type App struct {
	Name      string
	Namespace string // of resources that name none
	Resources []plan.Resource
	Clusters  []*Cluster // in the order of the plan's targets; none in a rehearsal of what is not placed yet
	// Placed are the clusters of all apps of the group, this one's among them.
	Placed map[string][]*Cluster
	// Used are the bytes that are kept of the group's other apps, of limits.Varied.
	Used int
}

// Varied is an app as its clusters get it.
type Varied struct {
	Bundle  *plan.Bundle // for clusters without a variant, which are the most; with what any cluster gets
	Lacks   string       // plan.App's
	Effects []plan.Effect
	// Variants are what other clusters get.
	Variants []Variant
	// Of is the variant by cluster, in the order in which they were given: 0 for none, else its place in Variants and one.
	Of       []int
	Warnings []string
	Bytes    int // what is kept of all that clusters get otherwise than it was rendered
}

// Expires says of a resource, by its index, whether it is one that plan.Resource.Expires, on one of the clusters at least.
func (v *Varied) Expires(i int) bool {
	return v.Bundle.Resources[i].Expires() || slices.ContainsFunc(v.Variants, func(v Variant) bool {
		r := v.Overlay.At(i)
		return r != nil && r.Expires()
	})
}

// Variant is what some clusters get otherwise.
type Variant struct {
	Overlay *plan.Overlay
	Lacks   string // plan.Variant's
	Effects []plan.Effect
}

// Apply takes the intents one after the other: a later one sees what the earlier ones have made. The app itself is not changed.
// Sorts of clusters are taken one after the other, and of each is kept what no sort before it has come to.
func Apply(intents []Intent, app *App) (*Varied, error) {
	intents = slices.DeleteFunc(slices.Clone(intents), func(s Intent) bool { return !s.Concerns(app.Name) })
	if len(intents) == 0 {
		return &Varied{Bundle: &plan.Bundle{App: app.Name, Resources: app.Resources}, Of: make([]int, len(app.Clusters))}, nil
	}
	said := warnings{}
	for _, s := range intents {
		found, err := s.Check(app)
		if err != nil {
			return nil, err
		}
		said.add(found...)
	}
	sorts, of := sort(intents, app)
	u := &union{app: app, added: map[plan.ResourceID]int{}, met: map[string]bool{}}
	k := &kept{union: u, room: limits.Varied - app.Used, at: map[sum]int{}, manifests: map[sum]json.RawMessage{}, sums: map[*byte]sum{}}
	for i := range sorts {
		w := u.begin(sorts[i])
		for _, s := range intents {
			if err := s.Vary(w); err != nil {
				return nil, w.refuse(err)
			}
		}
		said.add(w.warnings...)
		if err := k.add(w, len(sorts[i])); err != nil {
			return nil, err
		}
	}
	some, err := u.unmet()
	if err != nil {
		return nil, err
	}
	said.add(some...)
	out := k.share(of)
	out.Warnings = said.all
	return out, nil
}

// warnings are what users are told, each thing once.
type warnings struct {
	all   []string
	known map[string]bool
}

func (w *warnings) add(found ...string) {
	for _, text := range found {
		if w.known == nil {
			w.known = map[string]bool{}
		}
		if !w.known[text] {
			w.known[text] = true
			w.all = append(w.all, text)
		}
	}
}

// refuse names the cluster for which an intent cannot be carried out.
func (w *Work) refuse(err error) error { return on(w.clusters[:1], err) }

// sort puts the clusters together of which the intents look at the same; of are the places of their sorts. Where there is no
// cluster yet, one of which nothing is known stands for those to come.
func sort(intents []Intent, app *App) (sorts [][]*Cluster, of []int) {
	if len(app.Clusters) == 0 {
		return [][]*Cluster{{{}}}, nil
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
			sorts = append(sorts, nil)
		}
		sorts[at] = append(sorts[at], c)
		of = append(of, at)
	}
	return sorts, of
}

// Bound is an intent, and where it comes in the order.
type Bound struct {
	Registered bool // its controller is
	Priority   int  // of the registration
	Actor      domain.Actor
	Intents    []Intent // it may be made of several, which keep their order
}

// InOrder are the intents in the order in which they are taken: by the priorities of the registrations, then in the order of
// domain.Actor, where EMCO has none. Whose controller is not registered comes with the last of those that are, as nobody has said that
// it is to come before them. Those of one actor keep their order.
func InOrder(bound []Bound) []Intent {
	bound = slices.Clone(bound)
	last := 0
	for i := range bound {
		if bound[i].Registered {
			last = max(last, bound[i].Priority)
		}
	}
	for i := range bound {
		if !bound[i].Registered {
			bound[i].Priority = last
		}
	}
	slices.SortStableFunc(bound, func(a, b Bound) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Actor.Order(), b.Actor.Order()))
	})
	var intents []Intent
	for i := range bound {
		intents = append(intents, bound[i].Intents...)
	}
	return intents
}
