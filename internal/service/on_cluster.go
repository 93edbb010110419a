package service

import (
	"cmp"
	"context"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/repair"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/view"
)

// On are the app contexts that have something in the cluster, or may have, sorted by owner and id; the cluster's own network
// intents too.
func (l *Lifecycle) On(ctx context.Context, c domain.ClusterName) ([]*domain.Instance, error) {
	active, err := l.records.ActiveInstances(ctx)
	if err != nil {
		return nil, err
	}
	var on []*domain.Instance
	for _, i := range active {
		goes, err := l.goes(ctx, i, c)
		if err != nil {
			return nil, err
		}
		if goes {
			on = append(on, i)
		}
	}
	slices.SortFunc(on, func(a, b *domain.Instance) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.ContextID, b.ContextID))
	})
	return on, nil
}

// goes says whether a context has the cluster in its plan.
func (l *Lifecycle) goes(ctx context.Context, i *domain.Instance, c domain.ClusterName) (bool, error) {
	if i.Plan == "" {
		return false, nil
	}
	clusters, err := l.recall.clusters(ctx, l.records, i.Plan)
	if err != nil {
		return false, err
	}
	_, found := slices.BinarySearchFunc(clusters, c, domain.ClusterName.Compare)
	return found, nil
}

// Clusters are those that count in which contexts of an owner may have something that is theirs to delete, sorted: what their records tell of, and
// all clusters of one that is worked on, or of which not all is recorded that was sent. Conflict when that cannot be told, as the plan is lost; it does not name the
// owner, of whom who asks for another one may not know.
func (l *Lifecycle) Clusters(ctx context.Context, owner domain.Key, counts func(domain.ClusterName) bool) ([]domain.ClusterName, error) {
	contexts, err := l.records.InstancesOf(ctx, owner)
	if err != nil {
		return nil, err
	}
	var all []domain.ClusterName
	for _, i := range contexts {
		if i.Status.Over() || i.Plan == "" {
			continue
		}
		has, err := l.hasIn(ctx, i)
		if fail.Is(err, fail.NotFound) { // else the owner itself would be taken for gone
			err = fail.Wrap(err, fail.Conflict, "what a resource has in clusters cannot be told, as its plan is lost; who may write all clusters can delete it")
		}
		if err != nil {
			return nil, err
		}
		if has = slices.DeleteFunc(has, func(c domain.ClusterName) bool { return !counts(c) }); len(has) == 0 {
			continue
		}
		stands, err := l.stands(ctx, i)
		if err != nil {
			return nil, err
		}
		if stands {
			all = append(all, has...)
		}
	}
	slices.SortFunc(all, domain.ClusterName.Compare)
	return slices.Compact(all), nil
}

// hasIn is Clusters of one context, whether it stands or not.
func (l *Lifecycle) hasIn(ctx context.Context, i *domain.Instance) (has []domain.ClusterName, err error) {
	if i.Status.InProgress() || i.Lost {
		clusters, err := l.recall.clusters(ctx, l.records, i.Plan)
		return slices.Clone(clusters), err // which are others', too
	}
	records, err := l.recordsOf(ctx, i, working(i), false)
	if err != nil {
		return nil, err
	}
	for _, app := range records.Apps() {
		for _, c := range app.Clusters {
			if slices.ContainsFunc(c.Marks, domain.Mark.Ours) {
				has = append(has, c.ClusterName)
			}
		}
	}
	return has, nil
}

// Cluster says what runs in a cluster: every deployment that has something there, and what hangs. Errors: NotFound; those of
// the store.
func (x *Explainer) Cluster(ctx context.Context, key domain.Key) (*explain.Cluster, error) {
	_, here, leave, err := x.look(ctx, key)
	defer leave()
	switch {
	case err != nil:
		return nil, err
	case here == nil:
		return nil, fail.New(fail.Internal, "%s is no cluster", key)
	default:
		return explain.ClusterOf(here), nil
	}
}

// gatheredAtOnce is how many deployments of a cluster are looked at at a time.
const gatheredAtOnce = 8

// here gathers what runs in a cluster, of whose network intents the situation is known.
func (x *Explainer) here(ctx, asking context.Context, c *domain.Cluster, networks *explain.Situation) (*explain.ClusterSituation, error) {
	name := c.ClusterName()
	here := &explain.ClusterSituation{
		Networks: networks, Report: c.Reporting(), Tried: c.Tried, Expires: c.Expires, Expiring: c.Expiring(x.lifecycle.now()),
	}
	watches, err := x.lifecycle.heard.Watches(ctx, []domain.ClusterName{name})
	if err != nil {
		return nil, err
	}
	here.Contact = view.ContactAt(watches[name], x.lifecycle.now())
	for _, noun := range []*domain.Noun{domain.Networks, domain.ProviderNetworks} {
		_, found, err := x.lifecycle.store.FirstUnder(ctx, noun, name.Key())
		if err != nil {
			return nil, err
		}
		here.Intends = here.Intends || found
	}
	on, err := x.lifecycle.On(ctx, name)
	if err != nil {
		return nil, err
	}
	granted := rights.Of(ctx)
	if x.LeftIn != nil {
		left, err := x.LeftIn(ctx, name)
		if err != nil {
			return nil, err
		}
		here.Left = slices.DeleteFunc(left, func(l domain.TenantLeft) bool { return !granted.Shows(domain.Tenants, domain.TenantKey(l.Tenant)) })
	}
	found := make([]*explain.Situation, len(on))
	g := panics.New(ctx) // what clusters report is read later: ctx must outlive this
	g.SetLimit(gatheredAtOnce)
	for i, instance := range on {
		if instance.Owner == name.Key() || !granted.Shows(domain.OwnerNoun(instance.Owner), instance.Owner) {
			continue
		}
		g.Go(func() (err error) {
			found[i], err = x.deployment(ctx, asking, instance, name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	here.Deployments = slices.DeleteFunc(found, func(s *explain.Situation) bool { return s == nil })
	return here, nil
}

// holds says whether the context of a record may have something in clusters. It is what stands says, for who only looks: the owner stays as it is, and
// is taken as Repair would leave it. Errors: those of the store; silent is why the engine cannot say whether the context runs, which counts then.
func (l *Lifecycle) holds(ctx, asking context.Context, owner domain.Owner, i *domain.Instance) (holds bool, silent, err error) {
	if !owner.Track().Knows(i.ContextID) {
		running, err := l.engine.Running(asking, working(i))
		return running || err != nil, err, nil
	}
	h, err := l.halfMigrated(ctx, owner)
	if err != nil || !repair.Left(owner.Track(), i.ContextID, h != nil) {
		return true, nil, err
	}
	_, err = l.records.Instance(ctx, repair.Successor(owner.Track())) // which tells of it
	if fail.Is(err, fail.NotFound) {
		return true, nil, nil
	}
	return false, nil, err
}

// deployment gathers what an app context has in one cluster; nil when its owner has gone meanwhile, or the context has nothing there.
func (x *Explainer) deployment(ctx, asking context.Context, i *domain.Instance, c domain.ClusterName) (*explain.Situation, error) {
	owner, err := x.lifecycle.owner(ctx, i.Owner)
	if fail.Is(err, fail.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	holds, unknown, err := x.lifecycle.holds(ctx, asking, owner, i)
	if err != nil || !holds {
		return nil, err
	}
	s := &explain.Situation{
		Now: x.lifecycle.now(), Key: i.Owner, Noun: owner.Noun(), UI: x.ui, Only: &c, History: *owner.Track(),
	}
	silent(s, unknown)
	if err := x.instance(ctx, asking, s, i.ContextID); err != nil {
		return nil, err
	}
	may(s, owner)
	return s, nil
}
