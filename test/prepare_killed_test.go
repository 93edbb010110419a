package test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/test/harness"
)

// killedInPrepare kills the worker while it stores what 300 clusters get otherwise, each something of its own. The plan that the next
// one makes is that of a group in whose way nobody was.
func killedInPrepare(ctx context.Context, t *testing.T, s *harness.Stack, cluster *harness.Cluster) {
	t.Helper()
	const variants = 300
	db, err := store.Open(s.StoreConfig())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close(context.WithoutCancel(ctx))) })
	registered := s.Register(ctx, cluster.Name, cluster.Kubeconfig(t))
	create := func(o domain.Object) {
		t.Helper()
		require.NoError(t, db.Create(ctx, o))
	}
	for n := range variants + 1 { // nobody is to apply anything there: no cluster is registered
		site := domain.ClusterName{Provider: registered.Provider, Name: fmt.Sprintf("site%03d", n)}
		create(&domain.ClusterLabel{Identity: domain.Identity{Parent: site.Key()}, Label: "site"})
		create(&domain.ClusterKV{Identity: domain.Identity{Parent: site.Key()}, Metadata: domain.Metadata{Name: "own"},
			Spec: domain.KVSpec{KV: []map[string]string{{"name": site.Name}}}})
	}
	describe := func() *client.Deployment {
		t.Helper()
		app := many(t, 2)
		app.Intent = domain.Placement{AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: registered.Provider, ClusterLabel: "site"}}}}
		d := s.On(ctx, []domain.ClusterName{registered}, app)
		for n := range variants + 1 {
			create(&domain.ClusterReference{Identity: domain.Identity{Parent: d.CloudKey()}, Metadata: domain.Metadata{Name: fmt.Sprint("site", n)},
				Spec: domain.ClusterReferenceSpec{ClusterProvider: registered.Provider, Cluster: fmt.Sprintf("site%03d", n)}})
		}
		intent := &domain.GenericK8sIntent{Identity: domain.Identity{Parent: d.Key()}, Metadata: domain.Metadata{Name: "own"}}
		resource := &domain.GenericResource{Identity: domain.Identity{Parent: domain.KeyOf(intent)}, Metadata: domain.Metadata{Name: "first"},
			Spec: domain.GenericResourceSpec{App: "many", NewObject: domain.False, ResourceGVK: domain.ResourceGVK{
				APIVersion: "v1", Kind: "ConfigMap", Name: d.Release + "-many-000",
			}}}
		require.NoError(t, d.API.Run(ctx, []client.Step{
			{Object: intent}, {Object: resource},
			{Object: &domain.Customization{Identity: domain.Identity{Parent: domain.KeyOf(resource)}, Metadata: domain.Metadata{Name: "site"},
				Spec: domain.CustomizationSpec{ClusterSpecific: domain.False, ClusterInfo: domain.ClusterInfo{
					Scope: domain.ScopeLabel, ClusterProvider: registered.Provider, ClusterLabel: "site", Mode: domain.ModeAllow,
				}, PatchType: domain.PatchJSON, PatchJSON: []domain.PatchStep{{
					Op: "replace", Path: "/data/index",
					Value: json.RawMessage(`"$(http://drover:30461/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/kv-pairs/own?key=name)$"`),
				}}}}},
			{Object: &domain.DeploymentIntent{Identity: domain.Identity{Parent: d.Key()}, Metadata: domain.Metadata{Name: "customized"},
				Spec: domain.DeploymentIntentSpec{Intent: map[string]string{"gac": "own"}}}},
		}, nil))
		do(ctx, t, d, "approve")
		return d
	}
	planned := func(d *client.Deployment) string {
		t.Helper()
		var made *plan.Plan
		harness.Until(ctx, t, "planned", func() bool {
			o, err := db.Get(ctx, domain.DeploymentIntentGroups, d.Key())
			require.NoError(t, err)
			id := o.(domain.Owner).Track().ContextID()
			if id == "" {
				return false
			}
			i, err := db.Instance(ctx, id)
			if err != nil || i.Plan == "" {
				return false
			}
			made, err = stored.JSON[plan.Plan](ctx, db, i.Plan)
			require.NoError(t, err)
			return true
		})
		app := made.App("many")
		require.Len(t, app.Targets, variants+1)
		require.Len(t, app.Variants, variants)
		return strings.ReplaceAll(whatEachGets(ctx, t, db, app), d.Release, "RELEASE")
	}

	undisturbed := describe()
	do(ctx, t, undisturbed, "instantiate")
	want := planned(undisturbed)
	for n := range variants + 1 {
		require.Contains(t, want, fmt.Sprintf(`"index":"site%03d"`, n))
	}

	killed := func() (*client.Deployment, error) {
		d := describe()
		s.Slow.Meet("blobs-*", 3, mongotest.Fault{Late: 3 * time.Second}) // after two others of what is stored
		answered := make(chan error, 1)
		go func() { answered <- d.Do(ctx, "instantiate") }()
		harness.Until(ctx, t, "some of it is stored", s.Slow.Met)
		s.Worker.Kill()
		s.StartWorker()
		return d, <-answered
	}
	d, err := killed()
	for fail.Is(err, fail.Unavailable) && ctx.Err() == nil { // a busy machine took longer than the minute in which an operation is to be accepted
		d, err = killed()
	}
	require.NoError(t, err)
	require.Equal(t, want, planned(d))
}

// whatEachGets is, by cluster, what an app's clusters get and by which intents.
func whatEachGets(ctx context.Context, t *testing.T, db *store.Store, app *plan.App) string {
	t.Helper()
	bundle, err := stored.JSON[plan.Bundle](ctx, db, app.Bundle)
	require.NoError(t, err)
	overlays, err := stored.Parts[plan.Overlay](ctx, db, app.Overlays())
	require.NoError(t, err)
	var all strings.Builder
	encode := json.NewEncoder(&all)
	for _, target := range app.Targets {
		gets := bundle
		if target.Variant > 0 {
			gets = overlays[target.Variant-1].On(bundle)
		}
		require.NoError(t, encode.Encode([]any{target.Name, gets.Resources, app.EffectsOn(&target)}))
	}
	return all.String()
}
