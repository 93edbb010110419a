package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/placement"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/vary"
)

// Prepare plans an instantiation, and stores manifests and plan by digest. It changes nothing else, so a
// refusal leaves nothing behind. Errors name the thing that is missing or wrong.
func (l *Control) Prepare(ctx context.Context, s domain.Scope) (out *Prepared, err error) {
	stop := beat(ctx)
	defer stop()
	err = cas.Do(ctx, func() error {
		out, err = l.prepare(ctx, s)
		return err
	})
	return out, err
}

func (l *Control) prepare(ctx context.Context, s domain.Scope) (*Prepared, error) {
	owner, err := l.owner(ctx, s.Owner)
	if err == nil {
		err = l.mayInstantiate(ctx, owner)
	}
	if err != nil {
		return nil, err
	}
	left, err := l.leftover(ctx, owner)
	if err != nil {
		return nil, err
	}
	d, err := l.draft(ctx, owner, s, nil, left != nil)
	if err != nil {
		return nil, err
	}
	var out *Prepared
	if left == nil {
		out, err = l.planned(ctx, d, &d.plan, "")
	} else {
		out, err = l.inherit(ctx, d, left)
	}
	if err != nil {
		return nil, err
	}
	out.OwnerRevision = owner.Base().Revision
	return out, nil
}

// mayInstantiate refuses before anything is ended, see mayTakeOver.
func (l *Control) mayInstantiate(ctx context.Context, owner domain.Owner) error {
	stands := domain.ContextNone
	if id := owner.Track().ContextID(); id != "" {
		i, err := l.Store.Instance(ctx, id)
		if err == nil {
			stands, err = l.stands(ctx, i)
		}
		if err != nil && !fail.Is(err, fail.NotFound) {
			return err
		}
	}
	return mayBegin(owner, stands, domain.OpInstantiate)
}

// planned stores the plan that a draft has come to, which takes over from a context where one is named.
func (l *Control) planned(ctx context.Context, d *draft, p *plan.Plan, from string) (*Prepared, error) {
	if err := tooManyWithOld(p); err != nil {
		return nil, err
	}
	if err := l.checkCollisions(ctx, p, from); err != nil {
		return nil, err
	}
	digest, err := save(ctx, l.Store, p)
	if err != nil {
		return nil, err
	}
	out := sizes(p, digest, d.unreachable)
	out.Warnings = toldOf(append(d.warnings, sharedWithin(&d.plan)...))
	out.Profile, out.LogicalCloud, out.Label = d.profile, d.cloud, p.Label
	return &out, nil
}

// planners make the plans of the owners, by their nouns.
var planners = map[*domain.Noun]func(l *Control, ctx context.Context, owner domain.Owner, d *draft) error{
	domain.DeploymentIntentGroups: (*Control).planGroup,
	domain.LogicalClouds:          (*Control).planCloud,
	domain.ClustersNoun:           (*Control).planNetworks,
}

// draft is a plan in the making.
type draft struct {
	plan        plan.Plan
	from        *domain.Instance // what is to be updated or migrated, nil for none
	warnings    []string
	profile     string                  // for the instance's record, as is
	cloud       domain.Key              // this
	behind      *domain.Instance        // of the cloud, see checkCloud
	keeps       bool                    // the bundles are in memory when it is done, for what takes over from another context, or for who asks
	bundles     map[string]*plan.Bundle // by app; empty unless it keeps them
	overlays    map[string][]*plan.Overlay
	bytes       int64 // of all bundles, kept or not
	unreachable map[domain.ClusterName]bool
	rehearsal   bool                           // see Rehearsal
	spare       func() (leave func(), ok bool) // in one that keeps none: a place for another bundle, if there is one; nil for never
}

// draft plans what the owner wants, to update or migrate an instance or, for nil, anew.
func (l *Control) draft(ctx context.Context, owner domain.Owner, s domain.Scope, from *domain.Instance, keeps bool) (d *draft, err error) {
	d = &draft{
		plan: plan.Plan{ContextID: s.ContextID, Owner: s.Owner}, from: from, keeps: keeps,
		bundles: map[string]*plan.Bundle{}, overlays: map[string][]*plan.Overlay{},
	}
	if d.unreachable, err = l.Store.Unreachable(ctx); err != nil {
		return nil, err
	}
	return d, planners[owner.Noun()](l, ctx, owner, d)
}

// add adds one more app to the plan.
func (l *Control) add(ctx context.Context, d *draft, targets []plan.Target, varied *vary.Varied) error {
	bundle := varied.Bundle
	if d.bytes += bundle.Bytes(); d.bytes > limits.Bundles {
		return fail.New(fail.Malformed, "app %q: the manifests of all apps of %s %q have more than %d bytes together: make several groups of it",
			bundle.App, domain.OwnerNoun(d.plan.Owner).Title, d.plan.Owner.Name(), limits.Bundles)
	}
	app := plan.App{
		Name: bundle.App, Targets: targets, Events: plan.EventsOf(bundle.Resources), Effects: varied.Effects, Lacks: varied.Lacks,
		Definitions: plan.DefinitionsOf(bundle.Resources),
	}
	for i := range bundle.Resources {
		app.Resources = append(app.Resources, bundle.Resources[i].ResourceID)
		if bundle.Resources[i].Hook != nil {
			app.Hooks++
		}
		if varied.Expires(i) {
			app.Expires = append(app.Expires, i)
		}
	}
	if l.dry {
		for _, v := range varied.Variants {
			app.Variants = append(app.Variants, planOf(v))
		}
	} else {
		digest, err := save(ctx, l.Store, bundle)
		if err != nil {
			return err
		}
		app.Bundle = digest
		if app.Variants, err = l.saveVariants(ctx, varied.Variants); err != nil {
			return err
		}
	}
	if d.keeps { // a bundle may be large, and the next app has one too
		d.bundles[app.Name] = bundle
		for _, v := range varied.Variants {
			d.overlays[app.Name] = append(d.overlays[app.Name], v.Overlay)
		}
	}
	app.Begin()
	d.plan.Apps = append(d.plan.Apps, app)
	return nil
}

// planGroup renders and places the apps of a deployment intent group.
func (l *Control) planGroup(ctx context.Context, owner domain.Owner, d *draft) error {
	w := &wanted{group: owner.(*domain.DeploymentIntentGroup), from: d.from, unreachable: d.unreachable, rehearsal: d.rehearsal}
	defer func() { d.warnings = append(d.warnings, w.warnings...) }()
	if err := l.load(ctx, w); err != nil || w.cloud == nil {
		return err
	}
	d.profile, d.cloud, d.behind = w.group.Spec.CompositeProfile, domain.KeyOf(w.cloud), w.behind
	d.plan.Release, d.plan.Namespace = w.group.Spec.Version, w.cloud.Spec.Namespace
	if !w.cloud.Admin() {
		d.plan.User = d.cloud
	}
	var unknown []string
	if err := l.loadResident(ctx, w); err != nil {
		return err
	}
	if err := l.loadNodes(ctx, w); err != nil {
		return err
	}
	w.targets = make(map[string][]plan.Target, len(w.apps))
	for _, app := range w.inTurn() {
		targets, err := w.place(app.Name)
		if err != nil {
			return err
		}
		w.targets[app.Name] = targets
		w.took(app.Name, targets)
	}
	if err := tooMany(w.group.Name, w.targets, l.MaxTargets); err != nil {
		return err
	}
	err := l.renderEach(ctx, w, d, func(app *domain.App, bundle *plan.Bundle) error {
		for _, warning := range bundle.Warnings {
			w.warnings = append(w.warnings, fmt.Sprintf("app %s: %s", app.Name, warning))
		}
		varied, err := l.vary(ctx, w, bundle)
		if err != nil {
			return err
		}
		if err := l.add(ctx, d, w.targets[app.Name], varied); err != nil {
			return err
		}
		unknown = append(unknown, unknownFields(varied)...)
		planned := &d.plan.Apps[len(d.plan.Apps)-1]
		planned.Needs, planned.Prefers = w.needs[app.Name], placement.Prefers(w.hpa.room.Needs[app.Name])
		return nil
	})
	if err != nil {
		return err
	}
	d.warnings = append(d.warnings, few(unknown)...)
	return vary.Clash(&d.plan)
}

// tooMany refuses a group of which an app goes to more clusters than one may, or whose apps go to more than it may have in all, before anything is
// rendered for them.
func tooMany(group string, targets map[string][]plan.Target, most int) error {
	n := 0
	for _, app := range slices.Sorted(maps.Keys(targets)) {
		clusters := len(targets[app])
		if clusters > limits.AppClusters {
			return fail.New(fail.Malformed, "app %q of deployment intent group %q would go to %d clusters, and may go to %d: make several groups of it", app, group, clusters, limits.AppClusters)
		}
		n += clusters
	}
	if most == 0 || n <= most {
		return nil
	}
	return fail.New(fail.Malformed, "the %d apps of deployment intent group %q would go to %d clusters in all, and may go to %d (--group-targets): make several groups of it", len(targets), group, n, most)
}

// tooManyWithOld refuses a plan of which an app has more clusters than one may, those that it leaves included: an app's workflow goes over all of them.
func tooManyWithOld(p *plan.Plan) error {
	for i := range p.Apps {
		app := &p.Apps[i]
		clusters, leaving := len(app.Targets), 0
		for j := range app.Targets {
			if app.Targets[j].Leaving {
				leaving++
			}
		}
		if clusters > limits.AppClusters {
			return fail.New(fail.Malformed, "app %q of %s %q would have work on %d clusters, %d of which it leaves, and may have it on %d: do it in several steps, or terminate it",
				app.Name, domain.OwnerNoun(p.Owner).Title, p.Owner.Name(), clusters, leaving, limits.AppClusters)
		}
	}
	return nil
}

// wanted is all that the user said about a deployment, as it was in the store.
type wanted struct {
	group       *domain.DeploymentIntentGroup
	from        *domain.Instance // draft's
	cloud       *domain.LogicalCloud
	behind      *domain.Instance // see checkCloud
	members     map[domain.ClusterName]bool
	apps        []*domain.App // in the order of their creation
	profiles    map[string]*domain.Profile
	intents     map[string][]domain.AppIntent
	labelled    map[string][]string // provider/label to cluster names
	providers   map[string]bool     // whose labels were all read, as labelled
	unreachable map[domain.ClusterName]bool
	resident    map[domain.ClusterName]map[string]bool // the apps of from that are there, and may stay
	needs       map[string][]plan.Dependency           // by app
	targets     map[string][]plan.Target               // by app
	varying     []vary.Intent
	hpa         hpa
	placed      map[string][]*vary.Cluster   // targets, as varying sees them; nil as long as it has looked at none
	varied      int                          // bytes of what is kept of what varying has made: vary.Varied's
	generic     []*vary.Generic              // of varying
	customBytes int                          // what their templates, patches and files have together
	values      map[string]vary.Value        // that these have from elsewhere, by URL
	outside     int                          // how many of them other hosts were asked for
	valueBytes  int                          // what they have together
	pairs       map[domain.Key]domain.KVSpec // of targets, as placed: those of keys
	keys        map[string]bool              // that patches name
	pairBytes   int                          // of pairs
	warnings    []string                     // what the user said and does not get
	rehearsal   bool                         // see Rehearsal
	closed      bool                         // in a rehearsal: the logical cloud does not take groups yet, or not any more
}

// load reads it. In a rehearsal the cloud may be nil.
func (l *Control) load(ctx context.Context, w *wanted) error {
	for _, step := range []func(context.Context, *wanted) error{
		l.loadCloud, l.loadApps, l.loadNeeds, l.loadProfiles, l.loadIntents, l.loadLabels,
	} {
		if err := step(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// absent gives back the refusal of what is not there, or not ready. In a rehearsal it is a warning: that may still come.
func (w *wanted) absent(refusal error) error {
	if !w.rehearsal {
		return refusal
	}
	w.warnings = append(w.warnings, "instantiate is not possible yet: "+fail.TextOf(refusal))
	return nil
}

func (l *Control) loadCloud(ctx context.Context, w *wanted) error {
	o, err := l.Store.Get(ctx, domain.LogicalClouds, w.group.LogicalCloudKey())
	if fail.Is(err, fail.NotFound) {
		return w.absent(fail.New(fail.Invalid, "Failed to obtain Logical Cloud specified: logical cloud %q not found", w.group.Spec.LogicalCloud))
	}
	if err != nil {
		return err
	}
	w.cloud = o.(*domain.LogicalCloud)
	w.behind, err = l.checkCloud(ctx, w.cloud, w.from != nil)
	if w.behind != nil {
		w.warnings = append(w.warnings, fmt.Sprintf("the last update of logical cloud %q has not got through to all of its clusters: it is in state %s",
			w.cloud.Name, w.cloud.History.State()))
	}
	if fail.Is(err, fail.Conflict) {
		w.closed = true
		err = w.absent(err)
	}
	if err != nil {
		return err
	}
	w.members, err = l.members(ctx, domain.KeyOf(w.cloud))
	return err
}

// members are the clusters of a logical cloud.
func (l *Control) members(ctx context.Context, cloud domain.Key) (map[domain.ClusterName]bool, error) {
	references, err := list[*domain.ClusterReference](l.Store.List(ctx, domain.ClusterReferences, cloud))
	members := make(map[domain.ClusterName]bool, len(references))
	for _, r := range references {
		members[r.ClusterName()] = true
	}
	return members, err
}

func (l *Control) loadApps(ctx context.Context, w *wanted) (err error) {
	if w.apps, err = list[*domain.App](l.Store.List(ctx, domain.Apps, w.group.Parent)); err != nil {
		return err
	}
	_, name := domain.Cut(domain.CompositeApps, w.group.Parent)
	if len(w.apps) == 0 {
		return w.absent(fail.New(fail.Conflict, "composite app %q has no apps; add one first", name))
	}
	if n := len(w.apps); n > limits.Apps {
		return fail.New(fail.Malformed, "composite app %q has %d apps, and may have %d: make several composite apps of it", name, n, limits.Apps)
	}
	slices.SortStableFunc(w.apps, func(a, b *domain.App) int {
		return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

func (l *Control) loadProfiles(ctx context.Context, w *wanted) error {
	_, err := l.Store.Get(ctx, domain.CompositeProfiles, w.group.CompositeProfileKey())
	if fail.Is(err, fail.NotFound) {
		return w.absent(err)
	}
	if err != nil {
		return err
	}
	profiles, err := list[*domain.Profile](l.Store.List(ctx, domain.Profiles, w.group.CompositeProfileKey()))
	if err != nil {
		return err
	}
	w.profiles = make(map[string]*domain.Profile, len(profiles))
	for _, p := range profiles {
		w.profiles[p.Spec.App] = p
	}
	return nil
}

func (l *Control) loadIntents(ctx context.Context, w *wanted) error {
	key := domain.KeyOf(w.group)
	bindings, err := stored.DeploymentIntents(ctx, l.Store, key)
	if err != nil {
		return err
	}
	if err := l.loadUnenforced(ctx, w, bindings); err != nil {
		return err
	}
	if err := l.loadVarying(ctx, w, bindings); err != nil {
		return err
	}
	names := placementsOf(bindings)
	if len(names) == 0 {
		return w.absent(fail.New(fail.NotFound, "Intent not found: no intent of deployment intent group %q names a %s",
			w.group.Name, domain.PlacementIntentKey))
	}
	name := names[0]
	if len(names) > 1 {
		w.warnings = append(w.warnings, fmt.Sprintf("generic placement intent %s places the apps; nothing is done for what is bound after it: %s",
			name, strings.Join(names[1:], ", ")))
	}
	o, err := l.Store.Get(ctx, domain.PlacementIntents, key.Child(domain.PlacementIntents.Collection, name))
	if fail.Is(err, fail.NotFound) {
		return w.absent(fail.Wrap(err, fail.NotFound, "Intent not found: deployment intent group %q has no generic placement intent %q, which its deployment intents name",
			w.group.Name, name))
	}
	if err != nil {
		return err
	}
	bytes := 0
	w.intents = map[string][]domain.AppIntent{}
	return l.Store.Each(ctx, domain.AppIntents, domain.KeyOf(o), func(o domain.Object) error {
		i := o.(*domain.AppIntent)
		if bytes += i.Spec.Intent.Bytes(); bytes > limits.Placements {
			return fail.New(fail.Malformed, "app intent %q of generic placement intent %s: the clusters that its app intents name take more than %d bytes together: name them by labels, or make several groups of it",
				i.Metadata.Name, name, limits.Placements)
		}
		w.intents[i.Spec.App] = append(w.intents[i.Spec.App], *i)
		return nil
	})
}

// placementsOf are the generic placement intents that deployment intents name, each once, in the order in which these were made.
func placementsOf(bindings []*domain.DeploymentIntent) (names []string) {
	bindings = slices.Clone(bindings)
	slices.SortStableFunc(bindings, func(a, b *domain.DeploymentIntent) int { return a.Made.Compare(b.Made) })
	for _, b := range bindings {
		if name := b.Spec.Intent[domain.PlacementIntentKey]; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// loadUnenforced refuses controllers that are not registered, as EMCO does, and notes the intents that nothing enforces.
func (l *Control) loadUnenforced(ctx context.Context, w *wanted, bindings []*domain.DeploymentIntent) error {
	unenforced, err := stored.Unenforced(ctx, l.Store, bindings)
	if err != nil {
		return err
	}
	for _, u := range unenforced {
		if err := u.Refusal(); err != nil && !w.rehearsal {
			return err
		}
		w.warnings = append(w.warnings, u.String())
	}
	return nil
}

// loadLabels reads the labels of every provider that a placement selects by label.
func (l *Control) loadLabels(ctx context.Context, w *wanted) error {
	w.providers = map[string]bool{}
	note := func(c domain.Clusters) {
		if c.ClusterLabel != "" {
			w.providers[c.ClusterProvider] = true
		}
	}
	for _, intents := range w.intents {
		for _, in := range intents {
			for _, a := range in.Spec.Intent.AllOf {
				note(a.Clusters)
				for _, c := range a.AnyOf {
					note(c)
				}
			}
			for _, c := range in.Spec.Intent.AnyOf {
				note(c)
			}
		}
	}
	w.labelled = map[string][]string{}
	for _, provider := range slices.Sorted(maps.Keys(w.providers)) {
		under := domain.Join(domain.ClusterProviders.Collection, provider)
		labels, err := list[*domain.ClusterLabel](l.Store.ListUnder(ctx, domain.ClusterLabels, under))
		if err != nil {
			return err
		}
		for _, label := range labels {
			id := provider + "/" + label.Label
			w.labelled[id] = append(w.labelled[id], label.Parent.Name())
		}
	}
	return nil
}

// place gives an app its clusters. In a rehearsal it has none as long as nobody has said where it goes, or the logical cloud takes no groups and lacks
// a cluster: whoever may write a group in it may not know what there is in a cluster that nobody has given to the cloud.
func (w *wanted) place(app string) ([]plan.Target, error) {
	in := w.placement(app)
	targets, err := placement.Place(in)
	switch {
	case err != nil && w.intents == nil:
		return nil, nil // which was said
	case err != nil && len(in.Intents) == 0:
		return nil, w.absent(err)
	case w.closed && errors.Is(err, placement.ErrOutside): // the references may still come
		return nil, w.absent(err)
	case err != nil:
		return nil, err
	}
	for _, label := range placement.Unmatched(in) {
		w.warnings = append(w.warnings, fmt.Sprintf("app %s: no cluster carries the label %s", app, label))
	}
	return targets, nil
}

func (w *wanted) placement(app string) placement.Input {
	return placement.Input{
		App: app, LogicalCloud: w.cloud.Name, Intents: w.intents[app],
		Labelled:  func(provider, label string) []string { return w.labelled[provider+"/"+label] },
		Member:    func(c domain.ClusterName) bool { return w.members[c] },
		Reachable: func(c domain.ClusterName) bool { return !w.unreachable[c] },
		Fit:       w.fit(app),
		Resident:  func(c domain.ClusterName) bool { return w.resident[c][app] },
	}
}

func (l *Control) render(ctx context.Context, w *wanted, app *domain.App) (*plan.Bundle, error) {
	chart, err := l.Store.Blob(ctx, app.Chart)
	if err != nil {
		return nil, fmt.Errorf("read chart of app %q: %w", app.Name, err)
	}
	var profile []byte // an app without one, or with one that has no archive, is as its chart has it
	if p := w.profiles[app.Name]; p != nil && p.Archive != "" {
		if profile, err = l.Store.Blob(ctx, p.Archive); err != nil {
			return nil, fmt.Errorf("read profile of app %q: %w", app.Name, err)
		}
	}
	in := render.Input{
		App: app.Name, Chart: chart, Profile: profile,
		Release: w.group.Spec.Version, Namespace: w.cloud.Spec.Namespace,
		OverrideValues: map[string]string{},
	}
	for _, o := range w.group.Spec.OverrideValues {
		if o.App == app.Name {
			maps.Copy(in.OverrideValues, o.Values)
		}
	}
	return l.Charts.Render(ctx, in)
}

// checkCollisions refuses a plan that would put a resource where another group's instance has the same
// one: the second apply would take it over and the first terminate would delete it. The plan may take over
// from the context from, whosever it is. Of groups of two projects each has what it may have (plan.CollideNow).
func (l *Control) checkCollisions(ctx context.Context, p *plan.Plan, from string) error {
	stand, err := l.Store.Standing(ctx)
	if err != nil {
		return err
	}
	mine, in := plan.FootprintOf(p), map[string]plan.Footprint{} // by namespace: FootprintIn
	before := sync.OnceValues(func() (*plan.Plan, error) { return l.before(ctx, p, from) })
	for _, s := range stand {
		if s.Owner == p.Owner || s.ContextID == p.ContextID || s.ContextID == from {
			continue
		}
		theirs, err := l.footprint(ctx, s.Plan)
		if err != nil {
			return err
		}
		if _, known := in[s.Namespace]; !known {
			in[s.Namespace] = plan.FootprintIn(p, s.Namespace)
		}
		if !mine.Meets(theirs) && !in[s.Namespace].Meets(theirs) {
			continue
		}
		if err := l.collidesWith(ctx, p, s.ContextID, before); err != nil {
			return err
		}
	}
	return nil
}

// collidesWith is checkCollisions with the instance of one other context, which may be over by now. before is the plan that p takes over from.
func (l *Control) collidesWith(ctx context.Context, p *plan.Plan, contextID string, before func() (*plan.Plan, error)) error {
	i, err := l.known(ctx, contextID)
	if err != nil || i == nil || i.Status.Over() {
		return err
	}
	other, err := l.plan(ctx, i.Plan)
	if err != nil {
		return err
	}
	if err := l.define(ctx, p, other); err != nil {
		return err
	}
	if _, collide := plan.Collide(p, other); !collide { // what follows reads more
		return nil
	}
	if holds, err := l.holds(ctx, i); err != nil || !holds {
		return err
	}
	recorded, err := l.Store.LeafMarks(ctx, i.ContextID)
	if err != nil {
		return err
	}
	permissions, err := l.permissions(ctx, p, other)
	if err != nil {
		return err
	}
	inherited, err := before()
	if err != nil {
		return err
	}
	if c, collide := plan.CollideNow(p, other, inherited, recorded, permissions); collide {
		return refusalOf(c, p.Owner, i.Owner)
	}
	return nil
}

// refusalOf says what one owner's plan would take from another's.
func refusalOf(c plan.Collision, ours, theirs domain.Key) error {
	whose := fmt.Sprintf("%s already (app %q)", theirs, c.OtherApp)
	if scope := domain.ScopeOf(ours); domain.ScopeOf(theirs) != scope { // which is theirs to know
		whose = fmt.Sprintf("a deployment outside of %s already", scope)
	}
	use := "use another name, release name (spec.version) or logical cloud"
	if c.Resource.Namespace == vary.IstioSystem {
		use = "what inbound intents make in that namespace has the name of the Service alone (spec.serviceName), whatever the logical cloud: use another name of the Service"
	}
	if c.Resource.IsDefinition() {
		use = "a terminate would delete all objects of that kind, whosever they are: have it in one of them only, or kept by both (crds/ of the chart, or helm.sh/resource-policy: keep)"
	}
	if c.Held {
		use = "it is held there, as it, or something that would go with it, is wanted or to be kept, which ends when that deployment is terminated; else " + use
	}
	return fail.New(fail.Conflict, "app %q: %s %q on cluster %s belongs to %s; %s", c.App, c.Resource.Kind, c.Resource.Name, c.Cluster, whose, use)
}

// before is the plan of the context from which another one takes over, as far as collisions go by it.
func (l *Control) before(ctx context.Context, p *plan.Plan, from string) (*plan.Plan, error) {
	i, err := l.known(ctx, from)
	if err != nil || i == nil {
		return nil, err
	}
	before, err := l.plan(ctx, i.Plan)
	if err != nil {
		return nil, err
	}
	return before, l.define(ctx, p, before)
}

// permissions are those of the users with whose rights two plans are applied, where it counts what they may do.
func (l *Control) permissions(ctx context.Context, a, b *plan.Plan) (map[domain.Key][]*domain.UserPermission, error) {
	of := map[domain.Key][]*domain.UserPermission{}
	if !plan.Apart(a, b) {
		return of, nil
	}
	for _, p := range []*plan.Plan{a, b} {
		if p.User == "" {
			continue
		}
		permissions, err := list[*domain.UserPermission](l.Store.List(ctx, domain.UserPermissions, p.User))
		if err != nil {
			return nil, fmt.Errorf("read what the user of logical cloud %s may do: %w", p.User, err)
		}
		of[p.User] = permissions
	}
	return of, nil
}

// footprints and footprintBytes bound what is remembered of other plans, and definitionBytes of their bundles: of a plan it is eight bytes a
// resource, whereas reading the plans of a hundred groups on a thousand clusters takes longer than all the rest.
const footprints, footprintBytes, definitionBytes = 10_000, 64 << 20, 16 << 20

// remember makes what is remembered.
func (l *Control) remember() {
	l.once.Do(func() {
		l.footprints = lru.NewWeighed[domain.Digest, plan.Footprint](footprints, footprintBytes)
		l.definitions = lru.NewWeighed[domain.Digest, *plan.Definitions](footprints, definitionBytes)
		if l.Plans == nil {
			l.Plans = newPlans()
		}
	})
}

// footprint is that of the plan with the digest.
func (l *Control) footprint(ctx context.Context, digest domain.Digest) (plan.Footprint, error) {
	l.remember()
	f, ok := l.footprints.Get(digest)
	if !ok {
		p, err := l.plan(ctx, digest)
		if err != nil {
			return nil, err
		}
		f = plan.FootprintOf(p)
		l.footprints.Add(digest, f, f.Weight())
	}
	return f, nil
}

// define reads what another plan's bundles say of the CRDs that p has as well.
func (l *Control) define(ctx context.Context, p, other *plan.Plan) error {
	l.remember()
	for _, app := range plan.Undefined(p, other) {
		d, ok := l.definitions.Get(app.Bundle)
		if !ok {
			bundle, err := stored.JSON[plan.Bundle](ctx, l.Store, app.Bundle)
			if err != nil {
				return err
			}
			d = plan.DefinitionsOf(bundle.Resources)
			l.definitions.Add(app.Bundle, d, d.Weight())
		}
		app.Definitions = d
	}
	return nil
}

// sharedWithin warns of resources that two apps of the plan both have: the one applied last wins.
func sharedWithin(p *plan.Plan) (warnings []string) {
	meet := namesakes(p)
	for i := range p.Apps {
		for j := range p.Apps[:i] {
			if !meet[[2]int{i, j}] {
				continue
			}
			a, b := plan.Plan{Namespace: p.Namespace, Apps: p.Apps[i : i+1]}, plan.Plan{Namespace: p.Namespace, Apps: p.Apps[j : j+1]}
			if c, ok := plan.Collide(&a, &b); ok {
				warnings = append(warnings, fmt.Sprintf("apps %q and %q both have %s %q on cluster %s: the one applied last wins, and the other app is never Ready: have it in one of them",
					c.OtherApp, c.App, c.Resource.Kind, c.Resource.Name, c.Cluster))
			}
		}
	}
	return warnings
}

// namesakes are the pairs of apps, the later one first, that have a resource of the same kind and name, wherever. Others have nothing in common:
// to compare all pairs of 500 apps takes seconds.
func namesakes(p *plan.Plan) map[[2]int]bool {
	type name struct{ kind, name string }
	having, meet := map[name][]int{}, map[[2]int]bool{}
	for i := range p.Apps {
		for _, r := range p.Apps[i].Resources {
			k := name{r.Kind, r.Name}
			for _, j := range having[k] {
				if j != i {
					meet[[2]int{i, j}] = true
				}
			}
			if n := len(having[k]); n == 0 || having[k][n-1] != i {
				having[k] = append(having[k], i)
			}
		}
	}
	return meet
}

// list narrows the objects of a listing to their type.
func list[T domain.Object](objects []domain.Object, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(objects))
	for _, o := range objects {
		out = append(out, o.(T))
	}
	return out, nil
}
