package activities_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/store"
)

var states = schema.GroupVersionResource{Group: "k8splugin.io", Version: "v1alpha1", Resource: "resourcebundlestates"}

// leave removes what nobody needs, as often as that needs to be tried.
func (m *matches) leave() {
	m.Helper()
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(m.match)
	require.Eventually(m, func() bool {
		_, err := env.ExecuteActivity(m.match.LeaveHomes, activities.TenantInput{Tenant: m.tenant.Name})
		return err == nil
	}, kubetest.Deadline, kubetest.Tick)
}

// leaves says whether somebody is to do so.
func (m *matches) leaves() bool {
	m.Helper()
	due, err := m.match.DueMatches(m.Context(), activities.DueInput{Tenant: m.tenant.Name, Limit: 1})
	require.NoError(m, err)
	return due.Leaves
}

func (m *matches) homes() (ids []string) {
	m.Helper()
	all, err := m.store.Homes(m.Context(), m.tenant.Name)
	require.NoError(m, err)
	for _, h := range all {
		ids = append(ids, h.ID())
	}
	return ids
}

func (m *matches) namespace(name string) (*unstructured.Unstructured, bool) {
	m.Helper()
	o, err := m.client.Resource(allNamespaces).Get(m.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false
	}
	require.NoError(m, err)
	return o, true
}

// byAgent is how all clusters report.
type byAgent struct{}

func (byAgent) Report(domain.ClusterName) domain.Report { return domain.ReportAgent }

// TestMatchesAreReportedByAgents: each rule has a ResourceBundleState as long as it has matches.
func TestMatchesAreReportedByAgents(t *testing.T) {
	m := newMatchesThatReport(t, byAgent{})
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	m.agrees(1)
	require.NotEmpty(t, m.homes(), "whether or not the cluster has the definition")

	kubetest.Define(t, m.client, crd.ResourceBundleStates().Manifest)
	t.Cleanup(func() { kubetest.Undefine(t, m.client, states) })
	m = newMatchesThatReport(t, byAgent{})
	m.match.Settler = &settler{}
	reports := m.reports
	for range 2 { // the second time it is made again
		m.run("w1", nil)
		m.run("w2", nil)
		m.evaluate()
		m.mustSettle()
		require.Equal(t, []string{plan.DeploymentID(m.tenant.ContextID, "side")}, reports())
		require.False(t, m.leaves())
		all := m.client.Resource(states).Namespace(m.tenant.Namespace())
		require.NoError(t, all.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})) // by hand
		heard, err := m.match.Reported(t.Context(), &domain.Observation{ObservedApp: m.report().ObservedApp})
		require.NoError(t, err)
		require.True(t, heard)
		m.mustSettle()
		require.Len(t, reports(), 1, "it is made again")
		m.end("w1")
		m.evaluate()
		m.mustSettle()
		require.False(t, m.leaves(), "there is another match")
		m.end("w2")
		m.evaluate()
		m.mustSettle()
		require.True(t, m.leaves())
		m.leave()
		require.Empty(t, reports())
		require.False(t, m.leaves())
	}
}

// reports are the labels of the ResourceBundleStates in the tenant's namespace.
func (m *matches) reports() (labels []string) {
	m.Helper()
	list, err := m.client.Resource(states).Namespace(m.tenant.Namespace()).List(m.Context(), metav1.ListOptions{})
	require.NoError(m, err)
	for _, o := range list.Items {
		labels = append(labels, o.GetLabels()[plan.DeploymentLabel])
	}
	return labels
}

// TestAReportThatAnotherWorkerHasRemoved is made again by the one that has made it: the rule has matches again.
func TestAReportThatAnotherWorkerHasRemoved(t *testing.T) {
	m := newMatchesThatReport(t, byAgent{})
	kubetest.Define(t, m.client, crd.ResourceBundleStates().Manifest)
	t.Cleanup(func() { kubetest.Undefine(t, m.client, states) })
	one, another := m.match, m.worker(byAgent{})
	settle := func() {
		t.Helper()
		m.evaluate()
		for range 2 { // what is in the way at first is tried again
			m.mustSettle()
			m.now = m.now.Add(time.Hour)
		}
	}
	for _, noted := range []bool{false, false, true} { // by somebody who has died before the report was made
		m.match = one
		m.run("w1", nil)
		if noted {
			home := domain.ReportHome(m.tenant, domain.KeyOf(m.rule), m.tenant.Namespace())
			home.Began = m.now
			require.NoError(t, m.store.PutHome(t.Context(), home))
		}
		settle()
		require.Equal(t, domain.MarkApplied, m.record().Mark)
		require.Len(t, m.reports(), 1)
		m.end("w1")
		settle()
		m.match = another
		m.leave()
		require.Empty(t, m.reports())
	}
}

// operators makes the tenant's rule the operator's.
func (m *matches) operators() {
	m.Helper()
	rule := &domain.OperatorRule{WorkloadRule: *m.rule}
	rule.Parent = ""
	require.NoError(m, m.store.Create(m.Context(), rule))
	m.rule = domain.RuleOf(rule)
}

// TestTheOperatorsNamespaceGoesWithItsLastMatch, if it was made for that, and is not removed under somebody who needs it again.
func TestTheOperatorsNamespaceGoesWithItsLastMatch(t *testing.T) {
	m := newMatches(t)
	m.match.Settler = &settler{}
	m.operators()
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	o, there := m.namespace(domain.OperatorNamespace)
	require.True(t, there)
	require.Equal(t, domain.OperatorContext, o.GetLabels()[match.LabelTenant])
	require.Equal(t, domain.MarkApplied, m.record().Mark)
	require.False(t, m.leaves())
	require.NoError(t, m.store.Delete(t.Context(), domain.OperatorRules, domain.KeyOf(&domain.OperatorRule{WorkloadRule: *m.rule}), 0))
	require.False(t, m.leaves(), "there is a match")
	m.end("w1")
	m.evaluate()
	m.mustSettle()
	require.True(t, m.leaves())
	behind, err := m.match.SettleBehind(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, behind, "whoever has deleted the rule may have died, or be another tenant")

	// Somebody has said that it is to be removed. A match is not made there now.
	home := domain.OperatorHome(m.tenant)
	home.Leaving = true
	require.NoError(t, m.store.PutHome(t.Context(), home))
	m.operators()
	m.run("w2", nil)
	m.evaluate()
	out := m.mustSettle()
	require.True(t, out.Next.After(m.now))
	require.Contains(t, m.record().Reason, "is being removed")
	require.Nil(t, m.record().Made)
	require.True(t, m.leaves(), "who has said it may have died")
	m.leave() // it is needed
	_, there = m.namespace(domain.OperatorNamespace)
	require.True(t, there)
	m.now = out.Next
	m.mustSettle()
	require.Equal(t, domain.MarkApplied, m.record().Mark)

	m.end("w2")
	m.evaluate()
	m.mustSettle()
	require.NoError(t, m.store.Delete(t.Context(), domain.OperatorRules, domain.KeyOf(&domain.OperatorRule{WorkloadRule: *m.rule}), 0))
	require.True(t, m.leaves())
	awaitGone := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			o, there := m.namespace(domain.OperatorNamespace)
			return !there || o.GetDeletionTimestamp() != nil
		}, kubetest.Deadline, kubetest.Tick)
	}
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(m.match)
	_, _ = env.ExecuteActivity(m.match.LeaveHomes, activities.TenantInput{Tenant: m.tenant.Name})
	awaitGone()
}

// TestATenantWhoseClusterDoesNotComeBack is deleted all the same: what it has there is to go when the cluster answers, and is let be when
// the cluster is not registered any more.
func TestATenantWhoseClusterDoesNotComeBack(t *testing.T) {
	m := newMatches(t)
	m.match.Settler = &settler{}
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	m.agrees(1)
	require.NoError(t, m.store.Delete(t.Context(), domain.Tenants, domain.KeyOf(m.tenant), 0))
	require.NoError(t, m.store.ForgetTenant(t.Context(), m.tenant.Name))
	changes := match.Diff(nil, m.records(), m.now)
	m.changed()
	require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, changes.Write, changes.Remove))
	dead, alive := elsewhere(t, m.kubeconfig), m.kubeconfig
	m.register(dead)
	require.True(t, m.mustSettle().Away)
	require.NotNil(t, m.record().Made, "it goes when the cluster is back")
	require.NotEmpty(t, m.homes())

	m.register(nil)
	require.False(t, m.mustSettle().Away)
	require.Empty(t, m.records())
	m.leave()
	require.Empty(t, m.homes())
	m.register(alive)
	require.Len(t, m.pods(), 1, "nobody has deleted it")
}

// TestWhatATenantHasByTheOperatorsRulesGoesWithIt: its home is left beside what is deleted, and its objects lie in another namespace. They are
// known by their label, whoever else had the name.
func TestWhatATenantHasByTheOperatorsRulesGoesWithIt(t *testing.T) {
	for name, earlier := range map[string]string{"alone": "", "after another tenant of the name": "9999999999999999999"} {
		t.Run(name, func(t *testing.T) {
			m := newMatches(t)
			m.match.Settler = &settler{}
			m.operators()
			m.run("w1", nil)
			m.evaluate()
			require.Eventually(t, func() bool { // another test may just have left the namespace
				m.now = m.now.Add(policy.LongestAgain)
				m.mustSettle()
				return m.record().Mark == domain.MarkApplied
			}, kubetest.Deadline, kubetest.Tick)
			made := m.record().Made
			there := func() bool {
				_, err := m.client.Resource(pods).Namespace(made.Namespace).Get(t.Context(), made.Name, metav1.GetOptions{})
				require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
				return err == nil
			}
			require.True(t, there())
			if earlier != "" {
				of := *m.tenant
				of.ContextID = earlier
				require.NoError(t, m.store.PutHome(t.Context(), domain.HomeOf(&of)))
			}
			require.NoError(t, m.store.Delete(t.Context(), domain.Tenants, domain.KeyOf(m.tenant), 0))
			require.NoError(t, m.store.ForgetTenant(t.Context(), m.tenant.Name))
			changes := match.Diff(nil, m.records(), m.now)
			m.changed()
			require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, changes.Write, changes.Remove))
			if earlier == "" {
				m.leave()
				home := domain.HomeOf(m.tenant)
				require.Contains(t, m.homes(), home.ID(), "it says that there is something in the cluster")
			}
			m.mustSettle()
			require.Empty(t, m.records())
			require.Eventually(t, func() bool { return !there() }, kubetest.Deadline, kubetest.Tick)
			m.leave()
			require.NotContains(t, m.homes(), m.tenant.ContextID)
		})
	}
}

// TestAFrozenAttemptDeletesNoHome: another one has the work by now, and the home may be in use again.
func TestAFrozenAttemptDeletesNoHome(t *testing.T) {
	for name, registered := range map[string]bool{"in a cluster": true, "in none": false} {
		t.Run(name, func(t *testing.T) {
			m := newMatches(t)
			home := domain.HomeOf(m.tenant)
			require.NoError(t, m.store.PutHome(t.Context(), home))
			require.NoError(t, m.store.Delete(t.Context(), domain.Tenants, domain.KeyOf(m.tenant), 0))
			if !registered {
				m.register(nil)
			}
			var now atomic.Int64
			attempt := func(freeze func()) error {
				x := lease.New(func() lease.Instant { return lease.Instant{Boot: time.Duration(now.Load())} }, lease.Instant{}, time.Hour)
				defer x.Close()
				m.match.Shards = &freezing{freeze: freeze}
				env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
				env.SetWorkerOptions(worker.Options{BackgroundActivityContext: lease.With(t.Context(), x)})
				env.RegisterActivity(m.match)
				_, err := env.ExecuteActivity(m.match.LeaveHomes, activities.TenantInput{Tenant: m.tenant.Name})
				return err
			}
			require.ErrorContains(t, attempt(func() { now.Store(int64(time.Hour)) }), lease.ErrLost.Error())
			require.Equal(t, []string{home.ID()}, m.homes())
			now.Store(0)
			require.NoError(t, attempt(func() {}))
			require.Empty(t, m.homes())
		})
	}
}

// freezing is called when clusters are watched no longer for a tenant, before its namespace goes.
type freezing struct {
	activities.Shards
	freeze func()
}

func (f *freezing) Watch(context.Context, int, activities.Watching) error {
	f.freeze()
	return nil
}

// TestANamespaceOfAnEarlierTenantIsNotUsed: it is about to go, with all that is in it.
func TestANamespaceOfAnEarlierTenantIsNotUsed(t *testing.T) {
	m := newMatches(t)
	earlier := domain.HomeOf(m.tenant)
	earlier.ContextID = "1111111111111111111"
	require.NoError(t, m.store.PutHome(t.Context(), earlier))
	m.run("w1", nil)
	m.evaluate()
	out := m.mustSettle()
	require.True(t, out.Next.After(m.now))
	require.Contains(t, m.record().Reason, "earlier tenant")
	require.Empty(t, m.pods())
	require.True(t, m.leaves())
	m.leave()
	m.now = out.Next
	m.mustSettle()
	m.agrees(1)
}

// TestWhatAnEarlierTenantHadGoesThoughThisOneHasMatches by the operator's rules: those lie in another namespace. They kept the earlier tenant's, for the end of
// which matches of the tenant's own rules wait: these waited for ever.
func TestWhatAnEarlierTenantHadGoesThoughThisOneHasMatches(t *testing.T) {
	m := newMatches(t)
	earlier := domain.HomeOf(m.tenant)
	earlier.ContextID = "1111111111111111111"
	require.NoError(t, m.store.PutHome(t.Context(), earlier))
	own := m.rule
	m.operators()
	m.run("w1", nil)
	m.evaluate()
	applied := func(of domain.Key) bool {
		for _, r := range m.records() {
			if r.Rule == of {
				return r.Mark == domain.MarkApplied
			}
		}
		return false
	}
	settles := func(of domain.Key) {
		t.Helper()
		require.Eventually(t, func() bool { // another test may just have left the operator's namespace
			m.now = m.now.Add(policy.LongestAgain)
			m.mustSettle()
			return applied(of)
		}, kubetest.Deadline, kubetest.Tick)
	}
	operators := domain.KeyOf(&domain.OperatorRule{WorkloadRule: *m.rule})
	settles(operators)
	rules := match.CompileAll(m.tenant, []*domain.WorkloadRule{own, m.rule})
	changes := match.Diff(wantedBy(m, m.tenant, nil, rules, []*domain.Workload{m.workloads["w1"]}), m.records(), m.now)
	require.NoError(t, m.store.PutBehind(t.Context(), m.tenant.Name))
	m.changed()
	require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, changes.Write, changes.Remove))
	m.mustSettle()
	require.False(t, applied(domain.KeyOf(own)))
	require.True(t, applied(operators))
	require.True(t, m.leaves(), "somebody has to end what is waited for")
	m.leave()
	require.NotContains(t, m.homes(), earlier.ID())
	home := domain.HomeOf(m.tenant)
	require.Contains(t, m.homes(), home.ID())
	settles(domain.KeyOf(own))
	require.True(t, applied(operators))

	m.end("w1")
	m.evaluate()
	m.mustSettle()
}

// told are the words that shards got.
type told struct {
	activities.Shards
	said []activities.Watching
}

func (s *told) Watch(_ context.Context, _ int, w activities.Watching) error {
	s.said = append(s.said, w)
	return nil
}

// TestClustersOfTenantsAreWatched, again when somebody has ended that by hand.
func TestClustersOfTenantsAreWatched(t *testing.T) {
	m := newMatches(t)
	shards := &told{}
	m.match.Shards, m.match.Settler = shards, &settler{}
	m.now = m.now.Truncate(time.Millisecond).Add(123456 * time.Nanosecond) // of which the store keeps whole milliseconds
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	require.Len(t, shards.said, 1)
	first := shards.said[0]
	require.Equal(t, []domain.ClusterName{m.tenant.ClusterName()}, first.Clusters)
	m.mustSettle()
	require.Len(t, shards.said, 1)
	behind := func() {
		t.Helper()
		_, err := m.match.SettleBehind(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, m.store.Pulse(t.Context(), "watcher", m.now))
	require.NoError(t, m.store.PutWatch(t.Context(), "watcher", &domain.Watch{Cluster: m.tenant.ClusterName(), Reason: "it does not answer"}))
	behind()
	require.Len(t, shards.said, 1, "it is watched, if not heard")
	m.now = m.now.Add(domain.PulseLife + time.Second)
	behind()
	require.Len(t, shards.said, 2)
	require.Equal(t, first.ContextID, shards.said[1].ContextID)
	require.Equal(t, first.Clusters, shards.said[1].Clusters)

	m.end("w1") // and the tenant moves to another cluster of the shard
	m.evaluate()
	m.mustSettle()
	old := m.tenant.ClusterName()
	for i := 0; m.tenant.ClusterName() == old || !activities.SameShard(old, m.tenant.ClusterName()); i++ {
		m.tenant.Spec.Cluster = "p+c" + string(rune('a'+i))
	}
	require.NoError(t, m.store.Replace(t.Context(), m.tenant))
	m.run("w2", nil)
	m.evaluate()
	m.mustSettle()
	m.leave()
	last := shards.said[len(shards.said)-1]
	require.True(t, last.Only)
	require.Equal(t, []domain.ClusterName{m.tenant.ClusterName()}, last.Clusters, "it stays watched")
	require.Zero(t, first.Began.Nanosecond()%int(time.Millisecond), "the record says the same")
	require.False(t, first.Began.Add(123456*time.Nanosecond).After(last.Began), "what a release before has said is taken back, too")
	require.True(t, first.Began.Add(time.Millisecond).After(last.Began), "what was said later counts")
}

// TestATenantThatIsGone: the process that deleted it has died before it noticed that there was a match.
func TestATenantThatIsGone(t *testing.T) {
	m := newMatches(t)
	m.run("w1", nil)
	m.evaluate()
	m.mustSettle()
	m.agrees(1)
	require.NoError(t, m.store.Delete(t.Context(), domain.Tenants, domain.KeyOf(m.tenant), 0))
	m.changed()
	due := m.record()
	due.Due = m.now
	require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, []domain.Match{due}, nil))
	m.mustSettle()
	m.agrees(0)
	require.Empty(t, m.records())
}

// countedStore counts what is asked beside matches and workloads.
type countedStore struct {
	*store.Store
	asked *[]string
}

func (s countedStore) Get(ctx context.Context, n *domain.Noun, key domain.Key) (domain.Object, error) {
	*s.asked = append(*s.asked, n.Kind)
	return s.Store.Get(ctx, n, key)
}

func (s countedStore) Children(ctx context.Context, n *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	*s.asked = append(*s.asked, n.Kind)
	return s.Store.Children(ctx, n, parent)
}

func (s countedStore) Homes(ctx context.Context, tenant string) ([]domain.Home, error) {
	*s.asked = append(*s.asked, "homes")
	return s.Store.Homes(ctx, tenant)
}

// TestTenantsOfAllHomesAreReadAtOnce: a fleet has many, and who looks for what is behind would ask for one after the other.
func TestTenantsOfAllHomesAreReadAtOnce(t *testing.T) {
	m := newMatches(t)
	m.match.Settler = &settler{}
	asked := []string{}
	m.match.Store = countedStore{m.store, &asked}
	of := *m.tenant
	for _, name := range []string{m.tenant.Name, "gone-a", "gone-b"} {
		of.Name, of.ContextID = name, m.tenant.ContextID+name
		if name == m.tenant.Name {
			of.ContextID = m.tenant.ContextID
		}
		require.NoError(t, m.store.PutHome(t.Context(), domain.HomeOf(&of)))
	}
	behind, err := m.match.SettleBehind(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, behind)
	require.NotContains(t, asked, domain.Tenants.Kind)
}

// damagedStore has a tenant that cannot be read.
type damagedStore struct {
	*store.Store
	name string
}

func (s damagedStore) List(ctx context.Context, n *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	all, err := s.Store.List(ctx, n, parent)
	if n != domain.Tenants {
		return all, err
	}
	all = slices.DeleteFunc(all, func(o domain.Object) bool { return o.LocalName() == s.name })
	return all, domain.And(err, &domain.Unreadable{IDs: []string{string(domain.TenantKey(s.name))}, Cause: domain.ErrUnreadable})
}

// TestATenantThatCannotBeReadIsNoOthersAffair: what other tenants have left is settled, and of that one nobody says that it has left anything.
func TestATenantThatCannotBeReadIsNoOthersAffair(t *testing.T) {
	m := newMatches(t)
	m.match.Settler = &settler{}
	of := *m.tenant
	for _, name := range []string{m.tenant.Name, "gone"} {
		of.Name, of.ContextID = name, m.tenant.ContextID+name
		require.NoError(t, m.store.PutHome(t.Context(), domain.HomeOf(&of)))
	}
	m.match.Store = damagedStore{m.store, m.tenant.Name}
	behind, err := m.match.SettleBehind(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, behind)
}

// TestWhatIsKnownIsNotReadAgain: the tenant, its hosts and rules as long as nobody changes them, and what it has in clusters.
func TestWhatIsKnownIsNotReadAgain(t *testing.T) {
	m := newMatches(t)
	m.evaluate() // what is written below is due without a change of the settings
	asked := []string{}
	m.match.Store = countedStore{m.store, &asked}
	made := func(id string) {
		t.Helper()
		m.run(id, nil)
		changes := match.Diff(wantedBy(m, m.tenant, nil, match.CompileAll(m.tenant, []*domain.WorkloadRule{m.rule}),
			[]*domain.Workload{m.workloads[id]}), nil, m.now)
		require.NoError(t, m.store.WriteMatches(t.Context(), m.tenant.Name, changes.Write, nil))
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		env.RegisterActivity(m.match)
		due, err := m.match.DueMatches(t.Context(), activities.DueInput{Tenant: m.tenant.Name, Limit: 10, AtOnce: 1})
		require.NoError(t, err)
		require.Len(t, due.Matches, 1)
		_, err = env.ExecuteActivity(m.match.SettleMatches, activities.MatchesInput{Tenant: m.tenant.Name, IDs: []string{due.Matches[0].ID}})
		require.NoError(t, err)
		var own domain.Match
		for _, r := range m.records() {
			if r.Workload == id {
				own = r
			}
		}
		require.Equal(t, domain.MarkApplied, own.Mark, own.Reason)
	}
	made("w1")
	require.NotEmpty(t, asked)
	asked = asked[:0]
	made("w2")
	require.Empty(t, asked)
	m.changed()
	made("w3")
	require.ElementsMatch(t, []string{domain.Tenants.Kind, domain.Hosts.Kind, domain.WorkloadRules.Kind}, asked)
	asked = asked[:0]
	named := domain.HomeOf(m.tenant)
	home, err := m.store.Home(t.Context(), named.ID())
	require.NoError(t, err)
	require.NoError(t, m.store.DeleteHome(t.Context(), home))
	m.run("w4", nil)
	m.evaluate()
	m.mustSettle()
	require.NotContains(t, m.homes(), home.ID())
	m.now = m.now.Add(2 * time.Second)
	m.mustSettle()
	require.Contains(t, m.homes(), home.ID(), "it is noticed, and noted again")
	m.agrees(4)
}

var _ activities.MatchStore = (*store.Store)(nil)
