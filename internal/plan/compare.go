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
	// Counts are of all that happens, on all of the clusters.
	Counts Counts

	changes func() []ResourceChange
}

// Changes are what happens to resources: those that are applied, in their order, then those that are deleted. They are made each time:
// thousands of clusters may each have thousands of their own.
func (d *Difference) Changes() []ResourceChange { return d.changes() }

// Counts is how many resources an action is for, each counted once a cluster.
type Counts map[Action]int

// pairing is how Diff has matched the resources of an app.
type pairing struct {
	*matching
	pruned []int // old resources that are behind the wanted ones
}

// Differences are what is to be done, by app and by clusters on which it is the same, in the order of the plan's apps and
// their targets. Clusters on which nothing is to be done are in none. Only those that pass are looked at. It
// ends with the error of waited, which is nil as long as somebody waits for it.
func (w *Way) Differences(waited func() error, pass func(app string, c domain.ClusterName) bool) ([]Difference, error) {
	var out []Difference
	for i := range w.Change.Plan.Apps {
		app := &w.Change.Plan.Apps[i]
		c := &comparing{way: w, app: app, pair: w.Change.pairs[app.Name], sums: map[*byte]digest{}}
		of, err := c.differences(waited, pass)
		if err != nil {
			return nil, err
		}
		out = append(out, of...)
	}
	return out, nil
}

// digest is a SHA-256.
type digest = [sha256.Size]byte

// comparing is Differences for one app.
type comparing struct {
	way  *Way
	app  *App
	pair *pairing
	sums map[*byte]digest // of manifests, by where they are: most are those of many clusters
}

// alike is what is to be done on clusters, by what it comes to.
type alike struct {
	key    digest
	counts Counts // on one of them
}

func (c *comparing) differences(waited func() error, pass func(app string, cluster domain.ClusterName) bool) ([]Difference, error) {
	var out []Difference
	at, known := map[digest]int{}, map[string]alike{}
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
		if err := waited(); err != nil {
			return nil, err
		}
		was := before[t.ClusterName]
		marks := t.Begin(len(c.app.Resources))
		variant := -1
		if was != nil {
			variant = was.Variant
		}
		sort := fmt.Sprintf("%s %d %d %t %t", marks.Encode(), t.Variant, variant, t.Leaving, t.Installs)
		does, found := known[sort]
		if !found {
			does = c.alike(t, was, marks)
			known[sort] = does
		}
		if len(does.counts) == 0 {
			continue
		}
		n, found := at[does.key]
		if !found {
			n = len(out)
			at[does.key] = n
			changes := func() []ResourceChange { return c.changes(t, was, t.Begin(len(c.app.Resources))) }
			out = append(out, Difference{App: c.app.Name, Arrives: was == nil, Leaves: t.Leaving, Counts: Counts{}, changes: changes})
		}
		out[n].Clusters = append(out[n].Clusters, t.ClusterName)
		for action, count := range does.counts {
			out[n].Counts[action] += count
		}
	}
	return out, nil
}

// changes are what is to be done on a target, of which was says what the app had there, nil for nothing. Where there is anything
// to be applied, the operation's hooks are run, too, whatever came of them the last time.
func (c *comparing) changes(t, was *Target, marks domain.Marks) (changes []ResourceChange) {
	bundle := c.way.Change.Bundles[c.app.Name]
	if !t.Installs && marks.Has(domain.Mark.ToApply) {
		marks = Due(bundle.Resources, c.way.Change.op, marks)
	}
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
		one.After = c.pair.at(i, t.Variant).Manifest
		switch {
		case r.Hook != nil:
			one.Action, one.Before = ActionRun, nil // whatever its last run has left
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

// alike is what is to be done on a target, as changes has it: its key is the same where that is the same.
func (c *comparing) alike(t, was *Target, marks domain.Marks) alike {
	changes, does, sum := c.changes(t, was, marks), alike{counts: Counts{}}, sha256.New()
	fmt.Fprintf(sum, "%t %t", was == nil, t.Leaving)
	for i := range changes {
		x := &changes[i]
		fmt.Fprintf(sum, "\n%q %s %x %x", x.ResourceID, x.Action, c.sum(x.Before), c.sum(x.After))
		does.counts[x.Action]++
	}
	sum.Sum(does.key[:0])
	return does
}

// sum is the digest of a manifest, nil for none.
func (c *comparing) sum(manifest json.RawMessage) []byte {
	if len(manifest) == 0 {
		return nil
	}
	sum, known := c.sums[&manifest[0]]
	if !known {
		sum = sha256.Sum256(manifest)
		c.sums[&manifest[0]] = sum
	}
	return sum[:]
}

// FieldChange is a member of a resource that is to say something else.
type FieldChange struct {
	// Path is as API servers write it, and of elements that have a name by that: spec.template.spec.containers[name="web"].image.
	Path string
	// Before and After are nil where it is not there.
	Before, After any
}

// Fields are the members in which two manifests differ, without what clusters write themselves, in the order of their paths. A list whose elements
// have names is compared by name, another list of objects by place, and anything else as a whole. Another order of names is a change, too:
// a later init container waits for an earlier one. If nothing else differs, what clusters write and members that are null are compared as
// well, since an apply sends them. At most so many members are given as fields, and more is how many others differ. The error
// is that of waited, which is nil as long as somebody waits for the answer.
func Fields(waited func() error, before, after json.RawMessage, most int) (fields []FieldChange, more int, err error) {
	if err := waited(); err != nil {
		return nil, 0, err
	}
	var x, y any
	if !decode(before, &x) || !decode(after, &y) {
		if bytes.Equal(before, after) {
			return nil, 0, nil
		}
		return []FieldChange{{Before: string(before), After: string(after)}}, 0, nil
	}
	quiet(x)
	quiet(y)
	c := &fieldwise{waited: waited, most: most}
	c.compare(nil, x, y)
	if c.err == nil && len(c.fields) == 0 && c.more == 0 && !sameManifest(before, after) {
		var x, y any
		decode(before, &x) // as before
		decode(after, &y)
		c.nulls = true
		c.compare(nil, x, y)
	}
	if c.err != nil {
		return nil, 0, c.err
	}
	return c.fields, c.more, nil
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

// fieldwise is one call of Fields.
type fieldwise struct {
	waited func() error
	err    error // of waited
	looked int   // at how many places
	most   int
	nulls  bool // a member that is null is another than one that is not there
	fields []FieldChange
	more   int
}

// place is where something stands. Its path is written for what is told alone: a long name may be above a hundred thousand others.
type place struct {
	up   *place // nil at the top
	step string // from there: .image, or ["a.b/c"], or [name="web"], or [3]
}

func (p *place) String() string {
	var steps []string
	for ; p != nil; p = p.up {
		steps = append(steps, p.step)
	}
	slices.Reverse(steps)
	return strings.TrimPrefix(strings.Join(steps, ""), ".")
}

// tell notes that what stands at a place differs.
func (c *fieldwise) tell(at *place, x, y any) {
	if len(c.fields) == c.most {
		c.more++
		return
	}
	c.fields = append(c.fields, FieldChange{at.String(), x, y})
}

// looksEach is after how many places it is looked whether anybody still waits.
const looksEach = 1000

// compare tells of the differences of what stands at a place.
func (c *fieldwise) compare(at *place, x, y any) {
	if c.looked++; c.looked%looksEach == 0 && c.err == nil {
		c.err = c.waited()
	}
	if c.err != nil {
		return
	}
	switch before := x.(type) {
	case map[string]any:
		if after, ok := y.(map[string]any); ok {
			c.compareMembers(at, before, after)
			return
		}
	case []any:
		if after, ok := y.([]any); ok && objects(before) && objects(after) {
			c.compareElements(at, before, after)
			return
		}
	default: // it has no members
	}
	if !same(x, y) {
		c.tell(at, x, y)
	}
}

func (c *fieldwise) compareMembers(at *place, x, y map[string]any) {
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
		a, was := x[name]
		b, is := y[name]
		switch here := (&place{at, member(name)}); {
		case !c.nulls || was == is || a != nil || b != nil:
			c.compare(here, a, b)
		case was:
			c.tell(here, "null", nil)
		default:
			c.tell(here, nil, "null")
		}
	}
}

// member is the step to a member: in brackets where a dot in its name would be taken for another one.
func member(name string) string {
	if name == "" || strings.ContainsAny(name, `./[]"`) {
		return fmt.Sprintf("[%q]", name)
	}
	return "." + name
}

// objects says whether a list has nothing but objects.
func objects(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { _, ok := v.(map[string]any); return !ok })
}

// names are what elements of lists are called by, as Kubernetes' own types do.
var names = []string{"name", "mountPath", "containerPort", "port", "key", "type", "ip", "topologyKey"}

func (c *fieldwise) compareElements(at *place, x, y []any) {
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
			c.compare(&place{at, fmt.Sprintf("[%d]", i)}, a, b)
		}
		return
	}
	if before, after := inBoth(x, y, name), inBoth(y, x, name); !slices.Equal(before, after) {
		c.tell(&place{at, " (order)"}, before, after)
	}
	wanted := make(map[string]any, len(y))
	for _, v := range y {
		wanted[text(v.(map[string]any)[name])] = v
	}
	there := make(map[string]bool, len(x))
	for _, v := range x {
		called := text(v.(map[string]any)[name])
		there[called] = true
		c.compare(&place{at, element(name, called)}, v, wanted[called])
	}
	for _, v := range y {
		if called := text(v.(map[string]any)[name]); !there[called] {
			c.compare(&place{at, element(name, called)}, nil, v)
		}
	}
}

// inBoth is what those elements of a list are called by that another list has, too, in their order.
func inBoth(list, other []any, name string) (called []string) {
	there := make(map[string]bool, len(other))
	for _, v := range other {
		there[text(v.(map[string]any)[name])] = true
	}
	for _, v := range list {
		if is := text(v.(map[string]any)[name]); there[is] {
			called = append(called, strings.Trim(is, `"`))
		}
	}
	return called
}

// element is the step to an element that has a name.
func element(name, called string) string { return "[" + name + "=" + called + "]" }

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
