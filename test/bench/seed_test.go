package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/test/harness"
)

// seeded is how many groups a fleet carries already.
const seeded = 100

// carry makes the fleet's store what it is when groups from one number to another, of one app of one ConfigMap are instantiated on
// every cluster: everything by the API, but the records of the instantiation, which would take a quarter of
// an hour to come about. The clusters do not hold the ConfigMaps.
func (f *simulated) carry(ctx context.Context, t testing.TB, from, to int) {
	t.Helper()
	db, err := store.Open(f.StoreConfig())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close(context.WithoutCancel(ctx))) }()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(registerAtOnce)
	chart, profile := harness.Chart(t, "app0", harness.ConfigMaps("app0", 1)), harness.Profile(t)
	for i := from; i < to; i++ {
		g.Go(func() error { return f.carryOne(gctx, db, i, chart, profile) })
	}
	require.NoError(t, g.Wait())
	active, err := db.ActiveInstances(ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(active), to)
}

func (f *simulated) carryOne(ctx context.Context, db *store.Store, i int, chart, profile []byte) error {
	d := *f.cloud
	d.CompositeApp, d.Version, d.Profile = fmt.Sprintf("carried%d", i), "v1", "profile"
	d.Group, d.Release = d.CompositeApp, d.CompositeApp
	d.Apps = []client.App{{Name: "app0", Chart: chart, Profile: profile, Intent: f.labelled(firstLabel(len(f.clusters)))}}
	if err := d.API.Run(ctx, d.GroupSteps(), nil); err != nil {
		return err
	}
	if err := d.Do(ctx, "approve"); err != nil {
		return err
	}
	name := d.Release + "-app0-000"
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"index":"0"}}`, name)
	id := plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: name}
	bundle, err := putJSON(ctx, db, plan.Bundle{App: "app0", Resources: []plan.Resource{{ResourceID: id, Manifest: json.RawMessage(manifest)}}})
	if err != nil {
		return err
	}
	s := scope(&d, fmt.Sprint(1_000_000_000_000_000_000+int64(i)), domain.OpInstantiate)
	p := plan.Plan{ContextID: s.ContextID, Owner: s.Owner, Release: d.Release, Namespace: "default", Apps: []plan.App{{
		Name: "app0", Bundle: bundle, Resources: []plan.ResourceID{id},
	}}}
	for _, c := range f.clusters {
		p.Apps[0].Targets = append(p.Apps[0].Targets, plan.Target{ClusterName: c, Reason: "allOf"})
	}
	digest, err := putJSON(ctx, db, p)
	if err != nil {
		return err
	}
	now := time.Now()
	if err := db.PutInstance(ctx, &domain.Instance{
		ContextID: s.ContextID, Owner: s.Owner, Operation: s.Operation, Status: domain.ContextInstantiated, Namespace: p.Namespace,
		Profile: d.Profile, Release: d.Release, Plan: digest, Counts: map[domain.ResourceState]int{domain.ResourceApplied: len(f.clusters)},
		Accepted: now, Ended: now,
	}); err != nil {
		return err
	}
	o, err := db.Get(ctx, domain.DeploymentIntentGroups, s.Owner)
	if err != nil {
		return err
	}
	group := o.(*domain.DeploymentIntentGroup)
	group.History.Append(domain.Instantiated, s.ContextID, 1, now)
	if err := db.Replace(ctx, group); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, target := range p.Apps[0].Targets {
		g.Go(func() error {
			return db.PutLeaf(ctx, domain.Leaf{
				ContextID: s.ContextID, Operation: s.Operation, App: "app0", Cluster: target.ClusterName,
				Connectivity: domain.ConnectivityAvailable, Marks: domain.NewMarks(1, domain.MarkApplied).Encode(),
			})
		})
	}
	return g.Wait()
}

func putJSON(ctx context.Context, db *store.Store, v any) (domain.Digest, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return db.PutBlob(ctx, data)
}
