package activities_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/store"
)

// meddled is a store in which something happens before a write of matches, or after it.
type meddled struct {
	*store.Store
	before, after func() error // nil: nothing
}

func (s *meddled) WriteMatches(ctx context.Context, tenant string, write, remove []domain.Match) error {
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	if err := s.Store.WriteMatches(ctx, tenant, write, remove); err != nil || s.after == nil {
		return err
	}
	return s.after()
}

// once is f the first time.
func once(f func()) func() error {
	var done bool
	return func() error {
		if !done {
			done = true
			f()
		}
		return nil
	}
}

// TestAWorkloadThatIsBackAtOnce goes and comes back, as another one, while somebody is about to make what it wanted before.
func TestAWorkloadThatIsBackAtOnce(t *testing.T) {
	m := newMatches(t)
	m.run("w1", map[string]string{"app": "first"})
	m.evaluate()
	m.match.Store = &meddled{Store: m.store, before: once(func() {
		m.end("w1")
		m.evaluate()
		require.Empty(t, m.records(), "nothing was sent")
		m.run("w1", map[string]string{"app": "second"})
		m.evaluate()
	})}
	m.mustSettle()
	require.Equal(t, "second", m.agrees(1).Annotations["app"])
	require.Zero(t, m.record().Due)
}

// TestARuleThatIsBackAtOnce has another template then, with another name: what the first one made goes before.
func TestARuleThatIsBackAtOnce(t *testing.T) {
	for name, seen := range map[string]bool{"and somebody saw that it was gone": true, "and nobody did": false} {
		t.Run(name, func(t *testing.T) {
			m := newMatches(t)
			m.run("w1", nil)
			m.evaluate()
			m.mustSettle()
			first := m.agrees(1)
			most := m.most()
			key := domain.KeyOf(m.rule)
			require.NoError(t, m.store.Delete(t.Context(), domain.WorkloadRules, key, 0))
			if seen {
				changes := match.Diff(nil, m.records(), m.now)
				m.changed()
				require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, changes.Write, changes.Remove))
			}
			again := &domain.WorkloadRule{Identity: domain.Identity{Parent: m.rule.Parent}, Metadata: domain.Metadata{Name: m.rule.Name}, Spec: m.rule.Spec}
			again.Spec.RuleTemplate = named("other", "nginx:2")
			require.NoError(t, m.store.Create(t.Context(), again))
			m.rule = again
			m.evaluate()
			m.mustSettle()
			second := m.agrees(1)
			require.NotEqual(t, first.Name, second.Name)
			require.Equal(t, "nginx:2", second.Spec.Containers[0].Image)
			require.LessOrEqual(t, most(), 1)
		})
	}
}

// named is a template of a Pod.
func named(name, image string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":%q}]}}`, name, image)
}

// most watches the tenant's namespace from now on. What it returns says how many Pods there were at a time at the most.
func (m *matches) most() func() int {
	m.Helper()
	all := m.client.Resource(pods).Namespace(m.tenant.Namespace())
	list, err := all.List(m.Context(), metav1.ListOptions{})
	require.NoError(m, err)
	w, err := all.Watch(m.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	require.NoError(m, err)
	there, most := len(list.Items), len(list.Items)
	marker := kubetest.Name("end")
	return func() int {
		m.Helper()
		defer w.Stop()
		end := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": marker},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}
		_, err := all.Create(m.Context(), &unstructured.Unstructured{Object: end}, metav1.CreateOptions{})
		require.NoError(m, err)
		defer func() { _ = all.Delete(m.Context(), marker, metav1.DeleteOptions{}) }()
		deadline := time.After(kubetest.Deadline)
		for {
			select {
			case e, open := <-w.ResultChan():
				require.True(m, open, "the watch ended")
				if name := e.Object.(metav1.Object).GetName(); name == marker {
					return most
				}
				switch e.Type {
				case watch.Added:
					there++
				case watch.Deleted:
					there--
				case watch.Modified, watch.Bookmark, watch.Error:
				}
				most = max(most, there)
			case <-deadline:
				require.Fail(m, "the watch says nothing")
			}
		}
	}
}

// hosted has the rule make Pods on the node's host, which has an infrastructure node.
func (m *matches) hosted(node string) {
	m.Helper()
	m.rule.Spec.DPUSelectionPolicy = domain.SameNode
	require.NoError(m, m.store.Replace(m.Context(), m.rule))
	m.hosts = []*domain.Host{m.host("host-a", node)}
}

func (m *matches) host(name string, nodes ...string) *domain.Host {
	m.Helper()
	h := &domain.Host{Identity: domain.Identity{Parent: domain.TenantKey(m.tenant.Name)}, Metadata: domain.Metadata{Name: name}, Spec: domain.HostSpec{Nodes: nodes}}
	require.NoError(m, m.store.Create(m.Context(), h))
	return h
}

// on tells that a workload is on a node.
func (m *matches) on(id, node string) {
	m.Helper()
	m.run(id, nil)
	m.workloads[id].NodeName = node
	_, err := m.store.WriteWorkloads(m.Context(), m.tenant.Name, &domain.WorkloadWrite{Put: []*domain.Workload{m.workloads[id]}})
	require.NoError(m, err)
}

// nodes are those to which a Pod is bound.
func nodesOf(t *testing.T, m *matches) []string {
	t.Helper()
	terms := m.agrees(1).Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	require.Len(t, terms, 1)
	require.Len(t, terms[0].MatchExpressions, 1)
	return terms[0].MatchExpressions[0].Values
}

// TestWhatMovesWhileWorkersDie: the host has another node, or the workload another host. What was made is deleted before the next
// is, wherever in that a worker dies, and what is wanted last is there in the end.
func TestWhatMovesWhileWorkersDie(t *testing.T) {
	dead := fail.New(fail.Unavailable, "the worker is dead")
	for name, move := range map[string]func(*matches, string){
		"a node": func(m *matches, node string) {
			m.hosts[0].Spec.Nodes = []string{node}
			require.NoError(m, m.store.Replace(m.Context(), m.hosts[0]))
		},
		"a host": func(m *matches, node string) {
			m.hosts = append(m.hosts, m.host("host-"+node, node))
			m.on("w1", "host-"+node)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMatches(t)
			m.hosted("dpu-0")
			m.on("w1", "host-a")
			m.evaluate()
			m.mustSettle()
			require.Equal(t, []string{"dpu-0"}, nodesOf(t, m))
			most := m.most()
			for writes := range 4 { // it dies at so many writes, and has or has not done the last one
				for _, done := range []bool{false, true} {
					// Nobody is there while it moves, and moves on.
					node := fmt.Sprintf("dpu-%d-%v", writes, done)
					move(m, node+"-before")
					m.evaluate()
					move(m, node)
					m.evaluate()
					left := writes
					die := func() error {
						if left--; left < 0 {
							return dead
						}
						return nil
					}
					s := &meddled{Store: m.store}
					if s.before = die; done {
						s.before, s.after = nil, die
					}
					m.match.Store = s
					_, _ = m.settle()
					m.match = &activities.Match{Work: m.match.Work, Store: m.store, Now: m.match.Now}
					out := m.mustSettle()
					for !out.Next.IsZero() { // a create may be on its way
						m.now = out.Next
						out = m.mustSettle()
					}
					require.Equal(t, []string{node}, nodesOf(t, m))
				}
			}
			require.Equal(t, 1, most())
		})
	}
}

// TestRulesAndWorkloadsThatFlap, as fast as the store takes it, while two workers settle what is due: there is never more than one
// object of a match, and in the end the one that is wanted.
func TestRulesAndWorkloadsThatFlap(t *testing.T) {
	m := newMatches(t)
	m.match.Now = time.Now
	m.run("w1", map[string]string{"app": "0"})
	m.evaluate()
	m.mustSettle()
	most := m.most()
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			own := &activities.Match{Work: m.match.Work, Store: m.store, Now: time.Now}
			for ctx.Err() == nil {
				settleOnce(ctx, own, m.tenant.Name)
			}
		})
	}
	changes := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		switch changes.IntN(4) {
		case 0:
			m.end("w1")
			m.evaluateAgainst()
		case 1:
			m.rule.Spec.RuleTemplate = named(fmt.Sprint("side-", i), "nginx:1")
			require.NoError(t, m.store.Replace(t.Context(), m.rule))
			m.evaluateAgainst()
		default:
		}
		m.run("w1", map[string]string{"app": fmt.Sprint(i)})
		m.evaluateAgainst()
	}
	stop()
	workers.Wait()
	require.Eventually(t, func() bool {
		settleOnce(t.Context(), m.match, m.tenant.Name)
		return !slices.ContainsFunc(m.records(), func(r domain.Match) bool { return !r.Due.IsZero() })
	}, kubetest.Deadline, kubetest.Tick)
	require.Equal(t, "59", m.agrees(1).Annotations["app"])
	require.LessOrEqual(t, most(), 1)
}

// settleOnce settles what is due, if nobody overtakes it.
func settleOnce(ctx context.Context, m *activities.Match, tenant string) {
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(m)
	due, err := m.DueMatches(ctx, activities.DueInput{Tenant: tenant, Limit: 100})
	if err != nil {
		return
	}
	in := activities.MatchesInput{Tenant: tenant}
	for _, d := range due.Matches {
		in.IDs = append(in.IDs, d.ID)
	}
	_, _ = env.ExecuteActivity(m.SettleMatches, in)
}

// evaluateAgainst is evaluate while others write.
func (m *matches) evaluateAgainst() {
	m.Helper()
	for {
		rules := match.CompileAll(m.tenant, []*domain.WorkloadRule{m.rule})
		var workloads []*domain.Workload
		for _, w := range m.workloads {
			workloads = append(workloads, w)
		}
		changes := match.Diff(wantedBy(m, m.tenant, m.hosts, rules, workloads), m.records(), time.Now())
		require.NoError(m, m.store.PutBehind(m.Context(), m.tenant.Name))
		m.changed()
		err := m.store.WriteMatches(m.Context(), m.tenant.Name, changes.Write, changes.Remove)
		if err == nil {
			return
		}
		require.True(m, fail.Is(err, fail.Conflict), "%v", err)
	}
}

// TestRulesOfTheSameName, the tenant's and the operator's, make an object each for a workload, and each goes with its rule.
func TestRulesOfTheSameName(t *testing.T) {
	m := newMatches(t)
	m.match.Settler = &settler{}
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	own := m.rule
	m.operators()
	theirs := func() (names []string) {
		t.Helper()
		list, err := m.client.Resource(pods).Namespace(domain.OperatorNamespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, o := range list.Items {
			if o.GetAnnotations()[match.AnnotationWorkload] == "w1" && o.GetDeletionTimestamp() == nil {
				names = append(names, o.GetName())
			}
		}
		return names
	}
	evaluate := func(rules ...*domain.WorkloadRule) {
		t.Helper()
		changes := match.Diff(wantedBy(m, m.tenant, nil, match.CompileAll(m.tenant, rules), []*domain.Workload{m.workloads["w1"]}), m.records(), m.now)
		m.changed()
		require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, changes.Write, changes.Remove))
		m.mustSettle()
	}
	evaluate(own, m.rule)
	require.Len(t, m.records(), 2)
	require.Len(t, m.pods(), 1)
	require.Len(t, theirs(), 1)
	require.NotEqual(t, m.pods()[0].Name, theirs()[0])
	require.NoError(t, m.store.Delete(t.Context(), domain.WorkloadRules, domain.KeyOf(own), 0))
	evaluate(m.rule)
	require.Len(t, m.records(), 1)
	require.Empty(t, m.pods())
	require.Len(t, theirs(), 1)
	require.NoError(t, m.store.Delete(t.Context(), domain.OperatorRules, domain.KeyOf(&domain.OperatorRule{WorkloadRule: *m.rule}), 0))
	evaluate()
	require.Empty(t, m.records())
	require.Empty(t, theirs())
}

// TestATenantThatGoesWhileItsClusterIsAway leaves its namespace, which goes when the cluster is back, and before another tenant of
// the name has something in it.
func TestATenantThatGoesWhileItsClusterIsAway(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	m.end("w1")
	m.evaluate()
	m.mustSettle()
	require.Empty(t, m.records())
	earlier, there := m.namespace(m.tenant.Namespace())
	require.True(t, there)
	good := m.kubeconfig
	m.register(elsewhere(t, good))
	require.NoError(t, m.store.Delete(t.Context(), domain.Tenants, domain.KeyOf(m.tenant), 0))
	m.changed()
	require.True(t, m.leaves())
	leave := func() error {
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		env.RegisterActivity(m.match)
		_, err := env.ExecuteActivity(m.match.LeaveHomes, activities.TenantInput{Tenant: m.tenant.Name})
		return err
	}
	require.Error(t, leave(), "it is tried again")
	require.True(t, m.leaves())

	m.tenant = &domain.Tenant{Metadata: domain.Metadata{Name: m.tenant.Name}, ContextID: "3333333333333333333", Spec: m.tenant.Spec}
	require.NoError(t, m.store.Create(t.Context(), m.tenant))
	m.run("w2", nil)
	m.evaluate()
	m.mustSettle()
	require.Nil(t, m.record().Made, "nothing is made beside what goes")
	m.register(good)
	m.now = m.now.Add(time.Minute)
	out := m.mustSettle()
	require.Nil(t, m.record().Made)
	require.Contains(t, m.record().Reason, "earlier tenant")
	m.leave()
	m.now = out.Next
	m.mustSettle()
	m.agrees(1)
	own, there := m.namespace(m.tenant.Namespace())
	require.True(t, there)
	require.NotEqual(t, earlier.GetUID(), own.GetUID())
}

// TestWhatATenantThatIsGoneHasLeftIsNotTriedWithoutAPause when its cluster does not answer.
func TestWhatATenantThatIsGoneHasLeftIsNotTriedWithoutAPause(t *testing.T) {
	m := newMatches(t)
	require.NoError(t, m.store.Delete(t.Context(), domain.Tenants, domain.KeyOf(m.tenant), 0))
	await := func() error {
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		env.RegisterActivity(m.match)
		_, err := env.ExecuteActivity(m.match.AwaitCluster, activities.TenantInput{Tenant: m.tenant.Name})
		return err
	}
	began := time.Now()
	for range 3 {
		require.NoError(t, await())
	}
	require.GreaterOrEqual(t, time.Since(began), 3*500*time.Millisecond, "none, then one of half a second, then a whole one")
}

// TestAWorkloadWithALongName has a short one where it is told which match is due: that is in a history.
func TestAWorkloadWithALongName(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.workloads["w1"].ResourceName = strings.Repeat("n", 400_000)
	_, err := m.store.WriteWorkloads(t.Context(), m.tenant.Name, &domain.WorkloadWrite{Put: []*domain.Workload{m.workloads["w1"]}})
	require.NoError(t, err)
	m.evaluate()
	due, err := m.match.DueMatches(t.Context(), activities.DueInput{Tenant: m.tenant.Name, Limit: 10})
	require.NoError(t, err)
	require.Len(t, due.Matches, 1)
	require.Less(t, len(due.Matches[0].Of), 400)
}

// TestTextsOfAnyKind come into annotations as they were said.
func TestTextsOfAnyKind(t *testing.T) {
	m := newMatches(t)
	text := "a\nb\t\"'<script>&\u2028\u202e\U0001F600\x00\u00e9"
	m.run("w1/"+text, map[string]string{"app": text})
	m.evaluate()
	m.mustSettle()
	pod := m.agrees(1)
	require.Equal(t, text, pod.Annotations["app"])
	require.Equal(t, "w1/"+text, pod.Annotations[match.AnnotationWorkload])
	m.end("w1/" + text)
	m.evaluate()
	m.mustSettle()
	m.agrees(0)
}
