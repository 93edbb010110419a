package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/stored"
)

// varied is described, on more clusters, with a Deployment whose pods get an interface in a network that all of them have.
func varied(clusters int) *description {
	d := described()
	d.chart["web/templates/deployment.yaml"] = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: "{{ .Release.Name }}-web"}, spec: {template: {spec: {}}}}`
	key := domain.KeyOf(d.group)
	under := func(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }
	named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
	d.intent.Spec.Intent["ovnaction"] = "networks"
	ovn := &domain.NetControllerIntent{Identity: under(key), Metadata: named("networks")}
	workload := &domain.WorkloadIntent{Identity: under(domain.KeyOf(ovn)), Metadata: named("w"), Spec: domain.WorkloadIntentSpec{App: "web", WorkloadResource: "r1-web", Type: "Deployment"}}
	d.more = append(d.more, ovn, workload, &domain.InterfaceIntent{
		Identity: under(domain.KeyOf(workload)), Metadata: named("if"), Spec: domain.InterfaceIntentSpec{Interface: "eth1", Name: "net-a", DefaultGateway: domain.False},
	})
	has := func(name string) {
		cluster := &domain.Cluster{Identity: under("cluster-providers/cp"), Metadata: named(name), History: domain.NewHistory(time.Now())}
		cluster.History.Append(domain.Applied, "net-"+name, 0, time.Now())
		d.more = append(d.more, cluster, &domain.Network{Identity: under(domain.KeyOf(cluster)), Metadata: named("net-a")})
	}
	has("c")
	for n := 1; n < clusters; n++ {
		name := fmt.Sprintf("c%d", n)
		cluster := domain.ClusterName{Provider: "cp", Name: name}.Key()
		d.more = append(d.more,
			&domain.ClusterReference{Identity: under("projects/p/logical-clouds/lc"), Metadata: named(name), Spec: domain.ClusterReferenceSpec{ClusterProvider: "cp", Cluster: name}},
			&domain.ClusterLabel{Identity: under(cluster), Label: "edge"},
		)
		has(name)
		if n%3 == 0 {
			d.more = append(d.more, &domain.ClusterKV{Identity: under(cluster), Metadata: named("kv"), Spec: domain.KVSpec{KV: []map[string]string{{"CNI-Networking-Multi-CNI-Wrapper": "none"}}}})
		}
	}
	return d
}

// withoutNetworks takes varied's network controller intent away, and what binds it.
func (d *description) withoutNetworks() {
	delete(d.intent.Spec.Intent, "ovnaction")
	d.more = slices.DeleteFunc(d.more, func(o domain.Object) bool {
		return slices.Contains([]*domain.Noun{domain.NetControllerIntents, domain.WorkloadIntents, domain.InterfaceIntents}, o.Noun())
	})
}

// Intents that nobody binds do nothing, which is said to whoever has described them.
func TestIntentsThatNothingBindsAreWarnings(t *testing.T) {
	p := with(t, partial(t))
	d := varied(2)
	delete(d.intent.Spec.Intent, "ovnaction")
	key := domain.KeyOf(d.group)
	under := func(name string) (domain.Identity, domain.Metadata) {
		return domain.Identity{Parent: key}, domain.Metadata{Name: name}
	}
	traffic, bound, unbound := &domain.TrafficGroupIntent{}, &domain.GenericK8sIntent{}, &domain.GenericK8sIntent{}
	traffic.Identity, traffic.Metadata = under("traffic")
	bound.Identity, bound.Metadata = under("bound")
	unbound.Identity, unbound.Metadata = under("unbound")
	d.intent.Spec.Intent["gac"] = "bound"
	placement := &domain.PlacementIntent{}
	placement.Identity, placement.Metadata = under("spare")
	d.more = append(d.more, traffic, bound, unbound, placement)
	d.more = append(d.more, needing(key, "i", "web")...)
	d.more = append(d.more, needing(key, "j", "web")...)
	d.store(t, p.store)
	lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
	lifecycle.Rehearse = activities.NewRehearsal(p.store, p.engine, p.charts).Rehearse
	warnings, err := lifecycle.Approve(t.Context(), key)
	require.NoError(t, err)
	for _, names := range []string{"generic placement intent spare", "network controller intent networks", "traffic group intent traffic", "generic k8s intent unbound", "hpa intent i, j"} {
		require.Contains(t, warnings, "no deployment intent binds "+names+": nothing is done for it")
	}
	require.NotContains(t, strings.Join(warnings, "\n"), "intent bound")
	require.NotContains(t, strings.Join(warnings, "\n"), "gpi")
}

// Clusters that get the same share a bundle; the plan says which of them get another one, and by which intent.
func TestPlansHaveWhatIntentsMakeOfApps(t *testing.T) {
	p, ctx := with(t, partial(t)), t.Context()
	d := varied(40)
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	d.store(t, p.store)
	worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts}
	prepared, err := worker.Prepare(ctx, domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	require.Empty(t, prepared.Warnings)
	made, err := stored.JSON[plan.Plan](ctx, p.store, prepared.Plan)
	require.NoError(t, err)
	app := made.App("web")
	require.Len(t, app.Targets, 40)
	require.Len(t, app.Variants, 1)
	bundle, err := stored.JSON[plan.Bundle](ctx, p.store, app.Bundle)
	require.NoError(t, err)
	overlay, err := stored.Part[plan.Overlay](ctx, p.store, app.Variants[0].Overlay)
	require.NoError(t, err)
	of := func(b *plan.Bundle) string {
		for _, r := range b.Resources {
			if r.Kind == "Deployment" {
				return string(r.Manifest)
			}
		}
		return ""
	}
	const interfaces, networks = `k8s.plugin.opnfv.org/nfn-network`, `k8s.v1.cni.cncf.io/networks`
	require.Contains(t, of(bundle), networks)
	require.NotContains(t, of(overlay.On(bundle)), networks)
	require.Contains(t, of(overlay.On(bundle)), interfaces)
	for _, target := range app.Targets {
		n := 0
		_, _ = fmt.Sscanf(target.Name, "c%d", &n)
		require.Equal(t, n > 0 && n%3 == 0, target.Variant == 1, target.Name)
		var effects []string
		for _, e := range app.EffectsOn(&target) {
			effects = append(effects, e.String())
		}
		want := []string{"annotation " + interfaces + " by ovnaction intent networks"}
		if target.Variant == 0 {
			want = append(want, "annotation "+networks+" by ovnaction intent networks")
		}
		require.Equal(t, want, effects)
	}
	targets, err := worker.Targets(ctx, activities.TargetsInput{Plan: prepared.Plan, App: "web", From: 0, To: 40})
	require.NoError(t, err)
	require.Len(t, targets.Overlays, 13)
	for i := range targets.Clusters {
		require.Equal(t, app.OverlayOf(&app.Targets[i]), targets.Overlays[i])
	}
}

// Who asks for a network is told of each cluster that has none of its name, or has not applied it, be the clusters read one by one or not.
func TestClustersThatLackNetworksAreWarnings(t *testing.T) {
	p := partial(t)
	for _, clusters := range []int{4, 40} {
		t.Run(fmt.Sprint(clusters), func(t *testing.T) {
			p := with(t, p)
			d := varied(clusters)
			d.more = slices.DeleteFunc(d.more, func(o domain.Object) bool {
				return o.Noun() == domain.Networks && o.Base().Parent == "cluster-providers/cp/clusters/c1"
			})
			for _, o := range d.more {
				c, is := o.(*domain.Cluster)
				switch {
				case is && c.Name == "c2":
					c.History = domain.NewHistory(time.Now())
				case is && c.Name == "c3":
					c.History.Append(domain.Terminated, "net-c3", 0, time.Now())
				}
			}
			d.group.History.Append(domain.Approved, "", 0, time.Now())
			d.store(t, p.store)
			worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts}
			prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
			require.NoError(t, err)
			const by = `ovnaction intent networks, workload intent "w", interface "if": `
			require.Equal(t, []string{
				fmt.Sprintf(by+`1 of %d clusters of app "web" have no network "net-a": cp+c1`, clusters),
				fmt.Sprintf(by+`network "net-a" is not applied on 2 of %d clusters of app "web": cp+c2, cp+c3`, clusters),
			}, prepared.Warnings)
		})
	}
}

// What an intent asks for that cannot be done is refused before anything is recorded, by approve, too.
func TestIntentsThatCannotBeDone(t *testing.T) {
	p := partial(t)
	for name, c := range map[string]struct {
		change   func(d *description)
		kind     fail.Kind // of the refusal, "" for none
		says     string
		warnings []string
	}{
		"a workload that the app does not have": {
			change: func(d *description) { d.more[1].(*domain.WorkloadIntent).Spec.WorkloadResource = "web" },
			kind:   fail.Malformed, says: `ovnaction intent networks, workload intent "w": app "web": there is no Deployment "web" (it has: Deployment r1-web)`,
		},
		"an app that is not there": {
			change: func(d *description) { d.more[1].(*domain.WorkloadIntent).Spec.App = "sink" },
			kind:   fail.Malformed, says: `app "sink": the composite app has no such app (it has: web)`,
		},
		"an intent that is not there": {
			change: func(d *description) { d.intent.Spec.Intent["ovnaction"] = "network" },
			kind:   fail.NotFound, says: `Intent not found: deployment intent "all" names ovnaction intent "network", and deployment intent group "dig" has none of that name`,
		},
		"a network that no cluster has": {
			change:   func(d *description) { d.more[2].(*domain.InterfaceIntent).Spec.Name = "net-b" },
			warnings: []string{`ovnaction intent networks, workload intent "w", interface "if": no cluster of app "web" has a network "net-b"`},
		},
		"a traffic group that is not there": {
			change: func(d *description) { d.intent.Spec.Intent["dtc"] = "traffic" },
			kind:   fail.NotFound, says: `deployment intent "all" names dtc intent "traffic"`,
		},
		"a traffic group of a controller that is known by its port": {
			change: func(d *description) {
				d.intent.Spec.Intent["mine"] = "traffic"
				d.more = append(d.more, &domain.Controller{Metadata: domain.Metadata{Name: "mine"}, Spec: domain.ControllerSpec{Host: "h", Port: 30448}},
					&domain.TrafficGroupIntent{Identity: domain.Identity{Parent: domain.KeyOf(d.group)}, Metadata: domain.Metadata{Name: "traffic"}})
			},
			kind: fail.Malformed, says: "dtc intent traffic has no inbound intents",
		},
		"a part of a traffic group that nobody does": {
			change: func(d *description) {
				d.intent.Spec.Intent["dtc"] = "traffic"
				group := &domain.TrafficGroupIntent{Identity: domain.Identity{Parent: domain.KeyOf(d.group)}, Metadata: domain.Metadata{Name: "traffic"}}
				in := &domain.InboundServerIntent{
					Identity: domain.Identity{Parent: domain.KeyOf(group)}, Metadata: domain.Metadata{Name: "in"},
					Spec: domain.InboundServerIntentSpec{App: "web", AppLabel: "app=web", ServiceName: "web", Port: 80, Protocol: "TCP"},
				}
				d.more = append(d.more, group, in, &domain.InboundClientsIntent{
					Identity: domain.Identity{Parent: domain.KeyOf(in)}, Metadata: domain.Metadata{Name: "c"},
					Spec: domain.InboundClientsIntentSpec{App: "web", AppLabel: "app=web", ServiceName: "web", Namespaces: []string{}, CIDRs: []string{}},
				})
				for name, port := range map[string]int{"nps": 1, "sds": 9039} {
					part := &domain.DTCController{}
					part.Name, part.Spec = name, domain.DTCControllerSpec{Host: "h", Port: port, Type: "action", Priority: 1}
					d.more = append(d.more, part)
				}
			},
			warnings: []string{
				`deployment intent "all": what "sds" of /v2/dtc-controllers does for intent "traffic" of controller "dtc" is not done: Drover does not act for it`,
				`dtc intent traffic, inbound intent in: no cluster of app "web" carries the label networkpolicy-supported: no NetworkPolicy is made`,
				`dtc intent traffic, inbound intent in: no pods of app "web", as it is rendered, carry the label app=web: nothing is restricted`,
			},
		},
		"a controller of another name, known by its host": {
			change: func(d *description) {
				delete(d.intent.Spec.Intent, "ovnaction")
				d.intent.Spec.Intent["mine"] = "network"
				d.more = append(d.more, &domain.Controller{Metadata: domain.Metadata{Name: "mine"}, Spec: domain.ControllerSpec{Host: "ovnaction.emco", Port: 1}})
			},
			kind: fail.NotFound, says: `deployment intent "all" names ovnaction intent "network"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			d := varied(1)
			c.change(d)
			d.store(t, p.store)
			lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
			lifecycle.Rehearse = activities.NewRehearsal(p.store, p.engine, p.charts).Rehearse
			warnings, approved := lifecycle.Approve(t.Context(), domain.KeyOf(d.group))
			worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts}
			if c.kind != "" {
				require.Equal(t, c.kind, fail.KindOf(approved), "%v", approved)
				require.Contains(t, fail.TextOf(approved), c.says)
				d.group.History.Append(domain.Approved, "", 0, time.Now())
				require.NoError(t, p.store.Replace(t.Context(), d.group))
			} else {
				require.NoError(t, approved)
				require.Equal(t, c.warnings, warnings)
			}
			prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
			if c.kind != "" {
				require.Equal(t, c.kind, fail.KindOf(err), "%v", err)
				require.Equal(t, fail.TextOf(approved), fail.TextOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.warnings, prepared.Warnings)
		})
	}
}

// Who acts first is what registrations say; who has none comes with the last of those that have one, and gac after the others.
func TestRegistrationsSayWhoActsFirst(t *testing.T) {
	p := partial(t)
	for name, c := range map[string]struct {
		priorities map[string]int
		refused    bool // gac does not find yet what ovnaction makes
	}{
		"none is registered":      {},
		"ovnaction alone":         {priorities: map[string]int{"ovnaction": 1}},
		"gac alone":               {priorities: map[string]int{"gac": 1}},
		"ovnaction before gac":    {priorities: map[string]int{"ovnaction": 1, "gac": 2}},
		"gac before ovnaction":    {priorities: map[string]int{"ovnaction": 2, "gac": 1}, refused: true},
		"both of the same number": {priorities: map[string]int{"ovnaction": 2, "gac": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			d := varied(2)
			under := func(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }
			named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
			d.intent.Spec.Intent["gac"] = "patch"
			patch := &domain.GenericK8sIntent{Identity: under(domain.KeyOf(d.group)), Metadata: named("patch")}
			web := &domain.GenericResource{Identity: under(domain.KeyOf(patch)), Metadata: named("web"), Spec: domain.GenericResourceSpec{
				App: "web", NewObject: domain.False, ResourceGVK: domain.ResourceGVK{APIVersion: "apps/v1", Kind: "Deployment", Name: "r1-web"},
			}}
			d.more = append(d.more, patch, web, &domain.Customization{Identity: under(domain.KeyOf(web)), Metadata: named("c"), Spec: domain.CustomizationSpec{
				ClusterSpecific: domain.False, PatchType: domain.PatchJSON,
				PatchJSON: []domain.PatchStep{{Op: "add", Path: "/spec/template/metadata/annotations/own", Value: json.RawMessage(`"1"`)}},
			}})
			for name, priority := range c.priorities {
				d.more = append(d.more, &domain.Controller{Metadata: named(name), Spec: domain.ControllerSpec{Host: "h", Port: 1, Type: "action", Priority: priority}})
			}
			d.group.History.Append(domain.Approved, "", 0, time.Now())
			d.store(t, p.store)
			worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts}
			_, err := worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
			if c.refused {
				require.Equal(t, fail.Malformed, fail.KindOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
		})
	}
}
