package service_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// told is a Matching that has some matches, and notes what it is told.
type told struct {
	store   *store.Store // that of the service
	writes  *meddler     // by which the service writes to it
	mu      sync.Mutex
	matches []domain.Match
	left    []domain.TenantLeft
	heard   []string
}

func (m *told) hear(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard = append(m.heard, text)
}

func (m *told) Changing(_ context.Context, tenant string) error {
	m.hear("changing " + tenant)
	return nil
}

func (m *told) Changed(_ context.Context, tenant string, rule domain.Key) {
	m.hear(fmt.Sprintf("changed %s %s", tenant, rule))
}
func (m *told) Unchanged(_ context.Context, tenant string) { m.hear("unchanged " + tenant) }
func (m *told) Fresh(_ context.Context, tenant string) error {
	m.hear("fresh " + tenant)
	return nil
}
func (m *told) Forget(context.Context, string) error                    { return nil }
func (m *told) Matches(context.Context, string) ([]domain.Match, error) { return m.matches, nil }
func (m *told) LeftIn(context.Context, domain.ClusterName) ([]domain.TenantLeft, error) {
	return m.left, nil
}
func (m *told) Preview(context.Context, *domain.WorkloadRule, url.Values) (*service.RulePreview, error) {
	return &service.RulePreview{}, nil
}

// newTenants is a service with clusters c1 and c2, of which nothing is reached, and tenant t in c1.
func newTenants(t *testing.T) (*service.Service, *told) {
	t.Helper()
	sealer, err := secret.Parse("test:" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" + "=")
	require.NoError(t, err)
	m := &told{store: storetest.Open(t, store.Config{})}
	m.writes = &meddler{Store: m.store}
	s := service.New(service.Deps{
		Store: m.writes, Sealer: sealer, Instances: &allKnowing{}, Matching: m, Now: time.Now,
		Checks: service.Checks{Kubeconfig: func([]byte) error { return nil }},
	})
	require.NoError(t, s.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	for _, name := range []string{"c1", "c2"} {
		c := &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: name}}
		require.NoError(t, s.Attach(t.Context(), c, []byte("kubeconfig")))
		require.NoError(t, s.Create(t.Context(), c))
	}
	require.NoError(t, s.Create(t.Context(), tenantIn("t", "p+c1")))
	return s, m
}

func tenantIn(name, cluster string) *domain.Tenant {
	return &domain.Tenant{Metadata: domain.Metadata{Name: name}, Spec: domain.TenantSpec{Cluster: cluster}}
}

func hostWith(tenant, name string, nodes ...string) *domain.Host {
	return &domain.Host{Identity: identity(domain.TenantKey(tenant)), Metadata: domain.Metadata{Name: name}, Spec: domain.HostSpec{Nodes: nodes}}
}

func ruleIn(tenant, name string) *domain.WorkloadRule {
	r := &domain.WorkloadRule{Metadata: domain.Metadata{Name: name}, Spec: domain.WorkloadRuleSpec{
		OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.AnyNode,
		WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{{Key: "metadata.id", Operation: domain.OperationExists, Values: []string{""}}}}},
		RuleTemplate:  domain.Template(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"i"}]}}`),
	}}
	if tenant != "" {
		r.Parent = domain.TenantKey(tenant)
	}
	return r
}

// TestANodeHasOneHost: of all tenants in a cluster.
func TestANodeHasOneHost(t *testing.T) {
	s, _ := newTenants(t)
	require.NoError(t, s.Create(t.Context(), tenantIn("near", "p+c1")))
	require.NoError(t, s.Create(t.Context(), tenantIn("far", "p+c2")))
	require.NoError(t, s.Create(t.Context(), hostWith("t", "a", "n1", "n2")))
	for _, taken := range []*domain.Host{hostWith("t", "b", "n3", "n2"), hostWith("near", "a", "n2")} {
		err := s.Create(t.Context(), taken)
		require.True(t, fail.Is(err, fail.Conflict), "%v", err)
		require.ErrorContains(t, err, `node "n2" of cluster p+c1 belongs to host "a" of tenant "t"`)
	}
	require.NoError(t, s.Create(t.Context(), hostWith("far", "a", "n2")), "another cluster has nodes of its own")
	_, err := s.Put(t.Context(), tenantIn("far", "p+c1"))
	require.True(t, fail.Is(err, fail.Conflict), "its host would share a node: %v", err)
	_, err = s.Put(t.Context(), hostWith("t", "a", "n1"))
	require.NoError(t, err)
	require.NoError(t, s.Create(t.Context(), hostWith("t", "b", "n2")), "it is free")
}

// TestATenantBeginsWithNothing: the process that deleted one of its name may have died before it forgot what that had said.
func TestATenantBeginsWithNothing(t *testing.T) {
	s, m := newTenants(t)
	m.heard = nil
	require.Error(t, s.Create(t.Context(), tenantIn("t", "p+c1")))
	require.Empty(t, m.heard, "there is one")
	m.matches = []domain.Match{{Tenant: "new", Made: &domain.Made{}}}
	err := s.Create(t.Context(), tenantIn("new", "p+c1"))
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, "is being removed")
	m.matches = nil
	require.NoError(t, s.Create(t.Context(), tenantIn("new", "p+c1")))
	require.Equal(t, []string{"fresh new"}, m.heard)
}

// TestATenantWithMatchesStays: it neither goes nor moves, and its context id never changes.
func TestATenantWithMatchesStays(t *testing.T) {
	s, m := newTenants(t)
	contextID := func() string {
		o, err := s.Get(t.Context(), domain.Tenants, domain.TenantKey("t"))
		require.NoError(t, err)
		return o.(*domain.Tenant).ContextID
	}
	first := contextID()
	require.NotEmpty(t, first)
	m.matches = []domain.Match{{Tenant: "t"}}
	require.True(t, fail.Is(s.Delete(t.Context(), domain.Tenants, domain.TenantKey("t")), fail.Conflict))
	_, err := s.Put(t.Context(), tenantIn("t", "p+c2"))
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, "spec.cluster")
	require.NotContains(t, err.Error(), "operator's")
	m.matches = []domain.Match{{Tenant: "t", Rule: "tenants/t/workload-rules/r"}, {Tenant: "t", Rule: "workload-rules/r"}}
	require.ErrorContains(t, s.Delete(t.Context(), domain.Tenants, domain.TenantKey("t")), "has 2 matches; delete its rules and wait until their matches are gone; "+
		"for the 1 of the operator's rules end its workloads that they match; if it cannot end them, or cluster p+c1 does not come back, delete the tenant with abandon=true")
	_, err = s.Put(t.Context(), tenantIn("t", "p+c2"))
	require.ErrorContains(t, err, "for the 1 of the operator's rules end its workloads that they match")
	require.NotContains(t, err.Error(), "abandon", "it is not deleted")
	other := tenantIn("t", "p+c1")
	other.Spec.Nodes = domain.NodesAll
	_, err = s.Put(t.Context(), other)
	require.NoError(t, err, "the rest of it may change")
	require.Contains(t, m.heard, "changed t ")
	err = s.Delete(t.Context(), domain.ClustersNoun, "cluster-providers/p/clusters/c1")
	require.ErrorContains(t, err, `is used by tenant "t"`)
	m.matches = nil
	_, err = s.Put(t.Context(), tenantIn("t", "p+c2"))
	require.NoError(t, err)
	require.Equal(t, first, contextID())
	m.heard = nil
	require.NoError(t, s.Delete(t.Context(), domain.Tenants, domain.TenantKey("t")))
	require.Equal(t, []string{"changing t", "changed t "}, m.heard, "what is known of it is not what another one of the name has")
}

// TestWhatRulesBecomeIsTold, before the write and after it; a refusal is not.
func TestWhatRulesBecomeIsTold(t *testing.T) {
	s, m := newTenants(t)
	const key = domain.Key("tenants/t/workload-rules/r")
	m.heard = nil
	twice := ruleIn("t", "r")
	twice.Spec.RuleTemplate = domain.Template(`{"apiVersion":"v1","kind":"Pod","kind":"Pod","spec":{"containers":[{"name":"c","image":"i"}]}}`)
	require.ErrorContains(t, s.Create(t.Context(), twice), "spec.ruleTemplate.kind: is there twice")
	bad := ruleIn("t", "r")
	bad.Spec.WorkloadTerms = nil
	require.True(t, fail.Is(s.Create(t.Context(), bad), fail.Invalid))
	require.Empty(t, m.heard)
	require.True(t, fail.Is(s.Replace(t.Context(), ruleIn("t", "r")), fail.NotFound), "a replacement makes none")
	require.Empty(t, m.heard)
	for _, write := range []func() error{
		func() error { return s.Create(t.Context(), ruleIn("t", "r")) },
		func() error { return s.Replace(t.Context(), ruleIn("t", "r")) },
		func() error { return s.Delete(t.Context(), domain.WorkloadRules, key) },
	} {
		m.heard = nil
		require.NoError(t, write())
		require.Equal(t, []string{"changing t", "changed t " + string(key)}, m.heard)
	}
	m.heard = nil
	require.NoError(t, s.Create(t.Context(), &domain.OperatorRule{WorkloadRule: *ruleIn("", "r")}))
	require.Equal(t, []string{"changing ", "changed  workload-rules/r"}, m.heard, "it is for all tenants")
}

// TestWhatIsNotWrittenIsTold: else somebody would look for it, and what is known of rules would not be relied on until then. What may have been
// written is looked for.
func TestWhatIsNotWrittenIsTold(t *testing.T) {
	s, m := newTenants(t)
	const key = domain.Key("tenants/t/workload-rules/r")
	require.NoError(t, s.Create(t.Context(), ruleIn("t", "r")))
	require.NoError(t, s.Create(t.Context(), hostWith("t", "h", "n1")))
	slow := func(context.Context) error { return fail.New(fail.Timeout, "the database does not answer in time") }
	changes := func(ctx context.Context) error {
		o, err := m.store.Get(ctx, domain.WorkloadRules, key)
		require.NoError(t, err)
		o.(*domain.WorkloadRule).Description += "changed" // the same would be what was to be written
		return m.store.Replace(ctx, o)
	}
	goes := func(key domain.Key, noun *domain.Noun) func(context.Context) error {
		return func(ctx context.Context) error { return m.store.Delete(ctx, noun, key, 0) }
	}
	both := []string{"changing t", "changed t " + string(key)}
	for name, c := range map[string]struct {
		before, after func(context.Context) error
		write         func() error
		kind          fail.Kind // "" for none
		heard         []string
	}{
		"it exists": {
			write: func() error { return s.Create(t.Context(), ruleIn("t", "r")) },
			kind:  fail.Conflict, heard: []string{"changing t", "unchanged t"},
		},
		"a host exists": {
			write: func() error { return s.Create(t.Context(), hostWith("t", "h", "n1")) },
			kind:  fail.Conflict, heard: []string{"changing t", "unchanged t"},
		},
		"one of the operator exists": {
			before: func(ctx context.Context) error {
				return m.store.Create(ctx, &domain.OperatorRule{WorkloadRule: *ruleIn("", "r")})
			},
			write: func() error { return s.Create(t.Context(), &domain.OperatorRule{WorkloadRule: *ruleIn("", "r")}) },
			kind:  fail.Conflict, heard: []string{"changing ", "unchanged "},
		},
		"nobody knows whether it was made": {
			before: slow, write: func() error { return s.Create(t.Context(), ruleIn("t", "new")) },
			kind: fail.Timeout, heard: []string{"changing t"},
		},
		"a replacement that another one is before": {
			before: changes, write: func() error { return s.Replace(t.Context(), ruleIn("t", "r")) },
			heard: append([]string{"changing t", "unchanged t"}, both...),
		},
		"nobody knows whether it was replaced": {
			before: slow, write: func() error { return s.Replace(t.Context(), ruleIn("t", "r")) },
			kind: fail.Timeout, heard: []string{"changing t"},
		},
		"a deletion that a replacement is before": {
			before: changes, write: func() error { return s.Delete(t.Context(), domain.WorkloadRules, key) },
			heard: append([]string{"changing t", "unchanged t"}, both...),
		},
		"a deletion that another one is before": {
			before: goes(key, domain.WorkloadRules), write: func() error { return s.Delete(t.Context(), domain.WorkloadRules, key) },
			kind: fail.NotFound, heard: []string{"changing t", "unchanged t"},
		},
		"nobody knows whether it was deleted": {
			before: slow, write: func() error { return s.Delete(t.Context(), domain.WorkloadRules, key) },
			kind: fail.Timeout, heard: []string{"changing t"},
		},
		"it is taken back as its tenant has gone": {
			after: goes(domain.TenantKey("t"), domain.Tenants), write: func() error { return s.Create(t.Context(), ruleIn("t", "late")) },
			kind: fail.NotFound, heard: []string{"changing t", "changed t tenants/t/workload-rules/late"},
		},
		"a tenant exists, of which nothing was said": {
			before: func(ctx context.Context) error { return m.store.Create(ctx, tenantIn("new", "p+c1")) },
			write:  func() error { return s.Create(t.Context(), tenantIn("new", "p+c1")) },
			kind:   fail.Conflict, heard: []string{"fresh new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { // what was there before
				_, _ = s.Put(t.Context(), tenantIn("t", "p+c1"))
				_, _ = s.Put(t.Context(), ruleIn("t", "r"))
			}()
			m.heard, m.writes.before, m.writes.after = nil, c.before, c.after
			err := c.write()
			if c.kind == "" {
				require.NoError(t, err)
			} else {
				require.True(t, fail.Is(err, c.kind), "%v", err)
			}
			require.Equal(t, c.heard, m.heard)
		})
	}
}

// TestRulesThatATenantMayNotHaveAnyMore stay, match nothing, and are warned of.
func TestRulesThatATenantMayNotHaveAnyMore(t *testing.T) {
	s, _ := newTenants(t)
	require.NoError(t, s.Create(t.Context(), ruleIn("t", "r")))
	stricter := tenantIn("t", "p+c1")
	stricter.Spec.PodSecurity = domain.PodRestricted
	_, err := s.Put(t.Context(), stricter)
	require.NoError(t, err)
	warnings := s.Remarks(t.Context(), stricter)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], `workload rule "r" matches nothing now`)
}

// TestThereIsRoomForSoManyBytesOfRules: List answers with all of them, and who changes one may make it smaller.
func TestThereIsRoomForSoManyBytesOfRules(t *testing.T) {
	s, m := newTenants(t)
	large := func(name string, bytes int) *domain.WorkloadRule {
		r := ruleIn("t", name)
		one := `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"x":"%s"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
		r.Spec.RuleTemplate = domain.Template(fmt.Sprintf(one, strings.Repeat("x", bytes-len(one)+len("%s"))))
		return r
	}
	const each = limits.Annotations / 2
	most := limits.TenantRuleBytes / each
	require.Less(t, most, limits.TenantRules)
	for i := range most - 1 {
		require.NoError(t, m.store.Create(t.Context(), large(fmt.Sprint("r", i), each)))
	}
	err := s.Create(t.Context(), large("over", each))
	require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
	require.ErrorContains(t, err, fmt.Sprint(limits.TenantRuleBytes))
	_, err = s.Preview(t.Context(), large("over", each), nil)
	require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
	require.NoError(t, s.Create(t.Context(), large("fits", each/2)))
	err = s.Replace(t.Context(), large("fits", each))
	require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
	require.NoError(t, s.Replace(t.Context(), large("fits", 1000)))
	require.NoError(t, s.Replace(t.Context(), large("r0", each-1)))
	list, err := s.List(t.Context(), domain.WorkloadRules, domain.TenantKey("t"))
	require.NoError(t, err)
	require.Len(t, list, most)
}

// TestARuleThatIsTooLarge is refused where it is written. One that was stored before there were bounds is not called one that matches nothing.
func TestARuleThatIsTooLarge(t *testing.T) {
	s, m := newTenants(t)
	large := ruleIn("t", "r")
	large.Spec.WorkloadTerms = slices.Repeat(large.Spec.WorkloadTerms, limits.RuleExpressions+1)
	err := s.Create(t.Context(), large)
	require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	require.ErrorContains(t, err, "have 1001 matchExpressions, of 1000 at most")
	require.NoError(t, m.store.Create(t.Context(), large))
	tenant, err := m.store.Get(t.Context(), domain.Tenants, domain.TenantKey("t"))
	require.NoError(t, err)
	require.Empty(t, s.Remarks(t.Context(), tenant))
}

// TestThereIsRoomForSoManyRules: whoever makes them at the same time, there are never more.
func TestThereIsRoomForSoManyRules(t *testing.T) {
	s, m := newTenants(t)
	for i := range limits.TenantRules - 1 { // each one that the service makes is compared with all that there are
		require.NoError(t, m.store.Create(t.Context(), ruleIn("t", fmt.Sprint("r", i))))
	}
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() { _ = s.Create(t.Context(), ruleIn("t", fmt.Sprint("late", i))) })
	}
	wait.Wait()
	list, err := s.List(t.Context(), domain.WorkloadRules, domain.TenantKey("t"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(list), limits.TenantRules)
	if len(list) < limits.TenantRules {
		require.NoError(t, s.Create(t.Context(), ruleIn("t", "last")))
	}
	require.True(t, fail.Is(s.Create(t.Context(), ruleIn("t", "over")), fail.Exhausted))
}

// TestThereIsRoomForSoManyExpressionsOfRules: each is asked of each workload.
func TestThereIsRoomForSoManyExpressionsOfRules(t *testing.T) {
	s, m := newTenants(t)
	asking := func(name string, n int) *domain.WorkloadRule {
		r := ruleIn("t", name)
		r.Spec.WorkloadTerms[0].MatchExpressions = slices.Repeat(r.Spec.WorkloadTerms[0].MatchExpressions, n)
		return r
	}
	const most = limits.TenantRuleExpressions / limits.RuleExpressions
	for i := range most - 1 {
		require.NoError(t, m.store.Create(t.Context(), asking(fmt.Sprint("r", i), limits.RuleExpressions)))
	}
	require.NoError(t, s.Create(t.Context(), asking("fits", limits.RuleExpressions)))
	err := s.Create(t.Context(), asking("over", 1))
	require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
	require.ErrorContains(t, err, "10000 matchExpressions")
	require.NoError(t, m.store.Create(t.Context(), asking("older", 10)), "made when there was no such limit")
	require.NoError(t, s.Replace(t.Context(), asking("older", 9)))
	other := asking("older", 9)
	other.Description = "it asks for no more"
	require.NoError(t, s.Replace(t.Context(), other))
	err = s.Replace(t.Context(), asking("older", 10))
	require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
}

// listed counts how many read all rules of a tenant at a time. Who does waits a moment for another one.
type listed struct {
	*store.Store

	mu          sync.Mutex
	going, most int
	two         chan struct{} // closed when two are at it
	once        sync.Once
}

func (s *listed) List(ctx context.Context, noun *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	if noun != domain.WorkloadRules {
		return s.Store.List(ctx, noun, parent)
	}
	s.mu.Lock()
	s.going++
	if s.most = max(s.most, s.going); s.going == 2 {
		s.once.Do(func() { close(s.two) })
	}
	s.mu.Unlock()
	select {
	case <-s.two:
	case <-time.After(100 * time.Millisecond):
	}
	found, err := s.Store.List(ctx, noun, parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.going--
	return found, err
}

// TestRulesThatAreMadeAtATimeAreCountedTogether: all rules of a tenant are large, and each that is made is compared with them.
func TestRulesThatAreMadeAtATimeAreCountedTogether(t *testing.T) {
	_, m := newTenants(t)
	reads := &listed{Store: m.store, two: make(chan struct{})}
	s := service.New(service.Deps{Store: reads, Matching: m, Now: time.Now})
	var all errgroup.Group
	for i := range 16 {
		all.Go(func() error { return s.Create(t.Context(), ruleIn("t", fmt.Sprint("r", i))) })
	}
	require.NoError(t, all.Wait())
	require.Equal(t, 1, reads.most)
}

// TestWhatAClusterHasThatDoesNotComeBack keeps neither its tenants nor its registration for ever: who abandons them is told what is left.
func TestWhatAClusterHasThatDoesNotComeBack(t *testing.T) {
	s, m := newTenants(t)
	tenant, cluster := domain.TenantKey("t"), domain.ClusterName{Provider: "p", Name: "c1"}
	m.matches = []domain.Match{{Made: &domain.Made{Cluster: cluster}}, {Made: &domain.Made{Cluster: cluster}}, {}}
	err := s.Delete(t.Context(), domain.Tenants, tenant)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, "abandon=true")
	_, err = s.Abandon(t.Context(), domain.ClustersNoun, cluster.Key())
	require.True(t, fail.Is(err, fail.Conflict), "it has a tenant: %v", err)
	left, err := s.Abandon(t.Context(), domain.Tenants, tenant)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Contains(t, left[0], `cluster p+c1 may still have 2 objects of tenant "t", and its namespace tenant-t with the label drover.io/tenant=`)
	_, err = s.Get(t.Context(), domain.Tenants, tenant)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)

	m.left = []domain.TenantLeft{{Tenant: "t", ContextID: "1", Cluster: cluster, Namespace: "tenant-t", Objects: 2}}
	err = s.Delete(t.Context(), domain.ClustersNoun, cluster.Key())
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, m.left[0].String())
	require.ErrorContains(t, err, "abandon=true")
	left, err = s.Abandon(t.Context(), domain.ClustersNoun, cluster.Key())
	require.NoError(t, err)
	require.Equal(t, []string{m.left[0].String()}, left)
	_, err = s.Get(t.Context(), domain.ClustersNoun, cluster.Key())
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
}

// TestNamespacesOfEarlierTenants: a logical cloud does not come to what a tenant has left that is gone, or in another cluster now.
func TestNamespacesOfEarlierTenants(t *testing.T) {
	s, m := newTenants(t)
	ctx := t.Context()
	require.NoError(t, s.Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: "proj"}}))
	require.NoError(t, s.Create(ctx, &domain.LogicalCloud{
		Identity: identity("projects/proj"), Metadata: domain.Metadata{Name: "lc"}, Spec: domain.LogicalCloudSpec{Level: domain.LevelStandard, Namespace: "tenant-gone"},
	}))
	anna := []domain.RightSubject{{Kind: domain.SubjectUser, Name: "anna"}}
	book := rights.NewBook(nil, []*domain.RoleBinding{
		{Identity: identity("projects/proj"), Spec: domain.RoleBindingSpec{Role: domain.RoleProjectAdmin, Subjects: anna}},
		{Identity: identity("cluster-providers/p"), Spec: domain.RoleBindingSpec{Role: domain.RoleClusterUser, Subjects: anna}},
	})
	refer := func(name, cluster string) error {
		return s.Create(rights.With(ctx, book.Of(caller.Identity{Kind: caller.User, Name: "anna"})), &domain.ClusterReference{
			Identity: identity("projects/proj/logical-clouds/lc"), Metadata: domain.Metadata{Name: name},
			Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: cluster},
		})
	}
	m.left = []domain.TenantLeft{{Tenant: "gone", Cluster: domain.ClusterName{Provider: "p", Name: "c1"}, Namespace: "tenant-gone"}}
	err := refer("ref", "c1")
	require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
	require.ErrorContains(t, err, `has the namespace of an earlier tenant, "tenant-gone", which is not deleted there yet; for cluster p+c1 that is given by who may write it alone`)
	m.left = nil
	require.NoError(t, refer("ref", "c1"))
}
