package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/drover-io/drover/internal/domain"
)

// Side is a plan with the bundles of its apps.
type Side struct {
	Plan     *Plan
	Bundles  map[string]*Bundle    // by app
	Overlays map[string][]*Overlay // of the variants of an app, in their order
}

// Installed is what an app context put into clusters.
type Installed struct {
	Side
	// Leaves are its records by id; where there is none, Target.Inherited says what was there before it.
	Leaves map[string]domain.Leaf
	// Incomplete says that the records may know less than was sent to the clusters.
	Incomplete bool
	// Reapplied says that what the records know to be there is applied again where it is wanted: somebody else may have changed
	// it, or taken it away. What Resource.Expires is not, as long as it stays as it is: it would do its work once more.
	Reapplied bool
	// Origin is the operation that made the context; "" stands for an instantiate.
	Origin domain.Operation
}

// Change is what it takes to get from what is installed to what is wanted.
type Change struct {
	Side
	// Numbers of resources, each counted once a cluster.
	Added, Changed, Removed, Unchanged int
	// Moved are the pairs of an app and a cluster that the one comes to, or leaves, whether there is anything to be done or not: the plan is another one.
	Moved int
	// Warnings say what is not wanted any more and stays all the same.
	Warnings []string

	op    domain.Operation    // which goes it
	pairs map[string]*pairing // by app, for Way.Differences
}

// Empty says that there is nothing to do, and that the plan stays as it is.
func (c *Change) Empty() bool { return c.Added+c.Changed+c.Removed+c.Moved == 0 }

// Diff plans the way from what is installed to what is wanted. The result has all that is wanted, and behind it
// what has to go, so that one plan says all that its clusters may hold: the resources of an app are the wanted
// ones followed by those to be pruned, its targets the wanted ones and those that it leaves. Inherited says how each
// begins: what is there unchanged is domain.MarkApplied and needs no request; what is there otherwise
// has the mark of domain.Mark.Renew; what must go has the mark of domain.Mark.Doom.
//
// Only what the records say that we applied, or may have, is pruned, and not what is to be kept. A resource that
// another app of the plan takes over is applied by that one, which gives it another label; by that label its
// pruning, which comes later, leaves it alone. A namespace or a CRD with which something would go that is wanted, or kept, stays, too.
//
// Hooks are no difference, but for those that have not succeeded. Where not all hooks of the install have succeeded on a
// cluster, the operation goes on with the install there, and runs those that have not, as they are now. An install is begun where the
// release is not there: the app is new to the cluster, its pruning has begun there, or what it has there is a release of another name. On
// other clusters, hooks of the operation itself that failed the last time, or were never begun, are a reason for work. What any other hook
// has left in the cluster stays. What a hook that is run takes the place of, as it has the same name, is applied again.
//
// Manifests are compared by what they say, not by how they are written. Digests of the bundles that are made are left
// to the caller. Both plans must have the same namespace.
func Diff(old Installed, wanted Side, op domain.Operation) *Change {
	d := &differ{old: old, wanted: wanted, op: op}
	d.change.op, d.change.Bundles, d.change.pairs = op, make(map[string]*Bundle, len(wanted.Bundles)), map[string]*pairing{}
	p := *wanted.Plan
	p.Apps = nil
	d.change.Plan = &p
	d.prepare()
	for i := range wanted.Plan.Apps {
		d.app(&wanted.Plan.Apps[i], old.Plan.App(wanted.Plan.Apps[i].Name))
	}
	for i := range old.Plan.Apps {
		if gone := &old.Plan.Apps[i]; wanted.Plan.App(gone.Name) == nil {
			d.app(&App{Name: gone.Name}, gone)
		}
	}
	d.change.Warnings, d.change.Plan.Held = append(d.holding.warnings(), d.leaving...), d.held()
	return &d.change
}

// differ is one Diff.
type differ struct {
	old    Installed
	wanted Side
	op     domain.Operation
	change Change
	// owners are what is wanted, by place: several apps may have one.
	owners  map[ResourceID][]resident
	holding holding
	leaving []string // what is said of apps that leave clusters where they have nothing to delete
	// moving has, by the place of a resource and the cluster, the apps that may have it there and give it up.
	moving map[placed][]giver
}

// giver is an app that may have a resource which another one takes over.
type giver struct {
	app string
	had domain.Mark
}

type placed struct {
	id      ResourceID
	cluster domain.ClusterName
}

// prepare finds what apps give up. Resources that other apps want may be among them.
func (d *differ) prepare() {
	d.owners = map[ResourceID][]resident{}
	for i := range d.wanted.Plan.Apps {
		app := &d.wanted.Plan.Apps[i]
		for n, r := range app.Resources {
			at := d.place(r)
			d.owners[at] = append(d.owners[at], resident{app: app, n: n})
		}
	}
	d.moving = map[placed][]giver{}
	for i := range d.old.Plan.Apps {
		app := &d.old.Plan.Apps[i]
		next := d.wanted.Plan.App(app.Name)
		keeps := map[ResourceID]int{} // wanted resources, by place
		if next != nil {
			for i, r := range next.Resources {
				keeps[d.place(r)] = i
			}
		}
		var candidates []int
		for n, r := range app.Resources {
			if slices.ContainsFunc(d.owners[d.place(r)], func(by resident) bool { return by.app.Name != app.Name }) {
				candidates = append(candidates, n)
			}
		}
		if len(candidates) == 0 {
			continue
		}
		for _, t := range app.Targets {
			marks := d.marks(app, t)
			stays := next.goesTo(t.ClusterName)
			lacks := next.lacksOn(stays)
			for _, n := range candidates {
				at := d.place(app.Resources[n])
				if i, kept := keeps[at]; marks[n].Ours() && (stays == nil || !kept || lacks.lacks(i)) {
					d.moving[placed{at, t.ClusterName}] = append(d.moving[placed{at, t.ClusterName}], giver{app.Name, marks[n]})
				}
			}
		}
	}
}

func (d *differ) place(r ResourceID) ResourceID { return Place(r, d.wanted.Plan.Namespace) }

// marks are what is known of an app on one of its clusters before the change, one for each resource.
func (d *differ) marks(app *App, t Target) domain.Marks {
	begin := t.Begin(len(app.Resources))
	marks := begin
	if leaf, ok := d.old.Leaves[domain.LeafID(d.old.Plan.ContextID, app.Name, t.ClusterName)]; ok {
		marks = domain.DecodeMarks(leaf.Marks)
	}
	out := domain.NewMarks(len(app.Resources), domain.MarkPending)
	copy(out, marks)
	if d.old.Incomplete {
		for i := range out {
			recorded := d.isHook(app, i) && out[i].Succeeded() // before the next step began
			if !recorded && (i >= len(begin) || begin[i] != domain.MarkGone) {
				out[i] = domain.MarkSent
			}
		}
	}
	return out
}

func (d *differ) isHook(app *App, i int) bool {
	b := d.old.Bundles[app.Name]
	return b != nil && i < len(b.Resources) && b.Resources[i].Hook != nil
}

// app adds an app to the plan; old is nil for a new one, and next has nothing for one that is not wanted.
func (d *differ) app(next, old *App) {
	m := match(d.wanted.Bundles[next.Name], d.bundleOf(old), d.place)
	m.overlays = [2]func(int) *Overlay{
		func(variant int) *Overlay { return d.wanted.overlay(next.Name, variant) },
		func(variant int) *Overlay { return d.old.overlay(next.Name, variant) },
	}
	leaves := d.targets(next, old, m)
	var left []domain.ClusterName
	leaves = slices.DeleteFunc(leaves, func(l leafChange) bool {
		if l.moves {
			d.change.Moved++
		}
		idle := l.target.Leaving && !l.marks.Has(domain.Mark.ToDelete)
		if idle && l.moves {
			left = append(left, l.target.ClusterName)
		}
		return idle
	})
	if len(left) > 0 {
		d.leaving = append(d.leaving, fmt.Sprintf("app %q leaves %s, where nothing of it is to be deleted", next.Name, firstOf(left)))
	}
	if len(leaves) == 0 {
		return
	}
	pruned := m.pruned(leaves)
	bundle := &Bundle{App: next.Name}
	if b := d.wanted.Bundles[next.Name]; b != nil {
		bundle.Resources = slices.Clone(b.Resources)
	}
	for _, n := range pruned {
		bundle.Resources = append(bundle.Resources, d.bundleOf(old).Resources[n])
	}
	app := App{
		Name: next.Name, Needs: next.Needs, Events: next.Events, Bundle: next.Bundle, Hooks: next.Hooks, Pruned: len(pruned),
		Variants: next.Variants, Effects: next.Effects, Lacks: next.Lacks, Prefers: next.Prefers, Expires: next.Expires, Definitions: DefinitionsOf(bundle.Resources),
	}
	if len(pruned) > 0 || next.Bundle == "" {
		app.Bundle = ""
	}
	for i := range bundle.Resources {
		app.Resources = append(app.Resources, bundle.Resources[i].ResourceID)
	}
	for _, l := range leaves {
		marks := slices.Clone(l.marks[:m.wanted])
		for _, n := range pruned {
			marks = append(marks, l.marks[m.wanted+n])
		}
		d.count(marks)
		if marks.Has(func(x domain.Mark) bool { return x != domain.MarkPending }) {
			l.target.Inherited = &Inherited{Marks: marks.Encode(), Connectivity: l.connectivity, Report: l.report, Warnings: l.warnings}
		}
		app.Targets = append(app.Targets, l.target)
	}
	SortTargets(app.Targets)
	d.change.Plan.Apps = append(d.change.Plan.Apps, app)
	d.change.Bundles[app.Name], d.change.pairs[app.Name] = bundle, &pairing{m, pruned}
}

func (d *differ) bundleOf(old *App) *Bundle {
	if old == nil {
		return nil
	}
	return d.old.Bundles[old.Name]
}

func (d *differ) count(marks domain.Marks) {
	for _, m := range marks {
		switch {
		case m.ToDelete():
			d.change.Removed++
		case m.ToApply() && m.MayBeThere():
			d.change.Changed++
		case m.ToApply():
			d.change.Added++
		case m.Stays():
			d.change.Unchanged++
		default: // hooks, and domain.MarkGone: nothing of it is here
		}
	}
}

// leafChange is the change of one app on one cluster. Its marks are those of all wanted resources, and behind them
// of all old ones.
type leafChange struct {
	target       Target
	marks        domain.Marks
	connectivity domain.Connectivity
	report       string
	warnings     []domain.Note // about what stays as it is
	moves        bool          // the app comes to the cluster, or leaves it
}

// targets makes the changes on all clusters that an app goes to or comes from.
func (d *differ) targets(next, old *App, m *matching) []leafChange {
	var out []leafChange
	add := func(t Target, before *Target) {
		l := leafChange{target: t, moves: before == nil || before.Leaving != t.Leaving}
		same := m.same
		was := domain.NewMarks(len(m.old), domain.MarkGone)
		installs, renamed := false, false
		if before != nil {
			copy(was, d.marks(old, *before))
			l.connectivity, l.report = d.seen(old, before)
			renamed = !t.Leaving && d.renamed(next.lacksOn(&t), old, was, m)
			installs = renamed || d.unfinished(before, was, m)
			m.inherit(was)
			same = m.sameOn(t.Variant, before.Variant)
		}
		l.target.Installs = installs
		l.marks = m.marks(was, changing{
			wanted: !t.Leaving,
			lacks:  next.lacksOn(&t),
			same:   same,
			moves: func(id ResourceID) (had []domain.Mark) {
				for _, g := range d.moving[placed{d.place(id), t.ClusterName}] {
					if g.app != next.Name {
						had = append(had, g.had)
					}
				}
				return had
			},
			hook: func(i int, was domain.Mark) domain.Mark {
				return d.hook(m.hooks[i], same[i] && !renamed, was, installs)
			},
			again: func(i int) bool { return d.old.Reapplied && !m.at(i, t.Variant).Expires() },
			held:  func(r *Resource) bool { return d.holds(next.Name, r, t.ClusterName) },
			keeps: func(r *Resource) { d.keeps(next.Name, r, t.ClusterName) },
		})
		if before != nil && !t.Leaving {
			l.warnings = m.stay(d.warnings(old, before), l.marks)
		}
		if !t.Leaving && !installs && !was.Has(domain.Mark.Ours) {
			d.arrive(&l, before == nil, m, func(i int) bool { return m.before[i] >= 0 && was[m.before[i]].Succeeded() && same[i] })
		}
		d.restore(&l, m)
		out = append(out, l)
	}
	before := map[domain.ClusterName]*Target{}
	if old != nil {
		for i := range old.Targets {
			before[old.Targets[i].ClusterName] = &old.Targets[i]
		}
	}
	for _, t := range next.Targets {
		add(t, before[t.ClusterName])
		delete(before, t.ClusterName)
	}
	if old != nil {
		for i := range old.Targets {
			if t := &old.Targets[i]; before[t.ClusterName] != nil {
				add(Target{ClusterName: t.ClusterName, Reason: t.Reason, Leaving: true}, t)
			}
		}
	}
	return out
}

// arrive has a leaf of which nothing is there installed, if there is something to be applied. On a cluster that is
// new to the app its hooks may be all there is. On one that is not, all of the release may have been refused: what hooks have done
// for it, is done.
func (d *differ) arrive(l *leafChange, isNew bool, m *matching, done func(hook int) bool) {
	if !isNew && !l.marks[:m.wanted].Has(domain.Mark.ToApply) {
		return
	}
	l.target.Installs = true
	for i, h := range m.hooks {
		switch {
		case h == nil || !HasHooks(h.Events, domain.OpInstantiate):
		case done(i):
			l.marks[i] = domain.MarkDeleted // it has succeeded, and is not there
		default:
			l.marks[i] = domain.MarkPending
		}
	}
}

// restore has applied again what a hook takes the place of: an object of the hook's name is overwritten, or deleted before or after
// the hook. It comes with the release, so behind the hooks before that; a hook of the operation that comes after the release takes the place
// again, until the next work on the leaf. Whether an earlier operation's has done so no mark says for long, so that each hook that may have counts.
// As a leaf without work runs no hooks, nothing is lost on one.
func (d *differ) restore(l *leafChange, m *matching) {
	if !l.marks[:m.wanted].Has(domain.Mark.ToApply) {
		return
	}
	var taken map[ResourceID]bool // by place
	for i, h := range m.hooks {
		runs := h != nil && l.marks[i].ToApply()
		if h != nil && !l.target.Installs { // whatever came of it the last time, see Due
			runs = HasHooks(h.Events, d.op) && l.marks[i] != domain.MarkGone && !l.marks[i].ToDelete()
		}
		if runs {
			if taken == nil {
				taken = map[ResourceID]bool{}
			}
			taken[d.place(m.ids[i])] = true
		}
	}
	for i, h := range m.hooks {
		if h != nil || l.marks[i] != domain.MarkApplied {
			continue
		}
		at := d.place(m.ids[i])
		if taken[at] || m.taken[at] && !m.at(i, l.target.Variant).Expires() {
			l.marks[i] = m.renew(i, l.marks[i])
		}
	}
}

// unfinished says whether the app is not wholly installed there: a hook of the install that has put it there has not succeeded, of
// those that are still hooks of the app there; that install has not put anything of the release there; or the app has left the cluster and its
// pruning has begun, if need be by an earlier context: anything may have gone.
func (d *differ) unfinished(before *Target, was domain.Marks, m *matching) bool {
	begin := before.Begin(len(m.old))
	if before.Leaving {
		return before.Installs || begun(begin, was)
	}
	if d.old.Origin.TakesOver() && !before.Installs {
		return false
	}
	if before.Installs && bare(begin, was, m.old) {
		return true
	}
	for i := range m.old {
		h := m.old[i].Hook
		gone := was[i] == domain.MarkGone || dropped(begin, i)
		if h != nil && !gone && HasHooks(h.Events, domain.OpInstantiate) && !was[i].Succeeded() {
			return true
		}
	}
	return false
}

// bare says whether of the release there is nothing yet, of which begin are the marks that its context began with, and was those of now.
func bare(begin, was domain.Marks, release []Resource) bool {
	lacks := false
	for i := range release {
		if release[i].Hook != nil || dropped(begin, i) {
			continue
		}
		if was[i].Stays() {
			return false
		}
		lacks = true
	}
	return lacks
}

// begun says whether any of what a context that began with the marks begin is to prune may have gone by the marks was.
func begun(begin, was domain.Marks) bool {
	for i := range min(len(begin), len(was)) {
		if begin[i].ToDelete() && was[i] != begin[i] {
			return true
		}
	}
	return false
}

// renamed says whether what the app has there is a release of another name than the one that is wanted, of which something is missing: the
// chart takes the names of its objects from the release's. Where an object of the one is one of the other, it is the same release.
func (d *differ) renamed(lacks lacking, old *App, was domain.Marks, m *matching) bool {
	if d.old.Plan.Release == d.wanted.Plan.Release {
		return false
	}
	missing := false
	for i, before := range m.before {
		switch {
		case m.hooks[i] != nil || m.next[i].Keep || lacks.lacks(i): // no part of the release, or not only its own
		case before < 0 || !was[before].Ours():
			missing = true
		case before < old.Wanted():
			return false
		}
	}
	return missing
}

// hook is the mark of a wanted hook, of which was says what is there, and done that nothing else is wanted of it if it has succeeded.
func (d *differ) hook(h *Hook, done bool, was domain.Mark, installs bool) domain.Mark {
	due := false
	switch events := h.Events; {
	case installs && HasHooks(events, domain.OpInstantiate):
		if was.Succeeded() && done {
			return was
		}
		due = true
	case !installs && HasHooks(events, d.op):
		due = was.Missed()
	}
	switch {
	case due && was.Ours():
		return domain.MarkSent // something of it may be there
	case due:
		return domain.MarkPending
	case was == domain.MarkApplied:
		return was
	case was.Ours():
		return domain.MarkLeft
	default:
		return domain.MarkIdle
	}
}

// seen is what the last work on a leaf saw of its cluster.
func (d *differ) seen(app *App, t *Target) (domain.Connectivity, string) {
	if leaf, ok := d.old.Leaves[domain.LeafID(d.old.Plan.ContextID, app.Name, t.ClusterName)]; ok {
		return leaf.Connectivity, leaf.Report
	}
	if t.Inherited != nil {
		return t.Inherited.Connectivity, t.Inherited.Report
	}
	return "", ""
}

// warnings are what users should know of an app on one of its clusters before the change.
func (d *differ) warnings(app *App, t *Target) []domain.Note {
	if leaf, ok := d.old.Leaves[domain.LeafID(d.old.Plan.ContextID, app.Name, t.ClusterName)]; ok {
		return t.Warnings(&leaf)
	}
	return t.Warnings(nil)
}

// matching is how the wanted resources of an app and those that it had belong together.
type matching struct {
	wanted int
	ids    []ResourceID // of the wanted ones
	hooks  []*Hook      // of the wanted ones, nil for what is none
	before []int        // by wanted resource: the old one, -1 for none
	same   []bool       // by wanted resource: it says the same as the old one, in the bundles of the apps
	old    []Resource
	next   []Resource          // the wanted ones
	after  []bool              // by old resource: it is wanted
	spares []spare             // old ones without a counterpart that are wanted all the same
	taken  map[ResourceID]bool // the places of old hooks that come after the release, nil for none
	// overlays are those of the variants of the wanted app and of the old one; others says the same as same of pairs of
	// variants.
	overlays [2]func(variant int) *Overlay
	others   map[[2]int][]bool
}

// sameOn is same on a cluster that had one variant and is to have another one.
func (m *matching) sameOn(wanted, old int) []bool {
	next, last := m.overlays[0](wanted), m.overlays[1](old)
	if next == nil && last == nil {
		return m.same
	}
	if same, known := m.others[[2]int{wanted, old}]; known {
		return same
	}
	same := slices.Clone(m.same)
	for i, before := range m.before {
		if before < 0 {
			continue
		}
		a, b := next.At(i), last.At(before)
		if a == nil && b == nil {
			continue
		}
		same[i] = sameManifest(cmp.Or(a, &m.next[i]).Manifest, cmp.Or(b, &m.old[before]).Manifest)
	}
	if m.others == nil {
		m.others = map[[2]int][]bool{}
	}
	m.others[[2]int{wanted, old}] = same
	return same
}

// at is a wanted resource as clusters of a variant get it.
func (m *matching) at(i, variant int) *Resource {
	return cmp.Or(m.overlays[0](variant).At(i), &m.next[i])
}

// spare is the object of an old resource of which there are fewer now: a hook with fewer runs, say.
type spare struct{ old, heir int } // heir is another old one that is the same object, and is wanted

// match finds resources by what they are in a cluster. Of several of an app that are the same one, each has its own
// counterpart, in their order, as far as there is one; what there is once less is not pruned.
func match(wanted, old *Bundle, place func(ResourceID) ResourceID) *matching {
	type key struct {
		id ResourceID
		n  int
	}
	m := &matching{}
	if old != nil {
		m.old = old.Resources
	}
	m.after = make([]bool, len(m.old))
	at := make(map[key]int, len(m.old))
	for i := range m.old {
		k := key{id: place(m.old[i].ResourceID)}
		for _, taken := at[k]; taken; _, taken = at[k] {
			k.n++
		}
		at[k] = i
		if h := m.old[i].Hook; h != nil && h.follows() {
			if m.taken == nil {
				m.taken = map[ResourceID]bool{}
			}
			m.taken[k.id] = true
		}
	}
	if wanted == nil {
		return m
	}
	m.wanted, m.next = len(wanted.Resources), wanted.Resources
	seen := make(map[ResourceID]int, m.wanted)
	for i := range wanted.Resources {
		r := &wanted.Resources[i]
		id := place(r.ResourceID)
		before, found := at[key{id, seen[id]}]
		seen[id]++
		m.ids, m.hooks = append(m.ids, r.ResourceID), append(m.hooks, r.Hook)
		if !found {
			m.before, m.same = append(m.before, -1), append(m.same, false)
			continue
		}
		m.before, m.same = append(m.before, before), append(m.same, sameManifest(r.Manifest, m.old[before].Manifest))
		m.after[before] = true
	}
	for i := range m.old {
		if id := place(m.old[i].ResourceID); !m.after[i] && seen[id] > 0 {
			m.after[i] = true
			m.spares = append(m.spares, spare{old: i, heir: at[key{id, 0}]})
		}
	}
	return m
}

// inherit has what may be there of spares known of those that stay.
func (m *matching) inherit(was domain.Marks) {
	for _, s := range m.spares {
		if !was[s.old].Ours() || was[s.heir].MayBeThere() {
			continue
		}
		switch m := was[s.heir]; {
		case m.Succeeded():
			was[s.heir] = domain.MarkApplied // it has done its work
		case m.Idle() || m == domain.MarkGone:
			was[s.heir] = domain.MarkLeft
		default:
			was[s.heir] = domain.MarkSent
		}
	}
}

// changing is what a leaf's marks depend on beside what is there.
type changing struct {
	wanted bool                                     // the app stays on the cluster, or comes to it
	lacks  lacking                                  // what it is not to get there
	same   []bool                                   // matching.sameOn there
	moves  func(id ResourceID) []domain.Mark        // those of other apps that may have given the resource their label
	hook   func(i int, was domain.Mark) domain.Mark // the mark of a wanted hook
	again  func(i int) bool                         // a wanted resource is applied again though it is there as it is wanted
	held   func(r *Resource) bool                   // an old resource stays though it is not wanted, see differ.holds
	keeps  func(r *Resource)                        // an old resource stays as it is to be kept, see differ.keeps
}

// marks are those with which a leaf begins that had the marks was: of the wanted resources, then of the old ones.
func (m *matching) marks(was domain.Marks, c changing) domain.Marks {
	out := make(domain.Marks, 0, m.wanted+len(m.old))
	for i, before := range m.before {
		had := domain.MarkGone
		if before >= 0 {
			had = was[before]
		}
		switch gone, given := !c.wanted || c.lacks.lacks(i), c.moves(m.ids[i]); {
		case gone && had.Ours():
			out = append(out, c.doomed(&m.old[before], had))
		case gone:
			out = append(out, domain.MarkGone)
		case m.hooks[i] != nil:
			out = append(out, c.hook(i, had))
		case len(given) > 0: // it has another app's label, if it is there
			out = append(out, taken(append(given, had)))
		case had.Stays() && c.same[i] && !c.again(i):
			out = append(out, had)
		case had.Ours() && c.again(i):
			out = append(out, m.renew(i, had))
		case had.Ours():
			out = append(out, had.Renew())
		default:
			out = append(out, domain.MarkPending)
		}
	}
	for i := range m.old {
		if !m.after[i] && was[i].Ours() {
			out = append(out, c.doomed(&m.old[i], was[i]))
		} else {
			out = append(out, domain.MarkGone)
		}
	}
	return out
}

// renew is the mark of a wanted resource that is applied again though it had a mark that says that it is there as it is wanted.
func (m *matching) renew(i int, had domain.Mark) domain.Mark {
	if m.next[i].Keep {
		return domain.MarkSent // a terminate looks for it: nobody says that it is there to be kept
	}
	return had.Renew()
}

// taken is the mark of a resource that one app takes over from others, of which the marks say what each had: it is there where one of
// them knows.
func taken(had []domain.Mark) domain.Mark {
	if slices.ContainsFunc(had, func(m domain.Mark) bool { return m.Ours() && m.Renew() == domain.MarkOutdated }) {
		return domain.MarkOutdated
	}
	return domain.MarkSent
}

// stay are the warnings about old resources that stay as they are, by the index of the wanted ones.
func (m *matching) stay(warnings []domain.Note, marks domain.Marks) (kept []domain.Note) {
	if len(warnings) == 0 {
		return nil
	}
	for i, before := range m.before {
		if marks[i] != domain.MarkApplied {
			continue
		}
		for _, w := range warnings {
			if w.Index == before && before >= 0 {
				kept = append(kept, domain.Note{Index: i, Message: w.Message})
			}
		}
	}
	return kept
}

// doomed is the mark of what is not wanted any more and had a mark that is Ours.
func (c *changing) doomed(r *Resource, had domain.Mark) domain.Mark {
	if r.Keep {
		c.keeps(r)
		return domain.MarkGone // it stays, as nobody's
	}
	sent := had.ToDelete() && had != domain.MarkDoomed // its deletion, which nothing holds up any more
	if !sent && c.held(r) {
		return domain.MarkGone
	}
	return had.Doom()
}

// pruned are the indices of the old resources that are not wanted and still are somewhere.
func (m *matching) pruned(leaves []leafChange) (indices []int) {
	for i := range m.old {
		if !m.after[i] && slices.ContainsFunc(leaves, func(l leafChange) bool { return l.marks[m.wanted+i].ToDelete() }) {
			indices = append(indices, i)
		}
	}
	return indices
}

// goesTo is the target of an app for a cluster, nil when it does not go there. The app may be nil.
func (a *App) goesTo(c domain.ClusterName) *Target {
	if a == nil {
		return nil
	}
	i := slices.IndexFunc(a.Targets, func(t Target) bool { return t.ClusterName == c && !t.Leaving })
	if i < 0 {
		return nil
	}
	return &a.Targets[i]
}

// sameManifest says whether two manifests say the same. Numbers are compared as they are written.
func sameManifest(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return decode(a, &x) && decode(b, &y) && reflect.DeepEqual(x, y)
}

func decode(data []byte, v any) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v) == nil
}
