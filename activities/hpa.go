package activities

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/placement"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/vary"
)

// Hardware platform awareness: hpa intents choose clusters by their nodes, before one of several is taken, and have workloads
// ask for what they need (vary.HPA). Decision 0046.

// Nodes asks a cluster for the nodes that take pods, with what is left on them if amounts are wanted. Pods that are left out count
// as if they were not there.
type Nodes interface {
	Nodes(ctx context.Context, c domain.ClusterName, amounts bool, leftOut func(labels map[string]string) bool) ([]kube.Node, error)
}

// hpa is what hpa intents ask for, and what clusters have.
type hpa struct {
	needs  map[string][]domain.HPANeed // by app; nil where nothing binds hpa
	places bool                        // they choose clusters
	acts   bool                        // they are carried out already
	nodes  map[domain.ClusterName]known
}

// known are the nodes of a cluster, or why they are not known.
type known struct {
	nodes []placement.Node
	why   string
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
	w.hpa.needs = domain.HPANeeds(intents, consumers, resources)
	for _, i := range intents {
		there := slices.ContainsFunc(w.apps, func(a *domain.App) bool { return a.Name == i.Spec.App })
		if len(w.apps) > 0 && !there { // in a rehearsal they may still come
			return fail.New(fail.Malformed, "hpa intent %s: app %q: the composite app has no such app", i.Name, i.Spec.App)
		}
	}
	return nil
}

// readHPA takes all hpa intents, once.
func (l *Control) readHPA(_ context.Context, w *wanted, _ string) ([]vary.Intent, error) {
	if w.hpa.acts {
		return nil, nil
	}
	w.hpa.acts = true
	return []vary.Intent{&vary.HPA{Needs: w.hpa.needs}}, nil
}

// nodesAtOnce is how many clusters are asked at a time.
const nodesAtOnce = 32

// loadNodes asks the clusters that may be taken for apps with hpa intents. One that does not answer is asked no longer than
// policy.Nodes: its nodes are not known, which is no match.
func (l *Control) loadNodes(ctx context.Context, w *wanted) error {
	if !w.hpa.places || w.intents == nil {
		return nil
	}
	own, err := l.ownPods(ctx, w)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	w.hpa.nodes = map[domain.ClusterName]known{}
	amounts := map[domain.ClusterName]bool{}
	for _, app := range w.apps {
		needs := w.hpa.needs[app.Name]
		if len(needs) == 0 {
			continue
		}
		some := slices.ContainsFunc(needs, func(n domain.HPANeed) bool { return !n.IsLabel() })
		for _, c := range placement.Candidates(w.placement(app.Name)) {
			amounts[c] = amounts[c] || some
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(nodesAtOnce)
	for c, some := range amounts {
		g.Go(func() error {
			k := l.nodesOf(ctx, w, c, some, own)
			mu.Lock()
			defer mu.Unlock()
			w.hpa.nodes[c] = k
			return ctx.Err()
		})
	}
	return g.Wait()
}

// nodesOf asks one cluster.
func (l *Control) nodesOf(ctx context.Context, w *wanted, c domain.ClusterName, amounts bool, own func(map[string]string) bool) known {
	const unknown = "its nodes are not known: "
	switch {
	case w.unreachable[c]:
		return known{why: unknown + "the cluster does not answer"}
	case l.Nodes == nil:
		return known{why: unknown + "nobody here can ask clusters"}
	}
	ctx, cancel := context.WithTimeout(ctx, policy.Nodes)
	defer cancel()
	found, err := l.Nodes.Nodes(ctx, c, amounts, own)
	if err != nil {
		return known{why: unknown + fail.TextOf(err)}
	}
	k := known{nodes: make([]placement.Node, len(found))}
	for i, n := range found {
		k.nodes[i] = placement.Node(n)
	}
	return k
}

// ownPods says of pods whether they are of the group's instance, so that an update has the room that they take now.
func (l *Control) ownPods(ctx context.Context, w *wanted) (func(labels map[string]string) bool, error) {
	own := map[string]bool{}
	if id := w.group.History.ContextID(); id != "" {
		i, err := l.Store.Instance(ctx, id)
		if err != nil && !fail.Is(err, fail.NotFound) {
			return nil, err
		}
		if err == nil {
			for _, app := range w.apps {
				own[plan.DeploymentID(i.LabelID(), app.Name)] = true
			}
		}
	}
	return func(labels map[string]string) bool { return own[labels[plan.DeploymentLabel]] }, nil
}

// fit is placement.Input's for an app.
func (w *wanted) fit(app string) func(domain.ClusterName) placement.Fit {
	needs := w.hpa.needs[app]
	if w.hpa.nodes == nil || len(needs) == 0 {
		return nil
	}
	judged := map[domain.ClusterName]placement.Fit{}
	return func(c domain.ClusterName) placement.Fit {
		f, found := judged[c]
		if !found {
			k := w.hpa.nodes[c]
			if f = placement.FitNodes(k.nodes, needs); k.why != "" {
				f = placement.Fit{Why: fmt.Sprintf("%s (hpa intent %s)", k.why, needs[0].Intent)}
			}
			judged[c] = f
		}
		return f
	}
}
