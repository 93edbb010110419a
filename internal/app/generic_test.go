package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/stored"
)

// customized is varied without networks: the Deployment gets as many replicas as a key-value pair of its cluster says, of which
// each cluster has its own, and c1 gets a Secret of a file.
func customized(t testing.TB, s *store.Store, clusters int) *description {
	d := varied(clusters)
	delete(d.intent.Spec.Intent, "ovnaction")
	d.intent.Spec.Intent["gac"] = "own"
	under := func(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }
	named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
	for i := range clusters {
		name := "c"
		if i > 0 {
			name = fmt.Sprintf("c%d", i)
		}
		d.more = append(d.more, &domain.ClusterKV{
			Identity: under(domain.ClusterName{Provider: "cp", Name: name}.Key()), Metadata: named("own"), Spec: domain.KVSpec{KV: []map[string]string{{"site": name}}},
		})
	}
	intent := &domain.GenericK8sIntent{Identity: under(domain.KeyOf(d.group)), Metadata: named("own")}
	web := &domain.GenericResource{Identity: under(domain.KeyOf(intent)), Metadata: named("web"), Spec: domain.GenericResourceSpec{
		App: "web", NewObject: domain.False, ResourceGVK: domain.ResourceGVK{APIVersion: "apps/v1", Kind: "Deployment", Name: "r1-web"},
	}}
	secret := &domain.GenericResource{Identity: under(domain.KeyOf(intent)), Metadata: named("secret"), Spec: domain.GenericResourceSpec{
		App: "web", NewObject: domain.True, ResourceGVK: domain.ResourceGVK{APIVersion: "v1", Kind: "Secret", Name: "token"},
	}}
	file, err := s.PutBlob(t.Context(), []byte("hidden"))
	require.NoError(t, err)
	info := domain.ClusterInfo{Scope: domain.ScopeName, ClusterProvider: "cp", Cluster: "c1", Mode: domain.ModeAllow}
	d.more = append(d.more, &domain.ClusterProvider{Metadata: named("cp")}, intent, web, secret, &domain.Customization{
		Identity: under(domain.KeyOf(web)), Metadata: named("site"), Spec: domain.CustomizationSpec{
			ClusterSpecific: domain.False, PatchType: domain.PatchJSON, PatchJSON: []domain.PatchStep{
				{Op: "add", Path: "/spec/template/metadata", Value: json.RawMessage(`{"labels":{}}`)},
				{Op: "add", Path: "/spec/template/metadata/labels/site", Value: json.RawMessage(`"$(http://drover:30461/v2/cluster-providers/{clusterProvider}/clusters/{cluster}/kv-pairs/own?key=site)$"`)},
			},
		},
	}, &domain.Customization{
		Identity: under(domain.KeyOf(secret)), Metadata: named("c1"), Files: []domain.CustomizationFile{{Name: "token", Content: file}},
		Spec: domain.CustomizationSpec{ClusterSpecific: domain.True, ClusterInfo: info},
	})
	return d
}

// Clusters get what is theirs; the plan says what, and that others lack what only some have. Files stay as long as they are
// named.
func TestPlansHaveWhatEachClusterGets(t *testing.T) {
	p, ctx := with(t, partial(t)), t.Context()
	d := customized(t, p.store, 5)
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	d.store(t, p.store)
	worker := &activities.Control{Store: p.store, Runs: p.engine, Now: time.Now, Charts: p.charts}
	_, err := worker.Sweep(ctx)
	require.NoError(t, err)
	prepared, err := worker.Prepare(ctx, domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	require.Empty(t, prepared.Warnings)
	made, err := stored.JSON[plan.Plan](ctx, p.store, prepared.Plan)
	require.NoError(t, err)
	app := made.App("web")
	require.Len(t, app.Targets, 5)
	require.Len(t, app.Variants, 4)
	bundle, err := stored.JSON[plan.Bundle](ctx, p.store, app.Bundle)
	require.NoError(t, err)
	for _, target := range app.Targets {
		gets := bundle
		if digest := app.OverlayOf(&target); digest != "" {
			overlay, err := stored.JSON[plan.Overlay](ctx, p.store, digest)
			require.NoError(t, err)
			gets = overlay.On(bundle)
		}
		marks := target.Begin(len(app.Resources))
		for i, r := range gets.Resources {
			switch r.Kind {
			case "Deployment":
				require.Contains(t, string(r.Manifest), `"site":"`+target.Name+`"`)
			case "Secret":
				require.Equal(t, target.Name == "c1", marks[i] == domain.MarkPending, target.Name)
				require.Contains(t, string(r.Manifest), `"token":"aGlkZGVu"`)
			}
		}
		var effects []string
		for _, e := range app.EffectsOn(&target) {
			effects = append(effects, bundle.Resources[e.Resource].Kind+": "+e.String())
		}
		require.Contains(t, effects, "Deployment: add /spec/template/metadata/labels/site by gac intent own, resource web, customization site")
		require.Equal(t, target.Name == "c1", slices.Contains(effects, "Secret: key token by gac intent own, resource secret, customization c1"))
	}
}

func TestCustomizationsThatCannotBeCarriedOut(t *testing.T) {
	p := partial(t)
	const at = `gac intent own, resource "web", customization "site"`
	for name, c := range map[string]struct {
		change func(d *description)
		says   string
	}{
		"an intent that is not there": {func(d *description) { d.intent.Spec.Intent["gac"] = "other" }, `deployment intent "all" names gac intent "other"`},
		"an app that is not there": {
			func(d *description) {
				of[*domain.GenericResource](d, "web").Spec.App = "sink"
			}, `the composite app has no such app (it has: web)`,
		},
		"an object that is not there": {
			func(d *description) { of[*domain.GenericResource](d, "web").Spec.ResourceGVK.Name = "web" },
			`there is none of apps/v1 (the app has: ConfigMap cm, Deployment r1-web)`,
		},
		"a provider that is not there": {
			func(d *description) { of[*domain.Customization](d, "c1").Spec.ClusterInfo.ClusterProvider = "none" }, `there is no cluster provider "none"`,
		},
		"a host that nobody allows": {value("http://example.com/x"), at + `: app "web": Deployment "r1-web": patchJson[1]: the value of http://example.com/x: no host is asked: name a key-value pair of a cluster`},
		"a key that is not there":   {value("http://x/v2/cluster-providers/cp/clusters/c/kv-pairs/own?key=none"), `there is no key "none"`},
		"a pair that is not there":  {value("http://x/v2/cluster-providers/cp/clusters/c/kv-pairs/none?key=site"), `cluster KV pair "none" of cluster "c" not found`},
		"another path of ours":      {value("http://x/v2/projects/p?key=site"), `it is not that of a cluster's key-value pair`},
		"another project's cluster": {value("http://x/v2/cluster-providers/cp/clusters/far/kv-pairs/own?key=site"), `cluster cp+far is not in logical cloud "lc"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			d := customized(t, p.store, 2)
			c.change(d)
			d.store(t, p.store)
			lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
			lifecycle.Rehearse = activities.NewRehearsal(p.store, p.engine, p.charts).Rehearse
			_, err := lifecycle.Approve(t.Context(), domain.KeyOf(d.group))
			kind := fail.Malformed
			if name == "an intent that is not there" {
				kind = fail.NotFound
			}
			require.True(t, fail.Is(err, kind), "%v", err)
			require.Contains(t, fail.TextOf(err), c.says)
		})
	}
}

// of finds one of more by its name.
func of[T domain.Object](d *description, name string) T {
	for _, o := range d.more {
		if found, ok := o.(T); ok && o.LocalName() == name {
			return found
		}
	}
	panic(name)
}

// value has the patch ask elsewhere.
func value(url string) func(d *description) {
	return func(d *description) {
		of[*domain.Customization](d, "site").Spec.PatchJSON[1].Value = json.RawMessage(`"$(` + url + `)$"`)
	}
}
