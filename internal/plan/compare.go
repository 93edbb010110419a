package plan

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
)

// Way is the way from what is installed to what is wanted, as an operation would go it.
type Way struct {
	From     Installed // its plan has no apps where nothing is there
	Change   *Change
	Warnings []string
}

// Action is what an operation would do with a resource on a cluster.
type Action string

// The actions.
const (
	ActionCreate Action = "create"
	ActionChange Action = "change" // it is there, and is to say something else
	// ActionAgain is what is applied though it is wanted as it was: nobody knows whether the last request got through, or another
	// app takes it over.
	ActionAgain  Action = "again"
	ActionRun    Action = "run" // a hook
	ActionDelete Action = "delete"
)

// ResourceChange is what happens to a resource on the clusters of a Difference.
type ResourceChange struct {
	ResourceID
	Action Action
	// Before and After are its manifests; nil where there is none.
	Before, After json.RawMessage
}

// Difference is what an operation does for one app on clusters on which it does the same.
type Difference struct {
	App      string
	Clusters []domain.ClusterName // in the order of the app's targets
	Arrives  bool                 // of the app there is nothing on them
	Leaves   bool                 // the app does not go to them any more
	// Changes are what happens to resources: those that are applied, in their order, then those that are deleted.
	Changes []ResourceChange
}

// Counts is how many resources an action is for, each counted once a cluster.
type Counts map[Action]int

// Counts are those of the clusters of the difference.
func (d *Difference) Counts() Counts {
	counts := Counts{}
	for _, c := range d.Changes {
		counts[c.Action] += len(d.Clusters)
	}
	return counts
}

// pairing is how Diff has matched the resources of an app.
type pairing struct {
	*matching
	pruned []int // old resources that are behind the wanted ones
}

// Differences are what is to be done, by app and by clusters on which it is the same, in the order of the plan's apps and
// their targets. Clusters on which nothing is to be done are in none. Only those that pass are looked at.
func (w *Way) Differences(pass func(app string, c domain.ClusterName) bool) []Difference {
	var out []Difference
	for i := range w.Change.Plan.Apps {
		app := &w.Change.Plan.Apps[i]
		c := &comparing{way: w, app: app, pair: w.Change.pairs[app.Name], known: map[string][]ResourceChange{}}
		out = append(out, c.differences(pass)...)
	}
	return out
}

// comparing is Differences for one app.
type comparing struct {
	way  *Way
	app  *App
	pair *pairing
	// known are changes by their key.
	known map[string][]ResourceChange
}

func (c *comparing) differences(pass func(app string, cluster domain.ClusterName) bool) []Difference {
	var out []Difference
	at, keys := map[string]int{}, map[string]string{}
	before := map[domain.ClusterName]*Target{}
	if old := c.way.From.Plan.App(c.app.Name); old != nil {
		for i := range old.Targets {
			before[old.Targets[i].ClusterName] = &old.Targets[i]
		}
	}
	for i := range c.app.Targets {
		t := &c.app.Targets[i]
		if !pass(c.app.Name, t.ClusterName) {
			continue
		}
		was := before[t.ClusterName]
		marks := t.Begin(len(c.app.Resources))
		variant := -1
		if was != nil {
			variant = was.Variant
		}
		sort := fmt.Sprintf("%s %d %d %t", marks.Encode(), t.Variant, variant, t.Leaving)
		key, known := keys[sort]
		if !known {
			changes := c.changes(t, was, marks)
			key = c.key(changes, was == nil, t.Leaving)
			keys[sort] = key
			if c.known[key] == nil {
				c.known[key] = changes
			}
		}
		changes := c.known[key]
		if len(changes) == 0 {
			continue
		}
		n, found := at[key]
		if !found {
			n = len(out)
			at[key] = n
			out = append(out, Difference{App: c.app.Name, Arrives: was == nil, Leaves: t.Leaving, Changes: changes})
		}
		out[n].Clusters = append(out[n].Clusters, t.ClusterName)
	}
	return out
}

// changes are what is to be done on a target, of which was says what the app had there, nil for nothing.
func (c *comparing) changes(t, was *Target, marks domain.Marks) (changes []ResourceChange) {
	bundle := c.way.Change.Bundles[c.app.Name]
	for i, m := range marks {
		if i >= len(bundle.Resources) || m.Settled() {
			continue
		}
		r := &bundle.Resources[i]
		one := ResourceChange{ResourceID: r.ResourceID, Action: ActionCreate}
		if old := c.old(i); old >= 0 && was != nil && m.MayBeThere() {
			one.Before = cmp.Or(c.pair.overlays[1](was.Variant).At(old), &c.pair.old[old]).Manifest
		}
		if m.ToDelete() {
			one.Action = ActionDelete
			changes = append(changes, one)
			continue
		}
		one.After = cmp.Or(c.pair.overlays[0](t.Variant).At(i), r).Manifest
		switch {
		case r.Hook != nil:
			one.Action = ActionRun
		case m.MayBeThere() && one.Before != nil && !sameManifest(one.Before, one.After):
			one.Action = ActionChange
		case m.MayBeThere():
			one.Action = ActionAgain
		}
		changes = append(changes, one)
	}
	slices.SortStableFunc(changes, func(a, b ResourceChange) int {
		rank := func(c ResourceChange) int {
			if c.Action == ActionDelete {
				return 1
			}
			return 0
		}
		return rank(a) - rank(b)
	})
	return changes
}

// old is the index of the old resource of one in the plan, -1 for none.
func (c *comparing) old(i int) int {
	switch {
	case i < c.pair.wanted:
		return c.pair.before[i]
	case i-c.pair.wanted < len(c.pair.pruned):
		return c.pair.pruned[i-c.pair.wanted]
	default:
		return -1
	}
}

// key is the same for changes that are the same.
func (c *comparing) key(changes []ResourceChange, arrives, leaves bool) string {
	if len(changes) == 0 {
		return ""
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%t %t", arrives, leaves)
	for i := range changes {
		x := &changes[i]
		fmt.Fprintf(&key, "\n%q %s %x %x", x.ResourceID, x.Action, sha256.Sum256(x.Before), sha256.Sum256(x.After))
	}
	return key.String()
}

// FieldChange is a member of a resource that is to say something else.
type FieldChange struct {
	// Path is as API servers write it, and of elements that have a name by that: spec.template.spec.containers[name="web"].image.
	Path string
	// Before and After are nil where it is not there.
	Before, After any
}

// Fields are the members in which two manifests differ, in the order of their paths, but what clusters write themselves. Lists
// whose elements have names of their own are compared by these, others of objects by their places, all else as a whole.
func Fields(before, after json.RawMessage) (fields []FieldChange) {
	var x, y any
	if !decode(before, &x) || !decode(after, &y) {
		if bytes.Equal(before, after) {
			return nil
		}
		return []FieldChange{{Before: string(before), After: string(after)}}
	}
	quiet(x)
	quiet(y)
	compare("", x, y, func(f FieldChange) { fields = append(fields, f) })
	return fields
}

// Shown is a manifest without what clusters write themselves, decoded; nil for one that is none.
func Shown(manifest json.RawMessage) any {
	var x any
	if !decode(manifest, &x) {
		return nil
	}
	quiet(x)
	return x
}

// written are the members of metadata that only clusters write.
var written = []string{"managedFields", "resourceVersion", "uid", "generation", "selfLink"}

// quiet takes away what a cluster writes itself.
func quiet(v any) {
	o, ok := v.(map[string]any)
	if !ok {
		return
	}
	delete(o, "status")
	if metadata, ok := o["metadata"].(map[string]any); ok {
		for _, name := range written {
			delete(metadata, name)
		}
	}
	stamps(o)
}

// stamps takes away times of creation, which generators leave as null, of the object and of its templates.
func stamps(v any) {
	switch v := v.(type) {
	case map[string]any:
		if metadata, ok := v["metadata"].(map[string]any); ok {
			delete(metadata, "creationTimestamp")
		}
		for _, member := range v {
			stamps(member)
		}
	case []any:
		for _, member := range v {
			stamps(member)
		}
	default: // it has no members
	}
}

// compare tells of the differences of what stands at a path.
func compare(path string, x, y any, tell func(FieldChange)) {
	switch before := x.(type) {
	case map[string]any:
		if after, ok := y.(map[string]any); ok {
			compareMembers(path, before, after, tell)
			return
		}
	case []any:
		if after, ok := y.([]any); ok && objects(before) && objects(after) {
			compareElements(path, before, after, tell)
			return
		}
	default: // it has no members
	}
	if !same(x, y) {
		tell(FieldChange{path, x, y})
	}
}

func compareMembers(path string, x, y map[string]any, tell func(FieldChange)) {
	names := make([]string, 0, len(x)+len(y))
	for name := range x {
		names = append(names, name)
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		compare(member(path, name), x[name], y[name], tell)
	}
}

// member is the path of a member: in brackets where a dot in its name would be taken for another one.
func member(path, name string) string {
	switch {
	case name == "" || strings.ContainsAny(name, `./[]"`):
		return fmt.Sprintf("%s[%q]", path, name)
	case path == "":
		return name
	default:
		return path + "." + name
	}
}

// objects says whether a list has nothing but objects.
func objects(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { _, ok := v.(map[string]any); return !ok })
}

// names are what elements of lists are called by, as Kubernetes' own types do.
var names = []string{"name", "mountPath", "containerPort", "port", "key", "type", "ip", "topologyKey"}

func compareElements(path string, x, y []any, tell func(FieldChange)) {
	name, ok := namedBy(x, y)
	if !ok {
		for i := range max(len(x), len(y)) {
			var a, b any
			if i < len(x) {
				a = x[i]
			}
			if i < len(y) {
				b = y[i]
			}
			compare(fmt.Sprintf("%s[%d]", path, i), a, b, tell)
		}
		return
	}
	at := map[string]any{}
	for _, v := range y {
		at[text(v.(map[string]any)[name])] = v
	}
	seen := map[string]bool{}
	for _, v := range append(slices.Clone(x), y...) {
		called := text(v.(map[string]any)[name])
		if seen[called] {
			continue
		}
		seen[called] = true
		var before any
		if i := slices.IndexFunc(x, func(o any) bool { return text(o.(map[string]any)[name]) == called }); i >= 0 {
			before = x[i]
		}
		compare(fmt.Sprintf("%s[%s=%s]", path, name, called), before, at[called], tell)
	}
}

// namedBy is the member that all elements of both lists have, each list another value in each of its elements.
func namedBy(x, y []any) (name string, ok bool) {
	for _, name := range names {
		if distinct(x, name) && distinct(y, name) {
			return name, true
		}
	}
	return "", false
}

func distinct(list []any, name string) bool {
	seen := map[string]bool{}
	for _, v := range list {
		value, ok := v.(map[string]any)[name]
		switch value.(type) {
		case map[string]any, []any, nil:
			return false
		default:
		}
		if !ok || seen[text(value)] {
			return false
		}
		seen[text(value)] = true
	}
	return true
}

// text is a value as JSON has it.
func text(v any) string {
	data, _ := json.Marshal(v) // what was decoded from JSON can be encoded
	return string(data)
}

func same(x, y any) bool { return text(x) == text(y) }
