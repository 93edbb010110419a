package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/vary"
)

// Between rendering and planning, the intents that a group binds beside its placement change what is rendered (package vary).

// reads reads an intent that is bound to a group, with all that is below it. NotFound when it is not there. Each of domain's
// actors has one.
var reads = map[domain.Actor]func(l *Control, ctx context.Context, w *wanted, intent string) ([]vary.Intent, error){
	domain.ActorOVN: (*Control).readOVN,
	domain.ActorDTC: (*Control).readDTC,
	domain.ActorGAC: (*Control).readGAC,
	domain.ActorHPA: (*Control).readHPA, domain.ActorHPABoth: (*Control).readHPA,
	domain.ActorHPAPlacement: func(*Control, context.Context, *wanted, string) ([]vary.Intent, error) { return nil, nil },
}

// errNoIntent says that a deployment intent names an intent which is not there. That is for whoever asked, by NotFound, with
// every operation: unlike a placement it is never looked for under another name, and EMCO deploys without it.
var errNoIntent = errors.New("no such intent")

// loadVarying reads what the bindings name that Drover carries out. Each intent is taken once, in the order of the bindings.
func (l *Control) loadVarying(ctx context.Context, w *wanted, bindings []*domain.DeploymentIntent) error {
	acts, err := stored.Acts(ctx, l.Store, bindings)
	if err != nil {
		return err
	}
	if err := l.loadHPA(ctx, w, acts); err != nil {
		return err
	}
	var bound []vary.Bound
	for _, a := range acts {
		intents, err := reads[a.Actor](l, ctx, w, a.Intent)
		if fail.Is(err, fail.NotFound) {
			return fail.Wrap(errNoIntent, fail.NotFound, "Intent not found: deployment intent %q names %s intent %q, and deployment intent group %q has none of that name",
				a.DeploymentIntent, a.Actor, a.Intent, w.group.Name)
		}
		if err != nil {
			return err
		}
		bound = append(bound, vary.Bound{Registered: a.Registered, Priority: a.Priority, Actor: a.Actor, Intents: intents})
	}
	w.varying = vary.InOrder(bound)
	return l.loadUnbound(ctx, w, acts, placementsOf(bindings))
}

// carriers are the nouns of the intents that an actor carries out when a deployment intent binds them: by their name, but those of
// hpa, which count together as soon as one of its actors is bound. Placements have no actor.
var carriers = []struct {
	noun   *domain.Noun
	actors []domain.Actor
	all    bool
}{
	{domain.PlacementIntents, nil, false},
	{domain.NetControllerIntents, []domain.Actor{domain.ActorOVN}, false},
	{domain.TrafficGroupIntents, []domain.Actor{domain.ActorDTC}, false},
	{domain.GenericK8sIntents, []domain.Actor{domain.ActorGAC}, false},
	{domain.HPAIntents, []domain.Actor{domain.ActorHPA, domain.ActorHPAPlacement, domain.ActorHPABoth}, true},
}

// maxUnbound is how many intents of a noun loadUnbound names.
const maxUnbound = 10

// loadUnbound warns of intents of the group that no deployment intent binds: somebody has described them, and nothing is done.
// The placements are the names of those that are bound.
func (l *Control) loadUnbound(ctx context.Context, w *wanted, acts []stored.Act, placements []string) error {
	for _, c := range carriers {
		intents, err := l.Store.List(ctx, c.noun, domain.KeyOf(w.group))
		if err != nil {
			return err
		}
		var names []string
		for _, o := range intents {
			binds := func(a stored.Act) bool {
				return slices.Contains(c.actors, a.Actor) && (c.all || a.Intent == o.LocalName())
			}
			placed := c.noun == domain.PlacementIntents && slices.Contains(placements, o.LocalName())
			if !placed && !slices.ContainsFunc(acts, binds) {
				names = append(names, o.LocalName())
			}
		}
		if more := len(names) - maxUnbound; more > 0 {
			names = append(names[:maxUnbound], fmt.Sprintf("%d more", more))
		}
		if len(names) > 0 {
			w.warnings = append(w.warnings, fmt.Sprintf("no deployment intent binds %s %s: nothing is done for it", c.noun.Title, strings.Join(names, ", ")))
		}
	}
	return nil
}

// readOVN reads a network controller intent.
func (l *Control) readOVN(ctx context.Context, w *wanted, intent string) ([]vary.Intent, error) {
	key := domain.KeyOf(w.group).Child(domain.NetControllerIntents.Collection, intent)
	if _, err := l.Store.Get(ctx, domain.NetControllerIntents, key); err != nil {
		return nil, err
	}
	workloads, err := made[*domain.WorkloadIntent](l.Store.List(ctx, domain.WorkloadIntents, key))
	if err != nil {
		return nil, err
	}
	interfaces, err := made[*domain.InterfaceIntent](l.Store.ListUnder(ctx, domain.InterfaceIntents, key))
	if err != nil {
		return nil, err
	}
	below := map[domain.Key][]domain.InterfaceIntent{}
	for _, i := range interfaces {
		below[i.Parent] = append(below[i.Parent], *i)
	}
	ovn := &vary.OVN{Name: intent}
	for _, x := range workloads {
		ovn.Workloads = append(ovn.Workloads, vary.Workload{Name: x.Name, Spec: x.Spec, Interfaces: below[domain.KeyOf(x)]})
	}
	apps := make([]string, 0, len(w.apps))
	for _, a := range w.apps {
		apps = append(apps, a.Name)
	}
	if len(apps) == 0 { // in a rehearsal they may still come
		return []vary.Intent{ovn}, nil
	}
	warnings, err := ovn.Apps(apps)
	w.warnings = append(w.warnings, warnings...)
	return []vary.Intent{ovn}, err
}

// made narrows a listing, and sorts it by creation.
func made[T domain.Object](objects []domain.Object, err error) ([]T, error) {
	narrow, err := list[T](objects, err)
	slices.SortStableFunc(narrow, func(a, b T) int {
		return cmp.Or(a.Base().Made.Compare(b.Base().Made), cmp.Compare(a.LocalName(), b.LocalName()))
	})
	return narrow, err
}

// vary carries out the intents for an app, and says of its targets which variant they get.
func (l *Control) vary(ctx context.Context, w *wanted, bundle *plan.Bundle) (*vary.Varied, error) {
	app := &vary.App{Name: bundle.App, Namespace: w.cloud.Spec.Namespace, Resources: bundle.Resources, Used: w.varied}
	targets := w.targets[bundle.App]
	if slices.ContainsFunc(w.varying, func(s vary.Intent) bool { return s.Concerns(bundle.App) }) {
		if err := l.loadPlaced(ctx, w); err != nil {
			return nil, err
		}
		app.Clusters, app.Placed = w.placed[bundle.App], w.placed
		if err := l.loadValues(ctx, w, bundle.App); err != nil {
			return nil, err
		}
	}
	varied, err := vary.Apply(w.varying, app)
	if err != nil {
		return nil, err
	}
	for i := range varied.Of {
		targets[i].Variant = varied.Of[i]
	}
	w.varied += varied.Bytes
	w.warnings = append(w.warnings, varied.Warnings...)
	return varied, nil
}

// loadPlaced reads what intents may look at, of the clusters of all apps.
func (l *Control) loadPlaced(ctx context.Context, w *wanted) error {
	if w.placed != nil {
		return nil
	}
	facts := map[domain.ClusterName]*vary.Cluster{}
	for _, targets := range w.targets {
		for i := range targets {
			name := targets[i].ClusterName
			facts[name] = &vary.Cluster{ClusterName: name, Networks: map[string]bool{}, Labels: map[string]bool{}}
		}
	}
	w.pairs, w.keys = map[domain.Key]domain.KVSpec{}, map[string]bool{}
	for _, g := range w.generic {
		for _, key := range g.Keys() {
			w.keys[key] = true
		}
	}
	if err := l.loadFacts(ctx, facts, w); err != nil {
		return err
	}
	for id, names := range w.labelled {
		provider, label, _ := strings.Cut(id, "/")
		for _, name := range names {
			if c := facts[domain.ClusterName{Provider: provider, Name: name}]; c != nil {
				c.Labels[label] = true
			}
		}
	}
	w.placed = make(map[string][]*vary.Cluster, len(w.targets))
	for app, targets := range w.targets {
		for i := range targets {
			w.placed[app] = append(w.placed[app], facts[targets[i].ClusterName])
		}
	}
	return nil
}

// fewClusters is up to how many clusters are asked for one after the other what is known of them; of more, that of whole
// providers is read.
const fewClusters = 16

// loadFacts reads what intents may look at in the clusters of facts. It leaves out labels that placement has read already, and reads the clusters
// themselves only for an intent that asks for their networks. It keeps only key-value pairs whose keys intents name: a document may have 100,000,
// and a provider thousands of documents.
func (l *Control) loadFacts(ctx context.Context, facts map[domain.ClusterName]*vary.Cluster, w *wanted) error {
	below := make([]domain.Key, 0, len(facts))
	for name := range facts {
		below = append(below, name.Key())
	}
	slices.Sort(below)
	if len(facts) > fewClusters {
		for i, key := range below {
			below[i], _ = domain.ClusterProviders.Above(key)
		}
		below = slices.Compact(below)
	}
	if slices.ContainsFunc(w.varying, func(s vary.Intent) bool { _, is := s.(*vary.OVN); return is }) {
		if err := l.loadApplied(ctx, facts, below); err != nil {
			return err
		}
	}
	for _, prefix := range below {
		for _, noun := range []*domain.Noun{domain.ClusterKVs, domain.Networks, domain.ProviderNetworks, domain.ClusterLabels} {
			if noun == domain.ClusterLabels && w.providers[prefix.Segments()[1]] {
				continue
			}
			if err := l.Store.Each(ctx, noun, prefix, func(o domain.Object) error { w.noteFact(facts, o); return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteFact adds a key-value pair, a label or a network to what is known of its cluster. It passes over those of clusters that are no targets.
func (w *wanted) noteFact(facts map[domain.ClusterName]*vary.Cluster, o domain.Object) {
	names, _ := domain.ClustersNoun.Split(o.Base().Parent)
	c := facts[domain.ClusterName{Provider: names["clusterProvider"], Name: names["cluster"]}]
	if c == nil {
		return
	}
	switch o := o.(type) {
	case *domain.ClusterKV:
		if known, bytes := o.Spec.Only(vary.Keys); bytes > 0 {
			c.Pairs = append(c.Pairs, known)
		}
		w.keepPairs(o)
	case *domain.ClusterLabel:
		c.Labels[o.Label] = true
	default:
		c.Networks[o.LocalName()] = true
	}
}

// keepPairs keeps the pairs of a target that patches name, as long as all together are not too large: who wants others reads them again.
func (w *wanted) keepPairs(o *domain.ClusterKV) {
	pairs, bytes := o.Spec.Only(w.keys)
	if w.pairBytes+bytes <= limits.Varied {
		w.pairs[domain.KeyOf(o)], w.pairBytes = pairs, w.pairBytes+bytes
	}
}

// loadApplied reads which clusters have their network intents applied; below are their keys, or those of their providers.
func (l *Control) loadApplied(ctx context.Context, facts map[domain.ClusterName]*vary.Cluster, below []domain.Key) error {
	note := func(c *domain.Cluster) {
		if f := facts[c.ClusterName()]; f != nil {
			f.Applied = c.History.State() == domain.Applied
		}
	}
	for _, key := range below {
		if _, one := domain.ClustersNoun.Split(key); one {
			o, err := l.Store.Get(ctx, domain.ClustersNoun, key)
			if err != nil && !fail.Is(err, fail.NotFound) {
				return err
			}
			if err == nil {
				note(o.(*domain.Cluster))
			}
			continue
		}
		clusters, err := list[*domain.Cluster](l.Store.List(ctx, domain.ClustersNoun, key))
		if err != nil {
			return err
		}
		for _, c := range clusters {
			note(c)
		}
	}
	return nil
}

// planOf is a variant as the plan has it, but for where its overlay is.
func planOf(v vary.Variant) plan.Variant {
	return plan.Variant{Differs: v.Overlay.Indices(), Lacks: v.Lacks, Effects: v.Effects}
}

// Overlays are stored in packs. packSize is from how many bytes on a pack takes no more of them: who applies one reads its pack, and
// each pack is work for the database. savedTogether is how many bytes of packs are stored in one go.
const (
	packSize      = 64 << 10
	savedTogether = 8 << 20
)

// saveVariants stores the overlays of an app.
func (l *Control) saveVariants(ctx context.Context, variants []vary.Variant) ([]plan.Variant, error) {
	var (
		out   []plan.Variant
		packs [][]byte // that are not stored yet
		first []int    // by pack: its first variant
		pack  []byte
		bytes int
	)
	for i, v := range variants {
		data, err := json.Marshal(v.Overlay)
		if err != nil {
			return nil, fmt.Errorf("encode overlay: %w", err)
		}
		out = append(out, planOf(v))
		if pack == nil {
			first = append(first, i)
			pack = append(pack, '[')
		} else {
			pack = append(pack, ',')
		}
		pack = append(pack, data...)
		last := i == len(variants)-1
		if len(pack) < packSize && !last {
			continue
		}
		packs, bytes = append(packs, append(pack, ']')), bytes+len(pack)
		pack = nil
		if bytes < savedTogether && !last {
			continue
		}
		digests, err := l.Store.PutBlobs(ctx, packs)
		if err != nil {
			return nil, err
		}
		for n, digest := range digests {
			for at := first[n]; at <= i && (n == len(first)-1 || at < first[n+1]); at++ {
				out[at].Overlay = domain.PartOf(digest, at-first[n])
			}
		}
		packs, first, bytes = nil, nil, 0
	}
	return out, nil
}
