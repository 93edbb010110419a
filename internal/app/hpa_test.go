package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/stored"
)

// fleet has the nodes of clusters, by the clusters' names. What it has of none cannot be asked.
type fleet map[string][]kube.Node

func (f fleet) Nodes(_ context.Context, c domain.ClusterName, _ bool, left kube.LeftOut) ([]kube.Node, error) {
	nodes, found := f[c.Name]
	if !found {
		return nil, fail.New(fail.Unavailable, "the cluster cannot be reached: connection refused")
	}
	nodes = slices.Clone(nodes)
	for i := range nodes { // which may have the deployment id of a pod that takes all of it
		if of := nodes[i].Labels[plan.DeploymentLabel]; of != "" && left.Of(nodes[i].Labels) == "" {
			nodes[i].Free = map[string]*big.Rat{}
		} else if most := left.Most[of]; of != "" && most != nil {
			nodes[i].Free = most
		}
	}
	return nodes, nil
}

// taken has a pod take all that a node has.
func taken(by string, nodes []kube.Node) []kube.Node {
	for i := range nodes {
		nodes[i].Labels = map[string]string{plan.DeploymentLabel: by}
	}
	return nodes
}

func withCPU(cores ...int64) (nodes []kube.Node) {
	for i, n := range cores {
		nodes = append(nodes, kube.Node{Name: string(rune('a' + i)), Free: map[string]*big.Rat{"cpu": new(big.Rat).SetInt64(n)}})
	}
	return nodes
}

// hardware is described, on three clusters of which one is to be taken, by what their nodes have.
func hardware(bind map[string]string) *description {
	d := varied(3)
	key := domain.KeyOf(d.group)
	d.withoutNetworks()
	for controller, intent := range bind {
		d.intent.Spec.Intent[controller] = intent
	}
	d.chart["web/templates/deployment.yaml"] = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: "{{ .Release.Name }}-web"}, spec: {template: {spec: {containers: [{name: web}]}}}}`
	d.more = append(d.more, needing(key, "i", "web")...)
	d.apps.Spec.Intent = domain.Placement{AnyOf: []domain.Clusters{{ClusterProvider: "cp", ClusterLabel: "edge"}}}
	return d
}

// needing is an hpa intent by which an app needs 4 cpu for its one pod.
func needing(group domain.Key, name, app string) []domain.Object {
	i := &domain.HPAIntent{Identity: domain.Identity{Parent: group}, Metadata: domain.Metadata{Name: name}, Spec: domain.HPAIntentSpec{App: app}}
	c := &domain.HPAConsumer{Identity: domain.Identity{Parent: domain.KeyOf(i)}, Metadata: domain.Metadata{Name: "c"}, Spec: domain.HPAConsumerSpec{Name: "r1-web", Container: "web"}}
	r := &domain.HPAResource{Identity: domain.Identity{Parent: domain.KeyOf(c)}, Metadata: domain.Metadata{Name: "r"}, Spec: domain.HPAResourceSpec{
		Allocatable: new(true), Resource: domain.HPAResourceName{Name: "cpu", Requests: "4"},
	}}
	return []domain.Object{i, c, r}
}

// bothHPA binds the controllers of EMCO's examples.
var bothHPA = map[string]string{"hpa-placement-controller-1": "none", "hpa-action-controller-1": "none"}

// Clusters are chosen by their nodes before one of several is taken; why others were passed over is in the plan. Approve says what
// instantiate would say.
func TestHPAIntentsChooseClusters(t *testing.T) {
	p := partial(t)
	for name, c := range map[string]struct {
		bind   map[string]string
		fleet  fleet
		taken  string
		passed []string
		says   string
		bare   bool // nothing is requested
	}{
		"the one that fits": {
			bind: bothHPA, fleet: fleet{"c": withCPU(2, 3), "c1": withCPU(1, 4), "c2": withCPU(8)}, taken: "c1",
			passed: []string{"cp+c: 2 nodes, none with 4 free cpu (hpa intent i)"},
		},
		"one that cannot be asked": {
			bind: map[string]string{"hpa": "any"}, fleet: fleet{"c2": withCPU(8)}, taken: "c2",
			passed: []string{
				"cp+c: its nodes are not known: the cluster cannot be reached: connection refused (hpa intent i)",
				"cp+c1: its nodes are not known: the cluster cannot be reached: connection refused (hpa intent i)",
			},
		},
		"placement alone": {
			bind: map[string]string{"hpa-placement-controller-1": "none"}, fleet: fleet{"c": {}, "c1": {}, "c2": withCPU(8)}, taken: "c2",
			passed: []string{"cp+c: 0 nodes, none with 4 free cpu (hpa intent i)", "cp+c1: 0 nodes, none with 4 free cpu (hpa intent i)"}, bare: true,
		},
		"action alone": {bind: map[string]string{"hpa-action-controller-1": "none"}, fleet: fleet{}, taken: "c"},
		"none fits": {
			bind: bothHPA, fleet: fleet{"c": withCPU(2, 3), "c1": withCPU(1), "c2": withCPU()},
			says: "app web: hpa placement: one of these clusters has to (anyOf), and does not have what is asked for: " +
				"cp+c: 2 nodes, none with 4 free cpu (hpa intent i); cp+c1: 1 node, none with 4 free cpu (hpa intent i); cp+c2: 0 nodes, none with 4 free cpu (hpa intent i)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			d := hardware(c.bind)
			d.store(t, p.store)
			lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now)
			rehearsal := activities.NewRehearsal(p.store, p.engine, p.charts)
			rehearsal.AskNodes(c.fleet)
			lifecycle.Rehearse = rehearsal.Rehearse
			_, err := lifecycle.Approve(t.Context(), domain.KeyOf(d.group))
			if c.says != "" {
				require.Equal(t, fail.Malformed, fail.KindOf(err), "%v", err)
				require.Equal(t, c.says, fail.TextOf(err))
			} else {
				require.NoError(t, err)
			}
			worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts, Nodes: c.fleet}
			if c.says != "" {
				_, err = worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
				require.Error(t, err)
				return
			}
			prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
			require.NoError(t, err)
			made, err := stored.JSON[plan.Plan](t.Context(), p.store, prepared.Plan)
			require.NoError(t, err)
			app := made.App("web")
			require.Len(t, app.Targets, 1)
			require.Equal(t, c.taken, app.Targets[0].Name)
			require.Equal(t, c.passed, app.Targets[0].Passed)
			require.Equal(t, c.bare, len(app.Effects) == 0)
		})
	}
}

// asking is a fleet that notes which clusters are asked.
type asking struct {
	fleet
	mu    sync.Mutex
	asked []string
}

func (a *asking) Nodes(ctx context.Context, c domain.ClusterName, amounts bool, left kube.LeftOut) ([]kube.Node, error) {
	a.mu.Lock()
	a.asked = append(a.asked, c.Name)
	a.mu.Unlock()
	return a.fleet.Nodes(ctx, c, amounts, left)
}

// While a logical cloud takes no groups yet, a rehearsal looks at the clusters that it refers to, and at no others: which others carry a label, what
// nodes they have and what others have put there is not for whoever may write a group.
func TestRehearsalsLookAtClustersOfTheirLogicalCloud(t *testing.T) {
	p, ctx := with(t, partial(t)), t.Context()
	d := hardware(bothHPA)
	d.chart["web/templates/role.yaml"] = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: shared}}`
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	other := d.beside()
	needs := needing(domain.KeyOf(other), "i", "web")
	needs[1].(*domain.HPAConsumer).Spec.Name = "r2-web"
	d.more = append(d.more, needs...)
	var reference *domain.ClusterReference
	d.more = slices.DeleteFunc(d.more, func(o domain.Object) bool {
		switch o := o.(type) {
		case *domain.LogicalCloud:
			o.History = domain.NewHistory(time.Now())
		case *domain.ClusterReference:
			if o.Parent == "projects/p/logical-clouds/lc2" {
				reference = o
			}
			return o == reference
		}
		return false
	})
	d.store(t, p.store)
	nodes := &asking{fleet: fleet{"c": withCPU(2), "c1": withCPU(8, 8), "c2": withCPU(8)}}
	worker := &activities.Control{Store: p.store, Runs: ended{}, Now: time.Now, Charts: p.charts, Nodes: nodes}
	prepared, err := worker.Prepare(ctx, domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	carriedOut(t, p, d.group, prepared, "2", 1)

	rehearsal := activities.NewRehearsal(p.store, ended{}, p.charts)
	rehearsal.AskNodes(nodes)
	rehearse := func() (made *plan.Plan, warnings []string) {
		t.Helper()
		nodes.asked = nil
		made, warnings, err := rehearsal.Rehearse(ctx, other)
		require.NoError(t, err)
		way, err := rehearsal.Foresee(ctx, domain.Scope{Owner: domain.KeyOf(other), ContextID: "0", Operation: domain.OpInstantiate}, domain.Goal{})
		require.NoError(t, err)
		require.Equal(t, warnings, way.Warnings)
		return made, warnings
	}
	const closed = `instantiate is not possible yet: The Logical Cloud has never been instantiated: logical cloud "lc2" is in state Created; instantiate it first`
	made, warnings := rehearse()
	require.Empty(t, made.App("web").Targets)
	require.Equal(t, []string{
		closed,
		"instantiate is not possible yet: app web: logical cloud lc2 includes none of the clusters of anyOf: 3 clusters with the label edge of cluster provider cp",
	}, warnings)
	require.Empty(t, nodes.asked)

	reference.Spec.Cluster = "c1"
	create(t, p.store, reference)
	made, warnings = rehearse()
	require.Equal(t, "c1", made.App("web").Targets[0].Name)
	require.Empty(t, made.App("web").Targets[0].Passed)
	require.Len(t, warnings, 2)
	require.Equal(t, closed, warnings[0])
	require.Contains(t, warnings[1], `app "web": ClusterRole "shared" on cluster cp+c1 belongs to projects/p/`)
	require.Equal(t, []string{"c1", "c1"}, nodes.asked)
}

// A cluster that did not answer when it was last tried is asked again, and is one that answers if it does: while hpa intents refuse it, no
// leaf works there.
func TestClustersThatDidNotAnswerAreAskedAgain(t *testing.T) {
	p := partial(t)
	c := domain.ClusterName{Provider: "cp", Name: "c1"}
	for name, k := range map[string]struct {
		fleet fleet
		away  bool
	}{
		"it is back":       {fleet: fleet{"c1": withCPU(4)}},
		"it is still away": {fleet: fleet{}, away: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			away := func() bool {
				down, err := p.store.Unreachable(t.Context())
				require.NoError(t, err)
				return down[c]
			}
			d := hardware(bothHPA)
			d.apps.Spec.Intent = domain.Placement{AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: c.Provider, Cluster: c.Name}}}}
			d.group.History.Append(domain.Approved, "", 0, time.Now())
			d.store(t, p.store)
			require.NoError(t, p.store.SetReachable(t.Context(), c, false))

			rehearsal := activities.NewRehearsal(p.store, p.engine, p.charts)
			rehearsal.AskNodes(k.fleet)
			_, _, rehearsed := rehearsal.Rehearse(t.Context(), d.group)
			require.True(t, away(), "a rehearsal stores nothing")
			worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts, Nodes: k.fleet}
			prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
			require.Equal(t, k.away, away())
			if k.away {
				require.ErrorContains(t, rehearsed, "its nodes are not known: the cluster cannot be reached: connection refused")
				require.ErrorContains(t, err, "its nodes are not known: the cluster cannot be reached: connection refused")
				return
			}
			require.NoError(t, rehearsed)
			require.NoError(t, err)
			require.Empty(t, prepared.Apps[0].Targets.Suspect)
		})
	}
}

// Hpa intents that ask for nothing are warned of.
func TestHPAIntentsThatAskForNothing(t *testing.T) {
	p := partial(t)
	const preference = `hpa intent i, consumer "c", requirement "r": it is not mandatory, so that it counts only where one of several clusters is taken; for app "web" none is: `
	preferred := func(o []domain.Object) []domain.Object {
		o[2].(*domain.HPAResource).Spec.Mandatory = new(false)
		return o
	}
	for name, c := range map[string]struct {
		change func(d *description, objects []domain.Object) []domain.Object
		says   string
	}{
		"no intent": {
			func(*description, []domain.Object) []domain.Object { return nil }, "hpa is bound, and there is no hpa intent: nothing is done for it",
		},
		"no consumer": {
			func(_ *description, o []domain.Object) []domain.Object { return o[:1] }, `hpa intent i has no consumers: nothing is done for app "web"`,
		},
		"no requirement": {
			func(_ *description, o []domain.Object) []domain.Object { return o[:2] },
			`hpa intent i, consumer "c" has no resource requirements: nothing is done with Deployment "r1-web"`,
		},
		"a preference where nothing is chosen": {
			func(d *description, o []domain.Object) []domain.Object {
				d.apps.Spec.Intent = domain.Placement{AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: "cp", Cluster: "c1"}}}}
				return preferred(o)
			},
			preference + "its app intents have no anyOf",
		},
		"a preference that nobody chooses by": {
			func(d *description, o []domain.Object) []domain.Object {
				delete(d.intent.Spec.Intent, "hpa-placement-controller-1")
				return preferred(o)
			},
			preference + "only the hpa action is bound",
		},
		"a preference": {
			func(_ *description, o []domain.Object) []domain.Object { return preferred(o) }, "",
		},
		"a preference among those of allOf": {
			func(d *description, o []domain.Object) []domain.Object {
				d.apps.Spec.Intent = domain.Placement{AllOf: []domain.AllOf{{AnyOf: d.apps.Spec.Intent.AnyOf}}}
				return preferred(o)
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			d := hardware(bothHPA)
			n := len(d.more) - 3
			d.more = append(d.more[:n:n], c.change(d, d.more[n:])...)
			d.group.History.Append(domain.Approved, "", 0, time.Now())
			d.store(t, p.store)
			worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts, Nodes: fleet{"c": withCPU(8), "c1": withCPU(8), "c2": withCPU(8)}}
			prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
			require.NoError(t, err)
			var want []string
			if c.says != "" {
				want = []string{c.says}
			}
			require.Equal(t, want, prepared.Warnings)
		})
	}
}

// An update leaves an app where it is as long as that fits, and a migrate, too: what its pods take is room for those that take their
// place.
func TestUpdatesKeepTheirClusters(t *testing.T) {
	p := partial(t)
	stands := func(t *testing.T, p *Parts, d *description, worker *activities.Control) domain.Key {
		d.group.History.Append(domain.Approved, "", 0, time.Now())
		d.store(t, p.store)
		key := domain.KeyOf(d.group)
		prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: key, ContextID: "2", Operation: domain.OpInstantiate})
		require.NoError(t, err)
		require.NoError(t, p.store.PutInstance(t.Context(), &domain.Instance{
			ContextID: "2", Owner: key, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
			Plan: prepared.Plan, Namespace: prepared.Namespace, LogicalCloud: prepared.LogicalCloud,
		}))
		web := planned(t, p, prepared).App("web")
		require.Len(t, web.Targets, 1)
		require.Equal(t, "c1", web.Targets[0].Name)
		require.NoError(t, p.store.PutLeaf(t.Context(), domain.Leaf{
			ID: domain.LeafID("2", "web", web.Targets[0].ClusterName), ContextID: "2", App: "web", Cluster: web.Targets[0].ClusterName,
			Operation: domain.OpInstantiate, Marks: domain.NewMarks(len(web.Resources), domain.MarkApplied).Encode(),
		}))
		d.group.History.Append(domain.Instantiated, "2", 1, time.Now())
		require.NoError(t, p.store.Replace(t.Context(), d.group))
		return key
	}
	began := fleet{"c": withCPU(1), "c1": withCPU(8), "c2": withCPU(1)}
	for name, c := range map[string]struct {
		becomes fleet
		change  func(t *testing.T, p *Parts, d *description)
		to      string // where it moves, "" when it stays
		reason  string
		warns   string
		says    string
	}{
		"room elsewhere": {becomes: fleet{"c": withCPU(9), "c1": withCPU(8), "c2": withCPU(9)}},
		"its own pod":    {becomes: fleet{"c": withCPU(9), "c1": taken("2-web", withCPU(4)), "c2": withCPU(9)}},
		"its own pods that nobody names": { // they go on, so that there is no room for what is preferred
			becomes: fleet{"c": withCPU(4), "c1": taken("2-web", withCPU(9)), "c2": withCPU(9)}, to: "c2", reason: "anyOf: most of what is preferred of 3",
			change: func(t *testing.T, p *Parts, d *description) {
				more := needing(domain.KeyOf(d.group), "j", "web")
				r := more[2].(*domain.HPAResource)
				r.Spec.Mandatory, r.Spec.Resource.Requests = new(false), "8"
				for _, o := range more {
					require.NoError(t, p.store.Create(t.Context(), o))
				}
			},
		},
		"the pod of another": {becomes: fleet{"c": withCPU(1), "c1": taken("3-web", withCPU(4)), "c2": withCPU(9)}, to: "c2", reason: "anyOf: first of 1 that fit of 3"},
		"no room any more":   {becomes: fleet{"c": withCPU(9), "c1": withCPU(3), "c2": withCPU(9)}, to: "c", reason: "anyOf: first of 2 that fit of 3"},
		"nobody knows": {
			becomes: fleet{"c": withCPU(9)}, warns: "app web stays on cp+c1: its nodes are not known: the cluster cannot be reached: connection refused (hpa intent i)",
		},
		"nobody knows of what is mandatory": {
			becomes: fleet{"c": withCPU(9)}, change: func(t *testing.T, p *Parts, d *description) {
				d.apps.Spec.Intent = domain.Placement{AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: "cp", Cluster: "c1"}}}}
				require.NoError(t, p.store.Replace(t.Context(), d.apps))
			}, warns: "app web stays on cp+c1: its nodes are not known: the cluster cannot be reached: connection refused (hpa intent i)",
		},
		"another preference": {
			becomes: fleet{"c": withCPU(8), "c1": withCPU(8), "c2": withCPU(9)}, to: "c2", reason: "anyOf: most of what is preferred of 3",
			change: func(t *testing.T, p *Parts, d *description) {
				more := needing(domain.KeyOf(d.group), "j", "web")
				r := more[2].(*domain.HPAResource)
				r.Spec.Mandatory, r.Spec.Resource.Requests = new(false), "9"
				for _, o := range more {
					require.NoError(t, p.store.Create(t.Context(), o))
				}
			},
		},
		"more pods, as another consumer of the same workload says": {
			becomes: fleet{"c": withCPU(9), "c1": withCPU(8), "c2": withCPU(9, 9)}, to: "c2", reason: "anyOf: first of 1 that fit of 3",
			change: func(t *testing.T, p *Parts, d *description) {
				more := needing(domain.KeyOf(d.group), "j", "web")
				more[1].(*domain.HPAConsumer).Spec.Replicas = new(int64(3))
				for _, o := range more {
					require.NoError(t, p.store.Create(t.Context(), o))
				}
			},
		},
		"a cluster that may not be taken": {
			becomes: fleet{"c": withCPU(9), "c1": withCPU(8), "c2": withCPU(9)}, to: "c2", reason: "anyOf: first of 1",
			change: func(t *testing.T, p *Parts, d *description) {
				d.apps.Spec.Intent.AnyOf[0] = domain.Clusters{ClusterProvider: "cp", Cluster: "c2"}
				require.NoError(t, p.store.Replace(t.Context(), d.apps))
			},
		},
		"nothing fits": {
			becomes: fleet{"c": withCPU(1), "c1": withCPU(1), "c2": withCPU(1)}, says: "app web: hpa placement: one of these clusters has to (anyOf)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			d := hardware(bothHPA)
			worker := &activities.Control{Store: p.store, Runs: p.engine, Now: time.Now, Charts: p.charts, Nodes: began}
			key := stands(t, p, d, worker)
			if c.change != nil {
				c.change(t, p, d)
			}
			worker.Nodes = c.becomes
			out, err := worker.PrepareChange(t.Context(), activities.ChangeInput{Scope: domain.Scope{Owner: key, ContextID: "3", Operation: domain.OpUpdate}})
			if c.says != "" {
				require.Equal(t, fail.Malformed, fail.KindOf(err), "%v", err)
				require.Contains(t, fail.TextOf(err), c.says)
				return
			}
			require.NoError(t, err)
			if c.warns != "" {
				require.Contains(t, out.Warnings, c.warns)
			}
			require.Equal(t, c.to == "", out.Unchanged, "%+v", out)
			if c.to == "" {
				return
			}
			app := planned(t, p, out).App("web")
			require.Len(t, app.Targets, 2)
			for _, target := range app.Targets {
				require.Equal(t, target.Name == "c1", target.Leaving)
				if !target.Leaving {
					require.Equal(t, c.to, target.Name)
					require.Equal(t, c.reason, target.Reason)
				}
			}
		})
	}
	t.Run("migrate", func(t *testing.T) {
		p := with(t, p)
		d := hardware(bothHPA)
		worker := &activities.Control{Store: p.store, Runs: p.engine, Now: time.Now, Charts: p.charts, Nodes: began}
		source := stands(t, p, d, worker)
		next := hardware(bothHPA)
		next.group.Name = "next"
		next.group.History.Append(domain.Approved, "", 0, time.Now())
		key := domain.KeyOf(next.group)
		next.intent.Parent, next.placement.Parent, next.apps.Parent = key, key, key.Child("generic-placement-intents", "gpi")
		for _, o := range append([]domain.Object{next.group, next.intent, next.placement, next.apps}, needing(key, "i", "web")...) {
			require.NoError(t, p.store.Create(t.Context(), o))
		}
		worker.Nodes = fleet{"c": withCPU(9), "c1": taken("2-web", withCPU(4)), "c2": withCPU(9)}
		out, err := worker.PrepareChange(t.Context(), activities.ChangeInput{
			Scope: domain.Scope{Owner: key, ContextID: "3", Operation: domain.OpMigrate}, Goal: domain.Goal{Source: source},
		})
		require.NoError(t, err)
		app := planned(t, p, out).App("web")
		require.Len(t, app.Targets, 1)
		require.Equal(t, "c1", app.Targets[0].Name)
		require.Equal(t, "anyOf: it is there already, of 3", app.Targets[0].Reason)
		require.Equal(t, []string{"cpu"}, requested(t, p, app), "the intents are the target's")
	})
}

// TestAppsStayWithoutHPA: of several clusters the first did not answer when the app was placed, and is back.
func TestAppsStayWithoutHPA(t *testing.T) {
	p := partial(t)
	edge := func(name string) domain.ClusterName { return domain.ClusterName{Provider: "cp", Name: name} }
	for name, c := range map[string]struct {
		source string // of a migrate
		away   string // the cluster that does not answer when the instance is changed
		only   string // the one cluster that may be taken then
		to     string
		reason string
	}{
		"update":                            {to: "c1", reason: "anyOf: it is there already, of 3"},
		"migrate":                           {source: "dig", to: "c1", reason: "anyOf: it is there already, of 3"},
		"a cluster that does not answer":    {away: "c1", to: "c", reason: "anyOf: first of 3"},
		"a cluster that may not be taken":   {only: "c2", to: "c2", reason: "anyOf: first of 1"},
		"migrate, and it may not be taken":  {source: "dig", only: "c2", to: "c2", reason: "anyOf: first of 1"},
		"migrate, and it does not answer":   {source: "dig", away: "c1", to: "c", reason: "anyOf: first of 3"},
		"an update while none of them does": {away: "all", to: "c1", reason: "anyOf: it is there already, of 3"},
	} {
		t.Run(name, func(t *testing.T) {
			p, d := with(t, p), hardware(nil)
			d.group.History.Append(domain.Approved, "", 0, time.Now())
			d.store(t, p.store)
			worker := &activities.Control{Store: p.store, Runs: p.engine, Now: time.Now, Charts: p.charts}
			key := domain.KeyOf(d.group)
			require.NoError(t, p.store.SetReachable(t.Context(), edge("c"), false))
			prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: key, ContextID: "2", Operation: domain.OpInstantiate})
			require.NoError(t, err)
			require.Equal(t, "c1", planned(t, p, prepared).App("web").Targets[0].Name)
			require.NoError(t, p.store.PutInstance(t.Context(), &domain.Instance{
				ContextID: "2", Owner: key, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated,
				Plan: prepared.Plan, Namespace: prepared.Namespace, LogicalCloud: prepared.LogicalCloud,
			}))
			d.group.History.Append(domain.Instantiated, "2", 1, time.Now())
			require.NoError(t, p.store.Replace(t.Context(), d.group))

			require.NoError(t, p.store.SetReachable(t.Context(), edge("c"), c.away != "all"))
			for _, name := range []string{"c1", "c2"} {
				if c.away == name || c.away == "all" {
					require.NoError(t, p.store.SetReachable(t.Context(), edge(name), false))
				}
			}
			if c.only != "" {
				d.apps.Spec.Intent.AnyOf = []domain.Clusters{{ClusterProvider: "cp", Cluster: c.only}}
				require.NoError(t, p.store.Replace(t.Context(), d.apps))
			}
			in := activities.ChangeInput{Scope: domain.Scope{Owner: key, ContextID: "3", Operation: domain.OpUpdate}}
			if c.source != "" {
				next := hardware(nil)
				next.group.Name = "next"
				next.group.History.Append(domain.Approved, "", 0, time.Now())
				of := domain.KeyOf(next.group)
				next.intent.Parent, next.placement.Parent, next.apps.Parent = of, of, of.Child("generic-placement-intents", "gpi")
				next.apps.Spec.Intent.AnyOf = d.apps.Spec.Intent.AnyOf
				for _, o := range []domain.Object{next.group, next.intent, next.placement, next.apps} {
					require.NoError(t, p.store.Create(t.Context(), o))
				}
				in = activities.ChangeInput{Scope: domain.Scope{Owner: of, ContextID: "3", Operation: domain.OpMigrate}, Goal: domain.Goal{Source: key}}
			} else {
				d.group.Spec.OverrideValues = []domain.OverrideValues{{App: "web", Values: map[string]string{"another": "value"}}}
				require.NoError(t, p.store.Replace(t.Context(), d.group))
			}
			out, err := worker.PrepareChange(t.Context(), in)
			require.NoError(t, err)
			if out.Unchanged {
				require.Equal(t, "c1", c.to)
				return
			}
			var stays []plan.Target
			for _, target := range planned(t, p, out).App("web").Targets {
				if !target.Leaving {
					stays = append(stays, target)
				}
			}
			require.Len(t, stays, 1)
			require.Equal(t, c.to, stays[0].Name)
			require.Equal(t, c.reason, stays[0].Reason)
		})
	}
}

// planned is the plan of an operation.
func planned(t *testing.T, p *Parts, prepared *activities.Prepared) *plan.Plan {
	t.Helper()
	made, err := stored.JSON[plan.Plan](t.Context(), p.store, prepared.Plan)
	require.NoError(t, err)
	return made
}

// requested is what the first container of the Deployment requests.
func requested(t *testing.T, p *Parts, app *plan.App) []string {
	t.Helper()
	bundle, err := stored.JSON[plan.Bundle](t.Context(), p.store, app.Bundle)
	require.NoError(t, err)
	for _, r := range bundle.Resources {
		if r.Kind != "Deployment" {
			continue
		}
		var object struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Resources struct{ Requests map[string]string }
						}
					}
				}
			}
		}
		require.NoError(t, json.Unmarshal(r.Manifest, &object))
		return slices.Sorted(maps.Keys(object.Spec.Template.Spec.Containers[0].Resources.Requests))
	}
	return nil
}

// Apps of a group share the room that nodes have; what only one cluster has room for is not taken by an app that fits elsewhere.
func TestAppsShareTheRoomOfNodes(t *testing.T) {
	p := partial(t)
	edge := domain.Placement{AnyOf: []domain.Clusters{{ClusterProvider: "cp", ClusterLabel: "edge"}}}
	only := domain.Placement{AllOf: []domain.AllOf{{Clusters: domain.Clusters{ClusterProvider: "cp", Cluster: "c"}}}}
	one := domain.Placement{AnyOf: []domain.Clusters{{ClusterProvider: "cp", Cluster: "c"}}}
	const beside = "cp+c: beside app %s: 1 node, room for 0 of 1 pod with 4 free cpu (hpa intent %s)"
	for name, c := range map[string]struct {
		web, db domain.Placement
		fleet   fleet
		want    map[string]string
		says    string
	}{
		"side by side":      {web: edge, db: edge, fleet: fleet{"c": withCPU(8)}, want: map[string]string{"web": "c", "db": "c"}},
		"one beside":        {web: edge, db: edge, fleet: fleet{"c": withCPU(4), "c2": withCPU(4)}, want: map[string]string{"web": "c2", "db": "c"}},
		"what is mandatory": {web: only, db: edge, fleet: fleet{"c": withCPU(4), "c2": withCPU(4)}, want: map[string]string{"web": "c", "db": "c2"}},
		"the only one":      {web: one, db: edge, fleet: fleet{"c": withCPU(4), "c2": withCPU(4)}, want: map[string]string{"web": "c", "db": "c2"}},
		"no room for both":  {web: edge, db: edge, fleet: fleet{"c": withCPU(4)}, says: fmt.Sprintf(beside, "db", "i")},
		"both are mandatory": {
			web: only, db: only, fleet: fleet{"c": withCPU(4)},
			says: "each of these clusters is mandatory (allOf), and does not have what is asked for: " + fmt.Sprintf(beside, "web", "j"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t, p)
			d := hardware(bothHPA)
			key := domain.KeyOf(d.group)
			chart, err := p.store.PutBlob(t.Context(), packed(t, map[string]string{
				"db/Chart.yaml":       "apiVersion: v2\nname: db\nversion: 0.1.0\n",
				"db/templates/d.yaml": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: r1-web, namespace: db}, spec: {template: {spec: {containers: [{name: web}]}}}}`,
			}))
			require.NoError(t, err)
			d.apps.Spec.Intent = c.web
			d.more = append(d.more, &domain.App{Identity: domain.Identity{Parent: d.web.Parent}, Metadata: domain.Metadata{Name: "db"}, Chart: chart}, &domain.AppIntent{
				Identity: domain.Identity{Parent: d.apps.Parent}, Metadata: domain.AppIntentMetadata{Name: "db"}, Spec: domain.AppIntentSpec{App: "db", Intent: c.db},
			})
			d.more = append(d.more, needing(key, "j", "db")...)
			d.group.History.Append(domain.Approved, "", 0, time.Now())
			d.store(t, p.store)
			worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts, Nodes: c.fleet}
			prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: key, ContextID: "2", Operation: domain.OpInstantiate})
			if c.says != "" {
				require.Equal(t, fail.Malformed, fail.KindOf(err), "%v", err)
				require.Contains(t, fail.TextOf(err), c.says)
				return
			}
			require.NoError(t, err)
			is := map[string]string{}
			for _, app := range planned(t, p, prepared).Apps {
				require.Len(t, app.Targets, 1)
				is[app.Name] = app.Targets[0].Name
			}
			require.Equal(t, c.want, is)
		})
	}
}

// A node with a taint is one for pods that tolerate it.
func TestTaintsOfNodes(t *testing.T) {
	p := with(t, partial(t))
	d := hardware(bothHPA)
	d.chart["web/templates/deployment.yaml"] = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: r1-web}, spec: {template: {spec: {containers: [{name: web}], tolerations: [{key: gpu, operator: Exists}]}}}}`
	d.group.History.Append(domain.Approved, "", 0, time.Now())
	d.store(t, p.store)
	tainted := func(key string) []kube.Node {
		nodes := withCPU(4)
		nodes[0].Taints = []domain.Taint{{Key: key, Effect: "NoSchedule"}}
		return nodes
	}
	shut := withCPU(4)
	shut[0].Closed = kube.Cordoned
	worker := &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts, Nodes: fleet{"c": shut, "c1": tainted("dpu"), "c2": tainted("gpu")}}
	prepared, err := worker.Prepare(t.Context(), domain.Scope{Owner: domain.KeyOf(d.group), ContextID: "2", Operation: domain.OpInstantiate})
	require.NoError(t, err)
	target := planned(t, p, prepared).App("web").Targets[0]
	require.Equal(t, "c2", target.Name)
	require.Equal(t, []string{
		"cp+c: 0 nodes, none with 4 free cpu, not counting 1 node that takes no pods of it (1 cordoned) (hpa intent i)",
		"cp+c1: 0 nodes, none with 4 free cpu, not counting 1 node that takes no pods of it (1 with the taint dpu:NoSchedule) (hpa intent i)",
	}, target.Passed)
}
