package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
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
	d.withoutNetworks()
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

// Clusters get what is theirs; the plan says what, and that others lack what only some have.
func TestPlansHaveWhatEachClusterGets(t *testing.T) {
	p := partial(t)
	for name, clusters := range map[string]int{"few, each asked for": 5, "many, read by provider": 20} {
		t.Run(name, func(t *testing.T) { plansHaveWhatEachClusterGets(t, with(t, p), clusters) })
	}
}

func plansHaveWhatEachClusterGets(t *testing.T, p *Parts, clusters int) {
	ctx := t.Context()
	d := customized(t, p.store, clusters)
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	d.store(t, p.store)
	worker := &activities.Control{Store: p.store, Runs: p.engine, Now: time.Now, Charts: p.charts}
	prepared, err := worker.Prepare(ctx, domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	require.Empty(t, prepared.Warnings)
	made, err := stored.JSON[plan.Plan](ctx, p.store, prepared.Plan)
	require.NoError(t, err)
	app := made.App("web")
	require.Len(t, app.Targets, clusters)
	require.Len(t, app.Variants, clusters-1)
	bundle, err := stored.JSON[plan.Bundle](ctx, p.store, app.Bundle)
	require.NoError(t, err)
	for _, target := range app.Targets {
		gets := bundle
		if digest := app.OverlayOf(&target); digest != "" {
			overlay, err := stored.Part[plan.Overlay](ctx, p.store, digest)
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

// labelReads counts how often labels are read.
type labelReads struct {
	*store.Store
	n int
}

func (r *labelReads) ListUnder(ctx context.Context, noun *domain.Noun, prefix domain.Key) ([]domain.Object, error) {
	if noun == domain.ClusterLabels {
		r.n++
	}
	return r.Store.ListUnder(ctx, noun, prefix)
}

func (r *labelReads) Each(ctx context.Context, noun *domain.Noun, prefix domain.Key, take func(domain.Object) error) error {
	if noun == domain.ClusterLabels {
		r.n++
	}
	return r.Store.Each(ctx, noun, prefix, take)
}

// TestLabelsThatPlacedClustersAreReadOnce: they are those that customizations look at too, of which a cluster may have more than
// the placement looks at. Of a provider that is placed by name they are read for the customizations.
func TestLabelsThatPlacedClustersAreReadOnce(t *testing.T) {
	p := partial(t)
	for name, clusters := range map[string]int{"few, each asked for": 5, "many, read by provider": 20} {
		t.Run(name, func(t *testing.T) {
			p, d := with(t, p), varied(clusters)
			d.withoutNetworks()
			d.intent.Spec.Intent["gac"] = "own"
			under := func(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }
			named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
			d.apps.Spec.Intent.AllOf = append(d.apps.Spec.Intent.AllOf, domain.AllOf{Clusters: domain.Clusters{ClusterProvider: "other", Cluster: "c2"}})
			d.more = append(d.more, &domain.ClusterReference{
				Identity: under("projects/p/logical-clouds/lc"), Metadata: named("other"), Spec: domain.ClusterReferenceSpec{ClusterProvider: "other", Cluster: "c2"},
			})
			for _, at := range []domain.Key{"cluster-providers/cp/clusters/c1", "cluster-providers/cp/clusters/elsewhere", "cluster-providers/other/clusters/c2"} {
				d.more = append(d.more, &domain.ClusterLabel{Identity: under(at), Label: "gpu"})
			}
			intent := &domain.GenericK8sIntent{Identity: under(domain.KeyOf(d.group)), Metadata: named("own")}
			web := &domain.GenericResource{Identity: under(domain.KeyOf(intent)), Metadata: named("web"), Spec: domain.GenericResourceSpec{
				App: "web", NewObject: domain.False, ResourceGVK: domain.ResourceGVK{APIVersion: "apps/v1", Kind: "Deployment", Name: "r1-web"},
			}}
			d.more = append(d.more, intent, web)
			for _, provider := range []string{"cp", "other"} {
				d.more = append(d.more, &domain.ClusterProvider{Metadata: named(provider)}, &domain.Customization{
					Identity: under(domain.KeyOf(web)), Metadata: named(provider), Spec: domain.CustomizationSpec{
						ClusterSpecific: domain.True, ClusterInfo: domain.ClusterInfo{Scope: domain.ScopeLabel, ClusterProvider: provider, ClusterLabel: "gpu", Mode: domain.ModeAllow},
						PatchType: domain.PatchJSON, PatchJSON: []domain.PatchStep{{Op: "add", Path: "/spec/paused", Value: json.RawMessage("true")}},
					},
				})
			}
			d.group.History.Append(domain.Approved, "", 0, time.Now())
			d.store(t, p.store)
			reads := &labelReads{Store: p.store}
			worker := &activities.Control{Store: reads, Runs: p.engine, Now: time.Now, Charts: p.charts}
			prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
			require.NoError(t, err)
			require.Empty(t, prepared.Warnings)
			require.Equal(t, 2, reads.n, "one of each provider")
			made, err := stored.JSON[plan.Plan](t.Context(), p.store, prepared.Plan)
			require.NoError(t, err)
			app := made.App("web")
			require.Len(t, app.Targets, clusters+1)
			for _, target := range app.Targets {
				gpu := target.ClusterName == domain.ClusterName{Provider: "cp", Name: "c1"} || target.Provider == "other"
				require.Equal(t, gpu, len(app.EffectsOn(&target)) > 0, target.Name)
			}
		})
	}
}

// dying is a store whose process is killed: after some writes it takes no more, and the one at which it dies may be written.
type dying struct {
	*store.Store
	left    atomic.Int64
	written bool
}

func (d *dying) PutBlob(ctx context.Context, data []byte) (domain.Digest, error) {
	left := d.left.Add(-1)
	if left > 0 || left == 0 && d.written {
		digest, err := d.Store.PutBlob(ctx, data)
		if left > 0 || err != nil {
			return digest, err
		}
	}
	return "", fail.New(fail.Internal, "killed")
}

// PutBlobs may come to its end with some of them stored.
func (d *dying) PutBlobs(ctx context.Context, data [][]byte) (digests []domain.Digest, err error) {
	for _, one := range data {
		digest, err := d.PutBlob(ctx, one)
		if err != nil {
			return nil, err
		}
		digests = append(digests, digest)
	}
	return digests, nil
}

// A worker that dies in Prepare, with 300 variants to be stored, leaves nothing that anybody would take for a plan, and whoever comes
// after it makes the same one.
func TestWhatIsLeftOfAPrepareThatDied(t *testing.T) {
	const variants = 300
	p, ctx := with(t, partial(t)), t.Context()
	d := customized(t, p.store, variants+1)
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	d.store(t, p.store)
	scope := domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate}
	prepare := func(s activities.Store) (*activities.Prepared, error) {
		return (&activities.Control{Store: s, Runs: p.engine, Now: time.Now, Charts: p.charts}).Prepare(ctx, scope)
	}
	stood := func() string {
		text, err := json.Marshal([]any{must(p.store.Get(ctx, domain.DeploymentIntentGroups, scope.Owner)), must(p.store.ActiveInstances(ctx))})
		require.NoError(t, err)
		return string(text)
	}
	other := with(t, p)
	d = customized(t, other.store, variants+1)
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	d.store(t, other.store)
	const plenty = 1 << 20
	counted := &dying{Store: other.store}
	counted.left.Store(plenty)
	undisturbed, err := prepare(counted)
	require.NoError(t, err)
	writes := plenty - counted.left.Load()
	require.GreaterOrEqual(t, writes, int64(4), "the bundle, packs of overlays, and the plan")

	before := stood()
	for after := range writes {
		for _, written := range []bool{false, true} {
			s := &dying{Store: p.store, written: written}
			s.left.Store(after + 1)
			_, err := prepare(s)
			require.ErrorContains(t, err, "killed", "after %d", after)
			_, err = p.store.Instance(ctx, scope.ContextID)
			require.True(t, fail.Is(err, fail.NotFound), "%v", err)
			require.Equal(t, before, stood())
		}
	}
	again, err := prepare(p.store)
	require.NoError(t, err)
	made, err := stored.JSON[plan.Plan](ctx, p.store, again.Plan)
	require.NoError(t, err)
	require.Len(t, made.App("web").Variants, variants)
	for _, v := range made.App("web").Variants {
		_, err := stored.Part[plan.Overlay](ctx, p.store, v.Overlay)
		require.NoError(t, err)
	}
	require.Equal(t, contents(t, other.store, undisturbed.Plan), contents(t, p.store, again.Plan))
}

// contents are what a plan's blobs say, whose names differ from one database to another.
func contents(t *testing.T, s *store.Store, digest domain.Digest) (all []any) {
	t.Helper()
	made, err := stored.JSON[plan.Plan](t.Context(), s, digest)
	require.NoError(t, err)
	for i := range made.Apps {
		bundle, err := s.Blob(t.Context(), made.Apps[i].Bundle)
		require.NoError(t, err)
		all = append(all, string(bundle))
		for _, v := range made.Apps[i].Variants {
			overlay, err := stored.Part[plan.Overlay](t.Context(), s, v.Overlay)
			require.NoError(t, err)
			all = append(all, *overlay)
		}
	}
	return all
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A preview says which clusters get what otherwise, and by which intents; approve says that there are some. No contents are shown,
// and nothing is stored.
func TestPreviewsOfGroups(t *testing.T) {
	p, ctx := with(t, partial(t)), t.Context()
	d := customized(t, p.store, 5)
	d.store(t, p.store)
	lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
	lifecycle.Rehearse = activities.NewRehearsal(p.store, p.engine, p.charts).Rehearse
	preview, err := lifecycle.PreviewGroup(ctx, domain.KeyOf(d.group))
	require.NoError(t, err)
	site := []service.PreviewedResource{{Resource: "Deployment/r1-web", Effects: []string{
		"add /spec/template/metadata by gac intent own, resource web, customization site",
		"add /spec/template/metadata/labels/site by gac intent own, resource web, customization site",
	}}}
	on := func(clusters ...string) (all []service.PreviewedCluster) {
		for _, c := range clusters {
			all = append(all, service.PreviewedCluster{Cluster: c, Placement: "allOf"})
		}
		return all
	}
	want := &service.GroupPreview{Group: domain.KeyOf(d.group), Apps: []service.PreviewedApp{{
		App: "web", Resources: 3, Total: 5*2 + 1, Clusters: on("cp+c", "cp+c1", "cp+c2", "cp+c3", "cp+c4"), Effects: site,
		Differences: []service.PreviewedDifference{
			{Clusters: []string{"cp+c1"}, Variants: 1, Resources: append([]service.PreviewedResource{{Resource: "Secret/token", Effects: []string{
				"object by gac intent own, resource secret", "key token by gac intent own, resource secret, customization c1",
			}}}, site...)},
			{Clusters: []string{"cp+c2", "cp+c3", "cp+c4"}, Variants: 3, Resources: site},
		},
	}}}
	require.Equal(t, want, preview)
	o, err := p.store.Get(ctx, domain.DeploymentIntentGroups, domain.KeyOf(d.group))
	require.NoError(t, err)
	require.Equal(t, d.group.Revision, o.Base().Revision)
	warnings, err := lifecycle.Approve(ctx, domain.KeyOf(d.group))
	require.NoError(t, err)
	require.Equal(t, []string{`app "web": 4 of 5 clusters get something otherwise than most (Secret/token by gac intent own, resource secret and gac intent own, resource secret, customization c1; ` +
		`Deployment/r1-web by gac intent own, resource web, customization site): GET preview says which`}, warnings)
	_, err = lifecycle.PreviewGroup(ctx, domain.KeyOf(d.group)+"x")
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
}

// counting counts what is read and stored one by one.
type counting struct {
	*store.Store
	gets, puts atomic.Int64
}

func (c *counting) Get(ctx context.Context, noun *domain.Noun, key domain.Key) (domain.Object, error) {
	if noun == domain.ClusterKVs {
		c.gets.Add(1)
	}
	return c.Store.Get(ctx, noun, key)
}

func (c *counting) PutBlob(ctx context.Context, data []byte) (domain.Digest, error) {
	c.puts.Add(1)
	return c.Store.PutBlob(ctx, data)
}

// What each cluster has for itself is read, and stored, for all of them together.
func TestValuesAreReadTogether(t *testing.T) {
	p := with(t, partial(t))
	d := customized(t, p.store, 40)
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	d.store(t, p.store)
	counted := &counting{Store: p.store}
	worker := &activities.Control{Store: counted, Runs: p.engine, Now: time.Now, Charts: p.charts}
	prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	require.Len(t, planned(t, p, prepared).App("web").Variants, 39)
	require.Zero(t, counted.gets.Load())
	require.Less(t, counted.puts.Load(), int64(10))
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
		"a host that nobody allows": {value("http://example.com/x"), at + `: app "web": Deployment "r1-web": patchJson[1]: the value of http://example.com/x: host example.com is not asked: name a key-value pair of a cluster`},
		"the flag is named":         {value("https://example.com/x"), `have the operator list the host by --external-hosts (DROVER_EXTERNAL_HOSTS)`},
		"a key that is not there":   {value("http://x/v2/cluster-providers/cp/clusters/c/kv-pairs/own?key=none"), `there is no key "none"`},
		"a pair that is not there":  {value("http://x/v2/cluster-providers/cp/clusters/c/kv-pairs/none?key=site"), `cluster KV pair "none" of cluster "c" not found`},
		"another path of ours":      {value("http://x/v2/projects/p?key=site"), `host x is not asked: name a key-value pair of a cluster`},
		"no key":                    {value("http://x/v2/cluster-providers/cp/clusters/c/kv-pairs/own"), `it does not say which key is meant`},
		"a value that is none":      {value("https://listed/array"), `the value of https://listed/array: the answer is no JSON object with the member value`},
		"a host that says no":       {value("https://listed/none"), `the value of https://listed/none: host listed answers with 404`},
		"another project's cluster": {value("http://x/v2/cluster-providers/cp/clusters/far/kv-pairs/own?key=site"), `cluster cp+far is not in logical cloud "lc"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			d := customized(t, p.store, 2)
			c.change(d)
			d.store(t, p.store)
			lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
			rehearsal := activities.NewRehearsal(p.store, p.engine, p.charts)
			rehearsal.AskElsewhere(&listed{})
			lifecycle.Rehearse = rehearsal.Rehearse
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

// listed is the one host that may be asked. It counts who asks, and who has asked for all.
type listed struct {
	asked atomic.Int64
	rests atomic.Int64
	down  atomic.Bool
}

func (l *listed) Rest() { l.rests.Add(1) }

func (*listed) Listed(u *url.URL) bool { return u.Host == "listed" }

func (l *listed) Get(_ context.Context, u *url.URL) ([]byte, error) {
	l.asked.Add(1)
	switch {
	case l.down.Load():
		return nil, fail.New(fail.Timeout, "host listed does not answer within 5s")
	case u.Path == "/array":
		return []byte("[]"), nil
	case u.Path == "/none":
		return nil, fail.New(fail.Malformed, "host listed answers with 404")
	default:
		return []byte(`{"value":"of ` + u.Path[1:] + `"}`), nil
	}
}

// A host that is listed is asked once for each value; when it does not answer nothing is stored, and who asked is told.
func TestValuesOfOtherHosts(t *testing.T) {
	p, ctx := with(t, partial(t)), t.Context()
	d := customized(t, p.store, 3)
	value("https://listed/{cluster}")(d)
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	d.store(t, p.store)
	host := &listed{}
	worker := &activities.Control{Store: p.store, Runs: p.engine, Now: time.Now, Charts: p.charts, Elsewhere: host}
	scope := domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate}
	host.down.Store(true)
	_, err := worker.Prepare(ctx, scope)
	require.True(t, fail.Is(err, fail.Timeout), "%v", err)
	require.Regexp(t, `the value of https://listed/c\d*: host listed does not answer within 5s`, fail.TextOf(err))

	host.down.Store(false)
	host.asked.Store(0)
	prepared, err := worker.Prepare(ctx, scope)
	require.NoError(t, err)
	require.Equal(t, int64(3), host.asked.Load())
	require.Equal(t, int64(2), host.rests.Load(), "no connection is left, whether it went well or not")
	made, err := stored.JSON[plan.Plan](ctx, p.store, prepared.Plan)
	require.NoError(t, err)
	app := made.App("web")
	require.Len(t, app.Variants, 2)
	overlay, err := stored.Part[plan.Overlay](ctx, p.store, app.Variants[1].Overlay)
	require.NoError(t, err)
	require.Contains(t, string(overlay.Resources[0].Manifest), `"site":"of c`)
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
func value(at string) func(d *description) {
	return func(d *description) {
		of[*domain.Customization](d, "site").Spec.PatchJSON[1].Value = json.RawMessage(`"$(` + at + `)$"`)
	}
}
