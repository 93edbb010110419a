package app

import (
	"context"
	"math/big"
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

func (f fleet) Nodes(_ context.Context, c domain.ClusterName, _ bool, _ func(map[string]string) bool) ([]kube.Node, error) {
	nodes, found := f[c.Name]
	if !found {
		return nil, fail.New(fail.Unavailable, "the cluster cannot be reached: connection refused")
	}
	return nodes, nil
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
	delete(d.intent.Spec.Intent, "ovnaction")
	for controller, intent := range bind {
		d.intent.Spec.Intent[controller] = intent
	}
	d.chart["web/templates/deployment.yaml"] = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: "{{ .Release.Name }}-web"}, spec: {template: {spec: {containers: [{name: web}]}}}}`
	i := &domain.HPAIntent{Identity: domain.Identity{Parent: key}, Metadata: domain.Metadata{Name: "i"}, Spec: domain.HPAIntentSpec{App: "web"}}
	c := &domain.HPAConsumer{Identity: domain.Identity{Parent: domain.KeyOf(i)}, Metadata: domain.Metadata{Name: "c"}, Spec: domain.HPAConsumerSpec{Name: "r1-web", Container: "web"}}
	r := &domain.HPAResource{Identity: domain.Identity{Parent: domain.KeyOf(c)}, Metadata: domain.Metadata{Name: "r"}, Spec: domain.HPAResourceSpec{
		Allocatable: new(true), Resource: domain.HPAResourceName{Name: "cpu", Requests: "4"},
	}}
	d.more = append(d.more, i, c, r)
	d.apps.Spec.Intent = domain.Placement{AnyOf: []domain.Clusters{{ClusterProvider: "cp", ClusterLabel: "edge"}}}
	return d
}

// Clusters are chosen by their nodes before one of several is taken; why others were passed over is in the plan. Approve says what
// instantiate would say.
func TestHPAIntentsChooseClusters(t *testing.T) {
	p := partial(t)
	both := map[string]string{"hpa-placement-controller-1": "none", "hpa-action-controller-1": "none"}
	for name, c := range map[string]struct {
		bind   map[string]string
		fleet  fleet
		taken  string
		passed []string
		says   string
		bare   bool // nothing is requested
	}{
		"the one that fits": {
			bind: both, fleet: fleet{"c": withCPU(2, 3), "c1": withCPU(1, 4), "c2": withCPU(8)}, taken: "c1",
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
			bind: both, fleet: fleet{"c": withCPU(2, 3), "c1": withCPU(1), "c2": withCPU()},
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
