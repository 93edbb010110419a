package activities

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/placement"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/vary"
)

// Hardware platform awareness: hpa intents choose clusters by their nodes, before one of several is taken, and have workloads
// ask for what they need (vary.HPA). Decision 0046.

// Nodes asks a cluster for the nodes that take pods, with what is left on them if amounts are wanted. What is left out counts as if
// it were free.
type Nodes interface {
	Nodes(ctx context.Context, c domain.ClusterName, amounts bool, left kube.LeftOut) ([]kube.Node, error)
}

// hpa is what hpa intents ask for, and what clusters have.
type hpa struct {
	places bool           // they choose clusters
	acts   bool           // they are carried out already
	room   placement.Room // Needs is nil where nothing binds hpa
}

// loadHPA reads all hpa intents of the group, where anything binds hpa: EMCO never reads the name that is bound.
func (l *Control) loadHPA(ctx context.Context, w *wanted, acts []stored.Act) error {
	bound := func(actors ...domain.Actor) bool {
		return slices.ContainsFunc(acts, func(a stored.Act) bool { return slices.Contains(actors, a.Actor) })
	}
	if !bound(domain.ActorHPA, domain.ActorHPAPlacement, domain.ActorHPABoth) {
		return nil
	}
	w.hpa.places = bound(domain.ActorHPAPlacement, domain.ActorHPABoth)
	key := domain.KeyOf(w.group)
	intents, err := list[*domain.HPAIntent](l.Store.List(ctx, domain.HPAIntents, key))
	if err != nil {
		return err
	}
	consumers, err := list[*domain.HPAConsumer](l.Store.ListUnder(ctx, domain.HPAConsumers, key))
	if err != nil {
		return err
	}
	resources, err := list[*domain.HPAResource](l.Store.ListUnder(ctx, domain.HPAResources, key))
	if err != nil {
		return err
	}
	w.hpa.room.Needs = domain.HPANeeds(intents, consumers, resources)
	w.warnings = append(w.warnings, idle(intents, consumers, resources)...)
	for _, i := range intents {
		there := slices.ContainsFunc(w.apps, func(a *domain.App) bool { return a.Name == i.Spec.App })
		if len(w.apps) > 0 && !there { // in a rehearsal they may still come
			return fail.New(fail.Malformed, "hpa intent %s: app %q: the composite app has no such app", i.Name, i.Spec.App)
		}
	}
	return nil
}

// idle says which hpa intents ask for nothing.
func idle(intents []*domain.HPAIntent, consumers []*domain.HPAConsumer, resources []*domain.HPAResource) (warnings []string) {
	if len(intents) == 0 {
		return []string{"hpa is bound, and there is no hpa intent: nothing is done for it"}
	}
	for _, i := range intents {
		key := domain.KeyOf(i)
		if !slices.ContainsFunc(consumers, func(c *domain.HPAConsumer) bool { return c.Parent == key }) {
			warnings = append(warnings, fmt.Sprintf("hpa intent %s has no consumers: nothing is done for app %q", i.Name, i.Spec.App))
		}
	}
	for _, c := range consumers {
		key := domain.KeyOf(c)
		if !slices.ContainsFunc(resources, func(r *domain.HPAResource) bool { return r.Parent == key }) {
			warnings = append(warnings, fmt.Sprintf("hpa intent %s, consumer %q has no resource requirements: nothing is done with %s %q",
				c.Parent.Name(), c.Name, c.Spec.Workload(), c.Spec.Name))
		}
	}
	return warnings
}

// unpreferred says which requirements only prefer clusters (mandatory false), where nothing is chosen by them.
func (w *wanted) unpreferred() (warnings []string) {
	for _, app := range w.apps {
		var why string
		switch {
		case !w.hpa.places:
			why = "only the hpa action is bound"
		case !placement.Chooses(w.placement(app.Name)):
			why = "its app intents have no anyOf"
		default:
			continue
		}
		for _, n := range w.hpa.room.Needs[app.Name] {
			if !n.Required() {
				warnings = append(warnings, fmt.Sprintf("hpa intent %s, consumer %q, requirement %q: it is not mandatory, so that it counts only where one of several clusters is "+
					"taken; for app %q none is: %s", n.Intent, n.Consumer, n.Resource, app.Name, why))
			}
		}
	}
	return warnings
}

// readHPA takes all hpa intents, once.
func (l *Control) readHPA(_ context.Context, w *wanted, _ string) ([]vary.Intent, error) {
	if w.hpa.acts {
		return nil, nil
	}
	w.hpa.acts = true
	return []vary.Intent{&vary.HPA{Needs: w.hpa.room.Needs}}, nil
}

// nodesAtOnce is how many clusters are asked at a time.
const nodesAtOnce = 64

// loadNodes asks the clusters that may be taken for apps with hpa intents. One that does not answer is asked no longer than
// policy.Nodes, and one that did not answer before no longer than policy.NodesAgain; all have policy.NodesAll together. Its nodes are not known then, which is no match.
func (l *Control) loadNodes(ctx context.Context, w *wanted) error {
	if w.intents == nil {
		return nil
	}
	w.warnings = append(w.warnings, w.unpreferred()...)
	if !w.hpa.places {
		return nil
	}
	own, err := l.loadOwn(ctx, w)
	if err != nil {
		return err
	}
	amounts := map[domain.ClusterName]bool{}
	for _, app := range w.apps {
		needs := w.hpa.room.Needs[app.Name]
		if len(needs) == 0 {
			continue
		}
		some := slices.ContainsFunc(needs, func(n domain.HPANeed) bool { return !n.IsLabel() })
		for _, c := range placement.Candidates(w.placement(app.Name)) {
			amounts[c] = amounts[c] || some
		}
	}
	if err := l.askNodes(ctx, w, amounts, own); err != nil {
		return err
	}
	for _, app := range w.apps {
		if err := l.loadTolerations(ctx, w, app); err != nil {
			return err
		}
		for _, c := range placement.Mandatory(w.placement(app.Name)) {
			w.hpa.room.Take(app.Name, c)
		}
	}
	return nil
}

// askNodes asks clusters for their nodes, and for what is left on them where amounts says so. Those that did not answer when they were
// last tried are asked beside the others: a cluster that is refused gets no leaf, which would find that it is back.
func (l *Control) askNodes(ctx context.Context, w *wanted, amounts map[domain.ClusterName]bool, own kube.LeftOut) error {
	var heard, away, back []domain.ClusterName
	for c := range amounts {
		if w.unreachable[c] {
			away = append(away, c)
		} else {
			heard = append(heard, c)
		}
	}
	var mu sync.Mutex
	w.hpa.room.Nodes = map[domain.ClusterName]placement.Nodes{}
	each := func(ctx context.Context, clusters []domain.ClusterName, within time.Duration) error {
		g, ctx := panics.WithContext(ctx)
		g.SetLimit(nodesAtOnce)
		for _, c := range clusters {
			g.Go(func() error {
				nodes := l.nodesOf(ctx, c, within, amounts[c], own)
				mu.Lock()
				defer mu.Unlock()
				w.hpa.room.Nodes[c] = nodes
				if w.unreachable[c] && nodes.Unknown == "" {
					back = append(back, c)
				}
				return nil
			})
		}
		return g.Wait()
	}
	g, asking := panics.WithContext(ctx)
	g.Go(func() error {
		all, cancel := context.WithTimeoutCause(asking, policy.NodesAll, fail.New(fail.Timeout, "the clusters have not told theirs in the %s that all have together", policy.NodesAll))
		defer cancel()
		return each(all, heard, policy.Nodes)
	})
	g.Go(func() error {
		again, cancel := context.WithTimeoutCause(asking, policy.NodesAgainAll,
			fail.New(fail.Timeout, "the clusters that did not answer before have not told theirs in the %s that all of these have together", policy.NodesAgainAll))
		defer cancel()
		return each(again, away, policy.NodesAgain)
	})
	if err := cmp.Or(g.Wait(), ctx.Err()); err != nil {
		return err
	}
	return l.answered(ctx, w, back)
}

// answered notes that clusters have answered which did not before. A rehearsal stores nothing.
func (l *Control) answered(ctx context.Context, w *wanted, back []domain.ClusterName) error {
	for _, c := range back {
		delete(w.unreachable, c)
		if l.dry {
			continue
		}
		if err := l.Store.SetReachable(ctx, c, true); err != nil {
			return err
		}
	}
	return nil
}

// nodesOf asks one cluster.
func (l *Control) nodesOf(ctx context.Context, c domain.ClusterName, within time.Duration, amounts bool, own kube.LeftOut) placement.Nodes {
	const unknown = "its nodes are not known: "
	if l.Nodes == nil {
		return placement.Nodes{Unknown: unknown + "nobody here can ask clusters"}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fail.New(fail.Timeout, "the cluster has not told all of them in %s", within)) // it may answer, and have many
	defer cancel()
	found, err := l.Nodes.Nodes(ctx, c, amounts, own)
	if err != nil && ctx.Err() != nil {
		return placement.Nodes{Unknown: unknown + fail.TextOf(context.Cause(ctx))}
	}
	if err != nil {
		return placement.Nodes{Unknown: unknown + fail.TextOf(err)}
	}
	n := placement.Nodes{Nodes: make([]placement.Node, len(found))}
	for i := range found {
		n.Nodes[i] = placement.Node(found[i])
	}
	return n
}

// loadResident reads where apps are, of the instance that is to be updated or migrated: they stay there as long as that fits, and as long as
// nothing else is preferred than was. What an app has stored goes with it where it leaves.
func (l *Control) loadResident(ctx context.Context, w *wanted) error {
	if w.from == nil || w.from.Plan == "" {
		return nil
	}
	p, err := l.plan(ctx, w.from.Plan)
	if err != nil {
		return err
	}
	w.resident = map[domain.ClusterName]map[string]bool{}
	for i := range p.Apps {
		app := &p.Apps[i]
		if prefers := placement.Prefers(w.hpa.room.Needs[app.Name]); w.hpa.places && prefers != "" && prefers != app.Prefers {
			continue
		}
		for _, t := range app.Targets {
			if t.Leaving {
				continue
			}
			if w.resident[t.ClusterName] == nil {
				w.resident[t.ClusterName] = map[string]bool{}
			}
			w.resident[t.ClusterName][app.Name] = true
		}
	}
	return nil
}

// loadOwn reads what apps with hpa intents have already. What their pods take is room for them, as they take the place of these, but
// not more than they need: pods that no consumer names go on. All is room of what pods of apps take that are to go.
func (l *Control) loadOwn(ctx context.Context, w *wanted) (own kube.LeftOut, err error) {
	from := w.from
	if from == nil { // something may be left of it all the same
		if from, err = l.known(ctx, w.group.History.ContextID()); err != nil {
			return own, err
		}
	}
	ours := map[string]bool{}
	own.Most = map[string]map[string]*big.Rat{}
	own.Of = func(labels map[string]string) string {
		if of := labels[plan.DeploymentLabel]; ours[of] {
			return of
		}
		return ""
	}
	if from == nil {
		return own, nil
	}
	p, err := l.plan(ctx, from.Plan)
	if err != nil {
		return own, err
	}
	for i := range p.Apps {
		app := &p.Apps[i]
		needs := w.hpa.room.Needs[app.Name]
		stays := slices.ContainsFunc(w.apps, func(a *domain.App) bool { return a.Name == app.Name })
		if stays && len(needs) == 0 {
			continue
		}
		id := plan.DeploymentID(from.LabelID(), app.Name)
		ours[id] = true
		if stays {
			own.Most[id] = placement.Requested(needs)
		}
	}
	return own, nil
}

// loadTolerations renders an app with hpa intents for what its pods tolerate, where nodes have taints. What other intents add to
// workloads is not known yet: they act when it is known where the app goes.
func (l *Control) loadTolerations(ctx context.Context, w *wanted, app *domain.App) error {
	needs := w.hpa.room.Needs[app.Name]
	tainted := func(c domain.ClusterName) bool {
		return slices.ContainsFunc(w.hpa.room.Nodes[c].Nodes, func(n placement.Node) bool { return n.Closed == "" && len(n.Taints) > 0 })
	}
	if len(needs) == 0 || !slices.ContainsFunc(placement.Candidates(w.placement(app.Name)), tainted) {
		return nil
	}
	bundle, err := l.render(ctx, w, app)
	if err != nil {
		return err
	}
	for i := range needs {
		needs[i].Tolerations = vary.Tolerations(bundle.Resources, needs[i].Workload(), needs[i].Name)
	}
	return nil
}

// inTurn are the apps in the order in which they are placed: those first that are somewhere already, then those that fit the
// fewest clusters, so that others do not take their room.
func (w *wanted) inTurn() []*domain.App {
	apps := slices.Clone(w.apps)
	if w.hpa.room.Nodes == nil {
		return apps
	}
	turn := make(map[string]int, len(apps))
	for _, app := range apps {
		if len(w.hpa.room.Needs[app.Name]) == 0 {
			turn[app.Name] = math.MaxInt
			continue
		}
		in := w.placement(app.Name)
		for _, c := range placement.Candidates(in) {
			switch {
			case in.Resident(c):
				turn[app.Name] = -1
			case turn[app.Name] >= 0 && in.Fit(c).Why == "":
				turn[app.Name]++
			}
		}
	}
	slices.SortStableFunc(apps, func(a, b *domain.App) int { return cmp.Compare(turn[a.Name], turn[b.Name]) })
	return apps
}

// fit is placement.Input's for an app.
func (w *wanted) fit(app string) func(domain.ClusterName) placement.Fit {
	if w.hpa.room.Nodes == nil || len(w.hpa.room.Needs[app]) == 0 {
		return nil
	}
	return func(c domain.ClusterName) placement.Fit { return w.hpa.room.Fit(app, c) }
}

// took says where an app goes, so that others have less room there.
func (w *wanted) took(app string, targets []plan.Target) {
	if fit := w.fit(app); fit != nil {
		for i := range targets {
			c := targets[i].ClusterName
			if f := fit(c); f.Unknown {
				w.warnings = append(w.warnings, fmt.Sprintf("app %s stays on %s: %s", app, c, f.Why))
			}
			w.hpa.room.Take(app, c)
		}
	}
}
