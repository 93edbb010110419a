package service_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/combined"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/rights"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/version"
)

// damaged are two stores on the same data: what the second one writes, by another key of a name, the first one cannot read.
func damaged(t *testing.T, config store.Config, key string) (db, damaging *store.Store) {
	t.Helper()
	db = storetest.Open(t, config)
	others, err := secret.Parse(key + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32))))
	require.NoError(t, err)
	config.Keys = others
	return db, storetest.Open(t, config)
}

// TestWhatCannotBeReadHasItsRow: a group, a cluster and a record of an app context that are damaged are named in the lists that they
// belong to, whatever page they are on, and all others are served.
func TestWhatCannotBeReadHasItsRow(t *testing.T) {
	ctx := t.Context()
	db, damaging := damaged(t, storetest.Config(t), "other")
	require.NoError(t, db.Create(ctx, &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	at := time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)
	for _, name := range []string{"a", "b", "c", "d"} {
		g := group(name)
		g.Parent, g.History = "projects/p/composite-apps/ca/v1", domain.NewHistory(at)
		g.History.Append(domain.Instantiated, name, 1, at)
		record := &domain.Instance{ContextID: name, Owner: domain.KeyOf(g), Operation: domain.OpInstantiate, Status: domain.ContextInstantiated}
		into, records := db, db
		switch name {
		case "b":
			into = damaging
		case "d":
			records = damaging
		}
		require.NoError(t, into.Create(ctx, g))
		require.NoError(t, records.PutInstance(ctx, record))
		c := &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: name}}
		require.NoError(t, into.Create(ctx, c))
	}
	f := service.NewFleet(service.NewLifecycle(db, db, &heard{store: db}, &progress{}, time.Now), db, nil)
	var rows []service.Group
	for token, first := "", true; first || token != ""; first = false {
		page, err := f.Groups(ctx, "", parameters(t, "limit=2&continue="+token))
		require.NoError(t, err)
		require.Len(t, page.Items, 2)
		rows, token = append(rows, page.Items...), page.Continue
	}
	require.Len(t, rows, 4)
	require.Equal(t, domain.ContextInstantiated, rows[0].Status.Context)
	require.Equal(t, domain.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/b"), rows[1].Resource)
	require.Equal(t, "b", rows[1].Name)
	require.Empty(t, rows[1].Status.Context)
	require.Contains(t, rows[1].Status.Reason, "cannot be read")
	require.Equal(t, domain.ContextInstantiated, rows[2].Status.Context)
	require.Empty(t, rows[3].Status.Context)
	require.Contains(t, rows[3].Status.Reason, "cannot be read")
	s, err := f.Snapshot(ctx, "")
	require.NoError(t, err)
	require.NotNil(t, s)

	clusters, err := f.Clusters(ctx, "", nil)
	require.NoError(t, err)
	require.Len(t, clusters.Items, 4)
	require.Contains(t, clusters.Items[1].Status.Reason, "cannot be read")
	require.Empty(t, clusters.Items[2].Status.Reason)

	documents := service.New(service.Deps{Store: db, Now: time.Now})
	list, err := documents.List(ctx, domain.ClustersNoun, "cluster-providers/p")
	require.Len(t, list, 3)
	names, err := domain.UnreadableOf(err)
	require.NoError(t, err)
	require.Equal(t, []string{"cluster-providers/p/clusters/b"}, names)
	labelled, err := documents.ClustersWithLabels(ctx, "cluster-providers/p")
	require.Len(t, labelled, 3)
	require.True(t, fail.Is(err, fail.Internal))
}

// TestEachHandsOverWhatListReads: to each caller the same, and of what cannot be read the same names.
func TestEachHandsOverWhatListReads(t *testing.T) {
	ctx := t.Context()
	db, damaging := damaged(t, storetest.Config(t), "other")
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, db.Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: name}}))
	}
	for _, name := range []string{"bad", "worse"} {
		require.NoError(t, damaging.Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: name}}))
	}
	binding := domain.RoleBindings.New().(*domain.RoleBinding)
	var bindings []*domain.RoleBinding
	for _, scope := range []domain.Key{"projects/b", "projects/bad"} {
		b := *binding
		b.Parent, b.Spec.Role, b.Spec.Subjects = scope, domain.RoleViewer, []domain.RightSubject{{Kind: domain.SubjectUser, Name: "some"}}
		bindings = append(bindings, &b)
	}
	book := rights.NewBook(nil, bindings)
	documents := service.New(service.Deps{Store: db, Now: time.Now})
	as := func(name string) context.Context {
		return rights.With(ctx, book.Of(caller.Identity{Kind: caller.User, Name: name}))
	}
	for who, c := range map[string]struct {
		ctx        context.Context
		keys       []domain.Key
		unreadable []string
	}{
		"all":    {ctx, []domain.Key{"projects/a", "projects/b", "projects/c"}, []string{"projects/bad", "projects/worse"}},
		"some":   {as("some"), []domain.Key{"projects/b"}, []string{"projects/bad"}},
		"nobody": {as("nobody"), nil, nil},
	} {
		t.Run(who, func(t *testing.T) {
			list, err := documents.List(c.ctx, domain.Projects, "")
			unreadable, err := domain.UnreadableOf(err)
			require.NoError(t, err)
			require.Equal(t, c.unreadable, unreadable)
			require.Len(t, list, len(c.keys))
			var keys []domain.Key
			unreadable, err = domain.UnreadableOf(documents.Each(c.ctx, domain.Projects, "", func(o domain.Object) error {
				keys = append(keys, domain.KeyOf(o))
				return nil
			}))
			require.NoError(t, err)
			require.Equal(t, c.unreadable, unreadable)
			require.Equal(t, c.keys, keys)
		})
	}
	never := func(domain.Object) error { return fail.New(fail.Internal, "there is none") }
	require.True(t, fail.Is(documents.Each(ctx, domain.ClusterKVs, "cluster-providers/p/clusters/c", never), fail.NotFound), "of a parent that is not there")
	require.True(t, fail.Is(documents.Each(ctx, domain.Projects, "", never), fail.Internal))
}

// TestBindingsThatCannotBeReadGiveNothing, to those that they name, and take nothing from others. What would give more when less is known
// fails.
func TestBindingsThatCannotBeReadGiveNothing(t *testing.T) {
	ctx := t.Context()
	db, damaging := damaged(t, storetest.Config(t), "other")
	bind := func(name, role string, put func(context.Context, domain.Object) error) {
		t.Helper()
		b := domain.RoleBindings.New().(*domain.RoleBinding)
		b.Name, b.Spec.Role, b.Spec.Subjects = name, role, []domain.RightSubject{{Kind: domain.SubjectUser, Name: name}}
		require.NoError(t, put(ctx, b))
	}
	bind("alice", domain.RoleAdmin, db.Create)
	bind("bob", domain.RoleAdmin, damaging.Create)
	documents := service.New(service.Deps{Store: db, Now: time.Now})
	book, err := documents.Rights(ctx)
	names, err := domain.UnreadableOf(err)
	require.NoError(t, err)
	require.Equal(t, []string{"role-bindings/bob"}, names)
	require.True(t, book.Of(caller.Identity{Kind: caller.User, Name: "alice"}).May("get", domain.Projects, "projects/p"))
	require.False(t, book.Of(caller.Identity{Kind: caller.User, Name: "bob"}).May("get", domain.Projects, "projects/p"))

	asAlice := rights.With(ctx, book.Of(caller.Identity{Kind: caller.User, Name: "alice"}))
	require.True(t, fail.Is(documents.Delete(asAlice, domain.RoleBindings, "role-bindings/alice"), fail.Internal),
		"whether it is the last one is not known")
}

// TestWhatCannotBeReadCanBeDeleted by who says so: not what can be read, not what something is below or refers to, and what may have something in
// clusters only by who leaves it there. The answer says what is lost.
func TestWhatCannotBeReadCanBeDeleted(t *testing.T) {
	ctx, config := t.Context(), storetest.Config(t)
	db, damaging := damaged(t, config, "test") // of the name that the other has: its key is not missing
	lifecycle := service.NewLifecycle(db, db, &heard{store: db}, &begins{}, time.Now)
	documents := service.New(service.Deps{Store: db, Instances: lifecycle, Operations: lifecycle, Now: time.Now})
	request := &caller.Request{ID: "1"}
	ctx = caller.WithRequest(ctx, request)
	refused := func(kind fail.Kind, says string, noun *domain.Noun, key domain.Key, abandon bool) {
		t.Helper()
		_, err := documents.Discard(ctx, noun, key, abandon)
		require.True(t, fail.Is(err, kind), "%v", err)
		require.ErrorContains(t, err, says)
	}
	gone := func(noun *domain.Noun, key domain.Key, abandon bool) []string {
		t.Helper()
		left, err := documents.Discard(ctx, noun, key, abandon)
		require.NoError(t, err)
		require.Contains(t, left[0], "is gone unread")
		_, err = db.Get(ctx, noun, key)
		require.True(t, fail.Is(err, fail.NotFound), "%v", err)
		before, after := request.Change()
		require.Len(t, before, 32, "audit has a digest of what there was")
		require.Empty(t, after)
		return left[1:]
	}

	grant := func(user, role string) (*domain.RoleBinding, context.Context) {
		b := domain.RoleBindings.New().(*domain.RoleBinding)
		b.Name, b.Spec.Role, b.Spec.Subjects = user, role, []domain.RightSubject{{Kind: domain.SubjectUser, Name: user}}
		return b, rights.With(ctx, rights.NewBook(nil, []*domain.RoleBinding{b}).Of(caller.Identity{Kind: caller.User, Name: user}))
	}
	const p = domain.Key("projects/p")
	require.NoError(t, damaging.Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: "p"}}))
	composite := &domain.CompositeApp{Identity: domain.Identity{Parent: p}, Metadata: domain.Metadata{Name: "ca"}}
	composite.Spec.Version = "v1"
	require.NoError(t, db.Create(ctx, composite))
	bound := domain.ProjectRoleBindings.New().(*domain.RoleBinding)
	bound.Parent, bound.Name, bound.Spec.Role = p, "b", domain.RoleViewer
	require.NoError(t, db.Create(ctx, bound))

	err := documents.Delete(ctx, domain.Projects, p)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, "delete it with unreadable=true")
	refused(fail.NotFound, "not found", domain.Projects, "projects/none", false)
	refused(fail.Conflict, "can be read", domain.CompositeApps, domain.KeyOf(composite), false)
	refused(fail.Conflict, "without deleting child references", domain.Projects, p, false)

	for _, role := range []string{domain.RoleViewer, domain.RoleEditor} {
		_, as := grant("mallory", role)
		_, err = documents.Discard(as, domain.Projects, p, true)
		require.True(t, fail.Is(err, fail.Forbidden), "%v", err)
		require.ErrorContains(t, err, "takes the role admin of the fleet")
	}
	keyless := storetest.Config(t)
	keyless.Database, keyless.Keys = config.Database, secretOf(t, "gone")
	require.NoError(t, storetest.Open(t, keyless).Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: "whole"}}))
	refused(fail.Conflict, "bring the key back", domain.Projects, "projects/whole", true)
	err = documents.Delete(ctx, domain.Projects, "projects/whole")
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, "bring the key back")

	last, asLast := grant("last", domain.RoleAdmin)
	require.NoError(t, damaging.Create(ctx, last))
	_, err = documents.Discard(asLast, domain.RoleBindings, domain.KeyOf(last), true)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, "is the last one")
	another, _ := grant("another", domain.RoleAdmin)
	require.NoError(t, db.Create(ctx, another))
	_, err = documents.Discard(asLast, domain.RoleBindings, domain.KeyOf(last), false)
	require.NoError(t, err)

	g := group("g")
	g.Parent = domain.KeyOf(composite)
	require.NoError(t, damaging.Create(ctx, g))
	intent := &domain.PlacementIntent{Identity: domain.Identity{Parent: domain.KeyOf(g)}, Metadata: domain.Metadata{Name: "i"}}
	require.NoError(t, damaging.Create(ctx, intent))
	refused(fail.Conflict, "without deleting child references", domain.DeploymentIntentGroups, domain.KeyOf(g), true)
	refused(fail.Conflict, "cannot be judged", domain.PlacementIntents, domain.KeyOf(intent), false)
	left := gone(domain.PlacementIntents, domain.KeyOf(intent), true)
	require.Len(t, left, 2, "the group that it was of cannot be read either: %v", left)
	require.Contains(t, left[0], "cannot be judged")

	require.NoError(t, db.PutInstance(ctx, &domain.Instance{
		ContextID: "1", Owner: domain.KeyOf(g), Operation: domain.OpInstantiate, Status: domain.ContextInstantiated, Plan: "lost",
	}))
	refused(fail.Conflict, "nobody can terminate it", domain.DeploymentIntentGroups, domain.KeyOf(g), false)
	left = gone(domain.DeploymentIntentGroups, domain.KeyOf(g), true)
	require.Len(t, left, 1)
	require.Contains(t, left[0], "cannot be told")
	_, err = db.Instance(ctx, "1")
	require.True(t, fail.Is(err, fail.NotFound), "its records go with it: %v", err)

	// A record that cannot be read itself goes with its owner, whether that can or not, and a namesake is as any other.
	for name, into := range map[string]*store.Store{"a damaged owner": damaging, "an owner that can be read": db} {
		g := group("g")
		g.Parent, g.History = domain.KeyOf(composite), domain.NewHistory(time.Now())
		g.History.Append(domain.Instantiated, "2", 1, time.Now())
		key := domain.KeyOf(g)
		require.NoError(t, into.Create(ctx, g), name)
		for id, records := range map[string]*store.Store{"1": db, "2": damaging} {
			require.NoError(t, records.PutInstance(ctx, &domain.Instance{ContextID: id, Owner: key, Operation: domain.OpInstantiate, Status: domain.ContextUpdated}), name)
		}
		err := documents.Delete(ctx, domain.DeploymentIntentGroups, key)
		require.True(t, fail.Is(err, fail.Conflict), "%s: %v", name, err)
		require.ErrorContains(t, err, "delete it with unreadable=true", name)
		_, err = documents.Discard(ctx, domain.DeploymentIntentGroups, key, false)
		require.True(t, fail.Is(err, fail.Conflict), "%s: %v", name, err)
		require.ErrorContains(t, err, "unreadable=true&abandon=true", name)
		require.Contains(t, strings.Join(gone(domain.DeploymentIntentGroups, key, true), "; "), "what it has in clusters cannot be told", name)
		left, err := db.InstancesOf(ctx, key)
		require.NoError(t, err, name)
		require.Empty(t, left, name)
		_, err = db.Standing(ctx)
		require.NoError(t, err, name)

		again := group("g")
		again.Parent = domain.KeyOf(composite)
		again.Spec.CompositeProfile, again.Spec.LogicalCloud = "", ""
		require.NoError(t, db.Create(ctx, again), name)
		require.NoError(t, documents.Delete(ctx, domain.DeploymentIntentGroups, key), name)
	}
	key := domain.KeyOf(composite).Child("deployment-intent-groups", "g")
	require.NoError(t, damaging.PutInstance(ctx, &domain.Instance{ContextID: "4", Owner: key, Status: domain.ContextUpdated}))
	left, err = documents.Remove(ctx, domain.DeploymentIntentGroups, key)
	require.NoError(t, err, "what somebody has left who has died goes by asking again")
	require.Contains(t, strings.Join(left, "; "), "what it has in clusters cannot be told")
	records, err := db.InstancesOf(ctx, key)
	require.NoError(t, err)
	require.Empty(t, records)
	lost := &domain.PlacementIntent{Identity: domain.Identity{Parent: key}, Metadata: domain.Metadata{Name: "i"}}
	require.NoError(t, damaging.Create(ctx, lost))
	require.Empty(t, gone(domain.PlacementIntents, domain.KeyOf(lost), false), "no group is there that it could have been of")

	kept := group("kept")
	kept.Parent, kept.History = domain.KeyOf(composite), domain.NewHistory(time.Now())
	require.NoError(t, db.Create(ctx, kept))
	require.NoError(t, storetest.Open(t, keyless).PutInstance(ctx, &domain.Instance{ContextID: "3", Owner: domain.KeyOf(kept), Status: domain.ContextUpdated}))
	refused(fail.Conflict, "bring the key back", domain.DeploymentIntentGroups, domain.KeyOf(kept), true)
	err = documents.Delete(ctx, domain.DeploymentIntentGroups, domain.KeyOf(kept))
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.ErrorContains(t, err, "bring the key back")
	require.NoError(t, db.DeleteInstance(ctx, "3"))
	refused(fail.Conflict, "can be read", domain.DeploymentIntentGroups, domain.KeyOf(kept), true)
	require.NoError(t, documents.Delete(ctx, domain.DeploymentIntentGroups, domain.KeyOf(kept)))

	require.NoError(t, documents.Delete(ctx, domain.CompositeApps, domain.KeyOf(composite)))
	require.Empty(t, gone(domain.Projects, p, false))
	_, err = db.Get(ctx, domain.ProjectRoleBindings, domain.KeyOf(bound))
	require.True(t, fail.Is(err, fail.NotFound), "rights in it are nobody's any more: %v", err)
	require.Len(t, request.Removed(), 1)

	account := &domain.ServiceAccount{Metadata: domain.Metadata{Name: "ci"}}
	require.NoError(t, damaging.Create(ctx, account))
	require.Empty(t, gone(domain.ServiceAccounts, domain.KeyOf(account), false))
	binding := domain.RoleBindings.New().(*domain.RoleBinding)
	binding.Name, binding.Spec.Role = "b", domain.RoleAdmin
	require.NoError(t, damaging.Create(ctx, binding))
	require.Empty(t, gone(domain.RoleBindings, domain.KeyOf(binding), false))
	_, err = documents.Rights(ctx)
	require.NoError(t, err, "what gave nothing is gone")
}

// TestWhatIsWholeIsNotDeletedWithWhatIsDamaged, whichever is met first, whether its key is missing or a newer build has written it, and whether its
// owner can be read or not: that does not go either.
func TestWhatIsWholeIsNotDeletedWithWhatIsDamaged(t *testing.T) {
	ctx, config := t.Context(), storetest.Config(t)
	db, damaging := damaged(t, config, "test")
	lifecycle := service.NewLifecycle(db, db, &heard{store: db}, &begins{}, time.Now)
	documents := service.New(service.Deps{Store: db, Instances: lifecycle, Operations: lifecycle, Now: time.Now})
	keyless := storetest.Config(t)
	keyless.Database, keyless.Keys = config.Database, secretOf(t, "gone")
	lacking := storetest.Open(t, keyless)
	client, err := mongo.Connect(options.Client().ApplyURI(config.URI))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Disconnect(context.WithoutCancel(ctx))) })
	raw := client.Database(config.Database).Collection("instances")
	const above = domain.Key("projects/p/composite-apps/ca/v1")
	record := func(into *store.Store, id string, owner domain.Key) {
		require.NoError(t, into.PutInstance(ctx, &domain.Instance{ContextID: id, Owner: owner, Status: domain.ContextUpdated}))
	}
	newer := func(id string, owner domain.Key) {
		record(db, id, owner)
		r, err := raw.UpdateByID(ctx, id, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 1000}}}})
		require.NoError(t, err)
		require.Equal(t, int64(1), r.ModifiedCount)
	}
	ids := func(owner domain.Key) []string {
		_, err := db.InstancesOf(ctx, owner)
		names, err := domain.UnreadableOf(err)
		require.NoError(t, err)
		return names
	}
	for name, c := range map[string]struct {
		into  *store.Store
		put   func(owner domain.Key) // 1 and 2
		plain bool                   // an owner that can be read, and of which a plain delete is refused as well
		says  string
	}{
		"a missing key, after a damaged one": {db, func(k domain.Key) { record(damaging, "1", k); record(lacking, "2", k) }, true, "bring the key back"},
		"a missing key, first":               {db, func(k domain.Key) { record(lacking, "1", k); record(damaging, "2", k) }, true, "bring the key back"},
		"a newer build's":                    {db, func(k domain.Key) { record(damaging, "1", k); newer("2", k) }, true, "newer Drover"},
		"of a damaged owner":                 {damaging, func(k domain.Key) { record(damaging, "1", k); record(lacking, "2", k) }, false, "bring the key back"},
		"of a damaged owner, and all":        {damaging, func(k domain.Key) { record(lacking, "1", k); record(lacking, "2", k) }, false, "bring the key back"},
		"of a damaged owner, a newer one's":  {damaging, func(k domain.Key) { newer("1", k); record(damaging, "2", k) }, false, "newer Drover"},
	} {
		g := group("g")
		g.Parent, g.History = above, domain.NewHistory(time.Now())
		key := domain.KeyOf(g)
		require.NoError(t, c.into.Create(ctx, g), name)
		c.put(key)
		_, err := documents.Discard(ctx, domain.DeploymentIntentGroups, key, true)
		require.True(t, fail.Is(err, fail.Conflict), "%s: %v", name, err)
		require.Contains(t, fail.TextOf(err), c.says, name)
		if c.plain {
			err := documents.Delete(ctx, domain.DeploymentIntentGroups, key)
			require.True(t, fail.Is(err, fail.Conflict), "%s: %v", name, err)
			require.Contains(t, fail.TextOf(err), c.says, name)
		}
		there, err := db.Exists(ctx, domain.DeploymentIntentGroups, key)
		require.NoError(t, err, name)
		require.True(t, there, name)
		require.Equal(t, []string{"1", "2"}, ids(key), name)

		require.NoError(t, c.into.Delete(ctx, domain.DeploymentIntentGroups, key, g.Revision), name)
		_, err = lifecycle.Forget(ctx, key)
		require.True(t, fail.Is(err, fail.Conflict), "%s: %v", name, err)
		require.Equal(t, []string{"1", "2"}, ids(key), name)
		require.NoError(t, db.DeleteInstances(ctx, []string{"1", "2"}), name)
	}

	// A cloud that was never instantiated, and what one of its name has left.
	cloud := &domain.LogicalCloud{Identity: domain.Identity{Parent: "projects/p"}, Metadata: domain.Metadata{Name: "c"}}
	cloud.History = domain.NewHistory(time.Now())
	require.NoError(t, db.Create(ctx, cloud))
	record(lacking, "5", domain.KeyOf(cloud))
	err = documents.Delete(ctx, domain.LogicalClouds, domain.KeyOf(cloud))
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.Contains(t, fail.TextOf(err), "bring the key back")
	_, err = db.Get(ctx, domain.LogicalClouds, domain.KeyOf(cloud))
	require.NoError(t, err)
	require.Equal(t, []string{"5"}, ids(domain.KeyOf(cloud)))
	require.NoError(t, db.DeleteInstance(ctx, "5"))
	record(damaging, "5", domain.KeyOf(cloud))
	_, err = documents.Discard(ctx, domain.LogicalClouds, domain.KeyOf(cloud), false)
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.Contains(t, fail.TextOf(err), `what is recorded of logical cloud "c" cannot be read, so that nobody can terminate it`)
}

// ahead is a store in which a newer build has written the collector newer.
type ahead struct{ *store.Store }

func (a ahead) Get(ctx context.Context, n *domain.Noun, key domain.Key) (domain.Object, error) {
	if n == domain.ProjectCollectors && strings.HasSuffix(string(key), "/newer") {
		return nil, version.Refuse("it", 2, 1)
	}
	return a.Store.Get(ctx, n, key)
}

// TestWhatTablesAreMadeOfCannotBeRead in part: each collector that cannot be read says so in its results, intents and labels that cannot are left
// out with a warning, and the other tables are there, asked for once and in a stream.
func TestWhatTablesAreMadeOfCannotBeRead(t *testing.T) {
	ctx, at := t.Context(), time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)
	db, damaging := damaged(t, storetest.Config(t), "other")
	g := group("dig")
	g.Parent, g.History = "projects/p/composite-apps/ca/v1", domain.NewHistory(at)
	g.History.Append(domain.Instantiated, "1", 1, at)
	key := domain.KeyOf(g)
	require.NoError(t, db.Create(ctx, g))
	put := func(v any) domain.Digest {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		digest, err := db.PutBlob(ctx, data)
		require.NoError(t, err)
		return digest
	}
	id, cluster := plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"}, domain.ClusterName{Provider: "cp", Name: "a"}
	b := plan.Bundle{App: "web", Resources: []plan.Resource{{ResourceID: id, Manifest: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}`)}}}
	require.NoError(t, db.PutInstance(ctx, &domain.Instance{
		ContextID: "1", Owner: key, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated, Namespace: "default", Ended: at,
		Plan: put(plan.Plan{ContextID: "1", Owner: key, Namespace: "default", Apps: []plan.App{{
			Name: "web", Resources: []plan.ResourceID{id}, Bundle: put(b), Targets: []plan.Target{{ClusterName: cluster}},
		}}}),
	}))
	collector := func(into *store.Store, name, def string) {
		c := domain.ProjectCollectors.New().(*domain.StatusCollector)
		c.Parent, c.Metadata.Name = "projects/p", name
		c.Spec.Select = []domain.NamedExpression{{Name: "n", Def: def}}
		require.NoError(t, into.Create(ctx, c))
	}
	collector(db, "good", "inventory.labels")
	collector(damaging, "bad", "inventory.name")
	for _, label := range []string{"one", "two"} {
		l := &domain.ClusterLabel{Identity: domain.Identity{Parent: cluster.Key()}, Label: label}
		require.NoError(t, map[string]*store.Store{"one": db, "two": damaging}[label].Create(ctx, l))
	}
	elsewhere := domain.ClusterName{Provider: "cp", Name: "b"} // which is nothing to who sees the group
	require.NoError(t, damaging.Create(ctx, &domain.ClusterLabel{Identity: domain.Identity{Parent: elsewhere.Key()}, Label: "other"}))
	for name, into := range map[string]*store.Store{"i": db, "lost": damaging} {
		i := domain.StatusIntents.New().(*domain.StatusIntent)
		i.Parent, i.Name, i.Spec.StatusCollectors = key, name, []string{"bad", "good", "newer"}
		require.NoError(t, into.Create(ctx, i))
	}
	require.NoError(t, damaging.Create(ctx, &domain.App{Identity: domain.Identity{Parent: g.Parent}, Metadata: domain.Metadata{Name: "web"}}))

	tables := service.NewTables(service.NewLifecycle(ahead{db}, db, ears{db}, &progress{}, func() time.Time { return at }))
	check := func(list *combined.List, request *caller.Request) {
		t.Helper()
		require.Len(t, list.Items, 1)
		results := list.Items[0].Results
		require.Len(t, results, 3)
		require.Equal(t, []string{"bad", "good", "newer"}, []string{results[0].Name, results[1].Name, results[2].Name})
		require.Contains(t, results[0].Errors[0], "cannot be read")
		require.Empty(t, results[1].Errors)
		require.JSONEq(t, `["one"]`, string(results[1].Rows[0].Columns[0].Array))
		require.Contains(t, results[2].Errors[0], "newer Drover")
		if request != nil {
			warnings := request.Warnings()
			require.Len(t, warnings, 2)
			require.Contains(t, warnings[0], string(key)+"/status-intents/lost is left out")
			require.Contains(t, warnings[1], "/two is left out")
		}
	}
	decoded := func(data []byte) *combined.List {
		var list combined.List
		require.NoError(t, json.Unmarshal(data, &list))
		return &list
	}
	for range 2 { // once anew, and once as it is kept
		for _, query := range []string{"", "app=web&collector=good&collector=bad&collector=newer"} {
			request := &caller.Request{}
			d, err := tables.CombinedStatus(caller.WithRequest(ctx, request), key, parameters(t, query))
			require.NoError(t, err)
			var data bytes.Buffer
			_, err = d.WriteTo(&data)
			require.NoError(t, err)
			check(decoded(data.Bytes()), request)
		}
	}
	require.NoError(t, tables.CheckFilter(ctx, key, parameters(t, "app=web&collector=unknown")), "the intent that is lost may name it")
	require.True(t, fail.Is(tables.CheckFilter(ctx, key, parameters(t, "app=none")), fail.Invalid))

	question, err := service.CombinedStatusQuestion(nil)
	require.NoError(t, err)
	look, ok := tables.Look(key, question.Extent())
	require.True(t, ok)
	defer look.Close()
	before, err := look.Sign(ctx)
	require.NoError(t, err)
	snapshot, err := look.Snapshot(ctx)
	require.NoError(t, err)
	answer, err := question.Answer(ctx, snapshot, nil)
	require.NoError(t, err)
	check(decoded(answer.Document()), nil)
	i := domain.StatusIntents.New().(*domain.StatusIntent)
	i.Parent, i.Name, i.Spec.StatusCollectors = key, "j", []string{"good"}
	require.NoError(t, damaging.Create(ctx, i))
	after, err := look.Sign(ctx)
	require.NoError(t, err)
	require.NotEqual(t, before, after)

	request, kept := &caller.Request{}, tables.KeptPrograms()
	require.Positive(t, kept)
	d, err := tables.Query(caller.WithRequest(ctx, request), key, &service.TableQuery{Spec: domain.StatusCollectorSpec{
		Select: []domain.NamedExpression{{Name: "n", Def: "inventory.labels"}},
	}})
	require.NoError(t, err)
	var data bytes.Buffer
	_, err = d.WriteTo(&data)
	require.NoError(t, err)
	require.JSONEq(t, `["one"]`, string(decoded(data.Bytes()).Items[0].Results[0].Rows[0].Columns[0].Array))
	require.True(t, slices.ContainsFunc(request.Warnings(), func(w string) bool { return strings.Contains(w, "/two is left out") }))
	require.Len(t, request.Warnings(), 1, "it goes by no stored intent")
	require.Equal(t, kept, tables.KeptPrograms(), "what nobody has stored is not kept")
}

// secretOf are keys of which one of that name seals.
func secretOf(t *testing.T, name string) *secret.Sealer {
	t.Helper()
	s, err := secret.Parse(name + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32))))
	require.NoError(t, err)
	return s
}

// TestACloudThatCannotBeReadIsNamed: it may have the user, or the namespace, that somebody asks for, also where its records alone tell of the cluster. Who is
// refused is told so, with what to do, and by its name where he may see it.
func TestACloudThatCannotBeReadIsNamed(t *testing.T) {
	ctx, config := t.Context(), storetest.Config(t)
	db, damaging := damaged(t, config, "test")
	keyless := storetest.Config(t)
	keyless.Database, keyless.Keys = config.Database, secretOf(t, "gone")
	lacking := storetest.Open(t, keyless)
	client, err := mongo.Connect(options.Client().ApplyURI(config.URI))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Disconnect(context.WithoutCancel(ctx))) })
	raw := client.Database(config.Database)
	newer := func(collection, id string) {
		t.Helper()
		r, err := raw.Collection(collection).UpdateByID(ctx, id, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 1000}}}})
		require.NoError(t, err)
		require.Equal(t, int64(1), r.ModifiedCount)
	}
	lifecycle := service.NewLifecycle(db, db, &heard{store: db}, &begins{}, time.Now)
	documents := service.New(service.Deps{Store: db, Instances: lifecycle, Operations: lifecycle, Now: time.Now})
	edge := domain.ClusterName{Provider: "p", Name: "c"}
	require.NoError(t, db.Create(ctx, &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	require.NoError(t, db.Create(ctx, &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: "c"}}))
	cloud := func(project domain.Key) *domain.LogicalCloud {
		c := &domain.LogicalCloud{Identity: domain.Identity{Parent: project}, Metadata: domain.Metadata{Name: "lc"}, History: domain.NewHistory(time.Now())}
		c.Spec.Level, c.Spec.Namespace, c.Spec.User.UserName = domain.LevelStandard, "tenant-other", "alice"
		return c
	}
	reference := func(project domain.Key) *domain.ClusterReference {
		r := &domain.ClusterReference{Identity: domain.Identity{Parent: project + "/logical-clouds/lc"}, Metadata: domain.Metadata{Name: "r"}}
		r.Spec.ClusterProvider, r.Spec.Cluster = edge.Provider, edge.Name
		return r
	}
	const own, theirs, their = domain.Key("projects/own"), domain.Key("projects/theirs"), domain.Key("projects/theirs/logical-clouds/lc")
	asks := cloud(own)
	asks.Spec.Namespace = "own"
	require.NoError(t, db.Create(ctx, asks))
	bind := func(who string, scope domain.Key, role string) *domain.RoleBinding {
		return &domain.RoleBinding{Identity: domain.Identity{Parent: scope}, Spec: domain.RoleBindingSpec{Role: role, Subjects: []domain.RightSubject{{Kind: domain.SubjectUser, Name: who}}}}
	}
	book := rights.NewBook(nil, []*domain.RoleBinding{
		bind("bert", own, domain.RoleProjectAdmin), bind("bert", "cluster-providers/p", domain.RoleClusterUser),
		bind("dora", own, domain.RoleProjectAdmin), bind("dora", "cluster-providers/p", domain.RoleClusterUser), bind("dora", theirs, domain.RoleViewer),
	})
	as := func(who string) context.Context {
		return rights.With(ctx, book.Of(caller.Identity{Kind: caller.User, Name: who}))
	}
	const back, put = "it is sealed with a key that is not configured: whoever runs Drover is to bring the key back", "have it put back from a backup, or the cloud deleted with unreadable=true"
	for name, c := range map[string]struct {
		make        func()
		user, space fail.Kind
		says        string
	}{
		"its key is lost": {func() {
			require.NoError(t, lacking.Create(ctx, cloud(theirs)))
			require.NoError(t, db.Create(ctx, reference(theirs)))
		}, fail.Forbidden, fail.Conflict, "it cannot be read, as " + back},
		"its key is lost, and that of its records": {func() {
			require.NoError(t, lacking.Create(ctx, cloud(theirs)))
			require.NoError(t, lacking.PutInstance(ctx, &domain.Instance{ContextID: "1", Owner: their, Status: domain.ContextInstantiated}))
		}, fail.Forbidden, fail.Conflict, "it cannot be read, as " + back},
		"the key of its records is lost": {func() {
			require.NoError(t, db.Create(ctx, cloud(theirs)))
			require.NoError(t, lacking.PutInstance(ctx, &domain.Instance{ContextID: "1", Owner: their, Status: domain.ContextInstantiated}))
		}, fail.Forbidden, fail.Conflict, "what is recorded of it cannot be read, as " + back},
		"it is damaged": {func() {
			require.NoError(t, damaging.Create(ctx, cloud(theirs)))
			require.NoError(t, db.Create(ctx, reference(theirs)))
		}, fail.Forbidden, fail.Conflict, put},
		"a newer one has written it": {func() {
			require.NoError(t, db.Create(ctx, cloud(theirs)))
			newer(domain.LogicalClouds.Kind, string(their))
			require.NoError(t, db.Create(ctx, reference(theirs)))
		}, fail.Unavailable, fail.Unavailable, "a newer Drover has written it: ask that, or have this one replaced by it"},
	} {
		t.Run(name, func(t *testing.T) {
			c.make()
			t.Cleanup(func() {
				ctx := context.WithoutCancel(ctx)
				for _, collection := range []string{domain.LogicalClouds.Kind, domain.ClusterReferences.Kind} {
					_, err := raw.Collection(collection).DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$regex", Value: "^" + string(theirs)}}}})
					require.NoError(t, err)
				}
				_, err := raw.Collection("instances").DeleteMany(ctx, bson.D{})
				require.NoError(t, err)
			})
			err := documents.Create(as("bert"), reference(own))
			require.True(t, fail.Is(err, c.user), "%v", err)
			require.Contains(t, fail.TextOf(err), `has spec.user.userName "alice", which a logical cloud of another project may have`)
			require.Contains(t, fail.TextOf(err), c.says)
			require.NotContains(t, fail.TextOf(err), "theirs")
			err = documents.Create(as("dora"), reference(own))
			require.True(t, fail.Is(err, c.user), "%v", err)
			require.Contains(t, fail.TextOf(err), `has spec.user.userName "alice", which `+string(their)+" may have")

			tenant := &domain.Tenant{Metadata: domain.Metadata{Name: "other"}, Spec: domain.TenantSpec{Cluster: edge.String()}}
			err = documents.Create(ctx, tenant)
			require.True(t, fail.Is(err, c.space), "%v", err)
			require.Contains(t, fail.TextOf(err), string(their)+" may have namespace tenant-other of the tenant in cluster p+c: ")
			require.Contains(t, fail.TextOf(err), c.says)
			require.Contains(t, fail.TextOf(err), "or give the tenant another name or cluster")
		})
	}
}
