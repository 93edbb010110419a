package activities_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// large is a store whose documents of a noun do not fit into memory together.
type large struct{ *store.Store }

func (large) ListUnder(_ context.Context, n *domain.Noun, _ domain.Key) ([]domain.Object, error) {
	return nil, fail.New(fail.Internal, "there is no memory for all %s", n.Kind)
}

func TestSweepKeepsWhatIsReferredTo(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	ctx := t.Context()
	require.NoError(t, s.EnsureIndexes(ctx))
	put := func(text string) domain.Digest {
		d, err := s.PutBlob(ctx, []byte(text))
		require.NoError(t, err)
		return d
	}
	chart, replaced, archive, bundle := put("chart"), put("a chart that was replaced"), put("archive"), put(`{}`)
	template, file, overlays := put("template"), put("file"), put("[{},{}]")
	plan := put(fmt.Sprintf(`{"apps":[{"name":"web","bundle":%q,"variants":[{"overlay":"%s/1"}]}]}`, bundle, overlays))
	require.NoError(t, s.Create(ctx, &domain.App{Identity: domain.Identity{Parent: "projects/p/composite-apps/c/v1"}, Metadata: domain.Metadata{Name: "web"}, Chart: chart}))
	require.NoError(t, s.Create(ctx, &domain.Profile{Identity: domain.Identity{Parent: "projects/p/composite-apps/c/v1/composite-profiles/cp"}, Metadata: domain.Metadata{Name: "web"}, Archive: archive}))
	intent := domain.Key("projects/p/composite-apps/c/v1/deployment-intent-groups/g/generic-k8s-intents/i")
	resource := &domain.GenericResource{Identity: domain.Identity{Parent: intent}, Metadata: domain.Metadata{Name: "r"}, Template: template}
	require.NoError(t, s.Create(ctx, resource))
	require.NoError(t, s.Create(ctx, &domain.Customization{
		Identity: domain.Identity{Parent: domain.KeyOf(resource)}, Metadata: domain.Metadata{Name: "c"}, Files: []domain.CustomizationFile{{Name: "f", Content: file}},
	}))
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "1", Plan: plan, Status: domain.ContextTerminated, Ended: now.Add(2 * time.Hour)}))
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "2"}))

	require.NoError(t, s.Renewing(ctx, domain.ClusterName{Provider: "p", Name: "gone"}))
	require.NoError(t, s.ForgetTenant(ctx, "gone"))
	settings, _, err := s.SettingsVersion(ctx, "gone")
	require.NoError(t, err)

	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	l := &activities.Control{Store: large{s}, Now: func() time.Time { return now }}
	env.RegisterActivity(l)
	sweep := func() (removed int) {
		v, err := env.ExecuteActivity(l.Sweep)
		require.NoError(t, err)
		require.NoError(t, v.Get(&removed))
		return removed
	}
	require.Zero(t, sweep(), "all are young")
	now = now.Add(25 * time.Hour)
	require.Equal(t, 1, sweep())
	for what, d := range map[string]domain.Digest{
		"chart": chart, "archive": archive, "template": template, "file": file, "plan": plan, "bundle": bundle, "overlays": overlays,
	} {
		_, err := s.Blob(ctx, d)
		require.NoError(t, err, what)
	}
	renewals, err := s.Renewals(ctx)
	require.NoError(t, err)
	require.Empty(t, renewals)
	swept, _, err := s.SettingsVersion(ctx, "gone")
	require.NoError(t, err)
	require.NotEqual(t, settings, swept)
	_, err = s.Blob(ctx, replaced)
	require.Equal(t, fail.NotFound, fail.KindOf(err))
}

// kept are the clouds whose certificates are renewed.
type kept struct {
	activities.Keepers
	clouds []domain.Key
}

func (k *kept) Keep(_ context.Context, cloud domain.Key) error {
	k.clouds = append(k.clouds, cloud)
	return nil
}

// TestSweepKeepsCertificates of clouds that are instantiated, where somebody has ended by hand what does that.
func TestSweepKeepsCertificates(t *testing.T) {
	s := storetest.Open(t, store.Config{})
	ctx := t.Context()
	plan, err := s.PutBlob(ctx, []byte(`{}`))
	require.NoError(t, err)
	for id, i := range map[string]*domain.Instance{
		"1": {Owner: "projects/p/logical-clouds/kept", Plan: plan, Status: domain.ContextInstantiated},
		"2": {Owner: "projects/p/logical-clouds/level-0", Status: domain.ContextInstantiated},
		"3": {Owner: "projects/p/logical-clouds/on-its-way", Plan: plan, Status: domain.ContextInstantiating},
		"4": {Owner: "projects/p/logical-clouds/gone", Plan: plan, Status: domain.ContextTerminated},
		"5": {Owner: "projects/p/composite-apps/c/v1/deployment-intent-groups/g", Plan: plan, Status: domain.ContextInstantiated},
	} {
		i.ContextID = id
		require.NoError(t, s.PutInstance(ctx, i))
	}
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	k := &kept{}
	l := &activities.Control{Store: s, Now: time.Now, Keepers: k}
	env.RegisterActivity(l)
	_, err = env.ExecuteActivity(l.Sweep)
	require.NoError(t, err)
	require.Equal(t, []domain.Key{"projects/p/logical-clouds/kept"}, k.clouds)
}

// TestSweepForgetsCertificatesThatHaveExpired and no others.
func TestSweepForgetsCertificatesThatHaveExpired(t *testing.T) {
	s, ctx, now := storetest.Open(t, store.Config{}), t.Context(), time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	edge := domain.ClusterName{Provider: "p", Name: "c"}
	good := domain.Certified{Cluster: edge, User: "bob", Scope: "projects/p", Expires: now.Add(time.Hour)}
	late := domain.Certified{Cluster: edge, User: "bob", Scope: "projects/p", Expires: now.Add(-time.Minute)} // the cluster's clock may be behind
	for _, c := range []domain.Certified{{Cluster: edge, User: "bob", Scope: "projects/p", Expires: now.Add(-2 * time.Hour)}, late, good} {
		require.NoError(t, s.PutCertified(ctx, c))
	}
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	l := &activities.Control{Store: s, Now: func() time.Time { return now }}
	env.RegisterActivity(l)
	_, err := env.ExecuteActivity(l.Sweep)
	require.NoError(t, err)
	left, err := s.Certified(ctx, edge, "bob", time.Time{})
	require.NoError(t, err)
	require.Equal(t, []domain.Certified{late, good}, left)
}

// TestASweepByAWrongClock removes nothing, and is done by the next attempt, which may be of another worker.
func TestASweepByAWrongClock(t *testing.T) {
	database := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s, ctx, now := storetest.Open(t, store.Config{Now: func() time.Time { return database }}), t.Context(), database.Add(31*24*time.Hour)
	good := domain.Certified{Cluster: domain.ClusterName{Provider: "p", Name: "c"}, User: "bob", Scope: "projects/p", Expires: database.Add(30 * 24 * time.Hour)}
	require.NoError(t, s.PutCertified(ctx, good))
	group := &domain.DeploymentIntentGroup{Identity: domain.Identity{Parent: "projects/p/composite-apps/c/v1"}, Metadata: domain.Metadata{Name: "g"}}
	require.NoError(t, s.Create(ctx, group))
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "1", Owner: domain.KeyOf(group), Status: domain.ContextTerminated, Accepted: database, Ended: database}))
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	l := &activities.Control{Store: s, Now: func() time.Time { return now }, Clock: func(context.Context) (time.Time, error) { return database, nil }}
	env.RegisterActivity(l)
	_, err := env.ExecuteActivity(l.Sweep)
	require.ErrorContains(t, err, "this worker's clock and the database's are 744h0m0s apart, so that nothing is swept: set them right")
	left, err := s.Certified(ctx, good.Cluster, "bob", time.Time{})
	require.NoError(t, err)
	require.Equal(t, []domain.Certified{good}, left)
	instances, err := s.Instances(ctx)
	require.NoError(t, err)
	require.Len(t, instances, 1)

	database = now
	_, err = env.ExecuteActivity(l.Sweep)
	require.NoError(t, err)
	left, err = s.Certified(ctx, good.Cluster, "bob", time.Time{})
	require.NoError(t, err)
	require.Empty(t, left)
	instances, err = s.Instances(ctx)
	require.NoError(t, err)
	require.Empty(t, instances)
}

// away is an engine that does not answer.
type away struct{ activities.Keepers }

func (away) Keep(context.Context, domain.Key) error {
	return fail.New(fail.Unavailable, "it does not answer")
}

// plansRead is a store whose blobs are counted as they are read.
type plansRead struct {
	*store.Store
	n int
}

func (s *plansRead) Blob(ctx context.Context, d domain.Digest) ([]byte, error) {
	s.n++
	return s.Store.Blob(ctx, d)
}

// TestSweepReadsPlansOnce: what goes on failing beside the blobs has the plan of every context read by one attempt, not by all.
func TestSweepReadsPlansOnce(t *testing.T) {
	now := time.Now()
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	ctx := t.Context()
	_, err := s.PutBlob(ctx, []byte("nobody's"))
	require.NoError(t, err)
	now = now.Add(25 * time.Hour)
	p, err := s.PutBlob(ctx, []byte(`{}`))
	require.NoError(t, err)
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "1", Owner: "projects/p/logical-clouds/kept", Plan: p, Status: domain.ContextInstantiated}))
	read := &plansRead{Store: s}
	l := &activities.Control{Store: read, Now: time.Now, Keepers: away{}}
	var told converter.EncodedValues
	attempt := func() (removed int, err error) {
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		env.SetTestTimeout(time.Minute)
		env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) { told = details })
		if told != nil {
			var details any
			require.NoError(t, told.Get(&details))
			env.SetHeartbeatDetails(details)
		}
		env.RegisterActivity(l)
		v, err := env.ExecuteActivity(l.Sweep)
		if err == nil {
			err = v.Get(&removed)
		}
		return removed, err
	}
	for range 3 {
		_, err = attempt()
		require.ErrorContains(t, err, "it does not answer")
		require.Equal(t, 1, read.n)
	}
	l.Keepers = &kept{}
	removed, err := attempt()
	require.NoError(t, err)
	require.Equal(t, 1, removed, "by the first one")
	require.Equal(t, 1, read.n)
}

// slowPlans is a store that does not get to the end of the plans.
type slowPlans struct {
	*store.Store
	reads func()
}

func (s slowPlans) Blob(ctx context.Context, _ domain.Digest) ([]byte, error) {
	s.reads()
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSweepReadsPlansLast: where it does not get through all plans in its time, all else is done.
func TestSweepReadsPlansLast(t *testing.T) {
	now := time.Now()
	s := storetest.Open(t, store.Config{})
	ctx := t.Context()
	cloud := &domain.LogicalCloud{Identity: domain.Identity{Parent: "projects/p"}, Metadata: domain.Metadata{Name: "kept"}, History: domain.NewHistory(now)}
	cloud.History.Append(domain.Instantiated, "1", 1, now)
	require.NoError(t, s.Create(ctx, cloud))
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "1", Owner: domain.KeyOf(cloud), Plan: "sha256:p", Status: domain.ContextInstantiated}))
	old := now.Add(-48 * time.Hour)
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "2", Owner: domain.KeyOf(cloud), Plan: "sha256:q", Status: domain.ContextTerminated, Accepted: old, Ended: old}))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &kept{}
	l := &activities.Control{Store: slowPlans{s, cancel}, Now: time.Now, Keepers: k}
	_, err := l.Sweep(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []domain.Key{domain.KeyOf(cloud)}, k.clouds)
	there, err := s.Instances(t.Context())
	require.NoError(t, err)
	require.Len(t, there, 1, "the record that no history has is gone")
}

// shards are those that run, with what they know.
type shards struct {
	activities.Shards
	running map[string]*activities.WatchSet // by the name of a cluster of theirs
	of      func(shard int) string
	watched func(activities.Watching)
	told    []activities.Watching
	taken   []string // back
}

func (s *shards) Changes(_ context.Context, shard int, in activities.ChangesInput) (*activities.WatchSet, error) {
	set, ok := s.running[s.of(shard)]
	switch {
	case !ok:
		return nil, fail.New(fail.NotFound, "it does not run")
	case set == nil:
		return nil, fail.New(fail.Timeout, "it does not answer")
	case in.Term >= 0:
		return nil, fail.New(fail.Internal, "who asks is taken for one of its activities")
	default:
		return set, nil
	}
}

func (s *shards) Watch(_ context.Context, _ int, w activities.Watching) error {
	s.told = append(s.told, w)
	if s.watched != nil {
		s.watched(w)
	}
	return nil
}

func (s *shards) Unwatch(_ context.Context, _ int, contextID string) error {
	s.taken = append(s.taken, contextID)
	return nil
}

// TestSweepWatchesAgain what contexts have in clusters whose shard does not know of it: somebody has ended by hand what watched. What ends
// meanwhile is not watched for good. One whose plan is gone keeps nobody from anything else.
func TestSweepWatchesAgain(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	ctx := t.Context()
	c := far("a", "b", "c") // each of another shard
	planned, err := json.Marshal(plan.Plan{Apps: []plan.App{{Name: "x", Targets: []plan.Target{{ClusterName: c[0]}, {ClusterName: c[1]}, {ClusterName: c[2]}, {ClusterName: far("left0")[0], Leaving: true}}}}})
	require.NoError(t, err)
	digest, err := s.PutBlob(ctx, planned)
	require.NoError(t, err)
	for id, i := range map[string]*domain.Instance{
		"0": {Plan: "sha256:gone", Status: domain.ContextInstantiated},
		"1": {Plan: digest, Status: domain.ContextInstantiated},
		"2": {Status: domain.ContextInstantiated},
		"3": {Plan: digest, Label: "1", Status: domain.ContextUpdated},
		"4": {Plan: digest, Label: "known", Status: domain.ContextTerminateFailed},
		"5": {Plan: digest, Status: domain.ContextTerminated},
		"6": {Plan: digest, Status: domain.ContextInstantiating},
	} {
		i.ContextID = id
		require.NoError(t, s.PutInstance(ctx, i))
	}
	w := &shards{running: map[string]*activities.WatchSet{"b": {Clusters: c[1:2], Contexts: []string{"known"}, Over: true}, "c": nil}}
	w.of = func(shard int) string {
		for _, x := range c {
			if activities.ShardOf(x) == shard {
				return x.Name
			}
		}
		return ""
	}
	w.watched = func(told activities.Watching) {
		if told.ContextID == "6" {
			require.NoError(t, s.UpdateInstance(ctx, "6", func(i *domain.Instance) error { i.Status = domain.ContextTerminated; return nil }))
		}
	}
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	l := &activities.Control{Store: s, Now: time.Now, Shards: w}
	env.RegisterActivity(l)
	said := domain.ObservedApp{ContextID: "nobody's", App: "a", Cluster: c[0]}
	require.NoError(t, s.PutObservation(ctx, &domain.Observation{ObservedApp: said}))
	now = now.Add(25 * time.Hour)
	_, err = env.ExecuteActivity(l.Sweep)
	require.Error(t, err, "somebody is to know of the plan")
	observed, err := s.Observed(ctx, []string{said.ContextID})
	require.NoError(t, err)
	require.Empty(t, observed)
	require.ElementsMatch(t, []activities.Watching{
		{ContextID: "1", Clusters: c[:1]}, {ContextID: "1", Clusters: c[1:2]},
		{ContextID: "known", Clusters: c[:1]},
		{ContextID: "6", Clusters: c[:1]}, {ContextID: "6", Clusters: c[1:2]},
	}, w.told)
	require.Equal(t, []string{"6", "6"}, w.taken)
}

// ending is a store in which contexts end, and begin, while somebody looks.
type ending struct {
	*store.Store
	listed int
	after  map[int]func() // a list of all that are active
	down   bool           // for one question
}

func (e *ending) ActiveInstances(ctx context.Context) ([]*domain.Instance, error) {
	found, err := e.Store.ActiveInstances(ctx)
	e.listed++
	if after := e.after[e.listed]; after != nil {
		after()
	}
	return found, err
}

func (e *ending) Instance(ctx context.Context, contextID string) (*domain.Instance, error) {
	if e.down {
		e.down = false
		return nil, fail.New(fail.Unavailable, "the database is away")
	}
	return e.Store.Instance(ctx, contextID)
}

// TestSweepWatchesNothingThatHasEnded: a context ends while its shard is told of it, and who tells cannot ask whether it has. What begins
// meanwhile is watched on.
func TestSweepWatchesNothingThatHasEnded(t *testing.T) {
	s := &ending{Store: storetest.Open(t, store.Config{})}
	ctx := t.Context()
	a := far("a")
	planned, err := json.Marshal(plan.Plan{Apps: []plan.App{{Name: "x", Targets: []plan.Target{{ClusterName: a[0]}}}}})
	require.NoError(t, err)
	digest, err := s.PutBlob(ctx, planned)
	require.NoError(t, err)
	put := func(id, label string, status domain.ContextStatus) {
		require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: id, Label: label, Plan: digest, Status: status}))
	}
	end := func(id string) {
		require.NoError(t, s.UpdateInstance(ctx, id, func(i *domain.Instance) error { i.Status = domain.ContextTerminated; return nil }))
	}
	put("1", "", domain.ContextInstantiated)
	put("6", "", domain.ContextInstantiating)
	w := &shards{running: map[string]*activities.WatchSet{}, of: func(shard int) string {
		return map[bool]string{true: "a"}[shard == activities.ShardOf(a[0])]
	}}
	w.watched = func(told activities.Watching) {
		if told.ContextID == "6" {
			end("6")
			s.down = true
		}
	}
	s.after = map[int]func(){1: func() { end("1") }}
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	l := &activities.Control{Store: s, Now: time.Now, Shards: w}
	env.RegisterActivity(l)
	_, err = env.ExecuteActivity(l.Sweep)
	require.Error(t, err)
	require.Equal(t, []activities.Watching{{ContextID: "6", Clusters: a}}, w.told, "the other one has ended before")
	require.Empty(t, w.taken)

	put("7", "", domain.ContextInstantiated)
	put("8", "", domain.ContextUpdated)
	require.NoError(t, s.Create(ctx, &domain.Tenant{Metadata: domain.Metadata{Name: "t"}, ContextID: "tenant"}))
	require.NoError(t, s.PutHome(ctx, domain.Home{Tenant: "gone", ContextID: "home", Cluster: a[0], Namespace: "tenant-gone"}))
	w.running["a"] = &activities.WatchSet{Clusters: a, Contexts: []string{"6", "7", "8", "forgotten", "home", "tenant"}, Over: true}
	s.listed, s.after = 0, map[int]func(){2: func() { put("9", "8", domain.ContextInstantiating) }}
	_, err = env.ExecuteActivity(l.Sweep)
	require.NoError(t, err)
	require.Equal(t, []string{"6", "forgotten"}, w.taken)
	require.Len(t, w.told, 1)
}

// TestSweepRemovesWhatClustersSaidOfContextsThatAreGone: whoever watches has stored it after the deletion. What somebody may want to know stays.
func TestSweepRemovesWhatClustersSaidOfContextsThatAreGone(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	ctx := t.Context()
	edge := domain.ClusterName{Provider: "p", Name: "c"}
	says := func(contextID string) {
		t.Helper()
		noise := make([]byte, 100<<10) // so much that it is in chunks
		_, _ = rand.Read(noise)
		o := &domain.Observation{ObservedApp: domain.ObservedApp{ContextID: contextID, App: "a", Cluster: edge}}
		o.Resources = []domain.ObservedResource{{Kind: "ConfigMap", Name: "a", JSON: fmt.Appendf(nil, "%q", hex.EncodeToString(noise))}}
		require.NoError(t, s.PutObservation(ctx, o))
	}
	contexts := []string{"1", "2", "3", "4", "5", "6", "7"}
	for _, id := range contexts {
		says(id)
	}
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "1", Status: domain.ContextInstantiated}))
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{ContextID: "11", Label: "2", Status: domain.ContextInstantiated}))
	require.NoError(t, s.Create(ctx, &domain.Tenant{Metadata: domain.Metadata{Name: "t"}, ContextID: "3"}))
	require.NoError(t, s.PutHome(ctx, domain.Home{Tenant: "gone", ContextID: "4", Cluster: edge, Namespace: "tenant-gone"}))
	require.NoError(t, s.DeleteObservation(ctx, domain.ObservedApp{ContextID: "7", App: "a", Cluster: edge}, domain.Turn{}))

	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	l := &activities.Control{Store: s, Now: func() time.Time { return now }}
	env.RegisterActivity(l)
	stays := func(want ...string) {
		t.Helper()
		_, err := env.ExecuteActivity(l.Sweep)
		require.NoError(t, err)
		observed, err := s.Observed(ctx, contexts)
		require.NoError(t, err)
		ids := []string{}
		for _, o := range observed {
			ids = append(ids, o.ContextID)
		}
		require.Equal(t, want, ids)
	}
	stays("1", "2", "3", "4", "5", "6")
	now = now.Add(23 * time.Hour)
	says("5")
	now = now.Add(2 * time.Hour)
	stays("1", "2", "3", "4", "5")
	for _, id := range contexts {
		version, err := s.ObservationsVersion(ctx, id)
		require.NoError(t, err)
		require.Equal(t, id == "6" || id == "7", version == "", "of what has gone no version stays: %s", id)
	}
	now = now.Add(23 * time.Hour)
	stays("1", "2", "3", "4")
	again, err := s.SweepObservations(ctx, func(context.Context) (map[string]bool, error) {
		return map[string]bool{"1": true, "2": true, "3": true, "4": true}, nil
	}, 0)
	require.NoError(t, err)
	require.Zero(t, again, "chunks and changes have gone too")
}

// TestSweepRetiresWhatNoHistoryHas: records of contexts that are over go a day after they ended, unless somebody may still ask for them.
func TestSweepRetiresWhatNoHistoryHas(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	s := storetest.Open(t, store.Config{Now: func() time.Time { return now }})
	ctx := t.Context()
	require.NoError(t, s.EnsureIndexes(ctx))
	group := &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: "projects/p/composite-apps/c/v1"}, Metadata: domain.Metadata{Name: "g"}, History: domain.NewHistory(now),
	}
	for n, id := range []string{"cut", "known"} {
		group.History.Append(domain.Instantiated, id, n+1, now)
	}
	group.History.Leave("known", "given", 2, now)
	group.History.Actions = slices.DeleteFunc(group.History.Actions, func(a domain.Action) bool { return a.ContextID == "cut" })
	require.NoError(t, s.Create(ctx, group))
	cloud := &domain.LogicalCloud{Identity: domain.Identity{Parent: "projects/p"}, Metadata: domain.Metadata{Name: "lc"}, History: domain.NewHistory(now)}
	cloud.History.Append(domain.Instantiated, "cloud's", 1, now)
	require.NoError(t, s.Create(ctx, cloud))
	edge := domain.ClusterName{Provider: "p", Name: "c"}
	ended := func(i domain.Instance) {
		t.Helper()
		if i.Owner == "" {
			i.Owner = domain.KeyOf(group)
		}
		if i.Accepted.IsZero() {
			i.Accepted = now
		}
		i.Ended = now
		require.NoError(t, s.PutInstance(ctx, &i))
		require.NoError(t, s.PutLeaf(ctx, domain.Leaf{ID: domain.LeafID(i.ContextID, "web", edge), ContextID: i.ContextID, App: "web", Cluster: edge, Operation: domain.OpInstantiate}))
	}
	ended(domain.Instance{ContextID: "label", Status: domain.ContextUpdated})
	ended(domain.Instance{ContextID: "cut", Status: domain.ContextUpdated, Label: "label"})
	ended(domain.Instance{ContextID: "terminated", Status: domain.ContextTerminated})
	ended(domain.Instance{ContextID: "turned up", Status: domain.ContextTerminated, Remnants: "ConfigMap a is there"})
	ended(domain.Instance{ContextID: "failed", Status: domain.ContextTerminateFailed})
	ended(domain.Instance{ContextID: "known", Status: domain.ContextUpdated, Label: "label"})
	ended(domain.Instance{ContextID: "given", Status: domain.ContextUpdated, Label: "label"})
	ended(domain.Instance{ContextID: "before", Status: domain.ContextUpdated, Label: "label"})
	ended(domain.Instance{ContextID: "active", Status: domain.ContextInstantiated, Label: "label", From: "before"})
	ended(domain.Instance{ContextID: "cloud's", Status: domain.ContextTerminated, Owner: domain.KeyOf(cloud)})
	ended(domain.Instance{ContextID: "lately", Status: domain.ContextUpdated, Accepted: now.Add(24 * time.Hour)})
	ended(domain.Instance{ContextID: "nobody's", Status: domain.ContextTerminated, Owner: "projects/p/composite-apps/c/v1/deployment-intent-groups/away"})

	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	l := &activities.Control{Store: large{s}, Now: func() time.Time { return now }}
	env.RegisterActivity(l)
	all := []string{"active", "before", "cloud's", "cut", "failed", "given", "known", "label", "lately", "nobody's", "terminated", "turned up"}
	stay := func(want ...string) {
		t.Helper()
		_, err := env.ExecuteActivity(l.Sweep)
		require.NoError(t, err)
		there := []string{}
		instances, err := s.Instances(ctx)
		require.NoError(t, err)
		for _, i := range instances {
			there = append(there, i.ContextID)
		}
		require.ElementsMatch(t, want, there)
		for _, id := range all {
			leaves, err := s.Leaves(ctx, id)
			require.NoError(t, err)
			require.Equal(t, slices.Contains(want, id), len(leaves) == 1, id)
		}
	}
	stay(all...)
	now = now.Add(25 * time.Hour)
	stay("active", "before", "cloud's", "failed", "given", "known", "label", "lately", "nobody's", "turned up")
}
