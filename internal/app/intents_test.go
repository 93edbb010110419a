package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/service"
)

func packed(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

// TestIntentsThatNothingEnforces: a controller that is not registered is refused where EMCO refuses it; of one that is
// registered and that Drover does not act for every answer about the group tells.
func TestIntentsThatNothingEnforces(t *testing.T) {
	p, ctx := partial(t), t.Context()
	chart, err := p.store.PutBlob(ctx, packed(t, map[string]string{
		"web/Chart.yaml":        "apiVersion: v2\nname: web\nversion: 0.1.0\n",
		"web/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n",
	}))
	require.NoError(t, err)
	archive, err := p.store.PutBlob(ctx, packed(t, map[string]string{"manifest.yaml": "version: v1\ntype:\n  values: v.yaml\n", "v.yaml": "{}\n"}))
	require.NoError(t, err)
	const composite = domain.Key("projects/p/composite-apps/ca/v1")
	in := func(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }
	named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
	cloud := &domain.LogicalCloud{Identity: in("projects/p"), Metadata: named("lc"), Spec: domain.LogicalCloudSpec{Level: "0", Namespace: "default"}}
	cloud.History = domain.NewHistory(time.Now())
	cloud.History.Append(domain.Instantiated, "1", 1, time.Now())
	group := &domain.DeploymentIntentGroup{Identity: in(composite), Metadata: named("dig"), Spec: domain.DeploymentIntentGroupSpec{
		CompositeProfile: "cp", Version: "r1", LogicalCloud: "lc", OverrideValues: []domain.OverrideValues{},
	}}
	group.History = domain.NewHistory(time.Now())
	group.History.Append(domain.Approved, "", 0, time.Now()) // nothing else is prepared
	key := domain.KeyOf(group)
	intent := &domain.DeploymentIntent{Identity: in(key), Metadata: named("all"), Spec: domain.DeploymentIntentSpec{
		Intent: map[string]string{domain.PlacementIntentKey: "gpi", "sfc": "only-these"},
	}}
	for _, o := range []domain.Object{
		cloud,
		&domain.ClusterReference{Identity: in("projects/p/logical-clouds/lc"), Metadata: named("ref"), Spec: domain.ClusterReferenceSpec{ClusterProvider: "cp", Cluster: "c"}},
		&domain.App{Identity: in(composite), Metadata: named("web"), Chart: chart},
		&domain.CompositeProfile{Identity: in(composite), Metadata: named("cp")},
		&domain.Profile{Identity: in(composite + "/composite-profiles/cp"), Metadata: named("web"), Spec: domain.ProfileSpec{App: "web"}, Archive: archive},
		group, intent,
		&domain.PlacementIntent{Identity: in(key), Metadata: named("gpi")},
		&domain.AppIntent{Identity: in(key + "/generic-placement-intents/gpi"), Metadata: domain.AppIntentMetadata{Name: "ai"}, Spec: domain.AppIntentSpec{
			App: "web", Intent: domain.Placement{AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: "cp", Cluster: "c"}}}},
		}},
	} {
		require.NoError(t, p.store.Create(ctx, o))
	}
	worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts}
	scope := domain.Scope{Owner: key, ContextID: "1", Operation: domain.OpInstantiate}
	lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
	plain := service.New(service.Deps{Store: p.store, Instances: lifecycle, Now: time.Now})
	told := func() []string {
		t.Helper()
		warnings, err := lifecycle.Approve(ctx, key)
		require.NoError(t, err)
		require.Equal(t, warnings, plain.Remarks(ctx, intent))
		for _, query := range []string{"", "status=deployed&output=summary", "type=cluster", "status=ready"} {
			q, err := url.ParseQuery(query)
			require.NoError(t, err)
			d, err := lifecycle.Status(ctx, key, q)
			require.NoError(t, err)
			var b bytes.Buffer
			require.NoError(t, d.Write(&b))
			var document struct{ Warnings []string }
			require.NoError(t, json.Unmarshal(b.Bytes(), &document))
			require.Equal(t, warnings, document.Warnings, query)
			if warnings == nil {
				require.NotContains(t, b.String(), "warnings", "EMCO's documents stay as they are")
			}
		}
		x, err := service.NewExplainer(lifecycle, p.engine, explain.WebUI{}).Explain(ctx, key)
		require.NoError(t, err)
		require.Equal(t, warnings, x.Warnings)
		return warnings
	}

	_, err = worker.Prepare(ctx, scope)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
	require.ErrorContains(t, err, `Controller not found: deployment intent "all" names controller "sfc"`)
	require.Equal(t, []string{`deployment intent "all": intent "only-these" of controller "sfc" is not enforced: the controller is not registered, and until it is instantiate, update and migrate are refused`}, told())

	require.NoError(t, p.store.Create(ctx, &domain.Controller{Metadata: named("sfc"), Spec: domain.ControllerSpec{Type: "action"}}))
	prepared, err := worker.Prepare(ctx, scope)
	require.NoError(t, err)
	unenforced := []string{`deployment intent "all": intent "only-these" of controller "sfc" is not enforced: Drover does not act for this controller`}
	require.Equal(t, unenforced, prepared.Warnings)
	require.Equal(t, unenforced, told())

	delete(intent.Spec.Intent, "sfc")
	require.NoError(t, p.store.Replace(ctx, intent))
	prepared, err = worker.Prepare(ctx, scope)
	require.NoError(t, err)
	require.Empty(t, prepared.Warnings)
	require.Nil(t, told())
}
