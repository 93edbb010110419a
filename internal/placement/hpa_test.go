package placement_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/placement"
	"github.com/drover-io/drover/internal/plan"
)

func node(name, labels string, free map[string]int64) placement.Node {
	n := placement.Node{Name: name, Labels: map[string]string{}, Free: map[string]*big.Rat{}}
	if labels != "" {
		n.Labels[labels] = "true"
	}
	for resource, amount := range free {
		n.Free[resource] = new(big.Rat).SetInt64(amount)
	}
	return n
}

func amount(consumer string, replicas int64, resource string, requests domain.Amount) domain.HPANeed {
	return domain.HPANeed{
		Intent: "i", Consumer: consumer, Resource: consumer + "-" + resource, HPAConsumerSpec: domain.HPAConsumerSpec{Name: "r1-" + consumer, Replicas: &replicas, Container: "c"},
		HPAResourceSpec: domain.HPAResourceSpec{Allocatable: new(true), Resource: domain.HPAResourceName{Name: resource, Requests: requests}},
	}
}

func labelled(consumer, key string) domain.HPANeed {
	return domain.HPANeed{
		Intent: "i", Consumer: consumer, Resource: consumer + "-" + key, HPAConsumerSpec: domain.HPAConsumerSpec{Name: "r1-" + consumer},
		HPAResourceSpec: domain.HPAResourceSpec{Allocatable: new(false), Resource: domain.HPAResourceName{Key: key, Value: new("true")}},
	}
}

// of is a need of another consumer's workload, in a container.
func of(n domain.HPANeed, consumer, container string) domain.HPANeed {
	n.Name, n.Container = "r1-"+consumer, container
	return n
}

// preferred is not mandatory.
func preferred(n domain.HPANeed, weight int64) domain.HPANeed {
	n.Mandatory, n.Weight = new(false), &weight
	return n
}

// In whatever order the documents and the nodes come, a cluster fits or does not, for the same reason.
func TestFitNodes(t *testing.T) {
	two := []placement.Node{node("a", "", map[string]int64{"cpu": 3}), node("b", "qat", map[string]int64{"cpu": 3, "memory": 4_000_000_000})}
	for name, c := range map[string]struct {
		nodes []placement.Node
		needs []domain.HPANeed
		want  placement.Fit
	}{
		"nothing is needed":                {nodes: nil},
		"no nodes":                         {needs: []domain.HPANeed{labelled("c", "qat")}, want: placement.Fit{Why: "0 nodes, none with the label qat=true (hpa intent i)"}},
		"a label":                          {nodes: two, needs: []domain.HPANeed{labelled("c", "qat")}},
		"a label that no node has":         {nodes: two, needs: []domain.HPANeed{labelled("c", "gpu")}, want: placement.Fit{Why: "2 nodes, none with the label gpu=true (hpa intent i)"}},
		"labels that no node has together": {nodes: append(two, node("c", "gpu", nil)), needs: []domain.HPANeed{labelled("c", "gpu"), labelled("c", "qat")}, want: placement.Fit{Why: "3 nodes, none with the label gpu=true and the label qat=true (hpa intent i)"}},
		"consumers on different nodes":     {nodes: append(two, node("c", "gpu", nil)), needs: []domain.HPANeed{labelled("c", "gpu"), labelled("d", "qat")}},
		"consumers of one workload, on one node": {
			nodes: append(two, node("c", "gpu", map[string]int64{"cpu": 4})), needs: []domain.HPANeed{labelled("c", "gpu"), of(amount("d", 1, "cpu", "4"), "c", "c")},
		},
		"consumers of one workload, which no node has together": {
			nodes: append(two, node("c", "gpu", map[string]int64{"cpu": 1})), needs: []domain.HPANeed{labelled("c", "gpu"), of(amount("d", 1, "cpu", "3"), "c", "c")},
			want: placement.Fit{Why: "1 node with the label gpu=true, none with 3 free cpu (hpa intent i)"},
		},
		"containers of one pod": {nodes: two, needs: []domain.HPANeed{amount("c", 2, "cpu", `"500m"`), of(amount("d", 2, "cpu", "2"), "c", "side")}},
		"containers of one pod, which no node has together": {
			nodes: two, needs: []domain.HPANeed{amount("c", 1, "cpu", "2"), of(amount("d", 1, "cpu", "2"), "c", "side")},
			want: placement.Fit{Why: "2 nodes, none with 2 + 2 free cpu (hpa intent i)"},
		},
		"one container, of which two consumers speak": {nodes: two, needs: []domain.HPANeed{amount("c", 2, "cpu", "2"), of(amount("d", 2, "cpu", "2"), "c", "c")}},
		"a container of more pods than its consumer says": {
			nodes: two, needs: []domain.HPANeed{amount("c", 4, "memory", "1"), of(amount("d", 1, "cpu", "2"), "c", "side")},
			want: placement.Fit{Why: "2 nodes, room for 1 of 4 pods with 1000000 free memory and 2 free cpu (hpa intent i)"},
		},
		"what is preferred, with what is required of the same pods": {
			nodes: append(two, node("c", "gpu", map[string]int64{"cpu": 1})), needs: []domain.HPANeed{preferred(labelled("c", "gpu"), 5), of(amount("d", 1, "cpu", "3"), "c", "c")},
		},
		"an amount":                       {nodes: two, needs: []domain.HPANeed{amount("c", 2, "cpu", `"2500m"`)}},
		"an amount that no node has":      {nodes: two, needs: []domain.HPANeed{amount("c", 1, "cpu", "4")}, want: placement.Fit{Why: "2 nodes, none with 4 free cpu (hpa intent i)"}},
		"room for some":                   {nodes: two, needs: []domain.HPANeed{amount("c", 3, "cpu", "2")}, want: placement.Fit{Why: "2 nodes, room for 2 of 3 pods with 2 free cpu (hpa intent i)"}},
		"megabytes of memory":             {nodes: two, needs: []domain.HPANeed{amount("c", 1, "memory", "4000")}},
		"more megabytes":                  {nodes: two, needs: []domain.HPANeed{amount("c", 1, "memory", "4001")}, want: placement.Fit{Why: "2 nodes, none with 4001000000 free memory (hpa intent i)"}},
		"an amount on nodes with a label": {nodes: two, needs: []domain.HPANeed{amount("c", 2, "cpu", "2"), labelled("c", "qat")}, want: placement.Fit{Why: "1 node with the label qat=true, room for 1 of 2 pods with 2 free cpu (hpa intent i)"}},
		"the greatest first":              {nodes: two, needs: []domain.HPANeed{amount("a", 3, "cpu", "1"), amount("z", 1, "cpu", "3")}},
		"more replicas than can be counted": {
			nodes: two, needs: []domain.HPANeed{amount("a", 1<<31-1, "cpu", `"1n"`), amount("b", 1<<31-1, "cpu", `"1e-300"`)},
		},
		"what is preferred": {
			nodes: two, needs: []domain.HPANeed{preferred(labelled("c", "qat"), 5), preferred(labelled("c", "gpu"), 7), preferred(amount("c", 1, "cpu", "1"), 2)},
			want: placement.Fit{Score: 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				require.Equal(t, c.want.Score, placement.FitNodes(c.nodes, c.needs, nil).Score)
				if len(c.needs) < 2 || c.want.Why == "" {
					require.Equal(t, c.want, placement.FitNodes(c.nodes, c.needs, nil))
				}
				rand.Shuffle(len(c.nodes), func(i, j int) { c.nodes[i], c.nodes[j] = c.nodes[j], c.nodes[i] })
			}
			require.Equal(t, c.want, placement.FitNodes(c.nodes, c.needs, nil))
		})
	}
}

// What does not fit is left out before one of several is taken; what is preferred counts among those that answer.
func TestPlaceByNodes(t *testing.T) {
	name := func(s string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: s} }
	fits := map[domain.ClusterName]placement.Fit{name("a"): {Why: "2 nodes, none with 4 free cpu (hpa intent i)"}, name("c"): {Score: 3}, name("d"): {Score: 3}}
	in := func(p domain.Placement) placement.Input {
		return placement.Input{
			App: "web", LogicalCloud: "lc", Intents: []domain.AppIntent{{Spec: domain.AppIntentSpec{App: "web", Intent: p}}},
			Labelled: func(string, string) []string { return []string{"d", "c", "b", "a"} }, Member: func(domain.ClusterName) bool { return true },
			Fit: func(c domain.ClusterName) placement.Fit { return fits[c] },
		}
	}
	passed := []string{"p+a: 2 nodes, none with 4 free cpu (hpa intent i)"}
	targets, err := placement.Place(in(domain.Placement{AnyOf: anyOf(label("p", "edge"))}))
	require.NoError(t, err)
	require.Equal(t, []plan.Target{{ClusterName: name("c"), Reason: "anyOf: most of what is preferred of 3 that fit of 4", Passed: passed}}, targets)

	gone := in(domain.Placement{AnyOf: anyOf(label("p", "edge"))})
	gone.Reachable = func(c domain.ClusterName) bool { return c == name("b") }
	targets, err = placement.Place(gone)
	require.NoError(t, err)
	require.Equal(t, []plan.Target{{ClusterName: name("b"), Reason: "anyOf: first of 3 that fit of 4", Passed: passed}}, targets)

	for _, p := range []domain.Placement{{AllOf: allOf(label("p", "edge"))}, {AnyOf: anyOf(cluster("p", "a"))}} {
		_, err = placement.Place(in(p))
		require.Equal(t, fail.Malformed, fail.KindOf(err))
		require.Contains(t, fail.TextOf(err), "app web: hpa placement: ")
		require.Contains(t, fail.TextOf(err), ": p+a: 2 nodes, none with 4 free cpu (hpa intent i)")
	}
}

// Nodes that take no pods of a consumer are none, and are said.
func TestNodesThatTakeNoPods(t *testing.T) {
	gpu := domain.Taint{Key: "gpu", Value: "true", Effect: "NoSchedule"}
	shut, down, tainted := node("a", "qat", map[string]int64{"cpu": 8}), node("b", "qat", map[string]int64{"cpu": 8}), node("c", "qat", map[string]int64{"cpu": 8})
	shut.Closed, down.Closed, tainted.Taints = "cordoned", "not ready", []domain.Taint{gpu}
	nodes := []placement.Node{shut, down, tainted, node("d", "", map[string]int64{"cpu": 2})}
	const without = ", not counting 3 nodes that take no pods of it (1 cordoned, 1 not ready, 1 with the taint gpu=true:NoSchedule) (hpa intent i)"
	require.Equal(t, placement.Fit{Why: "1 node, none with the label qat=true" + without}, placement.FitNodes(nodes, []domain.HPANeed{labelled("c", "qat")}, nil))
	require.Equal(t, placement.Fit{Why: "1 node, none with 4 free cpu" + without}, placement.FitNodes(nodes, []domain.HPANeed{amount("c", 1, "cpu", "4")}, nil))
	for _, c := range []struct {
		toleration domain.Toleration
		fits       bool
	}{
		{domain.Toleration{Operator: "Exists"}, true},
		{domain.Toleration{Key: "gpu", Operator: "Exists", Effect: "NoSchedule"}, true},
		{domain.Toleration{Key: "gpu", Value: "true"}, true},
		{domain.Toleration{Key: "gpu", Operator: "Equal", Value: "false"}, false},
		{domain.Toleration{Key: "gpu", Operator: "Exists", Effect: "NoExecute"}, false},
		{domain.Toleration{Key: "dpu", Operator: "Exists"}, false},
		{domain.Toleration{Key: "gpu", Operator: "Gt", Value: "0"}, false},
	} {
		need := amount("c", 1, "cpu", "4")
		need.Tolerations = []domain.Toleration{c.toleration}
		require.Equal(t, c.fits, placement.FitNodes(nodes, []domain.HPANeed{need}, nil).Why == "", c.toleration)
	}
}

// Apps of a plan share the room of nodes, in whatever order they are taken.
func TestRoom(t *testing.T) {
	of := func(intent string, need domain.HPANeed) []domain.HPANeed {
		need.Intent = intent
		return []domain.HPANeed{need}
	}
	c, d := domain.ClusterName{Provider: "p", Name: "c"}, domain.ClusterName{Provider: "p", Name: "d"}
	nodes := []placement.Node{node("a", "", map[string]int64{"cpu": 4}), node("b", "", map[string]int64{"cpu": 3})}
	room := placement.Room{
		Needs: map[string][]domain.HPANeed{
			"small": of("small", amount("w", 3, "cpu", "1")), "large": of("large", amount("w", 1, "cpu", "4")), "more": of("more", amount("w", 1, "cpu", "1")),
			"fond": of("fond", preferred(amount("w", 1, "cpu", "4"), 3)),
		},
		Nodes: map[domain.ClusterName]placement.Nodes{c: {Nodes: nodes}, d: {Unknown: "its nodes are not known: it is far"}},
	}
	require.Equal(t, placement.Fit{Score: 3}, room.Fit("fond", c))
	room.Take("small", c)
	room.Take("small", c)
	require.Equal(t, placement.Fit{}, room.Fit("small", c), "it is not beside itself")
	require.Equal(t, placement.Fit{}, room.Fit("large", c), "the greatest first, whoever came first")
	require.Equal(t, placement.Fit{}, room.Fit("more", c))
	room.Take("large", c)
	require.Equal(t, placement.Fit{Why: "beside app small and app large: 2 nodes, room for 0 of 1 pod with 1 free cpu (hpa intent more)"}, room.Fit("more", c))
	require.Equal(t, placement.Fit{}, room.Fit("fond", c), "what it prefers is not there any more")
	require.Equal(t, placement.Fit{}, room.Fit("none", c))
	require.Equal(t, placement.Fit{Why: "its nodes are not known: it is far (hpa intent more)", Unknown: true}, room.Fit("more", d))
}

// An app stays where it is as long as that fits, or as nobody knows; not where it does not answer and another one does.
func TestAppsStay(t *testing.T) {
	name := func(s string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: s} }
	for _, c := range []struct {
		held   placement.Fit
		gone   bool // of those that answer
		all    bool // it is mandatory
		want   string
		reason string
	}{
		{held: placement.Fit{}, want: "b", reason: "anyOf: it is there already, of 3"},
		{held: placement.Fit{Unknown: true, Why: "who knows"}, want: "b", reason: "anyOf: it is there already, of 3"},
		{held: placement.Fit{Why: "1 node"}, want: "c", reason: "anyOf: most of what is preferred of 2 that fit of 3"},
		{gone: true, want: "c", reason: "anyOf: most of what is preferred of 3"},
		{held: placement.Fit{Unknown: true, Why: "who knows"}, all: true, want: "b", reason: "allOf"},
	} {
		in := placement.Input{
			App: "web", Intents: []domain.AppIntent{{Spec: domain.AppIntentSpec{App: "web", Intent: domain.Placement{AnyOf: anyOf(label("p", "edge"))}}}},
			Labelled: func(string, string) []string { return []string{"a", "b", "c"} }, Member: func(domain.ClusterName) bool { return true },
			Reachable: func(n domain.ClusterName) bool { return !c.gone || n != name("b") },
			Resident:  func(n domain.ClusterName) bool { return n == name("b") },
			Fit: func(n domain.ClusterName) placement.Fit {
				return map[string]placement.Fit{"b": c.held, "c": {Score: 1}}[n.Name]
			},
		}
		if c.all {
			in.Intents[0].Spec.Intent = domain.Placement{AllOf: allOf(cluster("p", "b"))}
		}
		targets, err := placement.Place(in)
		require.NoError(t, err)
		require.Len(t, targets, 1)
		require.Equal(t, c.want, targets[0].Name)
		require.Equal(t, c.reason, targets[0].Reason)
	}
}

// TestAMandatoryClusterIsNoChoice: that an app is where it has to be takes no place of what is to be chosen beside that, as where it comes later.
func TestAMandatoryClusterIsNoChoice(t *testing.T) {
	both := anyOf(label("p", "edge"))
	in := placement.Input{
		App: "web", Intents: []domain.AppIntent{{Spec: domain.AppIntentSpec{App: "web", Intent: domain.Placement{AllOf: allOf(cluster("p", "b")), AnyOf: both}}}},
		Labelled: func(string, string) []string { return []string{"a", "b"} }, Member: func(domain.ClusterName) bool { return true },
		Resident: func(n domain.ClusterName) bool { return n == domain.ClusterName{Provider: "p", Name: "b"} },
	}
	targets, err := placement.Place(in)
	require.NoError(t, err)
	require.Len(t, targets, 2)
	require.Equal(t, []string{"a", "b"}, []string{targets[0].Name, targets[1].Name})
}

// What is preferred is told apart, and nothing else is.
func TestPrefers(t *testing.T) {
	need := func(key string, weight int64) domain.HPANeed { return preferred(labelled("c", key), weight) }
	is := placement.Prefers([]domain.HPANeed{labelled("c", "a"), need("b", 1)})
	require.Empty(t, placement.Prefers([]domain.HPANeed{labelled("c", "a")}))
	tolerant := need("b", 1)
	tolerant.Tolerations = []domain.Toleration{{Operator: "Exists"}}
	require.Equal(t, is, placement.Prefers([]domain.HPANeed{tolerant, amount("c", 1, "cpu", "1")}))
	require.NotEqual(t, is, placement.Prefers([]domain.HPANeed{need("b", 2)}))
	require.NotEqual(t, is, placement.Prefers([]domain.HPANeed{need("c", 1)}))
}

// What is preferred may be missing, and a consumer without replicas has one pod.
func TestRequested(t *testing.T) {
	one := amount("d", 1, "cpu", "1")
	one.Replicas = nil
	requested := placement.Requested([]domain.HPANeed{
		amount("c", 3, "cpu", "2"), amount("c", 3, "intel.com/qat", "1"), labelled("c", "qat"), one, preferred(amount("e", 4, "cpu", "8"), 1),
	})
	require.Len(t, requested, 2)
	require.Equal(t, "7", requested["cpu"].RatString())
	require.Equal(t, "3", requested["intel.com/qat"].RatString())
}
