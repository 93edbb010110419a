package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/outcome"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// meddler is the store with somebody else at work: meddle runs once, right after the first look (before
// the write) or right after the write.
type meddler struct {
	*store.Store
	before, after func(ctx context.Context) error
	twice         bool // each replacement is done a second time, whose answer counts
	// Of one replacement, the nth from now on, the answer is lost, or it is done twice; 0 and less for none.
	lost, again int
	unanswered  error // of the next write, which is done
	unlooked    error // of the next look for a document
	// third runs before a document is read for the third time since it was set: who takes back a refused write has seen by then that it is gone.
	third func() error
	reads int
}

func (m *meddler) Get(ctx context.Context, n *domain.Noun, key domain.Key) (domain.Object, error) {
	if m.third != nil {
		if m.reads++; m.reads == 3 {
			if err := m.third(); err != nil {
				return nil, err
			}
		}
	}
	return m.Store.Get(ctx, n, key)
}

func (m *meddler) Exists(ctx context.Context, n *domain.Noun, key domain.Key) (bool, error) {
	if err := m.unlooked; err != nil {
		m.unlooked = nil
		return false, err
	}
	return m.Store.Exists(ctx, n, key)
}

func (m *meddler) once(ctx context.Context, f *func(context.Context) error) error {
	if *f == nil {
		return nil
	}
	meddle := *f
	*f = nil
	return meddle(ctx)
}

func (m *meddler) around(ctx context.Context, write func() error) error {
	if err := m.once(ctx, &m.before); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	if err := m.unanswered; err != nil {
		m.unanswered = nil
		return errors.Join(m.once(ctx, &m.after), err)
	}
	return m.once(ctx, &m.after)
}

func (m *meddler) Create(ctx context.Context, o domain.Object) error {
	return m.around(ctx, func() error { return m.Store.Create(ctx, o) })
}

func (m *meddler) Replace(ctx context.Context, o domain.Object) error {
	m.lost, m.again = m.lost-1, m.again-1
	if m.lost == 0 {
		if err := m.Store.Replace(ctx, o); err != nil {
			return err
		}
		return fail.New(fail.Timeout, "the database does not answer in time")
	}
	if m.twice || m.again == 0 {
		if err := m.Store.Replace(ctx, o); err != nil {
			return err
		}
		o.Base().Revision--
	}
	return m.around(ctx, func() error { return m.Store.Replace(ctx, o) })
}

func (m *meddler) Delete(ctx context.Context, n *domain.Noun, key domain.Key, revision int64) error {
	return m.around(ctx, func() error { return m.Store.Delete(ctx, n, key, revision) })
}

// allKnowing says of every context what it is told.
type allKnowing struct {
	status  domain.ContextStatus
	planned *plan.Bundle
	still   map[domain.Key][]domain.ClusterName // where owners may have something
}

func (s *allKnowing) Planned(context.Context, string) (*plan.Bundle, error) { return s.planned, nil }

func (s *allKnowing) ContextStatus(context.Context, domain.Key, string) (domain.ContextStatus, error) {
	return s.status, nil
}

func (*allKnowing) User(context.Context, domain.ClusterName) (domain.Key, bool, error) {
	return "", false, nil
}

func (*allKnowing) Tenant(context.Context, domain.Key, domain.ClusterName) (domain.Key, bool, error) {
	return "", false, nil
}

func (*allKnowing) Within(context.Context, domain.Key) (domain.Key, bool, error) {
	return "", false, nil
}

func (s *allKnowing) Clusters(_ context.Context, owner domain.Key, counts func(domain.ClusterName) bool) (all []domain.ClusterName, _ error) {
	for _, c := range s.still[owner] {
		if counts(c) {
			all = append(all, c)
		}
	}
	return all, nil
}

func (*allKnowing) Awaits(context.Context, domain.Owner) error { return nil }

func (*allKnowing) Repair(_ context.Context, owner domain.Owner) (domain.Owner, error) {
	return owner, nil
}

func (*allKnowing) Left(context.Context, domain.Key) ([]string, error) { return nil, nil }

func (*allKnowing) Forget(context.Context, domain.Key) (bool, error) { return false, nil }

type fixture struct {
	*service.Service
	store     *meddler
	instances *allKnowing
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := storetest.Open(t, store.Config{})
	sealer, err := secret.Parse("test:" + strings.Repeat("A", 43) + "=")
	require.NoError(t, err)
	f := &fixture{store: &meddler{Store: db}, instances: &allKnowing{}}
	f.Service = service.New(service.Deps{
		Store: f.store, Sealer: sealer, Instances: f.instances,
		Now: func() time.Time { return time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC) },
		Checks: service.Checks{
			Chart:      func(context.Context, string, []byte) error { return nil },
			Profile:    func(context.Context, []byte) ([]string, error) { return nil, nil },
			Kubeconfig: func([]byte) error { return nil },
		},
	})
	for _, o := range []domain.Object{
		project("proj"), compositeApp("ca"), app("sink"), profiles("cp"), cloud("lc"), group("dig"),
	} {
		require.NoError(t, f.Create(t.Context(), o), domain.KeyOf(o))
	}
	return f
}

func identity(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }

func project(name string) *domain.Project {
	return &domain.Project{Metadata: domain.Metadata{Name: name}}
}

func compositeApp(name string) *domain.CompositeApp {
	return &domain.CompositeApp{Identity: identity("projects/proj"), Metadata: domain.Metadata{Name: name}, Spec: domain.CompositeAppSpec{Version: "v1"}}
}

const theComposite = domain.Key("projects/proj/composite-apps/ca/v1")

func app(name string) *domain.App {
	return &domain.App{Identity: identity(theComposite), Metadata: domain.Metadata{Name: name}}
}

func profiles(name string) *domain.CompositeProfile {
	return &domain.CompositeProfile{Identity: identity(theComposite), Metadata: domain.Metadata{Name: name}}
}

func profile(name string) *domain.Profile {
	return &domain.Profile{Identity: identity(theComposite + "/composite-profiles/cp"), Metadata: domain.Metadata{Name: name}, Spec: domain.ProfileSpec{App: "sink"}}
}

func cloud(name string) *domain.LogicalCloud {
	return &domain.LogicalCloud{Identity: identity("projects/proj"), Metadata: domain.Metadata{Name: name}, Spec: domain.LogicalCloudSpec{Level: domain.LevelAdmin}}
}

func group(name string) *domain.DeploymentIntentGroup {
	return &domain.DeploymentIntentGroup{Identity: identity(theComposite), Metadata: domain.Metadata{Name: name}, Spec: domain.DeploymentIntentGroupSpec{
		CompositeProfile: "cp", Version: "r1", LogicalCloud: "lc", OverrideValues: []domain.OverrideValues{},
	}}
}

func intent(name, binds string) *domain.DeploymentIntent {
	return &domain.DeploymentIntent{Identity: identity(theGroup), Metadata: domain.Metadata{Name: name}, Spec: domain.DeploymentIntentSpec{Intent: map[string]string{"genericPlacementIntent": binds}}}
}

const theGroup = theComposite + "/deployment-intent-groups/dig"

// reach appends a state to the group's history, as an operation does.
func (f *fixture) reach(ctx context.Context, s domain.State) error {
	o, err := f.store.Get(ctx, domain.DeploymentIntentGroups, theGroup)
	if err != nil {
		return err
	}
	o.(*domain.DeploymentIntentGroup).History.Append(s, "1", 0, time.Unix(0, 0))
	return f.store.Store.Replace(ctx, o)
}

func (f *fixture) state(t *testing.T) domain.State {
	t.Helper()
	o, err := f.store.Get(t.Context(), domain.DeploymentIntentGroups, theGroup)
	require.NoError(t, err)
	return o.(*domain.DeploymentIntentGroup).History.State()
}

func (f *fixture) exists(t *testing.T, o domain.Object) bool {
	t.Helper()
	found, err := f.store.Exists(t.Context(), o.Noun(), domain.KeyOf(o))
	require.NoError(t, err)
	return found
}

// What somebody else does between the first look and the write is seen by the second look, and the write
// is taken back.
func TestCreateMeetsADeletion(t *testing.T) {
	for name, c := range map[string]struct {
		o    domain.Object
		goes domain.Object
		kind fail.Kind
		text string
	}{
		"of the parent":          {o: profile("new"), goes: profiles("cp"), kind: fail.NotFound, text: `composite profile "cp" not found`},
		"of what it refers to":   {o: profile("new"), goes: app("sink"), kind: fail.NotFound, text: `spec.app: app "sink" not found`},
		"of the group above it":  {o: intent("new", "gpi"), goes: group("dig"), kind: fail.Conflict, text: `deployment intent group "dig"`},
		"of a composite app":     {o: app("new"), goes: compositeApp("ca"), kind: fail.Conflict, text: `composite app "ca/v1"`},
		"of the cloud it names":  {o: group("new"), goes: cloud("lc"), kind: fail.NotFound, text: `spec.logicalCloud: logical cloud "lc" not found`},
		"of the project's cloud": {o: cloud("new"), goes: project("proj"), kind: fail.NotFound, text: `project "proj" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.store.before = func(ctx context.Context) error {
				return f.store.Store.Delete(ctx, c.goes.Noun(), domain.KeyOf(c.goes), 0)
			}
			err := f.Create(t.Context(), c.o)
			require.True(t, fail.Is(err, c.kind), "%v", err)
			require.Contains(t, fail.TextOf(err), c.text)
			require.False(t, f.exists(t, c.o), "what was refused must not stay")
		})
	}
}

func TestDeleteMeetsACreation(t *testing.T) {
	for name, c := range map[string]struct {
		goes, comes domain.Object
		text        string
	}{
		"of a child":  {goes: compositeApp("bare"), comes: &domain.App{Identity: identity("projects/proj/composite-apps/bare/v1"), Metadata: domain.Metadata{Name: "new"}}, text: `has app "new"`},
		"of a holder": {goes: app("sink"), comes: profile("new"), text: `is used by profile "new"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if !f.exists(t, c.goes) {
				require.NoError(t, f.Create(t.Context(), c.goes))
			}
			f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, c.comes) }
			err := f.Delete(t.Context(), c.goes.Noun(), domain.KeyOf(c.goes))
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			require.Contains(t, fail.TextOf(err), c.text)
			require.True(t, f.exists(t, c.goes), "it must be put back")
		})
	}
}

// TestDeleteMeetsTheDeletionOfItsParent, which has seen nothing below it: what the second look does not find its parent for stays gone, as nobody could
// delete it below nothing.
func TestDeleteMeetsTheDeletionOfItsParent(t *testing.T) {
	const theCloud = domain.Key("projects/proj/logical-clouds/lc")
	drop := func(f *fixture, o domain.Object) func(context.Context) error {
		return func(ctx context.Context) error { return f.store.Store.Delete(ctx, o.Noun(), domain.KeyOf(o), 0) }
	}
	reference := &domain.ClusterReference{Identity: identity(theCloud), Metadata: domain.Metadata{Name: "r"}}
	permission := &domain.UserPermission{Identity: identity(theCloud), Metadata: domain.Metadata{Name: "u"}}
	quota := &domain.ClusterQuota{Identity: identity(theCloud), Metadata: domain.Metadata{Name: "q"}}
	hpa := &domain.HPAIntent{Identity: identity(theGroup), Metadata: domain.Metadata{Name: "h"}}
	consumer := &domain.HPAConsumer{Identity: identity(domain.KeyOf(hpa)), Metadata: domain.Metadata{Name: "c"}}
	network := &domain.Network{Identity: identity(theEdge), Metadata: domain.Metadata{Name: "n"}}
	edge := &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "edge01"}}
	for name, c := range map[string]struct{ o, parent domain.Object }{
		"a reference":   {reference, cloud("lc")},
		"a permission":  {permission, cloud("lc")},
		"a quota":       {quota, cloud("lc")},
		"an hpa intent": {hpa, group("dig")},
		"a network":     {network, edge},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if !f.exists(t, c.parent) {
				require.NoError(t, f.store.Store.Create(t.Context(), c.parent))
			}
			require.NoError(t, f.store.Store.Create(t.Context(), c.o))
			f.store.after = drop(f, c.parent)
			require.NoError(t, f.Delete(t.Context(), c.o.Noun(), domain.KeyOf(c.o)))
			require.False(t, f.exists(t, c.o))
		})
	}
	t.Run("which comes while it is put back", func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, f.store.Store.Create(t.Context(), reference))
		ctx, leave := context.WithCancel(t.Context())
		f.store.after = func(context.Context) error {
			leave()
			f.store.after = drop(f, cloud("lc"))
			return nil
		}
		require.NoError(t, f.Delete(ctx, domain.ClusterReferences, domain.KeyOf(reference)))
		require.Nil(t, f.store.after)
		require.False(t, f.exists(t, reference))
	})
	t.Run("which comes while it is put back, without an answer", func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, f.store.Store.Create(t.Context(), reference))
		ctx, leave := context.WithCancel(t.Context())
		f.store.after = func(context.Context) error {
			leave()
			f.store.after, f.store.unanswered = drop(f, cloud("lc")), fail.New(fail.Unavailable, "no primary")
			return nil
		}
		require.NoError(t, f.Delete(ctx, domain.ClusterReferences, domain.KeyOf(reference)))
		require.NoError(t, f.store.unanswered, "it was put back")
		require.False(t, f.exists(t, reference))
	})
	t.Run("and somebody else has replaced what was put back: audit has no deletion of it", func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, f.store.Store.Create(t.Context(), reference))
		request := &caller.Request{ID: "1"}
		ctx, leave := context.WithCancel(caller.WithRequest(t.Context(), request))
		f.store.after = func(context.Context) error {
			leave()
			f.store.after = func(ctx context.Context) error {
				o, err := f.store.Get(ctx, domain.ClusterReferences, domain.KeyOf(reference))
				if err != nil {
					return err
				}
				o.(*domain.ClusterReference).Description = "another one's"
				return errors.Join(f.store.Store.Replace(ctx, o), drop(f, cloud("lc"))(ctx))
			}
			return nil
		}
		require.NoError(t, f.Delete(ctx, domain.ClusterReferences, domain.KeyOf(reference)))
		require.True(t, f.exists(t, reference))
		before, after := request.Change()
		require.Empty(t, before)
		require.Empty(t, after)
	})
	t.Run("and somebody leaves: it is put back", func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, f.store.Store.Create(t.Context(), reference))
		ctx, leave := context.WithCancel(t.Context())
		f.store.after = func(context.Context) error { leave(); return nil }
		require.ErrorIs(t, f.Delete(ctx, domain.ClusterReferences, domain.KeyOf(reference)), context.Canceled)
		require.True(t, f.exists(t, reference))
	})
	t.Run("what is below nothing can be deleted", func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, drop(f, cloud("lc"))(t.Context()))
		require.NoError(t, drop(f, group("dig"))(t.Context()))
		for _, o := range []domain.Object{reference, permission, quota, hpa, consumer, network} {
			require.NoError(t, f.store.Store.Create(t.Context(), o))
		}
		err := f.Delete(t.Context(), domain.HPAIntents, domain.KeyOf(hpa))
		require.True(t, fail.Is(err, fail.Conflict), "something is below it: %v", err)
		for _, o := range []domain.Object{reference, permission, quota, consumer, hpa, network} {
			require.NoError(t, f.Delete(t.Context(), o.Noun(), domain.KeyOf(o)), domain.KeyOf(o))
			require.False(t, f.exists(t, o))
		}
	})
	t.Run("what somebody uses comes back all the same", func(t *testing.T) {
		f := newFixture(t)
		lone := group("lone")
		lone.Spec.CompositeProfile = "other"
		require.NoError(t, f.Create(t.Context(), profiles("other")))
		f.store.after = func(ctx context.Context) error {
			return errors.Join(f.store.Store.Create(ctx, lone), drop(f, compositeApp("ca"))(ctx))
		}
		err := f.Delete(t.Context(), domain.CompositeProfiles, theComposite.Child("composite-profiles", "other"))
		require.True(t, fail.Is(err, fail.Conflict), "%v", err)
		require.True(t, f.exists(t, profiles("other")))
	})
}

func TestPutMeetsOtherWriters(t *testing.T) {
	f := newFixture(t)
	t.Run("a replacement: the PUT is done on top of it", func(t *testing.T) {
		f.store.before = func(ctx context.Context) error { return f.reach(ctx, domain.Approved) }
		g := group("dig")
		g.Description = "new"
		created, err := f.Put(t.Context(), g)
		require.NoError(t, err)
		require.False(t, created)
		o, err := f.Get(t.Context(), domain.DeploymentIntentGroups, theGroup)
		require.NoError(t, err)
		require.Equal(t, "new", o.(*domain.DeploymentIntentGroup).Description)
		require.Equal(t, domain.Created, f.state(t), "an approval in between must not approve what was put after it")
	})
	t.Run("a deletion: the PUT creates", func(t *testing.T) {
		f.store.before = func(ctx context.Context) error {
			return f.store.Store.Delete(ctx, domain.Apps, theComposite+"/apps/sink", 0)
		}
		created, err := f.Put(t.Context(), app("sink"))
		require.NoError(t, err)
		require.True(t, created)
	})
	t.Run("a creation: the PUT replaces", func(t *testing.T) {
		f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, app("late")) }
		created, err := f.Put(t.Context(), app("late"))
		require.NoError(t, err)
		require.False(t, created)
	})
	t.Run("the deletion of what it refers to: what was there is put back", func(t *testing.T) {
		f.store.before = func(ctx context.Context) error {
			return f.store.Store.Delete(ctx, domain.LogicalClouds, "projects/proj/logical-clouds/lc", 0)
		}
		g := group("dig")
		g.Description = "refused"
		_, err := f.Put(t.Context(), g)
		require.True(t, fail.Is(err, fail.NotFound), "%v", err)
		o, err := f.Get(t.Context(), domain.DeploymentIntentGroups, theGroup)
		require.NoError(t, err)
		require.Equal(t, "new", o.(*domain.DeploymentIntentGroup).Description)
	})
}

// TestPutWithoutItsFileMeetsOneWithAnother: who sends no file keeps the one that there is, also where another one has come since he has looked first.
func TestPutWithoutItsFileMeetsOneWithAnother(t *testing.T) {
	f := newFixture(t)
	file := func(name string) domain.Digest {
		digest, err := f.store.PutBlob(t.Context(), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {file: "+name+"}\n"))
		require.NoError(t, err)
		return digest
	}
	before, after := file("before"), file("after")
	resources := theGroup.Child("generic-k8s-intents", "gac")
	resource := func(template domain.Digest) *domain.GenericResource {
		return &domain.GenericResource{
			Identity: identity(resources), Metadata: domain.Metadata{Name: "r"}, Template: template,
			Spec: domain.GenericResourceSpec{App: "sink", NewObject: domain.True, ResourceGVK: domain.ResourceGVK{APIVersion: "v1", Kind: "ConfigMap", Name: "m"}},
		}
	}
	customization := func(files ...domain.CustomizationFile) *domain.Customization {
		return &domain.Customization{
			Identity: identity(resources.Child("resources", "r")), Metadata: domain.Metadata{Name: "c"}, Files: files,
			Spec: domain.CustomizationSpec{ClusterSpecific: domain.False, ClusterInfo: domain.ClusterInfo{Scope: domain.ScopeLabel, ClusterProvider: "p", ClusterLabel: "l", Mode: domain.ModeAllow}},
		}
	}
	archived := func(archive domain.Digest) *domain.Profile {
		p := profile("p")
		p.Archive = archive
		return p
	}
	require.NoError(t, f.Create(t.Context(), &domain.GenericK8sIntent{Identity: identity(theGroup), Metadata: domain.Metadata{Name: "gac"}}))
	for _, c := range []struct {
		had, comes, put domain.Object
		kept            func(o domain.Object) domain.Digest
	}{
		{resource(before), resource(after), resource(""), func(o domain.Object) domain.Digest { return o.(*domain.GenericResource).Template }},
		{
			customization(domain.CustomizationFile{Name: "f", Content: before}), customization(domain.CustomizationFile{Name: "f", Content: after}), customization(),
			func(o domain.Object) domain.Digest { return o.(*domain.Customization).Files[0].Content },
		},
		{archived(before), archived(after), archived(""), func(o domain.Object) domain.Digest { return o.(*domain.Profile).Archive }},
	} {
		t.Run(c.put.Noun().Title, func(t *testing.T) {
			require.NoError(t, f.Create(t.Context(), c.had))
			f.store.before = func(ctx context.Context) error {
				_, err := f.Put(ctx, c.comes)
				return err
			}
			_, err := f.Put(t.Context(), c.put)
			require.NoError(t, err)
			o, err := f.store.Get(t.Context(), c.put.Noun(), domain.KeyOf(c.put))
			require.NoError(t, err)
			require.Equal(t, after, c.kept(o))
		})
	}
}

func TestWritesBelowAGroupMeetItsOperations(t *testing.T) {
	for name, c := range map[string]struct {
		write func(ctx context.Context, f *fixture) error
		check func(t *testing.T, f *fixture, kept bool)
	}{
		"create": {
			write: func(ctx context.Context, f *fixture) error { return f.Create(ctx, intent("new", "gpi")) },
			check: func(t *testing.T, f *fixture, kept bool) { require.Equal(t, kept, f.exists(t, intent("new", ""))) },
		},
		"replace": {
			write: func(ctx context.Context, f *fixture) error {
				_, err := f.Put(ctx, intent("old", "other"))
				return err
			},
			check: func(t *testing.T, f *fixture, kept bool) {
				bindings, err := f.Bindings(t.Context(), theGroup)
				require.NoError(t, err)
				require.Equal(t, kept, bindings[0]["genericPlacementIntent"] == "other")
			},
		},
		"delete": {
			write: func(ctx context.Context, f *fixture) error {
				return f.Delete(ctx, domain.DeploymentIntents, theGroup+"/intents/old")
			},
			check: func(t *testing.T, f *fixture, kept bool) { require.Equal(t, kept, !f.exists(t, intent("old", ""))) },
		},
	} {
		for _, meeting := range []string{"an approval", "an instantiation"} {
			t.Run(name+" meets "+meeting, func(t *testing.T) {
				f := newFixture(t)
				require.NoError(t, f.Create(t.Context(), intent("old", "gpi")))
				f.store.after = func(ctx context.Context) error {
					if meeting == "an approval" {
						return f.reach(ctx, domain.Approved)
					}
					return errors.Join(f.reach(ctx, domain.Approved), f.reach(ctx, domain.Instantiated))
				}
				require.NoError(t, c.write(t.Context(), f))
				want := domain.Created
				if meeting == "an instantiation" { // the instance has its own plan, and the next update takes the change
					want = domain.Instantiated
				}
				require.Equal(t, want, f.state(t))
				c.check(t, f, true)
			})
		}
	}
}

func TestTwoProfilesOfAnAppAtOnce(t *testing.T) {
	f := newFixture(t)
	f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, profile("other")) }
	err := f.Create(t.Context(), profile("mine"))
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.False(t, f.exists(t, profile("mine")))
	require.True(t, f.exists(t, profile("other")))
}

func TestTwoReadinessRulesOfAKindAtOnce(t *testing.T) {
	f := newFixture(t)
	rule := func(name string) *domain.ReadinessRule {
		return &domain.ReadinessRule{Metadata: domain.Metadata{Name: name}, Spec: domain.ReadinessRuleSpec{Kind: "Database", Ready: "true"}}
	}
	f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, rule("other")) }
	err := f.Create(t.Context(), rule("mine"))
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.Contains(t, fail.TextOf(err), `Database has a readiness rule already: "other"`)
	require.False(t, f.exists(t, rule("mine")))
	rules, err := service.ReadinessRules(t.Context(), f.store)
	require.NoError(t, err)
	require.Equal(t, []readiness.Rule{{Name: "other", Kind: "Database", Ready: "true"}}, rules)
}

func TestTwoDependenciesThatMakeACycleAtOnce(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.Create(t.Context(), app("web")))
	needs := func(a, b string) *domain.AppDependency {
		return &domain.AppDependency{
			Identity: identity(theComposite.Child("apps", a)), Metadata: domain.Metadata{Name: b}, Spec: domain.AppDependencySpec{App: b, OpStatus: "Ready"},
		}
	}
	f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, needs("web", "sink")) }
	err := f.Create(t.Context(), needs("sink", "web"))
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.False(t, f.exists(t, needs("sink", "web")))
	require.True(t, f.exists(t, needs("web", "sink")))
}

// The caller leaves when the write is done: what was refused must be taken back all the same.
func TestUndoGoesOnWithoutTheCaller(t *testing.T) {
	f := newFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	f.store.after = func(context.Context) error { leave(); return nil }
	err := f.Create(ctx, app("new"))
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, f.exists(t, app("new")))
}

// TestWritesWithoutAnAnswer are looked at once more as others are, where they were done: the caller leaves while the database does one, or its answer is
// lost.
func TestWritesWithoutAnAnswer(t *testing.T) {
	for name, lost := range map[string]error{
		"the caller leaves": context.Canceled, "timeout": fail.New(fail.Timeout, "no answer"), "unavailable": fail.New(fail.Unavailable, "no primary"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.store.after = func(ctx context.Context) error {
				return f.store.Store.Delete(ctx, domain.Apps, theComposite+"/apps/sink", 0)
			}
			f.store.unanswered = lost
			err := f.Create(t.Context(), profile("new"))
			require.True(t, fail.Is(err, fail.NotFound), "%v", err)
			require.False(t, f.exists(t, profile("new")))

			f = newFixture(t)
			require.NoError(t, f.Create(t.Context(), profile("old")))
			f.store.after = func(ctx context.Context) error {
				return f.store.Store.Delete(ctx, domain.Apps, theComposite+"/apps/sink", 0)
			}
			f.store.unanswered = lost
			p := profile("old")
			p.Description = "refused"
			_, err = f.Put(t.Context(), p)
			require.True(t, fail.Is(err, fail.NotFound), "%v", err)
			o, err := f.Get(t.Context(), domain.Profiles, domain.KeyOf(p))
			require.NoError(t, err)
			require.Empty(t, o.(*domain.Profile).Description)

			f = newFixture(t)
			f.store.after = func(ctx context.Context) error { return f.store.Store.Create(ctx, profile("new")) }
			f.store.unanswered = lost
			err = f.Delete(t.Context(), domain.Apps, theComposite+"/apps/sink")
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			require.True(t, f.exists(t, app("sink")), "it is put back")

			f.store.unanswered = lost
			require.NoError(t, f.Create(t.Context(), app("fine")))
			require.True(t, f.exists(t, app("fine")), "nothing is to be said against it")
		})
	}
	t.Run("what is taken back without an answer: audit has nothing of it", func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, f.Create(t.Context(), profile("old")))
		refused := func() context.Context {
			f.store.after = func(ctx context.Context) error {
				f.store.before = func(context.Context) error { // when it is taken back
					f.store.unanswered = fail.New(fail.Unavailable, "no primary")
					return nil
				}
				return f.store.Store.Delete(ctx, domain.Apps, theComposite+"/apps/sink", 0)
			}
			return caller.WithRequest(t.Context(), &caller.Request{ID: "1"})
		}
		nothing := func(ctx context.Context, err error) {
			require.True(t, fail.Is(err, fail.NotFound), "%v", err)
			require.NoError(t, f.store.unanswered, "it was taken back")
			before, after := caller.RequestOf(ctx).Change()
			require.Empty(t, before)
			require.Empty(t, after)
		}
		p := profile("old")
		p.Description = "refused"
		ctx := refused()
		_, err := f.Put(ctx, p)
		nothing(ctx, err)
		f = newFixture(t)
		ctx = refused()
		nothing(ctx, f.Create(ctx, profile("new")))
		require.False(t, f.exists(t, profile("new")))
	})
	t.Run("a caller who has left writes nothing", func(t *testing.T) {
		f := newFixture(t)
		ctx, leave := context.WithCancel(t.Context())
		err := f.Create(service.BeforeCreate(ctx, func() error { leave(); return nil }), app("new"))
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, f.exists(t, app("new")))
	})
	t.Run("a write goes on without its caller", func(t *testing.T) {
		f := newFixture(t)
		ctx, leave := context.WithCancel(t.Context())
		f.store.before = func(write context.Context) error {
			leave()
			require.NoError(t, write.Err())
			return nil
		}
		require.ErrorIs(t, f.Create(ctx, app("new")), context.Canceled)
		require.False(t, f.exists(t, app("new")), "it was stored, and then taken back")
	})
	t.Run("one that is done twice is known", func(t *testing.T) {
		f := newFixture(t)
		before, err := f.store.Get(t.Context(), domain.Apps, theComposite+"/apps/sink")
		require.NoError(t, err)
		f.store.again = 1
		p := app("sink")
		p.Description = "new"
		_, err = f.Put(t.Context(), p)
		require.NoError(t, err)
		after, err := f.store.Get(t.Context(), domain.Apps, domain.KeyOf(p))
		require.NoError(t, err)
		require.Equal(t, "new", after.(*domain.App).Description)
		require.Equal(t, before.Base().Revision+1, after.Base().Revision, "it is not done on top of itself, where nothing would be looked at")
	})
}

// fenced is a cloud of level 1 in a project, and somebody who may write the project, and name the cluster, but not write that.
func fenced(t *testing.T) (f *fixture, mallory context.Context, lc func(level string) *domain.LogicalCloud, reference func() *domain.ClusterReference) {
	t.Helper()
	f = newFixture(t)
	for _, o := range []domain.Object{
		&domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}},
		&domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "c"}},
		&domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "d"}},
	} {
		require.NoError(t, f.Create(t.Context(), o), domain.KeyOf(o))
	}
	bind := func(scope domain.Key, role string) *domain.RoleBinding {
		b := domain.RoleBindings.New().(*domain.RoleBinding)
		b.Parent, b.Spec.Role, b.Spec.Subjects = scope, role, []domain.RightSubject{{Kind: domain.SubjectUser, Name: "mallory"}}
		return b
	}
	book := rights.NewBook(nil, []*domain.RoleBinding{bind("projects/proj", "project-admin"), bind("cluster-providers/p", "cluster-user")})
	mallory = rights.With(t.Context(), book.Of(caller.Identity{Kind: caller.User, Name: "mallory"}))
	lc = func(level string) *domain.LogicalCloud {
		c := cloud("own")
		c.Spec.Level, c.Spec.Namespace, c.Spec.User.UserName = level, "ns", "user"
		return c
	}
	require.NoError(t, f.Create(mallory, lc(domain.LevelStandard)))
	reference = func() *domain.ClusterReference {
		return &domain.ClusterReference{
			Identity: identity(domain.KeyOf(lc(""))), Metadata: domain.Metadata{Name: "r"}, Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: "c"},
		}
	}
	return f, mallory, lc, reference
}

func permissionOf(cloud domain.Key, namespace string) *domain.UserPermission {
	return &domain.UserPermission{Identity: identity(cloud), Metadata: domain.Metadata{Name: "u"}, Spec: domain.UserPermissionSpec{
		Namespace: namespace, APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"},
	}}
}

// level is that of the cloud as it is stored.
func (f *fixture) level(t *testing.T, key domain.Key) string {
	t.Helper()
	o, err := f.store.Get(t.Context(), domain.LogicalClouds, key)
	require.NoError(t, err)
	return o.(*domain.LogicalCloud).Spec.Level
}

// TestWhatIsRefusedGoesWhoeverHasWrittenOnIt: neither who counts a document on, nor who changes another part of it, looks at what a refused write has
// brought, and both have a revision of their own.
func TestWhatIsRefusedGoesWhoeverHasWrittenOnIt(t *testing.T) {
	t.Run("a level that the cloud is counted on with", func(t *testing.T) {
		f, mallory, lc, reference := fenced(t)
		key := domain.KeyOf(lc(""))
		f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, reference()) }
		f.store.after = func(ctx context.Context) error {
			quota := &domain.ClusterQuota{Identity: identity(key), Metadata: domain.Metadata{Name: "q"}}
			require.NoError(t, f.store.Store.Create(ctx, quota))
			return f.Delete(mallory, domain.ClusterQuotas, domain.KeyOf(quota)) // it counts the cloud
		}
		_, err := f.Put(mallory, lc(domain.LevelAdmin))
		require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
		require.Equal(t, domain.LevelStandard, f.level(t, key))
	})
	t.Run("a level that somebody has put something beside", func(t *testing.T) {
		f, mallory, lc, reference := fenced(t)
		f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, reference()) }
		f.store.after = func(context.Context) error {
			again := lc(domain.LevelAdmin)
			again.Description = "and more"
			_, err := f.Put(mallory, again)
			return err
		}
		_, err := f.Put(mallory, lc(domain.LevelAdmin))
		require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
		require.Equal(t, domain.LevelStandard, f.level(t, domain.KeyOf(lc(""))))
	})
	t.Run("a level that somebody puts back who leaves", func(t *testing.T) {
		f, mallory, lc, reference := fenced(t)
		undone := false
		f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, reference()) }
		f.store.after = func(context.Context) error {
			o, err := f.store.Get(t.Context(), domain.LogicalClouds, domain.KeyOf(lc("")))
			require.NoError(t, err)
			other := lc(domain.LevelStandard)
			*other.Base() = *o.Base()
			require.NoError(t, f.store.Store.Replace(t.Context(), other))
			f.store.third = func() error { // his own undo
				undone = true
				refused := *o.(*domain.LogicalCloud)
				refused.Revision = other.Revision
				return f.store.Store.Replace(t.Context(), &refused)
			}
			return nil
		}
		_, err := f.Put(mallory, lc(domain.LevelAdmin))
		require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
		require.True(t, undone)
		require.Equal(t, domain.LevelStandard, f.level(t, domain.KeyOf(lc(""))))
	})
	t.Run("a reference that is put again", func(t *testing.T) {
		f, mallory, lc, reference := fenced(t)
		f.store.before = func(ctx context.Context) error {
			return f.store.Store.Create(ctx, permissionOf(domain.KeyOf(lc("")), ""))
		}
		f.store.after = func(context.Context) error {
			_, err := f.Put(mallory, reference())
			return err
		}
		err := f.Create(mallory, reference())
		require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
		require.False(t, f.exists(t, reference()))
	})
	t.Run("a reference that was deleted, and is restored", func(t *testing.T) {
		f, mallory, lc, reference := fenced(t)
		restored := false
		f.store.before = func(ctx context.Context) error {
			return f.store.Store.Create(ctx, permissionOf(domain.KeyOf(lc("")), ""))
		}
		f.store.after = func(ctx context.Context) error {
			o, err := f.store.Get(ctx, domain.ClusterReferences, domain.KeyOf(reference()))
			require.NoError(t, err)
			f.store.third = func() error {
				restored = true
				return f.store.Store.Create(t.Context(), o)
			}
			return f.store.Store.Delete(ctx, domain.ClusterReferences, domain.KeyOf(o), 0)
		}
		err := f.Create(mallory, reference())
		require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
		require.True(t, restored)
		require.False(t, f.exists(t, reference()))
	})
	t.Run("a reference that was deleted", func(t *testing.T) {
		f, mallory, lc, reference := fenced(t)
		f.store.before = func(ctx context.Context) error {
			return f.store.Store.Create(ctx, permissionOf(domain.KeyOf(lc("")), ""))
		}
		f.store.after = func(ctx context.Context) error {
			return f.store.Store.Delete(ctx, domain.ClusterReferences, domain.KeyOf(reference()), 0)
		}
		err := f.Create(mallory, reference())
		require.True(t, fail.Is(err, fail.Forbidden), "its caller does not wait for long: %v", err)
		require.False(t, f.exists(t, reference()))
	})
	t.Run("a reference that goes elsewhere", func(t *testing.T) {
		f, mallory, lc, reference := fenced(t)
		require.NoError(t, f.Create(mallory, reference()))
		moved := reference()
		moved.Spec.Cluster = "d"
		f.store.before = func(ctx context.Context) error {
			return f.store.Store.Create(ctx, permissionOf(domain.KeyOf(lc("")), ""))
		}
		f.store.after = func(context.Context) error {
			again := reference()
			again.Spec.Cluster, again.Description = "d", "and more"
			_, err := f.Put(mallory, again)
			return err
		}
		_, err := f.Put(mallory, moved)
		require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
		o, err := f.store.Get(t.Context(), domain.ClusterReferences, domain.KeyOf(moved))
		require.NoError(t, err)
		require.Equal(t, "c", o.(*domain.ClusterReference).Spec.Cluster)
	})
	t.Run("a permission that is put again", func(t *testing.T) {
		f, mallory, lc, reference := fenced(t)
		everywhere := permissionOf(domain.KeyOf(lc("")), "")
		f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, reference()) }
		f.store.after = func(ctx context.Context) error {
			o, err := f.store.Get(ctx, domain.UserPermissions, domain.KeyOf(everywhere))
			require.NoError(t, err)
			o.(*domain.UserPermission).Description = "and more"
			return f.store.Store.Replace(ctx, o)
		}
		err := f.Create(mallory, everywhere)
		require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
		require.False(t, f.exists(t, everywhere))
	})
}

// TestAnOutageTakesNothingOfOthersBack: what somebody has written on top of a refused write, and was told is stored, stays while nobody can say that it is
// refused, too.
func TestAnOutageTakesNothingOfOthersBack(t *testing.T) {
	for _, kind := range []fail.Kind{fail.Unavailable, fail.Timeout, fail.Internal} {
		t.Run(string(kind), func(t *testing.T) {
			f, mallory, lc, reference := fenced(t)
			everywhere := permissionOf(domain.KeyOf(lc("")), "")
			f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, reference()) }
			f.store.after = func(ctx context.Context) error {
				o, err := f.store.Get(ctx, domain.UserPermissions, domain.KeyOf(everywhere))
				require.NoError(t, err)
				f.store.before = func(ctx context.Context) error { // when it is taken back
					f.store.unlooked = fail.New(kind, "no database")
					return f.store.Store.Delete(ctx, domain.ClusterReferences, domain.KeyOf(reference()), 0)
				}
				return f.store.Store.Replace(ctx, o)
			}
			err := f.Create(mallory, everywhere)
			require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
			require.NoError(t, f.store.unlooked, "it was looked at")
			require.True(t, f.exists(t, everywhere), "nothing is to be said against it")
		})
	}
}

// TestACloudIsCountedAsItWasLookedAt: of one who makes a reference, and one who puts the cloud to another level meanwhile, the one that looks later is refused.
func TestACloudIsCountedAsItWasLookedAt(t *testing.T) {
	f, mallory, lc, reference := fenced(t)
	f.store.after = func(context.Context) error {
		f.store.before = func(ctx context.Context) error { // between the look at the cloud, and its count
			o, err := f.store.Get(ctx, domain.LogicalClouds, domain.KeyOf(lc("")))
			require.NoError(t, err)
			o.(*domain.LogicalCloud).Spec.Level = domain.LevelAdmin
			return f.store.Store.Replace(ctx, o)
		}
		return nil
	}
	err := f.Create(mallory, reference())
	require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
	require.False(t, f.exists(t, reference()))
}

// TestWhatIsTakenBackIsInNoPlanThatIsRecorded: who has planned while it was there has another revision of the cloud.
func TestWhatIsTakenBackIsInNoPlanThatIsRecorded(t *testing.T) {
	for _, noun := range []*domain.Noun{domain.ClusterReferences, domain.UserPermissions} {
		t.Run(noun.Kind, func(t *testing.T) {
			f, mallory, lc, reference := fenced(t)
			var planned domain.Owner
			away := false
			var brought, beside domain.Object = reference(), permissionOf(domain.KeyOf(lc("")), "")
			if noun == domain.UserPermissions {
				brought, beside = beside, brought
			}
			f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, beside) }
			f.store.after = func(ctx context.Context) error {
				require.True(t, f.exists(t, brought))
				o, err := f.store.Get(ctx, domain.LogicalClouds, domain.KeyOf(lc("")))
				planned = o.(*domain.LogicalCloud)
				f.store.before = func(context.Context) error { // when it is taken back
					f.store.before = func(context.Context) error { // when that is counted
						away = true
						return fail.New(fail.Unavailable, "no primary")
					}
					return nil
				}
				return err
			}
			err := f.Create(mallory, brought)
			require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
			require.False(t, f.exists(t, brought))
			require.True(t, away)
			o, err := f.store.Get(t.Context(), domain.LogicalClouds, domain.KeyOf(lc("")))
			require.NoError(t, err)
			verdict := outcome.Accept(o.(domain.Owner), nil, outcome.Asked{
				Scope: domain.Scope{Owner: domain.KeyOf(lc("")), ContextID: "1", Operation: domain.OpInstantiate},
				Made:  &outcome.Made{OwnerRevision: planned.Base().Revision},
			}, time.Unix(0, 0))
			require.True(t, fail.Is(verdict.Refusal, fail.Conflict), "%v", verdict.Refusal)
			require.ErrorContains(t, verdict.Refusal, "was changed meanwhile")
		})
	}
}

func TestKubeconfigsAreSealed(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	c := &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "c"}}
	require.NoError(t, f.Attach(t.Context(), c, []byte("open sesame")))
	require.NoError(t, f.Create(t.Context(), c))
	o, err := f.Get(t.Context(), domain.ClustersNoun, domain.KeyOf(c))
	require.NoError(t, err)
	stored := o.(*domain.Cluster)
	require.NotContains(t, string(stored.Kubeconfig.Data), "sesame")
	require.Len(t, string(stored.KubeconfigDigest), 64)
	file, err := f.File(t.Context(), stored)
	require.NoError(t, err)
	require.Equal(t, "open sesame", string(file))

	stored.Name = "other" // sealed for one cluster, it cannot be opened as another's
	_, err = f.File(t.Context(), stored)
	require.Error(t, err)
}

// TestAdminCloudKnowsItsOwnWrites when the database has done one and lost its answer.
func TestAdminCloudKnowsItsOwnWrites(t *testing.T) {
	f := newFixture(t)
	key := domain.Key("projects/proj/logical-clouds/lc")
	require.NoError(t, f.store.Delete(t.Context(), domain.DeploymentIntentGroups, theGroup, 0))
	require.NoError(t, f.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	require.NoError(t, f.Create(t.Context(), &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "c"}}))
	require.NoError(t, f.Create(t.Context(), &domain.ClusterReference{
		Identity: identity(key), Metadata: domain.Metadata{Name: "r"}, Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: "c"},
	}))
	f.store.twice = true
	_, err := f.Instantiate(t.Context(), key)
	require.NoError(t, err)
	_, _, err = f.Update(t.Context(), key, service.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, f.Terminate(t.Context(), key))
	require.NoError(t, f.Stop(t.Context(), key))
	o, err := f.store.Get(t.Context(), domain.LogicalClouds, key)
	require.NoError(t, err)
	var states []domain.State
	for _, a := range o.(*domain.LogicalCloud).History.Actions {
		states = append(states, a.State)
	}
	require.Equal(t, []domain.State{domain.Created, domain.Instantiated, domain.Updated, domain.Terminated, domain.TerminateStopped}, states)
}

// TestATerminatedAdminCloudMeetsAGroup that comes to name it between the look and the write: the terminate is taken back.
func TestATerminatedAdminCloudMeetsAGroup(t *testing.T) {
	f := newFixture(t)
	key := domain.Key("projects/proj/logical-clouds/lc")
	o, err := f.store.Get(t.Context(), domain.DeploymentIntentGroups, theGroup)
	require.NoError(t, err)
	require.NoError(t, f.store.Delete(t.Context(), domain.DeploymentIntentGroups, theGroup, 0))
	require.NoError(t, f.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	require.NoError(t, f.Create(t.Context(), &domain.Cluster{Identity: identity("cluster-providers/p"), Metadata: domain.Metadata{Name: "c"}}))
	require.NoError(t, f.Create(t.Context(), &domain.ClusterReference{
		Identity: identity(key), Metadata: domain.Metadata{Name: "r"}, Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: "c"},
	}))
	_, err = f.Instantiate(t.Context(), key)
	require.NoError(t, err)
	f.store.before = func(ctx context.Context) error { return f.store.Store.Create(ctx, o) }
	err = f.Terminate(t.Context(), key)
	require.True(t, fail.Is(err, fail.Invalid), "%v", err)
	stored, err := f.store.Get(t.Context(), domain.LogicalClouds, key)
	require.NoError(t, err)
	require.Equal(t, domain.Instantiated, stored.(*domain.LogicalCloud).History.State())
	require.NoError(t, f.store.Delete(t.Context(), domain.DeploymentIntentGroups, theGroup, 0))
	require.NoError(t, f.Terminate(t.Context(), key))
}

// TestADeletedReferenceMeetsARecord of a group that is put into its cluster: of the two that look, the one that comes later is refused.
func TestADeletedReferenceMeetsARecord(t *testing.T) {
	o := newOwned(t)
	o.has(t, theCloud, "Instantiated 2")
	o.record(t, domain.Instance{ContextID: "2", Owner: theCloud, LogicalCloud: theCloud, Status: domain.ContextInstantiated}, "edge01")
	reference := &domain.ClusterReference{
		Identity: identity(theCloud), Metadata: domain.Metadata{Name: "r"}, Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: "edge01"},
	}
	require.NoError(t, o.verbs.Create(t.Context(), reference))
	o.store.before = func(context.Context) error {
		o.has(t, theGroup, "Approved", "Instantiated 1")
		o.record(t, domain.Instance{
			ContextID: "1", Owner: theGroup, LogicalCloud: theCloud, Origin: domain.OpInstantiate, Operation: domain.OpInstantiate, Status: domain.ContextInstantiating,
		}, "edge01")
		return nil
	}
	err := o.verbs.Delete(t.Context(), domain.ClusterReferences, domain.KeyOf(reference))
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, string(theGroup)+" has something in cluster p+edge01")
	require.True(t, o.exists(t, reference))
}

// TestACloudChangesItsLevel: only where nothing of it can be in clusters, and what the other level has done is not of the new one.
func TestACloudChangesItsLevel(t *testing.T) {
	f := newFixture(t)
	put := func(level string) (*domain.LogicalCloud, error) {
		c := cloud("moves")
		c.Spec.Level, c.Spec.Namespace, c.Spec.User.UserName = level, "ns", "user"
		_, err := f.Put(t.Context(), c)
		o, failed := f.Get(t.Context(), domain.LogicalClouds, domain.KeyOf(c))
		require.NoError(t, failed)
		return o.(*domain.LogicalCloud), err
	}
	stored, err := put(domain.LevelStandard)
	require.NoError(t, err)
	at := time.Unix(0, 0)
	stored.History.Append(domain.Instantiated, "1", 1, at)
	stored.History.Append(domain.Terminated, "1", 2, at)
	require.NoError(t, f.store.Store.Replace(t.Context(), stored))
	f.instances.status = domain.ContextTerminateFailed
	_, err = put(domain.LevelAdmin)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, "in state Terminated (TerminateFailed); terminate it first")

	f.instances.status = domain.ContextTerminated
	stored, err = put(domain.LevelAdmin)
	require.NoError(t, err)
	require.Equal(t, domain.Created, stored.History.State())
	stored.History.Append(domain.Instantiated, "2", 1, at)
	stored.History.Append(domain.Terminated, "2", 2, at)
	require.NoError(t, f.store.Store.Replace(t.Context(), stored))
	f.instances.status = domain.ContextInstantiateFailed // as of a context of which there is no record
	stored, err = put(domain.LevelStandard)
	require.NoError(t, err)
	require.Empty(t, stored.History.ContextID())
}

// TestReplaceWithTakesTheRestFromWhatIsReplaced: what somebody else has written meanwhile, and not what there was at the first look.
func TestReplaceWithTakesTheRestFromWhatIsReplaced(t *testing.T) {
	f := newFixture(t)
	f.store.before = func(ctx context.Context) error {
		o, err := f.store.Get(ctx, domain.Projects, "projects/proj")
		if err != nil {
			return err
		}
		o.(*domain.Project).Description = "written meanwhile"
		return f.store.Store.Replace(ctx, o)
	}
	o := project("proj")
	require.NoError(t, f.ReplaceWith(t.Context(), o, func(old domain.Object) { o.Metadata = old.(*domain.Project).Metadata }))
	got, err := f.Get(t.Context(), domain.Projects, "projects/proj")
	require.NoError(t, err)
	require.Equal(t, "written meanwhile", got.(*domain.Project).Description)
	require.True(t, fail.Is(f.ReplaceWith(t.Context(), project("none"), func(domain.Object) {}), fail.NotFound))
}
