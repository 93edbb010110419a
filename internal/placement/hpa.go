package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/quantity"
)

// Node is a node of a cluster that takes pods, and what is left on it.
type Node struct {
	Name   string
	Labels map[string]string
	Free   map[string]*big.Rat // by resource: what is allocatable less what its pods request
}

// Fit is whether a cluster has what an app needs.
type Fit struct {
	Why   string // why not, "" when it has
	Score int64  // what it has of what is not mandatory, by weight
}

// consumer is a workload with its needs.
type consumer struct {
	intent, name string
	pods         int64
	labels       []domain.HPANeed
	amounts      []domain.HPANeed
}

// FitNodes says whether nodes have what an app needs (hpa intents), by EMCO's rules: for each consumer there is a node with all
// labels, and room for its pods on such nodes. Here clusters are looked at one by one, consumers need not fit the same node, and
// all of them fit side by side. Pods are put on nodes in the order of what they request, the greatest first, each on the first node
// that has room.
func FitNodes(nodes []Node, needs []domain.HPANeed) Fit {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	required := consumers(needs, (*domain.HPANeed).Required)
	if why := place(nodes, required); why != "" {
		return Fit{Why: why}
	}
	var f Fit
	for i := range needs {
		if n := &needs[i]; !n.Required() {
			// With all that is required, and of what is preferred this alone.
			wish := func(m *domain.HPANeed) bool { return m.Required() || m == n }
			if place(nodes, consumers(needs, wish)) == "" {
				f.Score += n.Counts()
			}
		}
	}
	return f
}

// consumers are those who need something that counts.
func consumers(needs []domain.HPANeed, counts func(*domain.HPANeed) bool) (found []consumer) {
	for i := range needs {
		n := &needs[i]
		if !counts(n) {
			continue
		}
		at := slices.IndexFunc(found, func(c consumer) bool { return c.intent == n.Intent && c.name == n.Consumer })
		if at < 0 {
			at = len(found)
			found = append(found, consumer{intent: n.Intent, name: n.Consumer, pods: 1})
			if n.Replicas != nil {
				found[at].pods = *n.Replicas
			}
		}
		if n.IsLabel() {
			found[at].labels = append(found[at].labels, *n)
		} else {
			found[at].amounts = append(found[at].amounts, *n)
		}
	}
	return found
}

// place puts the pods of all consumers on nodes; it says why that cannot be done.
func place(nodes []Node, consumers []consumer) (why string) {
	slices.SortStableFunc(consumers, func(a, b consumer) int {
		for _, resource := range slices.Sorted(maps.Keys(both(a.requests(), b.requests()))) {
			if order := amountOf(b.requests(), resource).Cmp(amountOf(a.requests(), resource)); order != 0 {
				return order
			}
		}
		return 0
	})
	free := make([]map[string]*big.Rat, len(nodes))
	for i := range nodes {
		free[i] = maps.Clone(nodes[i].Free)
	}
	for i := range consumers {
		c := &consumers[i]
		var candidates []int
		for n := range nodes {
			if c.selects(&nodes[n]) {
				candidates = append(candidates, n)
			}
		}
		if len(candidates) == 0 && len(c.labels) > 0 {
			return fmt.Sprintf("%s, none with %s (hpa intent %s)", count(int64(len(nodes)), "node"), c.selected(), c.intent)
		}
		if len(c.amounts) == 0 {
			continue
		}
		placed := int64(0)
		for _, n := range candidates {
			most := c.room(free[n], c.pods-placed)
			c.take(free[n], most)
			placed += most
		}
		if placed == c.pods {
			continue
		}
		none := func(n int) bool { return c.room(nodes[n].Free, 1) == 0 }
		said := fmt.Sprintf("room for %d of %s with %s", placed, count(c.pods, "pod"), c.amount())
		if !slices.ContainsFunc(candidates, func(n int) bool { return !none(n) }) {
			said = "none with " + c.amount()
		}
		with := ""
		if len(c.labels) > 0 {
			with = " with " + c.selected()
		}
		return fmt.Sprintf("%s%s, %s (hpa intent %s)", count(int64(len(candidates)), "node"), with, said, c.intent)
	}
	return ""
}

// requests are what one pod requests, by resource.
func (c *consumer) requests() map[string]*big.Rat {
	all := map[string]*big.Rat{}
	for i := range c.amounts {
		r := &c.amounts[i].HPAResourceSpec.Resource
		if worth, err := quantity.Parse(r.Requests.Quantity(r.Name)); err == nil && worth.Cmp(amountOf(all, r.Name)) > 0 {
			all[r.Name] = worth
		}
	}
	return all
}

func both(a, b map[string]*big.Rat) map[string]*big.Rat {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func amountOf(of map[string]*big.Rat, resource string) *big.Rat {
	if worth := of[resource]; worth != nil {
		return worth
	}
	return new(big.Rat)
}

// selects says whether a node has all labels.
func (c *consumer) selects(n *Node) bool {
	for i := range c.labels {
		r := &c.labels[i].HPAResourceSpec.Resource
		if value, found := n.Labels[r.Key]; !found || r.Value == nil || value != *r.Value {
			return false
		}
	}
	return true
}

// room is how many pods a node has room for, up to most.
func (c *consumer) room(free map[string]*big.Rat, most int64) int64 {
	for resource, of := range c.requests() {
		each := new(big.Rat).Quo(amountOf(free, resource), of)
		whole := new(big.Int).Quo(each.Num(), each.Denom())
		if whole.Sign() < 0 {
			return 0
		}
		if whole.IsInt64() {
			most = min(most, whole.Int64())
		}
	}
	return most
}

func (c *consumer) take(free map[string]*big.Rat, pods int64) {
	for resource, of := range c.requests() {
		free[resource] = new(big.Rat).Sub(amountOf(free, resource), new(big.Rat).Mul(of, new(big.Rat).SetInt64(pods)))
	}
}

// selected are the labels, and amount the requests of a pod, as users read them.
func (c *consumer) selected() string {
	var labels []string
	for i := range c.labels {
		labels = append(labels, "the label "+c.labels[i].Label())
	}
	return strings.Join(labels, " and ")
}

func (c *consumer) amount() string {
	var amounts []string
	for i := range c.amounts {
		r := &c.amounts[i].HPAResourceSpec.Resource
		amounts = append(amounts, r.Requests.Quantity(r.Name)+" free "+r.Name)
	}
	return strings.Join(amounts, " and ")
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
