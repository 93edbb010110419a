package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// metered counts what is asked of a store.
type metered struct {
	*store.Store
	asked, pages, lists, labels atomic.Int64
}

func (m *metered) ListUnder(ctx context.Context, n *domain.Noun, prefix domain.Key) ([]domain.Object, error) {
	if n == domain.ClusterLabels {
		m.labels.Add(1)
	}
	return m.Store.ListUnder(ctx, n, prefix)
}

func (m *metered) List(ctx context.Context, n *domain.Noun, parent domain.Key) ([]domain.Object, error) {
	m.lists.Add(1)
	return m.Store.List(ctx, n, parent)
}

func (m *metered) Get(ctx context.Context, n *domain.Noun, key domain.Key) (domain.Object, error) {
	m.asked.Add(1)
	return m.Store.Get(ctx, n, key)
}

func (m *metered) Page(ctx context.Context, n *domain.Noun, prefix, after domain.Key, limit, room int) ([]domain.Object, int, error) {
	m.asked.Add(1)
	m.pages.Add(1)
	return m.Store.Page(ctx, n, prefix, after, limit, room)
}

func (m *metered) Instance(ctx context.Context, id string) (*domain.Instance, error) {
	m.asked.Add(1)
	return m.Store.Instance(ctx, id)
}

func (m *metered) InstancesByID(ctx context.Context, ids []string) ([]*domain.Instance, error) {
	m.asked.Add(1)
	return m.Store.InstancesByID(ctx, ids)
}

// progress is an engine in which one operation goes on.
type progress struct {
	service.Engine
	context string
	asked   atomic.Int64
}

func (p *progress) Counts(_ context.Context, s domain.Scope) (map[domain.ResourceState]int, error) {
	p.asked.Add(1)
	if s.ContextID != p.context {
		return nil, fail.New(fail.NotFound, "not running")
	}
	return map[domain.ResourceState]int{domain.ResourcePending: 3}, nil
}

func (p *progress) Running(_ context.Context, s domain.Scope) (bool, error) {
	return s.ContextID == p.context, nil
}

func parameters(t *testing.T, query string) url.Values {
	t.Helper()
	v, err := url.ParseQuery(query)
	require.NoError(t, err)
	return v
}

// TestPagesOfLargeDocuments end early, and so do those that a watch looks at: as many groups as a page has may not fit into memory.
func TestPagesOfLargeDocuments(t *testing.T) {
	db := storetest.Open(t, store.Config{})
	m := &metered{Store: db}
	for _, p := range []string{"a", "b"} {
		require.NoError(t, db.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: p}}))
		for n := range 3 {
			g := group(fmt.Sprint(p, n))
			g.Parent, g.History = domain.Key("projects").Child(p, "composite-apps", "ca", "v1"), domain.NewHistory(time.Now())
			g.Spec.OverrideValues = []domain.OverrideValues{{App: "web", Values: map[string]string{"v": strings.Repeat("x", limits.Page/4)}}}
			require.NoError(t, db.Create(t.Context(), g))
		}
	}
	var bindings []*domain.RoleBinding
	for _, scope := range []domain.Key{"projects/a", "projects/b"} {
		bindings = append(bindings, &domain.RoleBinding{Identity: domain.Identity{Parent: scope}, Spec: domain.RoleBindingSpec{
			Role: domain.RoleViewer, Subjects: []domain.RightSubject{{Kind: domain.SubjectUser, Name: "both"}},
		}})
	}
	book := rights.NewBook(nil, bindings)
	f := service.NewFleet(service.NewLifecycle(m, m, nil, &progress{}, time.Now), m, nil)
	for who, ctx := range map[string]context.Context{
		"all": t.Context(), "two scopes": rights.With(t.Context(), book.Of(caller.Identity{Kind: caller.User, Name: "both"})),
	} {
		var pages []string
		for token, first := "", true; first || token != ""; first = false {
			l, err := f.Groups(ctx, "", parameters(t, "continue="+token))
			require.NoError(t, err)
			page := ""
			for _, g := range l.Items {
				page += " " + g.Name
			}
			pages, token = append(pages, page), l.Continue
		}
		require.Equal(t, []string{" a0 a1 a2 b0", " b1 b2"}, pages, who)
	}
	m.pages.Store(0)
	s, err := f.Snapshot(t.Context(), "")
	require.NoError(t, err)
	image, err := s.Image(status.Query{})
	require.NoError(t, err)
	var stands map[string]any
	require.NoError(t, json.Unmarshal(image.Document(), &stands))
	require.Len(t, stands, 6)
	require.Equal(t, int64(2), m.pages.Load())
}

func TestFleetOfGroups(t *testing.T) {
	const n, project = 120, domain.Key("projects/p")
	db := storetest.Open(t, store.Config{})
	m, e := &metered{Store: db}, &progress{context: "5"}
	require.NoError(t, db.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: "p"}}))
	at := time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)
	for i := range n {
		g := group(fmt.Sprintf("g%04d", i))
		g.Parent = project.Child("composite-apps", "ca", "v"+fmt.Sprint(i%2))
		g.History = domain.NewHistory(at)
		if i > 0 {
			g.History.Append(domain.Instantiated, fmt.Sprint(i), 1, at)
			record := &domain.Instance{ContextID: fmt.Sprint(i), Owner: domain.KeyOf(g), Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}
			record.Counts = map[domain.ResourceState]int{domain.ResourceApplied: 2}
			if i == 5 || i == 7 { // that of 7 was ended by hand
				record.Status, record.Counts = domain.ContextInstantiating, nil
			}
			require.NoError(t, db.PutInstance(t.Context(), record))
		}
		require.NoError(t, db.Create(t.Context(), g))
	}
	f := service.NewFleet(service.NewLifecycle(m, m, nil, e, time.Now), m, nil)
	list := func(prefix domain.Key, query string) *service.GroupList {
		t.Helper()
		l, err := f.Groups(t.Context(), prefix, parameters(t, query))
		require.NoError(t, err)
		return l
	}
	m.asked.Store(0)
	all := list(project, "limit=120")
	require.Len(t, all.Items, n)
	require.Empty(t, all.Continue)
	require.LessOrEqual(t, m.asked.Load(), int64(8), "a list costs few questions, however long it is")
	require.Equal(t, int64(2), e.asked.Load(), "only what goes on is asked for")

	stands := map[string]service.GroupStatus{}
	for _, g := range all.Items {
		stands[g.Name] = g.Status
	}
	require.Equal(t, service.GroupStatus{State: domain.Created, Since: at}, stands["g0000"])
	require.Equal(t, service.GroupStatus{
		State: domain.Instantiated, Since: at, Instance: "1", Context: domain.ContextInstantiated, Revision: 1,
		Counts: map[domain.ResourceState]int{domain.ResourceApplied: 2},
	}, stands["g0001"])
	require.Equal(t, map[domain.ResourceState]int{domain.ResourcePending: 3}, stands["g0005"].Counts)
	require.Equal(t, domain.ContextInstantiateFailed, stands["g0007"].Context)

	var paged []service.Group
	for token, first := "", true; first || token != ""; first = false {
		l := list("", "limit=50&continue="+token)
		require.LessOrEqual(t, len(l.Items), 50)
		paged, token = append(paged, l.Items...), l.Continue
	}
	require.Equal(t, all.Items, paged)
	require.Len(t, list(project, "").Items, 100)
	document, err := json.Marshal(all.Items[0])
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(document), `{"metadata":{"name":"g0000",`), "%s", document)
	for _, query := range []string{"limit=0", "continue=%21"} {
		_, err := f.Groups(t.Context(), project, parameters(t, query))
		require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	}
	_, err = f.Groups(t.Context(), "projects/none", nil)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)

	m.asked.Store(0)
	s, err := f.Snapshot(t.Context(), project)
	require.NoError(t, err)
	require.LessOrEqual(t, m.asked.Load(), int64(12), "a watch neither")
	image, err := s.Image(status.Query{})
	require.NoError(t, err)
	require.Contains(t, string(image.Document()), `"projects/p/composite-apps/ca/v1/deployment-intent-groups/g0001":{"state":"Instantiated"`)
	sign, err := f.Sign(t.Context(), project)
	require.NoError(t, err)
	require.NoError(t, db.UpdateInstance(t.Context(), "9", func(i *domain.Instance) error { i.Status = domain.ContextInstantiateFailed; return nil }))
	other, err := f.Sign(t.Context(), project)
	require.NoError(t, err)
	require.NotEqual(t, sign, other)
}

func TestFleetOfClusters(t *testing.T) {
	db := storetest.Open(t, store.Config{})
	require.NoError(t, db.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	names, tried := map[string]domain.ClusterName{}, time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)
	for _, name := range []string{"away", "heard", "new"} {
		c := &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: name}}
		if name == "away" {
			c.Tried.At = tried
		}
		names[name] = c.ClusterName()
		require.NoError(t, db.Create(t.Context(), c))
	}
	require.NoError(t, db.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "q"}}))
	require.NoError(t, db.Create(t.Context(), &domain.Cluster{
		Identity: domain.Identity{Parent: "cluster-providers/q"}, Metadata: domain.Metadata{Name: "other"}, Tried: domain.Trial{At: tried, Error: "refused"},
	}))
	for _, label := range []string{"north", "edge"} {
		require.NoError(t, db.Create(t.Context(), &domain.ClusterLabel{Identity: domain.Identity{Parent: names["heard"].Key()}, Label: label}))
	}
	require.NoError(t, db.SetReachable(t.Context(), names["away"], false))
	require.NoError(t, db.Pulse(t.Context(), "worker", time.Now()))
	require.NoError(t, db.PutWatch(t.Context(), "worker", &domain.Watch{Cluster: names["heard"], Connected: true, LastSeen: time.Now()}))
	require.NoError(t, db.PutWatch(t.Context(), "worker", &domain.Watch{Cluster: names["away"], Reason: "no agent"}))
	p, err := json.Marshal(plan.Plan{Apps: []plan.App{
		{Name: "a", Targets: []plan.Target{{ClusterName: names["away"]}, {ClusterName: names["heard"]}}}, {Name: "b", Targets: []plan.Target{{ClusterName: names["heard"]}}},
	}})
	require.NoError(t, err)
	digest, err := db.PutBlob(t.Context(), p)
	require.NoError(t, err)
	for i, owner := range []domain.Key{domain.KeyOf(group("a")), domain.KeyOf(group("b")), "projects/p/logical-clouds/lc"} {
		stands := []domain.ContextStatus{domain.ContextInstantiating, domain.ContextInstantiateFailed, domain.ContextInstantiated}[i]
		require.NoError(t, db.PutInstance(t.Context(), &domain.Instance{ContextID: fmt.Sprint(i), Owner: owner, Plan: digest, Status: stands}))
	}
	m := &metered{Store: db}
	f := service.NewFleet(service.NewLifecycle(m, m, &heard{store: db}, nil, time.Now), m, nil)
	l, err := f.Clusters(t.Context(), "cluster-providers/p", parameters(t, "limit=2"))
	require.NoError(t, err)
	require.NotEmpty(t, l.Continue)
	require.Equal(t, domain.ConnectivityRetrying, l.Items[0].Status.Connectivity)
	require.Equal(t, 2, l.Items[0].Status.Groups)
	require.Equal(t, 1, l.Items[0].Status.Working)
	require.Equal(t, 1, l.Items[0].Status.Failed)
	require.False(t, l.Items[0].Status.Heard)
	require.WithinDuration(t, time.Now(), *l.Items[0].Status.UnreachableSince, time.Minute)
	require.Equal(t, "no agent", l.Items[0].Status.Reason)
	require.Equal(t, &tried, l.Items[0].Status.TriedAt, "it was never heard since")
	require.Nil(t, l.Items[1].Status.UnreachableSince)
	require.Nil(t, l.Items[1].Status.TriedAt)
	require.Equal(t, domain.ConnectivityAvailable, l.Items[1].Status.Connectivity)
	require.Equal(t, 2, l.Items[1].Status.Groups)
	require.True(t, l.Items[1].Status.Heard)
	require.NotNil(t, l.Items[1].Status.LastHeard)
	require.Equal(t, []string{"edge", "north"}, l.Items[1].Status.Labels)
	all, err := f.Clusters(t.Context(), "", nil)
	require.NoError(t, err)
	require.Len(t, all.Items, 4)
	require.Equal(t, l.Items, all.Items[:2])
	require.Equal(t, domain.Key("cluster-providers/q/clusters/other"), all.Items[3].Resource)
	require.Equal(t, "refused", all.Items[3].Status.Reason)
	require.Equal(t, &tried, all.Items[3].Status.TriedAt)
	l, err = f.Clusters(t.Context(), "cluster-providers/p", parameters(t, "limit=2&continue="+l.Continue))
	require.NoError(t, err)
	require.Len(t, l.Items, 1)
	require.Equal(t, service.ClusterStatus{Connectivity: domain.ConnectivityUnknown, Report: (&domain.Cluster{}).Reporting()}, l.Items[0].Status)
	stands, err := f.Snapshot(t.Context(), service.FleetClusters)
	require.NoError(t, err)
	image, err := stands.Image(status.Query{})
	require.NoError(t, err)
	require.Contains(t, string(image.Document()), `"cluster-providers/q/clusters/other":{"connectivity":"Unknown"`)
	require.Contains(t, string(image.Document()), `"cluster-providers/p/clusters/heard":{"connectivity":"Available","heard":true,"report":"auto","groups":2,"working":1,"failed":1`)
	require.Contains(t, string(image.Document()), `"north"`)
	m.labels.Store(0)
	unlabelled, err := f.Snapshot(t.Context(), service.FleetUnlabelled)
	require.NoError(t, err)
	image, err = unlabelled.Image(status.Query{})
	require.NoError(t, err)
	require.Contains(t, string(image.Document()), `"cluster-providers/p/clusters/heard":{"connectivity":"Available"`)
	require.NotContains(t, string(image.Document()), `"labels"`)
	require.Zero(t, m.labels.Load(), "what is left out is not read")
	sign, err := f.Sign(t.Context(), service.FleetClusters)
	require.NoError(t, err)
	require.NoError(t, db.Pulse(t.Context(), "worker", time.Now().Add(time.Second)))
	same, err := f.Sign(t.Context(), service.FleetClusters)
	require.NoError(t, err)
	require.Equal(t, sign, same, "a pulse says nothing new")
	require.NoError(t, db.SetReachable(t.Context(), names["away"], true))
	other, err := f.Sign(t.Context(), service.FleetClusters)
	require.NoError(t, err)
	require.NotEqual(t, sign, other)
	_, err = f.Clusters(t.Context(), "cluster-providers/none", nil)
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
}

// TestAListIsReadWhereRightsReach: who may see little of a fleet has no more read than that, and pages through it in the order of its keys.
func TestAListIsReadWhereRightsReach(t *testing.T) {
	db := storetest.Open(t, store.Config{})
	for _, p := range []string{"a", "a-b", "a.c", "a0", "b"} {
		require.NoError(t, db.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: p}}))
		for i := range 3 {
			g := group(fmt.Sprint("g", i))
			g.Parent = domain.Key("projects").Child(p, "composite-apps", "ca", "v1")
			require.NoError(t, db.Create(t.Context(), g))
		}
	}
	user := func(name string) domain.RightSubject {
		return domain.RightSubject{Kind: domain.SubjectUser, Name: name}
	}
	bind := func(scope domain.Key, role, name string) *domain.RoleBinding {
		return &domain.RoleBinding{Identity: domain.Identity{Parent: scope}, Spec: domain.RoleBindingSpec{Role: role, Subjects: []domain.RightSubject{user(name)}}}
	}
	everywhere := &domain.Role{Metadata: domain.Metadata{Name: "in-projects"}, Spec: domain.RoleSpec{Rules: []domain.RoleRule{
		{Scopes: []string{"project"}, Nouns: []string{"*"}, Verbs: []string{"get", "list"}},
	}}}
	book := rights.NewBook([]*domain.Role{everywhere}, []*domain.RoleBinding{
		bind("projects/a0", domain.RoleViewer, "some"), bind("projects/a", domain.RoleViewer, "some"), bind("projects/a.c", domain.RoleViewer, "some"),
		bind("", "in-projects", "all"), bind("projects/b", domain.RoleViewer, "all"),
	})
	for who, want := range map[string]struct {
		projects, reads string
	}{
		"nobody": {"", "0"},
		"some":   {"a.c a.c a.c a a a a0 a0 a0", "1 2 2 2 1"},
		"all":    {"a-b a-b a-b a.c a.c a.c a a a a0 a0 a0 b b b", "1 1 1 1 1 1 1 1"},
	} {
		m := &metered{Store: db}
		f := service.NewFleet(service.NewLifecycle(m, m, nil, &progress{}, time.Now), m, nil)
		ctx := rights.With(t.Context(), book.Of(caller.Identity{Kind: caller.User, Name: who}))
		var projects, reads []string
		for token, first := "", true; first || token != ""; first = false {
			m.pages.Store(0)
			l, err := f.Groups(ctx, "", parameters(t, "limit=2&continue="+token))
			require.NoError(t, err)
			for _, g := range l.Items {
				projects = append(projects, strings.Split(string(g.Resource), "/")[1])
			}
			reads, token = append(reads, fmt.Sprint(m.pages.Load())), l.Continue
		}
		require.Equal(t, want.projects, strings.Join(projects, " "), who)
		require.Equal(t, want.reads, strings.Join(reads, " "), who)
	}
	m := &metered{Store: db}
	nobody := rights.With(t.Context(), book.Of(caller.Identity{Kind: caller.User, Name: "nobody"}))
	list, err := service.New(service.Deps{Store: m}).List(nobody, domain.Projects, "")
	require.NoError(t, err)
	require.Empty(t, list)
	require.Zero(t, m.lists.Load())
}
