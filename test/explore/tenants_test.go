package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/universe"
	"github.com/drover-io/drover/test/fleet"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// tenant is that of a sequence which has steps of one. A rule of its makes a Pod in the fourth cluster for each workload that runs, or for each
// that runs on one of its hosts; a rule of the operator makes another one. Its agent is as the real one: what it has not surely said it says again.
type tenant struct {
	key        domain.Key
	address    string // of the API with which its agent speaks
	connection *grpc.ClientConn

	// Guarded by the lane.
	said
	abandoned bool // it is to be gone, with what it has in the cluster
	ended     bool // it was abandoned once
	unsure    bool // of what was said last, the API may know something else
	inFlight  int
}

// said is what was said of a tenant last.
type said struct {
	running   int               // so many workloads run in the tenant's own cluster
	image     string            // of the rule, "" for no rule
	same      bool              // the rule is for workloads on hosts, and their Pods are on the host's nodes
	operators string            // the image of the operator's rule, "" for no rule
	hosts     [nodesEach]string // the infrastructure node of the host of that node, "" for no host
}

// tenantMoves are what is drawn for a tenant. A word of clusterWords is done to its cluster, in which nothing else is.
var (
	tenantMoves = []string{
		"run", "run", "run run", "run await", "rule", "rule run", "rule await", "norule", "norule rule", "norule await rule", "run end", "rule end", "end",
		"hang run", "hang run rule heal", "cut run run", "fail rule run", "limit run", "slow norule rule", "refuse run heal", "heal",
		"revoke run rotate", "revoke rule run", "rotate",
		"hang abandon heal", "abandon create rule run", "abandon await create run rule", "hang run abandon remove rotate create", "abandon remove", "remove",
		"create rule run",
		"same", "same host run", "host same run", "host host same await nohost", "same host await host", "same await host await rule", "nohost host run",
		"host run hang host heal", "host abandon create same host run",
		"operators", "operators run", "operators await nooperators", "operators rule await operators", "nooperators operators", "operators hang run heal",
		"operators abandon create run", "operators end", "norule operators run",
	}
	clusterWords = []string{"hang", "cut", "fail", "limit", "slow", "refuse", "heal", "revoke", "rotate", "remove"}
)

// tenantOf are the steps of a move.
func tenantOf(t *rapid.T) (q sequence) {
	for _, do := range strings.Fields(rapid.SampledFrom(tenantMoves).Draw(t, "move of the tenant")) {
		switch {
		case slices.Contains(clusterWords, do):
			q = append(q, step{fmt.Sprint("cluster", clustersEach+1), do, ""})
		case do == "run":
			q = append(q, step{"tenant", do, with(fmt.Sprintf("n=%d", rapid.IntRange(0, mostWorkloads).Draw(t, "n")), how(t))})
		case do == "host" || do == "nohost":
			q = append(q, step{"tenant", do, with(fmt.Sprintf("n=%d", rapid.IntRange(0, nodesEach-1).Draw(t, "node")), how(t))})
		case do == "await" || do == "end":
			q = append(q, step{"tenant", do, ""})
		default:
			q = append(q, step{"tenant", do, how(t)})
		}
	}
	return q
}

// Of the workloads of a tenant every second one is on the second node of its cluster.
const (
	mostWorkloads = 5
	nodesEach     = 2
)

func nodeOf(workload int) string { return fmt.Sprint("node-", workload%nodesEach) }

func (t *tenant) space() string { return "tenant-" + t.key.Name() }

// document is the tenant as it is described.
func (t *tenant) document(l *lane) *domain.Tenant {
	return &domain.Tenant{
		Metadata: domain.Metadata{Name: t.key.Name()}, Spec: domain.TenantSpec{Cluster: l.w.spare[l.place].String(), Nodes: domain.NodesAll},
	}
}

// describe makes the tenant, and its agent's connection.
func (t *tenant) describe(ctx context.Context, l *lane) error {
	if _, err := l.api.Create(ctx, t.document(l), nil); err != nil {
		return err
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	t.connection = l.w.stack.TenantConnectionAt(t.address, t.key.Name())
	return nil
}

// operatorsRule is that of the operator for the workloads of the tenant. In a namespace of its own its Pods are told apart by their names.
func (t *tenant) operatorsRule(image string) *domain.WorkloadRule {
	rule := t.rule(image, false)
	rule.Parent, rule.Name = "", t.key.Name()
	term := &rule.Spec.WorkloadTerms[0]
	term.MatchExpressions = append(term.MatchExpressions, domain.MatchExpression{
		Key: "metadata.tenantId", Operation: domain.OperationIn, Values: []string{t.key.Name()},
	})
	rule.Spec.RuleTemplate = []byte(strings.Replace(string(rule.Spec.RuleTemplate), `"name":"side"`, fmt.Sprintf(`"name":%q`, rule.Name), 1))
	return rule
}

// host is that of one of the nodes, with a node of the infrastructure cluster.
func (t *tenant) host(n int, node string) *domain.Host {
	return &domain.Host{
		Identity: domain.Identity{Parent: t.key}, Metadata: domain.Metadata{Name: nodeOf(n)}, Spec: domain.HostSpec{Nodes: []string{node}},
	}
}

// rule is that of all workloads, or of those on hosts, with an image.
func (t *tenant) rule(image string, same bool) *domain.WorkloadRule {
	policy := domain.AnyNode
	if same {
		policy = domain.SameNode
	}
	return &domain.WorkloadRule{
		Identity: domain.Identity{Parent: t.key}, Metadata: domain.Metadata{Name: "side"},
		Spec: domain.WorkloadRuleSpec{
			OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: policy,
			WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{{
				Key: "metadata.resourceNamespace", Operation: domain.OperationIn, Values: []string{"default"},
			}}}},
			WorkloadInfoInject: []domain.WorkloadInfoInject{{
				Key: "metadata.resourceName", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "name"},
			}},
			RuleTemplate: []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"side"},
				"spec":{"automountServiceAccountToken":false,"containers":[{"name":"c","image":%q}]}}`, image)),
		},
	}
}

// sync is a stream that says of n workloads that they run, and no others.
func (t *tenant) sync(ctx context.Context, n int) error {
	all := &universe.WorkloadSync{}
	for i := range n {
		all.WorkloadUpdates = append(all.WorkloadUpdates, &universe.WorkloadUpdate{
			WorkloadMetadata: &universe.WorkloadMetadata{
				Id: fmt.Sprint("w", i), Orchestrator: universe.OrchestratorType_ORCHESTRATOR_TYPE_KUBERNETES, ResourceType: domain.KindPod,
				ResourceNamespace: "default", ResourceName: fmt.Sprint("pod-", i),
			},
			WorkloadState: &universe.WorkloadState{NodeName: nodeOf(i)},
		})
	}
	stream, err := universe.NewWorkloadServiceClient(t.connection).WorkloadStream(harness.ForTenant(ctx, t.key.Name()), grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	_ = stream.Send(&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: all}}) // its end says what is wrong
	_, err = stream.CloseAndRecv()
	return err
}

// without deletes an object; that it is gone is as good.
func (t *tenant) without(ctx context.Context, l *lane, o domain.Object) error {
	if err := l.api.Delete(ctx, domain.KeyOf(o)); err != nil && !fail.Is(err, fail.NotFound) {
		return err
	}
	return nil
}

// empty deletes what is below the tenant.
func (t *tenant) empty(ctx context.Context, l *lane) error {
	err := t.without(ctx, l, t.rule("", false))
	for n := range nodesEach {
		err = errors.Join(err, t.without(ctx, l, t.host(n, "")))
	}
	return err
}

// say has the API know what is so: the tenant's rule, the operator's one, the hosts, and then the workloads.
func (t *tenant) say(ctx context.Context, l *lane, what said) (err error) {
	put := func(is bool, o domain.Object) {
		switch {
		case err != nil:
		case is:
			_, err = l.api.Put(ctx, o, nil)
		default:
			err = t.without(ctx, l, o)
		}
	}
	put(what.image != "", t.rule(what.image, what.same))
	put(what.operators != "", t.operatorsRule(what.operators))
	for n, node := range what.hosts {
		put(node != "", t.host(n, node))
	}
	if err != nil {
		return err
	}
	return t.sync(ctx, what.running)
}

// abandon deletes the tenant, as for a cluster that does not come back.
func (t *tenant) abandon(ctx context.Context, l *lane) error {
	if err := t.empty(ctx, l); err != nil {
		return err
	}
	left, err := l.api.Abandon(ctx, t.key)
	if fail.Is(err, fail.NotFound) {
		return nil
	}
	if len(left) > 0 {
		l.note("the tenant leaves: %s", strings.Join(left, "; "))
	}
	return err
}

// askTenant does what is asked for in one of the ways.
func (l *lane) askTenant(ctx context.Context, s step) {
	t := l.tenant
	switch s.Do {
	case "await":
		ctx, cancel := context.WithTimeout(ctx, awaitTime)
		defer cancel()
		l.note("%s: %v", s, harness.LookSeldom(ctx, func() bool { return t.busy(ctx, l) == "" }) == nil)
		return
	case "end":
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		l.note("%s: %v", s, l.w.temporal.TerminateWorkflow(ctx, workflows.TenantID(t.key.Name()), "", "by hand"))
		return
	}
	switch {
	case s.word("twice"):
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { l.sendTenant(ctx, s) })
		}
		both.Wait()
	case s.word("beside"):
		l.flying.Go(func() { l.sendTenant(ctx, s) })
		<-time.After(5 * time.Millisecond)
	case s.duration("lost") > 0:
		ctx, cancel := context.WithTimeout(ctx, s.duration("lost"))
		defer cancel()
		l.sendTenant(ctx, s)
	default:
		l.sendTenant(ctx, s)
	}
}

// sendTenant asks once, and notes what is so from then on.
func (l *lane) sendTenant(ctx context.Context, s step) {
	t := l.tenant
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	l.mu.Lock()
	l.said++
	image, node := fmt.Sprint("nginx:", l.said), fmt.Sprint("dpu-", l.said)
	alone := t.inFlight == 0
	t.inFlight++
	switch s.Do {
	case "run":
		t.running = s.number("n")
	case "rule", "same":
		t.image, t.same = image, s.Do == "same"
	case "norule":
		t.image = ""
	case "operators":
		t.operators = image
	case "nooperators":
		t.operators = ""
	case "host":
		t.hosts[s.number("n")] = node
	case "nohost":
		t.hosts[s.number("n")] = ""
	case "abandon":
		t.over()
	}
	l.mu.Unlock()
	var err error
	switch s.Do {
	case "run":
		err = t.sync(ctx, s.number("n"))
	case "rule", "same":
		_, err = l.api.Put(ctx, t.rule(image, s.Do == "same"), nil)
	case "norule":
		err = t.without(ctx, l, t.rule("", false))
	case "operators":
		_, err = l.api.Put(ctx, t.operatorsRule(image), nil)
	case "nooperators":
		err = t.without(ctx, l, t.operatorsRule(""))
	case "host":
		_, err = l.api.Put(ctx, t.host(s.number("n"), node), nil)
	case "nohost":
		err = t.without(ctx, l, t.host(s.number("n"), ""))
	case "abandon":
		err = t.abandon(ctx, l)
	case "create":
		_, err = l.api.Create(ctx, t.document(l), nil)
	}
	l.note("%s: %v", s, err)
	code := codeOf(err)
	if code == 500 || code == 501 || s.Do == "run" && grpcstatus.Code(err) == codes.Internal {
		l.wrong("%s is answered so: %v", s, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.inFlight--
	if s.Do == "create" && err == nil {
		t.abandoned, t.unsure = false, true // it has heard of no workloads yet
	}
	t.unsure = t.unsure || err != nil || !alone || t.inFlight > 0
}

// over notes that it is abandoned, with all that is below it.
func (t *tenant) over() {
	t.image, t.hosts, t.abandoned, t.ended = "", [nodesEach]string{}, true, true
}

// sayAgain has the API know what is so, where it may not.
func (t *tenant) sayAgain(ctx context.Context, l *lane) {
	var err error
	again := func() bool {
		l.mu.Lock()
		what, abandoned, ended, unsure := t.said, t.abandoned, t.ended, t.unsure
		l.mu.Unlock()
		if !unsure {
			return true
		}
		_, err = l.api.Get(ctx, domain.Tenants, t.key)
		switch {
		case fail.Is(err, fail.NotFound): // nothing is wanted for it then; a create may have been refused
			if abandoned, err = true, nil; !ended {
				l.wrong("the tenant was never abandoned, and is not there")
			}
		case err != nil:
			return false
		case abandoned:
			err = t.abandon(ctx, l)
		}
		if abandoned {
			l.mu.Lock()
			t.over()
			l.mu.Unlock()
			return err == nil
		}
		err = t.say(ctx, l, what)
		return err == nil
	}
	if harness.LookSeldom(ctx, again) != nil {
		l.wrong("the tenant's agent cannot say what is so: %v", err)
	}
}

// busy says what goes on with the tenant's matches, "" for nothing.
func (t *tenant) busy(ctx context.Context, l *lane) string {
	got, err := l.api.TenantStatus(ctx, t.key)
	switch {
	case fail.Is(err, fail.NotFound):
		held, err := t.held(ctx, l)
		if err != nil {
			return err.Error()
		}
		if len(held) > 0 && !l.givenUp() {
			return fmt.Sprintf("the tenant is gone, and %d of its objects are there", len(held))
		}
		return ""
	case err != nil:
		return err.Error()
	case got.Due > 0 && got.Due != t.taken(ctx, l):
		return fmt.Sprintf("%d matches of the tenant are due: %v", got.Due, got.Matches)
	}
	return ""
}

// taken is how many matches find something of their name that was given up: a tenant of the name that was before has left it there, and nobody
// deletes it.
func (t *tenant) taken(ctx context.Context, l *lane) (n int) {
	if !l.givenUp() {
		return 0
	}
	for m, err := range l.api.Matches(ctx, t.key, url.Values{}) {
		if err == nil && m.State == domain.ResourceFailed && strings.HasPrefix(m.Reason, match.NameConflict) {
			n++
		}
	}
	return n
}

// explain says of each match that is due why, for people.
func (t *tenant) explain(ctx context.Context, l *lane) (text string) {
	for m, err := range l.api.Matches(ctx, t.key, url.Values{}) {
		if err != nil {
			return text + "\n" + err.Error()
		}
		if m.DueSince != nil {
			text += fmt.Sprintf("\nworkload %s, %s on %s, wanted %v, due since %s: %d attempts, the next one %v: %s",
				m.Workload, m.State, m.Cluster, m.Wanted, m.DueSince.Format(time.TimeOnly), m.Attempts, m.Next, m.Reason)
		}
	}
	return text
}

// held is what is made of the tenant's Pods in the cluster, by the names of their workloads: the image, and the node if there is one. A second
// Pod of a workload has its own name. Those of the operator's rule have its namespace before their name.
func (t *tenant) held(ctx context.Context, l *lane) (made map[string]string, err error) {
	list, err := l.w.fleet.Held(ctx, l.w.spare[l.place].Name, "")
	if err != nil {
		return nil, err
	}
	made = map[string]string{}
	for _, o := range list {
		if !t.has(o) || o.Kind != "Pod" {
			continue
		}
		name := workloadOf(o)
		if o.Namespace == domain.OperatorNamespace {
			name = operatorsPod(name)
		}
		if _, twice := made[name]; twice {
			name = o.Name
		}
		made[name] = imageOf(o)
	}
	return made, nil
}

// has says whether an object of the cluster is the tenant's.
func (t *tenant) has(o fleet.Held) bool {
	return o.Namespace == t.space() || o.Kind == "Namespace" && o.Name == t.space() ||
		o.Namespace == domain.OperatorNamespace && strings.HasPrefix(o.Name, t.key.Name()+"-")
}

func operatorsPod(name string) string { return domain.OperatorNamespace + "/" + name }

// homeless is how many matches wait for a host of their workload.
func (t *tenant) homeless() (n int) {
	for i := range t.running {
		if t.image != "" && t.same && t.hosts[i%nodesEach] == "" {
			n++
		}
	}
	return n
}

// wanted is what held is to be.
func (t *tenant) wanted() map[string]string {
	want := map[string]string{}
	for i := range t.running {
		name, node := fmt.Sprint("pod-", i), t.hosts[i%nodesEach]
		switch {
		case t.image != "" && !t.same:
			want[name] = t.image
		case t.image != "" && node != "":
			want[name] = t.image + " on " + node
		}
		if t.operators != "" {
			want[operatorsPod(name)] = t.operators
		}
	}
	return want
}

// pod is of a Pod what rules say.
type pod struct {
	Metadata struct{ Annotations map[string]string }
	Spec     corev1.PodSpec
}

func podOf(o fleet.Held) (p pod) {
	_ = json.Unmarshal(o.Object, &p)
	return p
}

func imageOf(o fleet.Held) string {
	p := podOf(o)
	if len(p.Spec.Containers) != 1 {
		return ""
	}
	image := p.Spec.Containers[0].Image
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				image += " on " + strings.Join(e.Values, ",")
			}
		}
	}
	return image
}

// workloadOf is the name of the workload for which a Pod is.
func workloadOf(o fleet.Held) string {
	if name := podOf(o).Metadata.Annotations["name"]; name != "" {
		return name
	}
	return o.Name
}

// givenUp says whether somebody has deleted the registration of the tenant's cluster with all that is there.
func (l *lane) givenUp() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.ground.givenUp
}

// judgeTenant says whether the cluster has for the tenant what is wanted.
func (l *lane) judgeTenant(ctx context.Context, what string) {
	t := l.tenant
	if t == nil {
		return
	}
	got, err := l.api.TenantStatus(ctx, t.key)
	held, heldErr := t.held(ctx, l)
	want := map[string]string{}
	switch {
	case heldErr != nil:
		l.wrong("%s: the tenant's cluster: %v", what, heldErr)
		return
	case fail.Is(err, fail.NotFound) && t.abandoned:
		l.note("%s: the tenant is gone, and %v are there", what, held)
	case err != nil:
		l.wrong("%s: the status of the tenant: %v", what, err)
		return
	case t.abandoned:
		l.wrong("%s: the tenant was abandoned, and is there", what)
		return
	default:
		l.note("%s: the tenant has %d workloads, matches %v, and %v are there", what, got.Workloads, got.Matches, held)
		want = t.wanted()
		if got.Workloads != t.running {
			l.wrong("%s: %d workloads run, and %d are known", what, t.running, got.Workloads)
		}
		wanted, taken := map[domain.ResourceState]int{}, t.taken(ctx, l)
		for state, n := range map[domain.ResourceState]int{
			domain.ResourceApplied: len(want) - taken, domain.ResourceFailed: taken, domain.ResourcePending: t.homeless(),
		} {
			if n > 0 {
				wanted[state] = n
			}
		}
		if !maps.Equal(got.Matches, wanted) {
			l.wrong("%s: matches are wanted so: %v, and there are %v", what, wanted, got.Matches)
		}
	}
	if !l.givenUp() && !maps.Equal(held, want) {
		l.wrong("%s: the tenant's cluster has %v, and %v is wanted", what, held, want)
	}
}

// unregister deletes the registration of a cluster with what it may have of tenants. A cloud names those of the groups, which stay.
func (l *lane) unregister(ctx context.Context, s step, k domain.ClusterName) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	spare := k == l.w.spare[l.place]
	l.mu.Lock()
	named := l.tenant != nil && !l.tenant.ended // a tenant that was never abandoned is there
	l.mu.Unlock()
	left, err := l.api.RemoveCluster(ctx, k.Key(), true)
	l.note("%s: %v %s", s, err, strings.Join(left, "; "))
	code := codeOf(err)
	if code == 500 || code == 501 {
		l.wrong("%s is answered %d: %v", s, code, err)
	}
	if err == nil && (!spare || named) {
		l.wrong("%s is accepted, and something refers to it", s)
	}
	if err == nil || code/100 != 4 {
		l.w.mu.Lock()
		l.ground.givenUp, l.w.creds[k.Name].gone = true, true
		l.w.mu.Unlock()
	}
}

// endTenant brings the tenant to nothing.
func (l *lane) endTenant(ctx context.Context) {
	t := l.tenant
	if t == nil {
		return
	}
	k, api := l.w.spare[l.place], l.api
	comes := func(what string, is func(ctx context.Context) (bool, string)) bool {
		wait, cancel := context.WithTimeout(ctx, quietTime)
		defer cancel()
		said := ""
		err := harness.LookSeldom(wait, func() (ok bool) {
			ok, said = is(wait)
			return ok
		})
		if err != nil {
			l.wrong("%s: waits for ever: %s", what, said)
		}
		return err == nil
	}
	if l.givenUp() && !comes("the tenant's cluster is registered again", func(ctx context.Context) (bool, string) {
		err := l.w.renew(ctx, api, k, "")
		return err == nil, fmt.Sprint(err)
	}) {
		return
	}
	if err := t.without(ctx, l, t.operatorsRule("")); err != nil {
		l.wrong("the operator's rule cannot be deleted: %v", err)
		return
	}
	if !t.abandoned {
		if err := t.empty(ctx, l); err != nil {
			l.wrong("what is below the tenant cannot be deleted: %v", err)
			return
		}
		if !comes("the matches of the tenant go", func(ctx context.Context) (bool, string) {
			got, err := api.TenantStatus(ctx, t.key)
			return err == nil && len(got.Matches) == 0, fmt.Sprintf("%+v %v", got, err)
		}) {
			return
		}
		if err := api.Delete(ctx, t.key); err != nil {
			l.wrong("the tenant has no matches and cannot be deleted: %v", err)
			return
		}
	}
	if !l.givenUp() {
		comes("nothing of the tenant is left", func(ctx context.Context) (bool, string) {
			list, err := l.w.fleet.Held(ctx, k.Name, "")
			list = slices.DeleteFunc(list, func(o fleet.Held) bool { return !t.has(o) })
			return err == nil && len(list) == 0, fmt.Sprintf("%d objects, %v", len(list), err)
		})
	}
	if t.ended && comes("another tenant of the name", func(ctx context.Context) (bool, string) {
		_, err := api.Create(ctx, t.document(l), nil)
		return err == nil, fmt.Sprint(err)
	}) {
		if err := api.Delete(ctx, t.key); err != nil {
			l.wrong("the other tenant of the name cannot be deleted: %v", err)
		}
	}
}
