package placement

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/quantity"
)

// Node is a node of a cluster, and what is left on it.
type Node struct {
	Name   string
	Labels map[string]string
	Free   map[string]*big.Rat // by resource: what is allocatable less what its pods request
	Closed string              // why it takes no pods, such as "cordoned"; "" when it does
	Taints []domain.Taint      // that keep pods away which do not tolerate them
}

// Nodes are those of a cluster, or why they are not known.
type Nodes struct {
	Nodes   []Node
	Unknown string
}

// Fit is whether a cluster has what an app needs.
type Fit struct {
	Why     string // why not, "" when it has
	Unknown bool   // nobody knows: its nodes could not be asked for
	Score   int64  // what it has of what is not mandatory, by weight
}

// Room is what the nodes of clusters have for the apps of a plan, all of which share it.
type Room struct {
	Needs  map[string][]domain.HPANeed // by app
	Nodes  map[domain.ClusterName]Nodes
	taken  map[domain.ClusterName][]string       // the apps that go there
	judged map[domain.ClusterName]map[string]Fit // by app, beside those
}

// Take says that an app goes to a cluster: there is less room for others.
func (r *Room) Take(app string, c domain.ClusterName) {
	if len(r.Needs[app]) == 0 || slices.Contains(r.taken[c], app) {
		return
	}
	if r.taken == nil {
		r.taken = map[domain.ClusterName][]string{}
	}
	r.taken[c] = append(r.taken[c], app)
	delete(r.judged, c)
}

// Fit says whether a cluster has what an app needs beside the other apps that go there.
func (r *Room) Fit(app string, c domain.ClusterName) Fit {
	f, known := r.judged[c][app]
	if !known {
		f = r.fit(app, c)
		if r.judged == nil {
			r.judged = map[domain.ClusterName]map[string]Fit{}
		}
		if r.judged[c] == nil {
			r.judged[c] = map[string]Fit{}
		}
		r.judged[c][app] = f
	}
	return f
}

func (r *Room) fit(app string, c domain.ClusterName) Fit {
	needs, nodes := r.Needs[app], r.Nodes[c]
	if len(needs) == 0 {
		return Fit{}
	}
	if nodes.Unknown != "" {
		return Fit{Why: fmt.Sprintf("%s (hpa intent %s)", nodes.Unknown, needs[0].Intent), Unknown: true}
	}
	var beside [][]domain.HPANeed
	var others []string
	for _, other := range r.taken[c] {
		if other != app {
			beside = append(beside, r.Needs[other])
			others = append(others, "app "+other)
		}
	}
	f := FitNodes(nodes.Nodes, needs, nil)
	if f.Why != "" || len(others) == 0 {
		return f
	}
	if f = FitNodes(nodes.Nodes, needs, beside); f.Why != "" {
		f.Why = fmt.Sprintf("beside %s: %s", strings.Join(others, " and "), f.Why)
	}
	return f
}

// Prefers is a word for what needs prefer among clusters, "" for nothing: of equal words, the same clusters are the better ones.
func Prefers(needs []domain.HPANeed) string {
	needs = slices.DeleteFunc(slices.Clone(needs), func(n domain.HPANeed) bool { return n.Required() })
	if len(needs) == 0 {
		return ""
	}
	h := sha256.New()
	for i := range needs {
		n := needs[i]
		n.Tolerations = nil
		_ = json.NewEncoder(h).Encode(n) // what was JSON
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// workload is one with its needs: those of all consumers that name it, as its pods are the same.
type workload struct {
	kind, name  string
	intents     []string // whose consumers they are
	pods        int64
	labels      []domain.HPANeed
	amounts     []domain.HPANeed
	requests    map[string]*big.Rat // what one pod requests, by resource
	tolerations []domain.Toleration
}

// FitNodes says whether nodes have what an app needs (hpa intents), by EMCO's rules: for each workload there is a node with all
// labels, and room for its pods on such nodes. Here clusters are looked at one by one, workloads need not fit the same node, and
// all of them fit side by side, with those of other apps that go to the cluster as well; consumers of one workload speak of the same
// pods. Pods are put on nodes in the order of what they request, the greatest first, each on the first node that has room. Nodes that
// take no pods, or have taints that a workload does not tolerate, are no nodes for it. Beside are the needs of the other apps, each by
// itself.
func FitNodes(nodes []Node, needs []domain.HPANeed, beside [][]domain.HPANeed) Fit {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	var others []workload
	for _, of := range beside {
		others = append(others, workloads(of, (*domain.HPANeed).Required)...)
	}
	with := func(counts func(*domain.HPANeed) bool) string {
		return place(nodes, slices.Concat(others, workloads(needs, counts)))
	}
	if why := with((*domain.HPANeed).Required); why != "" {
		return Fit{Why: why}
	}
	var f Fit
	for i := range needs {
		if n := &needs[i]; !n.Required() {
			// With all that is required, and of what is preferred this alone.
			if with(func(m *domain.HPANeed) bool { return m.Required() || m == n }) == "" {
				f.Score += n.Counts()
			}
		}
	}
	return f
}

// workloads are those of an app that need something that counts. How many pods one has, any of its consumers may say.
func workloads(needs []domain.HPANeed, counts func(*domain.HPANeed) bool) (found []workload) {
	find := func(n *domain.HPANeed) int {
		return slices.IndexFunc(found, func(w workload) bool { return w.kind == n.Workload() && w.name == n.Name })
	}
	for i := range needs {
		n := &needs[i]
		if !counts(n) {
			continue
		}
		at := find(n)
		if at < 0 {
			at = len(found)
			found = append(found, workload{kind: n.Workload(), name: n.Name, pods: 1, tolerations: n.Tolerations})
		}
		w := &found[at]
		if !slices.Contains(w.intents, n.Intent) {
			w.intents = append(w.intents, n.Intent)
		}
		if n.IsLabel() {
			w.labels = append(w.labels, *n)
		} else {
			w.amounts = append(w.amounts, *n)
		}
	}
	for i := range needs {
		if at := find(&needs[i]); at >= 0 && needs[i].Replicas != nil {
			found[at].pods = max(found[at].pods, *needs[i].Replicas)
		}
	}
	for i := range found {
		found[i].sum()
	}
	return found
}

// sum adds up what the containers of one pod request. Of several amounts of a container the greatest counts: where they are not the
// same the intent is refused later.
func (w *workload) sum() {
	type part struct{ container, resource string }
	parts := map[part]*big.Rat{}
	w.requests = map[string]*big.Rat{}
	for i := range w.amounts {
		r := &w.amounts[i].HPAResourceSpec.Resource
		worth, err := quantity.Parse(r.Requests.Quantity(r.Name))
		if err != nil {
			continue
		}
		of := part{w.amounts[i].Container, r.Name}
		was := parts[of]
		if was == nil {
			was = new(big.Rat)
		}
		if worth.Cmp(was) > 0 {
			parts[of] = worth
			w.requests[r.Name] = new(big.Rat).Add(amountOf(w.requests, r.Name), new(big.Rat).Sub(worth, was))
		}
	}
}

// Requested is what the pods of all workloads of an app request together, of what is required, by resource.
func Requested(needs []domain.HPANeed) map[string]*big.Rat {
	all := map[string]*big.Rat{}
	for _, w := range workloads(needs, (*domain.HPANeed).Required) {
		for resource, of := range w.requests {
			all[resource] = new(big.Rat).Add(amountOf(all, resource), new(big.Rat).Mul(of, new(big.Rat).SetInt64(w.pods)))
		}
	}
	return all
}

// place puts the pods of all workloads on nodes; it says why that cannot be done.
func place(nodes []Node, all []workload) (why string) {
	slices.SortStableFunc(all, func(a, b workload) int {
		for _, resource := range slices.Sorted(maps.Keys(both(a.requests, b.requests))) {
			if order := amountOf(b.requests, resource).Cmp(amountOf(a.requests, resource)); order != 0 {
				return order
			}
		}
		return 0
	})
	free := make([]map[string]*big.Rat, len(nodes))
	for i := range nodes {
		free[i] = maps.Clone(nodes[i].Free)
	}
	for i := range all {
		w := &all[i]
		var candidates []int
		open, without := w.open(nodes)
		for _, n := range open {
			if w.selects(&nodes[n]) {
				candidates = append(candidates, n)
			}
		}
		if len(candidates) == 0 && len(w.labels) > 0 {
			return fmt.Sprintf("%s, none with %s%s (%s)", count(int64(len(open)), "node"), w.selected(), without, w.by())
		}
		if len(w.amounts) == 0 {
			continue
		}
		placed := int64(0)
		for _, n := range candidates {
			most := w.room(free[n], w.pods-placed)
			w.take(free[n], most)
			placed += most
		}
		if placed == w.pods {
			continue
		}
		none := func(n int) bool { return w.room(nodes[n].Free, 1) == 0 }
		said := fmt.Sprintf("room for %d of %s with %s", placed, count(w.pods, "pod"), w.amount())
		if !slices.ContainsFunc(candidates, func(n int) bool { return !none(n) }) {
			said = "none with " + w.amount()
		}
		with := ""
		if len(w.labels) > 0 {
			with = " with " + w.selected()
		}
		return fmt.Sprintf("%s%s, %s%s (%s)", count(int64(len(candidates)), "node"), with, said, without, w.by())
	}
	return ""
}

// open are the nodes that take the workload's pods; without says which others there are, "" for none.
func (w *workload) open(nodes []Node) (open []int, without string) {
	why, n := map[string]int64{}, int64(0)
	for i := range nodes {
		closed := nodes[i].Closed
		for _, taint := range nodes[i].Taints {
			tolerates := func(t domain.Toleration) bool { return t.Tolerates(taint) }
			if closed == "" && !slices.ContainsFunc(w.tolerations, tolerates) {
				closed = "with the taint " + taint.String()
			}
		}
		if closed == "" {
			open = append(open, i)
			continue
		}
		why[closed]++
		n++
	}
	if n == 0 {
		return open, ""
	}
	var all []string
	for _, closed := range slices.Sorted(maps.Keys(why)) {
		all = append(all, fmt.Sprintf("%d %s", why[closed], closed))
	}
	return open, fmt.Sprintf(", not counting %s that %s (%s)", count(n, "node"), takes(n, "no pods of it"), strings.Join(few(all), ", "))
}

func takes(n int64, what string) string {
	if n == 1 {
		return "takes " + what
	}
	return "take " + what
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
func (w *workload) selects(n *Node) bool {
	for i := range w.labels {
		r := &w.labels[i].HPAResourceSpec.Resource
		if value, found := n.Labels[r.Key]; !found || r.Value == nil || value != *r.Value {
			return false
		}
	}
	return true
}

// room is how many pods a node has room for, up to most.
func (w *workload) room(free map[string]*big.Rat, most int64) int64 {
	for resource, of := range w.requests {
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

func (w *workload) take(free map[string]*big.Rat, pods int64) {
	for resource, of := range w.requests {
		free[resource] = new(big.Rat).Sub(amountOf(free, resource), new(big.Rat).Mul(of, new(big.Rat).SetInt64(pods)))
	}
}

// by names the intents.
func (w *workload) by() string {
	if len(w.intents) == 1 {
		return "hpa intent " + w.intents[0]
	}
	return "hpa intents " + strings.Join(w.intents, " and ")
}

// selected are the labels, and amount the requests of a pod, as users read them.
func (w *workload) selected() string {
	var labels []string
	for i := range w.labels {
		if label := "the label " + w.labels[i].Label(); !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	return strings.Join(labels, " and ")
}

func (w *workload) amount() string {
	var resources []string
	parts := map[string][]string{} // by resource, of its containers
	known := map[[3]string]bool{}  // container, resource and amount
	for i := range w.amounts {
		r := &w.amounts[i].HPAResourceSpec.Resource
		requests := r.Requests.Quantity(r.Name)
		if is := [3]string{w.amounts[i].Container, r.Name, requests}; !known[is] {
			known[is] = true
			if parts[r.Name] == nil {
				resources = append(resources, r.Name)
			}
			parts[r.Name] = append(parts[r.Name], requests)
		}
	}
	for i, resource := range resources {
		resources[i] = strings.Join(parts[resource], " + ") + " free " + resource
	}
	return strings.Join(resources, " and ")
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
