package app

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// description is what a user has described, object by object: a group of one app, web, which goes to the clusters with the
// label edge, of which there is one, c of provider cp.
type description struct {
	cloud     *domain.LogicalCloud
	reference *domain.ClusterReference
	label     *domain.ClusterLabel
	web       *domain.App
	profiles  *domain.CompositeProfile
	profile   *domain.Profile
	group     *domain.DeploymentIntentGroup
	intent    *domain.DeploymentIntent
	placement *domain.PlacementIntent
	apps      *domain.AppIntent
	second    *domain.App // a second one, of an empty chart

	chart, archive map[string]string
	more           []domain.Object
}

func described() *description {
	const composite = domain.Key("projects/p/composite-apps/ca/v1")
	in := func(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }
	named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
	d := &description{
		cloud:     &domain.LogicalCloud{Identity: in("projects/p"), Metadata: named("lc"), Spec: domain.LogicalCloudSpec{Level: "0", Namespace: "default"}},
		reference: &domain.ClusterReference{Identity: in("projects/p/logical-clouds/lc"), Metadata: named("ref"), Spec: domain.ClusterReferenceSpec{ClusterProvider: "cp", Cluster: "c"}},
		label:     &domain.ClusterLabel{Identity: in("cluster-providers/cp/clusters/c"), Label: "edge"},
		web:       &domain.App{Identity: in(composite), Metadata: named("web")},
		profiles:  &domain.CompositeProfile{Identity: in(composite), Metadata: named("cp")},
		profile:   &domain.Profile{Identity: in(composite + "/composite-profiles/cp"), Metadata: named("web"), Spec: domain.ProfileSpec{App: "web"}},
		group: &domain.DeploymentIntentGroup{Identity: in(composite), Metadata: named("dig"), Spec: domain.DeploymentIntentGroupSpec{
			CompositeProfile: "cp", Version: "r1", LogicalCloud: "lc",
		}},
		chart: map[string]string{
			"web/Chart.yaml":        "apiVersion: v2\nname: web\nversion: 0.1.0\n",
			"web/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n",
		},
		archive: map[string]string{"manifest.yaml": "version: v1\ntype:\n  values: v.yaml\n", "v.yaml": "{}\n"},
	}
	d.cloud.History = domain.NewHistory(time.Now())
	d.cloud.History.Append(domain.Instantiated, "1", 1, time.Now())
	d.group.History = domain.NewHistory(time.Now())
	key := domain.KeyOf(d.group)
	d.intent = &domain.DeploymentIntent{Identity: in(key), Metadata: named("all"), Spec: domain.DeploymentIntentSpec{
		Intent: map[string]string{domain.PlacementIntentKey: "gpi"},
	}}
	d.placement = &domain.PlacementIntent{Identity: in(key), Metadata: named("gpi")}
	d.apps = &domain.AppIntent{Identity: in(key + "/generic-placement-intents/gpi"), Metadata: domain.AppIntentMetadata{Name: "ai"}, Spec: domain.AppIntentSpec{
		App: "web", Intent: domain.Placement{AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: "cp", ClusterLabel: "edge"}}}},
	}}
	return d
}

// store puts all of it into a store; what is nil is not there.
func (d *description) store(t testing.TB, s *store.Store) {
	t.Helper()
	var err error
	if d.web != nil {
		d.web.Chart, err = s.PutBlob(t.Context(), packed(t, d.chart))
		require.NoError(t, err)
	}
	if d.second != nil {
		d.second.Chart, err = s.PutBlob(t.Context(), packed(t, map[string]string{d.second.Name + "/Chart.yaml": "apiVersion: v2\nname: " + d.second.Name + "\nversion: 0.1.0\n"}))
		require.NoError(t, err)
	}
	if d.profile != nil && d.archive != nil {
		d.profile.Archive, err = s.PutBlob(t.Context(), packed(t, d.archive))
		require.NoError(t, err)
	}
	create(t, s, d.cloud)
	create(t, s, d.reference)
	create(t, s, d.label)
	create(t, s, d.web)
	create(t, s, d.second)
	create(t, s, d.profiles)
	create(t, s, d.profile)
	create(t, s, d.group)
	create(t, s, d.intent)
	create(t, s, d.placement)
	create(t, s, d.apps)
	for _, o := range d.more {
		require.NoError(t, s.Create(t.Context(), o))
	}
}

func create[T any, P interface {
	*T
	domain.Object
}](t testing.TB, s *store.Store, o P) {
	t.Helper()
	if o != nil {
		require.NoError(t, s.Create(t.Context(), o))
	}
}

// What cannot be rendered or placed is refused when it is approved, with the reason; what is only not there yet is not.
func TestApproveRehearses(t *testing.T) {
	p := partial(t)
	notThere := func(what string) []string { return []string{"instantiate is not possible yet: " + what} }
	for name, c := range map[string]struct {
		change   func(d *description)
		kind     fail.Kind // of the refusal
		refusal  string
		warnings []string
	}{
		"all is there": {change: func(*description) {}},
		"a template that cannot render with the profile": {
			change: func(d *description) {
				d.chart["web/templates/b.yaml"] = `{{ if .Values.flag }}{{ fail "the flag must not be set" }}{{ end }}`
				d.archive["v.yaml"] = "flag: true"
			},
			kind: fail.Invalid, refusal: "app web: web/templates/b.yaml:1:24: the flag must not be set",
		},
		"a template that ends the process that renders it": {
			change: func(d *description) {
				d.chart["web/templates/b.yaml"] = `{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}`
			},
			kind: fail.Invalid, refusal: "app web: web/templates/b.yaml: rendering it takes more than 64 MiB of stack",
		},
		"a definition of which there are two": {
			change: func(d *description) {
				const crd = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com, scope: "
				d.chart["web/crds/a.yaml"], d.chart["web/crds/b.yaml"] = crd+"Cluster}}", crd+"Namespaced}}"
			},
			warnings: []string{"app web: web/crds/b.yaml: CustomResourceDefinition widgets.example.com is taken from web/crds/a.yaml, which has something else in it"},
		},
		"override values that the schema refuses": {
			change: func(d *description) {
				d.chart["web/values.schema.json"] = `{"properties": {"n": {"type": "integer"}}}`
				d.group.Spec.OverrideValues = []domain.OverrideValues{{App: "web", Values: map[string]string{"n": "many"}}}
			},
			kind: fail.Invalid, refusal: "values don't meet the specifications of the schema",
		},
		"a label that no cluster carries": {
			change: func(d *description) { d.label = nil },
			kind:   fail.Invalid, refusal: "app web: no cluster carries the label edge of cluster provider cp",
		},
		"one label of two that no cluster carries": {
			change: func(d *description) {
				d.apps.Spec.Intent.AnyOf = []domain.Clusters{{ClusterProvider: "cp", ClusterLabel: "gpu"}}
			},
			warnings: []string{"app web: no cluster carries the label gpu of cluster provider cp"},
		},
		"a cluster that the logical cloud does not have": {
			change: func(d *description) { d.reference = nil },
			kind:   fail.Invalid, refusal: "logical cloud lc does not include 1 cluster with the label edge of cluster provider cp",
		},
		"a logical cloud that is not instantiated": {
			change: func(d *description) {
				d.cloud.History, d.reference = domain.NewHistory(time.Now()), nil
			},
			warnings: append(notThere(`The Logical Cloud has never been instantiated: logical cloud "lc" is in state Created; instantiate it first`),
				notThere("The specified Logical Cloud doesn't provide the mandatory clusters: app web: logical cloud lc does not include 1 cluster with the label edge of cluster provider cp")...),
		},
		"a logical cloud that is not instantiated, and a template that cannot render": {
			change: func(d *description) {
				d.cloud.History = domain.NewHistory(time.Now())
				d.chart["web/templates/b.yaml"] = `{{ fail "no" }}`
			},
			kind: fail.Invalid, refusal: "app web: web/templates/b.yaml:1:3: no",
		},
		"no logical cloud": {
			change:   func(d *description) { d.cloud, d.reference = nil, nil },
			warnings: notThere(`Failed to obtain Logical Cloud specified: logical cloud "lc" not found`),
		},
		"no intents": {
			change:   func(d *description) { d.intent, d.placement, d.apps = nil, nil, nil },
			warnings: notThere(`Intent not found: no intent of deployment intent group "dig" names a genericPlacementIntent`),
		},
		"no placement intent": {
			change:   func(d *description) { d.placement, d.apps = nil, nil },
			warnings: notThere(`Intent not found: deployment intent group "dig" has no generic placement intent "gpi", which its deployment intents name`),
		},
		"two placement intents, of which the one that was bound first counts": {
			change: func(d *description) {
				key, first := domain.KeyOf(d.group), time.Now()
				d.intent.Made = first
				for i, name := range []string{"a", "z"} { // by name one comes before it, and one after it
					d.more = append(d.more, &domain.DeploymentIntent{
						Identity: domain.Identity{Parent: key, Made: first.Add(time.Duration(i+1) * time.Second)}, Metadata: domain.Metadata{Name: name},
						Spec: domain.DeploymentIntentSpec{Intent: map[string]string{domain.PlacementIntentKey: "other-" + name}},
					}, &domain.PlacementIntent{Identity: domain.Identity{Parent: key}, Metadata: domain.Metadata{Name: "other-" + name}})
				}
			},
			warnings: []string{"generic placement intent gpi places the apps; nothing is done for what is bound after it: other-a, other-z"},
		},
		"traffic intents whose policies have one name for two apps": {
			change: func(d *description) {
				in, composite := domain.KeyOf(d.group)+"/traffic-group-intents", d.web.Parent
				d.intent.Spec.Intent["dtc"] = "t"
				d.more = append(d.more, &domain.TrafficGroupIntent{Identity: domain.Identity{Parent: domain.KeyOf(d.group)}, Metadata: domain.Metadata{Name: "t"}})
				other := *d.apps
				other.Metadata.Name, other.Spec.App = "ai2", "web-admin"
				d.more = append(d.more, &other, &domain.Profile{
					Identity: d.profile.Identity, Metadata: domain.Metadata{Name: "web-admin"}, Spec: domain.ProfileSpec{App: "web-admin"},
				})
				d.second = &domain.App{Identity: domain.Identity{Parent: composite}, Metadata: domain.Metadata{Name: "web-admin"}}
				for app, point := range map[string]string{"web": "admin-read", "web-admin": "read"} {
					server := &domain.InboundServerIntent{Identity: domain.Identity{Parent: in + "/t"}, Metadata: domain.Metadata{Name: app}, Spec: domain.InboundServerIntentSpec{
						App: app, AppLabel: "app=" + app, ServiceName: app, Port: 80, Protocol: "HTTP", ServiceMesh: domain.MeshIstio,
					}}
					client := &domain.InboundClientsIntent{Identity: domain.Identity{Parent: domain.KeyOf(server)}, Metadata: domain.Metadata{Name: "c"}, Spec: domain.InboundClientsIntentSpec{
						App: "web", AppLabel: "app=web", ServiceName: "web",
					}}
					d.more = append(d.more, server, client, &domain.InboundClientsAccessIntent{
						Identity: domain.Identity{Parent: domain.KeyOf(client)}, Metadata: domain.Metadata{Name: point}, Spec: domain.InboundClientsAccessIntentSpec{Action: "ALLOW"},
					})
				}
			},
			kind: fail.Malformed, refusal: `apps "web" and "web-admin" would both have AuthorizationPolicy "web-admin-read" on cluster cp+c`,
		},
		"no intent of the app": {
			change:   func(d *description) { d.apps = nil },
			warnings: notThere("No compatible clusters have been provided to the Deployment Intent Group: app web: no app intent names a cluster for it"),
		},
		"no apps": {
			change:   func(d *description) { d.web, d.profile, d.apps = nil, nil, nil },
			warnings: notThere(`composite app "ca/v1" has no apps; add one first`),
		},
		"no composite profile": {
			change:   func(d *description) { d.profiles, d.profile = nil, nil },
			warnings: notThere(`composite profile "cp" of composite app "ca/v1" not found`),
		},
		"no profile":                   {change: func(d *description) { d.profile = nil }},
		"a profile without an archive": {change: func(d *description) { d.archive = nil }},
		"a controller that is registered later": {
			change:   func(d *description) { d.intent.Spec.Intent["sfc"] = "only-these" },
			warnings: []string{`deployment intent "all": intent "only-these" of controller "sfc" is not enforced: the controller is not registered, and until it is instantiate, update and migrate are refused`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			d := described()
			c.change(d)
			d.store(t, p.store)
			lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
			lifecycle.Rehearse = activities.NewRehearsal(p.store, p.engine, p.charts).Rehearse
			warnings, err := lifecycle.Approve(t.Context(), domain.KeyOf(d.group))
			after, getErr := p.store.Get(t.Context(), domain.DeploymentIntentGroups, domain.KeyOf(d.group))
			require.NoError(t, getErr)
			state := after.(*domain.DeploymentIntentGroup).History.State()
			if c.refusal != "" {
				require.Equal(t, c.kind, fail.KindOf(err), "%v", err)
				require.Contains(t, fail.TextOf(err), c.refusal)
				require.Equal(t, domain.Created, state)
				require.Equal(t, d.group.Revision, after.Base().Revision, "a refused approve changes nothing")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.warnings, warnings)
			require.Equal(t, domain.Approved, state)

			worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts}
			_, err = worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
			if reason, refused := notYet(warnings); refused {
				require.Equal(t, reason, fail.TextOf(err), "what is not possible yet is what an instantiate refuses")
			}
		})
	}
}

// The API has few bundles of rehearsals in its memory at a time, of however many, and keeps none.
func TestRehearsalsKeepNoBundles(t *testing.T) {
	p := with(t, partial(t))
	d := described()
	d.store(t, p.store)
	const apps = 4
	for n := range apps - 1 {
		name := fmt.Sprintf("more%d", n)
		app := &domain.App{Identity: d.web.Identity, Metadata: domain.Metadata{Name: name}, Chart: d.web.Chart}
		create(t, p.store, app)
		intent := *d.apps
		intent.Metadata.Name, intent.Spec.App = name, name
		create(t, p.store, &intent)
	}
	c := &bundles{busy: make(chan struct{}, 100), goOn: make(chan struct{})}
	rehearsal := activities.NewRehearsal(p.store, p.engine, c)
	var all sync.WaitGroup
	for range activities.MaxRehearsals + 3 {
		all.Go(func() {
			if _, _, err := rehearsal.Rehearse(t.Context(), d.group); err != nil {
				t.Error(err)
			}
		})
	}
	for range activities.MaxProjectRehearsals {
		<-c.busy
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := rehearsal.Rehearse(ctx, d.group)
	require.ErrorIs(t, err, context.Canceled, "all slots of the project are taken")
	close(c.goOn)
	all.Wait()
	require.LessOrEqual(t, c.mostAlive, activities.MaxProjectRehearsals)
	require.Equal(t, (activities.MaxRehearsals+3)*apps, len(c.given))
}

// bundles are charts whose bundles are counted while they are in memory.
type bundles struct {
	busy chan struct{} // gets something when a rendering begins
	goOn chan struct{} // closed when renderings may end

	mu        sync.Mutex
	given     []weak.Pointer[plan.Bundle]
	mostAlive int
}

// Render implements activities.Charts.
func (*bundles) AtOnce() int { return 4 }

func (b *bundles) Render(_ context.Context, in render.Input) (*plan.Bundle, error) {
	b.busy <- struct{}{}
	<-b.goOn
	b.mu.Lock()
	defer b.mu.Unlock()
	made := &plan.Bundle{App: in.App, Resources: []plan.Resource{{
		ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: in.App}, Manifest: []byte(`{}`),
	}}}
	b.given = append(b.given, weak.Make(made))
	runtime.GC()
	alive := 0
	for _, p := range b.given {
		if p.Value() != nil {
			alive++
		}
	}
	b.mostAlive = max(b.mostAlive, alive)
	return made, nil
}

// notYet is the reason for which approve says that an instantiate is not possible yet.
func notYet(warnings []string) (reason string, found bool) {
	for _, w := range warnings {
		if reason, found = strings.CutPrefix(w, "instantiate is not possible yet: "); found {
			return reason, true
		}
	}
	return "", false
}

// with is p with a database of its own.
func with(t testing.TB, p *Parts) *Parts {
	t.Helper()
	own, c := *p, configured(t)
	own.store = storetest.Open(t, store.Config{URI: c.MongoURI, Database: c.Database})
	return &own
}
