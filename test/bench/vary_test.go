package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/harness"
)

// varying measures an instantiate on 1,000 clusters each of which gets a value of its own, a key-value pair of the cluster, by one
// customization, over one without. They take turns.
func varying(ctx context.Context, t *trial) {
	t.Helper()
	const rounds = 3
	clusters := sizedDown(1000, 40)
	f := simulate(ctx, t, clusters, clusters)
	f.ownValues(ctx, t)
	without, with := f.group(t, "without", firstLabel(clusters), 1, scaleResources), f.group(t, "with", firstLabel(clusters), 1, scaleResources)
	for _, d := range []*client.Deployment{without, with} {
		steps := d.GroupSteps()
		if d == with {
			steps = append(steps, f.customized(d, firstLabel(clusters))...)
		}
		require.NoError(t, d.API.Run(ctx, steps, nil))
	}
	var took, accepted [2][]time.Duration
	what := fmt.Sprintf("an app of %d resources on %d clusters, one of which each cluster has with a value of its own", scaleResources, clusters)
	t.finally(func() []figure {
		return []figure{
			measured("vary_instantiate_ms", what+": instantiate", took[0]),
			measured("vary_accepted_ms", what+": until it is accepted", accepted[0]),
			ratio("vary_over_render", what+": instantiate, over the same without", took[0], took[1], "≤ 1.5", func(r float64) bool { return r <= 1.5 }),
			ratio("vary_over_render_accepted", what+": until it is accepted, over the same without", accepted[0], accepted[1], "", nil),
		}
	})
	for range t.rounds(ctx, rounds, 1) {
		for i, d := range []*client.Deployment{with, without} {
			require.NoError(t, d.Do(ctx, "approve"))
			r := f.operate(ctx, t, d, domain.OpInstantiate, clusters)
			took[i], accepted[i] = append(took[i], r.took), append(accepted[i], r.accepted)
			if d == with {
				require.Equal(t, f.fleet.Names[7], f.says(ctx, t, d, f.fleet.Names[7]))
			}
			f.operate(ctx, t, d, domain.OpTerminate, clusters)
		}
	}
}

// ownValues gives each cluster a value of its own, a key-value pair.
func (f *simulated) ownValues(ctx context.Context, t testing.TB) {
	t.Helper()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(registerAtOnce)
	for _, c := range f.clusters {
		g.Go(func() error {
			return f.cloud.API.Run(gctx, []client.Step{{Object: &domain.ClusterKV{
				Identity: domain.Identity{Parent: c.Key()}, Metadata: domain.Metadata{Name: "own"},
				Spec: domain.KVSpec{KV: []map[string]string{{"site": c.Name}}},
			}}}, nil)
		})
	}
	require.NoError(t, g.Wait())
}

// group is apps of ConfigMaps on the clusters with a label, of which nothing is stored.
func (f *simulated) group(t testing.TB, name, label string, apps, resources int) *client.Deployment {
	t.Helper()
	d := *f.cloud
	d.CompositeApp, d.Version, d.Profile, d.Group, d.Release = name, "v1", "profile", name, name
	for i := range apps {
		app := fmt.Sprintf("app%d", i)
		d.Apps = append(d.Apps, client.App{
			Name: app, Chart: harness.Chart(t, app, harness.ConfigMaps(app, resources)), Profile: harness.Profile(t),
			Intent: f.labelled(label),
		})
	}
	return &d
}

// says is what the first resource of a group's first app says on a cluster.
func (f *simulated) says(ctx context.Context, t testing.TB, d *client.Deployment, cluster string) string {
	t.Helper()
	maps := kubetest.Dynamic(t, f.fleet.Kubeconfig(t, cluster)).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	o, err := maps.Namespace("default").Get(ctx, firstResource(d), metav1.GetOptions{})
	require.NoError(t, err)
	text, _, err := unstructured.NestedString(o.Object, "data", "index")
	require.NoError(t, err)
	return text
}

func firstResource(d *client.Deployment) string {
	return fmt.Sprintf("%s-%s-000", d.Release, d.Apps[0].Name)
}

// customized has the first resource of a group's first app say on each cluster what that has in its key-value pairs.
func (f *simulated) customized(d *client.Deployment, label string) []client.Step {
	intent := &domain.GenericK8sIntent{Identity: domain.Identity{Parent: d.Key()}, Metadata: domain.Metadata{Name: "own"}}
	resource := &domain.GenericResource{Identity: domain.Identity{Parent: domain.KeyOf(intent)}, Metadata: domain.Metadata{Name: "first"},
		Spec: domain.GenericResourceSpec{App: d.Apps[0].Name, NewObject: domain.False, ResourceGVK: domain.ResourceGVK{
			APIVersion: "v1", Kind: "ConfigMap", Name: firstResource(d),
		}}}
	return []client.Step{
		{Object: intent}, {Object: resource},
		{Object: &domain.Customization{Identity: domain.Identity{Parent: domain.KeyOf(resource)}, Metadata: domain.Metadata{Name: "site"},
			Spec: domain.CustomizationSpec{ClusterSpecific: domain.False, ClusterInfo: domain.ClusterInfo{
				Scope: domain.ScopeLabel, ClusterProvider: f.provider, ClusterLabel: label, Mode: domain.ModeAllow,
			}, PatchType: domain.PatchJSON, PatchJSON: []domain.PatchStep{{
				Op: "replace", Path: "/data/index",
				Value: json.RawMessage(`"$(http://drover:30461/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/kv-pairs/own?key=site)$"`),
			}}}}},
		{Object: &domain.DeploymentIntent{Identity: domain.Identity{Parent: d.Key()}, Metadata: domain.Metadata{Name: "customized"},
			Spec: domain.DeploymentIntentSpec{Intent: map[string]string{"gac": intent.Name}}}},
	}
}
