package activities_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/observe"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/version"
)

// sky is what a watching activity has around it: the workflow whose set of clusters the test changes, watchers of
// clusters that the test speaks for, and a store.
type sky struct {
	*memory
	t       *testing.T
	clients *kube.Clusters

	mu        sync.Mutex
	sets      chan *activities.WatchSet
	asked     []activities.ChangesInput
	signals   map[int][]domain.ClusterName
	unwatched []string
	how       map[string]domain.Report
	watchers  map[domain.ClusterName]observe.Config // that are running
	watches   map[domain.ClusterName]domain.Watch
	by        map[domain.ClusterName]string // who has said that
	later     bool                          // all that is stored is of a later turn
	turns     []domain.Turn                 // of what was to be stored
	stored    []domain.ObservedApp
	observed  []domain.ObservedApp
	remnants  []activities.RemnantsInput
	pulses    map[string]bool
	beats     int   // how often there was to be a pulse
	away      error // why it cannot be stored
	heard     []activities.Heard
	begun     int             // watchers
	overlap   bool            // there were two of a cluster at a time
	linger    <-chan struct{} // watchers end when it is closed; nil for at once
	changed   *sync.Cond
	tenants   activities.Reported
	looked    [][]string       // for whether contexts have ended
	listed    int              // how often all contexts were
	damaged   map[string]error // records of contexts that cannot be read
	logged    bytes.Buffer     // by activities; to be read when they have ended
}

// Instance fails for a record that is damaged.
func (s *sky) Instance(ctx context.Context, contextID string) (*domain.Instance, error) {
	if err := s.damaged[contextID]; err != nil {
		return nil, err
	}
	return s.memory.Instance(ctx, contextID)
}

// InstancesByID counts as a look when it is answered.
func (s *sky) InstancesByID(ctx context.Context, contextIDs []string) ([]*domain.Instance, error) {
	found, err := s.memory.InstancesByID(ctx, contextIDs)
	s.do(func() { s.looked = append(s.looked, contextIDs) })
	return found, err
}

func newSky(t *testing.T) *sky {
	t.Helper()
	s := &sky{
		memory: newMemory(), t: t, sets: make(chan *activities.WatchSet), signals: map[int][]domain.ClusterName{},
		how: map[string]domain.Report{}, watchers: map[domain.ClusterName]observe.Config{},
		watches: map[domain.ClusterName]domain.Watch{}, by: map[domain.ClusterName]string{}, pulses: map[string]bool{},
	}
	s.changed = sync.NewCond(&s.mu)
	var err error
	s.clients, err = kube.NewClusters(kube.Config{}, s.registration)
	require.NoError(t, err)
	t.Cleanup(s.clients.Close)
	return s
}

func (s *sky) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

// until waits for what another goroutine does. The condition is asked under the lock.
func (s *sky) until(is func() bool) {
	s.t.Helper()
	late := false
	over := time.AfterFunc(time.Minute, func() { s.do(func() { late = true }) })
	defer over.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !is() {
		require.False(s.t, late, "it did not come to that")
		s.changed.Wait()
	}
}

func (s *sky) Watch(_ context.Context, shard int, w activities.Watching) error {
	s.do(func() { s.signals[shard] = append(s.signals[shard], w.Clusters...) })
	return nil
}

func (s *sky) Unwatch(_ context.Context, _ int, contextID string) error {
	s.do(func() { s.unwatched = append(s.unwatched, contextID) })
	return nil
}

func (s *sky) Changes(ctx context.Context, _ int, in activities.ChangesInput) (*activities.WatchSet, error) {
	s.do(func() { s.asked = append(s.asked, in) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case set := <-s.sets:
		return set, nil
	}
}

func (s *sky) Heard(_ context.Context, _ int, h activities.Heard) error {
	s.do(func() { s.heard = append(s.heard, h) })
	return nil
}

func (s *sky) Report(c domain.ClusterName) domain.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.how[c.Name]
}

// registration is what clients are made of; nobody answers there, and the watchers are the test's.
func (s *sky) registration(_ context.Context, c domain.ClusterName) ([]byte, domain.Digest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Name == "forgotten" {
		return nil, "", fail.New(fail.NotFound, "cluster %s not found", c)
	}
	const kubeconfig = `{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}],
		"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]}`
	return []byte(kubeconfig), domain.Digest(s.how[c.Name]), nil
}

func (s *sky) Get(ctx context.Context, c domain.ClusterName) (*kube.Cluster, error) {
	return s.clients.Get(ctx, c)
}

func (s *sky) Observe(ctx context.Context, c observe.Config) error {
	s.do(func() {
		_, there := s.watchers[c.Cluster]
		s.overlap = s.overlap || there
		s.watchers[c.Cluster] = c
		s.begun++
	})
	<-ctx.Done()
	if s.linger != nil {
		<-s.linger
	}
	s.do(func() { delete(s.watchers, c.Cluster) })
	return context.Cause(ctx)
}

func (s *sky) Observed(_ context.Context, contextIDs []string) (found []domain.ObservedApp, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.observed {
		if slices.Contains(contextIDs, o.ContextID) {
			found = append(found, o)
		}
	}
	return found, nil
}

// ActiveInstances counts as a look at all of them, and has no record that is damaged.
func (s *sky) ActiveInstances(ctx context.Context) ([]*domain.Instance, error) {
	s.do(func() { s.listed++ })
	found, err := s.memory.ActiveInstances(ctx)
	found = slices.DeleteFunc(found, func(i *domain.Instance) bool { return s.damaged[i.ContextID] != nil })
	for id, why := range s.damaged {
		err = domain.And(err, &domain.Unreadable{IDs: []string{id}, Cause: why})
	}
	return found, err
}

// inTurn does what who has a turn may do, unless all that is stored is of a later one.
func (s *sky) inTurn(turn domain.Turn, may func()) (err error) {
	s.do(func() {
		s.turns = append(s.turns, turn)
		if s.later {
			err = fail.New(fail.Aborted, "it is of a later turn")
			return
		}
		may()
	})
	return err
}

func (s *sky) PutObservation(_ context.Context, o *domain.Observation) error {
	return s.inTurn(o.Turn, func() { s.stored = append(s.stored, o.ObservedApp) })
}

func (s *sky) DeleteObservation(_ context.Context, o domain.ObservedApp, turn domain.Turn) error {
	return s.inTurn(turn, func() { s.stored = slices.DeleteFunc(s.stored, func(x domain.ObservedApp) bool { return x == o }) })
}

func (s *sky) PutWatch(_ context.Context, watcher string, w *domain.Watch) error {
	said := *w
	said.Turn = domain.Turn{}
	return s.inTurn(w.Turn, func() { s.watches[w.Cluster], s.by[w.Cluster] = said, watcher })
}

func (s *sky) WatchesOf(_ context.Context, watcher string) (map[domain.ClusterName]bool, error) {
	found := map[domain.ClusterName]bool{}
	s.do(func() {
		for c, by := range s.by {
			if by == watcher {
				found[c] = true
			}
		}
	})
	return found, nil
}

func (s *sky) DeleteWatch(_ context.Context, watcher string, c domain.ClusterName) error {
	s.do(func() {
		if s.by[c] == watcher {
			delete(s.watches, c)
			delete(s.by, c)
		}
	})
	return nil
}

func (s *sky) Seen(_ context.Context, in activities.RemnantsInput) error {
	s.do(func() { s.remnants = append(s.remnants, in) })
	return nil
}

func (s *sky) Pulse(_ context.Context, watcher string, _ time.Time) (err error) {
	s.do(func() {
		s.beats++
		if err = s.away; err == nil {
			s.pulses[watcher] = true
		}
	})
	return err
}

func (s *sky) EndPulse(_ context.Context, watcher string) error {
	s.do(func() { delete(s.pulses, watcher) })
	return nil
}

func (s *sky) activity() *activities.Watch {
	return &activities.Watch{Clusters: s, Reports: s, Store: s, Shards: s, Sweeps: s, Matches: s.tenants, Observe: s.Observe, Now: time.Now}
}

func (s *sky) environment(o worker.Options) *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.NewTextHandler(&s.logged, nil))))
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(o)
	env.SetTestTimeout(time.Minute)
	return env
}

// run runs the activity beside the test.
func (s *sky) run(o worker.Options) (ended chan error) {
	return s.runWith(o, s)
}

// runWith is run with another store.
func (s *sky) runWith(o worker.Options, store activities.Observations) (ended chan error) {
	env, w := s.environment(o), s.activity()
	w.Store = store
	env.RegisterActivity(w)
	ended = make(chan error, 1)
	go func() {
		_, err := env.ExecuteActivity(w.WatchShard, activities.WatchShardInput{Shard: 3, Term: 2})
		ended <- err
	}()
	return ended
}

func (s *sky) watching(names ...string) func() bool {
	return func() bool {
		got := []string{}
		for c := range maps.Keys(s.watchers) {
			got = append(got, c.Name)
		}
		slices.Sort(got)
		return slices.Equal(got, names)
	}
}

func far(names ...string) []domain.ClusterName {
	clusters := []domain.ClusterName{}
	for _, n := range names {
		clusters = append(clusters, domain.ClusterName{Provider: "p", Name: n})
	}
	return clusters
}

func TestWatchShard(t *testing.T) {
	s := newSky(t)
	old := domain.ObservedApp{ContextID: "1", App: "app", Cluster: far("a")[0]}
	s.observed = []domain.ObservedApp{old}
	s.how["silent"] = domain.ReportNone
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 4, Clusters: far("a", "b"), Contexts: []string{"1"}}
	s.until(s.watching("a", "b"))
	var a observe.Config
	s.do(func() {
		require.Len(t, s.pulses, 1)
		a = s.watchers[far("a")[0]]
	})
	require.Equal(t, []domain.ObservedApp{old}, a.Known, "what has gone meanwhile is forgotten")

	s.sets <- &activities.WatchSet{Generation: 5, Clusters: far("a", "c", "forgotten", "silent"), Contexts: []string{"1", "2"}}
	require.NoError(t, a.Sink.Contact(t.Context(), domain.Watch{Cluster: far("a")[0], Connected: true}))
	s.until(s.watching("a", "c"))
	s.until(func() bool {
		return s.watches[far("silent")[0]].Reason != "" && s.watches[far("forgotten")[0]].Reason != "" && s.watches[far("a")[0]].Connected
	})
	s.until(func() bool {
		return s.asked[len(s.asked)-1] == activities.ChangesInput{Term: 2, Attempt: 1, Generation: 5}
	})

	s.sets <- &activities.WatchSet{Generation: 6, Over: true}
	require.NoError(t, <-ended)
	require.Empty(t, s.watchers)
	require.Empty(t, s.watches, "nothing is deployed there any more")
	require.Empty(t, s.pulses)
}

// TestWatchShardOfReplacedRegistrations: a cluster that is to report in another way is watched in that way, at once, with what is
// known of it; the others are left alone, and nothing is said of what was heard before.
func TestWatchShardOfReplacedRegistrations(t *testing.T) {
	s := newSky(t)
	a := far("a")[0]
	s.how["a"] = domain.ReportAgent
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a", "b"), Contexts: []string{"1"}}
	s.until(s.watching("a", "b"))
	said := domain.Watch{Cluster: a, Connected: true}
	known := domain.ObservedApp{ContextID: "1", App: "app", Cluster: a}
	since := domain.ObservedApp{ContextID: "2", App: "app", Cluster: a} // it came to a cluster that was watched already: there is no other set
	require.NoError(t, s.PutInstance(t.Context(), &domain.Instance{ContextID: "2", Status: domain.ContextInstantiated}))
	kept, err := s.watchers[a].Sink.Put(t.Context(), &domain.Observation{ObservedApp: since, Resources: []domain.ObservedResource{{Kind: "ConfigMap", Name: "a"}}})
	require.NoError(t, err)
	require.True(t, kept)
	require.NoError(t, s.watchers[a].Sink.Contact(t.Context(), said))
	all := func(domain.ClusterName) bool { return true }
	for begun, how := range []domain.Report{domain.ReportAgentless, domain.ReportNone, domain.ReportInstall} {
		s.do(func() { s.how["a"], s.observed = how, []domain.ObservedApp{known, since} })
		require.NoError(t, s.clients.Renew(t.Context(), all))
		if how == domain.ReportNone {
			s.until(s.watching("b"))
			s.until(func() bool { return !s.watches[a].Connected })
			continue
		}
		s.until(func() bool { return s.watchers[a].Report == how })
		s.do(func() {
			require.Equal(t, []domain.ObservedApp{known, since}, s.watchers[a].Known)
			require.Equal(t, begun == 0, s.watches[a] == said, "what it says is said by who watches it")
			require.Equal(t, 3+begun/2, s.begun, "the other one goes on")
			require.False(t, s.overlap)
		})
	}
	s.sets <- &activities.WatchSet{Generation: 2, Over: true}
	require.NoError(t, <-ended)
}

// tenants have something in clusters.
type tenants []domain.Home

func (t tenants) Watched(context.Context) ([]domain.Home, error) { return t, nil }

func (t tenants) Reported(context.Context, *domain.Observation) (bool, error) { return false, nil }

// TestWatchShardThatWasStartedAnew: somebody has ended the workflow by hand, and the one that runs knows nothing of tenants.
func TestWatchShardThatWasStartedAnew(t *testing.T) {
	s := newSky(t)
	home := func(contextID, cluster string) domain.Home {
		return domain.Home{ContextID: contextID, Cluster: domain.ClusterName{Provider: "p", Name: cluster}}
	}
	const known, unknown = "c15", "c59" // of shard 3
	require.True(t, activities.SameShard(far(known)[0], far(unknown)[0]))
	require.False(t, activities.SameShard(far(known)[0], far("a")[0]))
	s.tenants = tenants{home("1", known), home("2", unknown), home("3", known), home("4", "a")}
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far(known), Contexts: []string{"1"}}
	s.until(func() bool { return slices.Equal(s.signals[3], far(unknown, known)) })
	s.sets <- &activities.WatchSet{Generation: 2, Over: true}
	require.NoError(t, <-ended)
}

// TestWatchShardTakenOver leaves to the other attempt what it has said.
func TestWatchShardTakenOver(t *testing.T) {
	s := newSky(t)
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a")}
	s.until(s.watching("a"))
	require.NoError(t, s.watchers[far("a")[0]].Sink.Contact(t.Context(), domain.Watch{Cluster: far("a")[0], Connected: true}))
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a"), Over: true}
	require.NoError(t, <-ended)
	require.Empty(t, s.watchers)
	require.Len(t, s.watches, 1)
	require.Empty(t, s.pulses, "without a pulse it does not count")
}

// keeping stores what attempts hear, and whether they live, in a real database.
type keeping struct {
	*sky
	in *store.Store
}

func (k keeping) PutObservation(ctx context.Context, o *domain.Observation) error {
	return k.in.PutObservation(ctx, o)
}

func (k keeping) DeleteObservation(ctx context.Context, o domain.ObservedApp, turn domain.Turn) error {
	return k.in.DeleteObservation(ctx, o, turn)
}

func (k keeping) PutWatch(ctx context.Context, watcher string, w *domain.Watch) error {
	return k.in.PutWatch(ctx, watcher, w)
}

func (k keeping) WatchesOf(ctx context.Context, watcher string) (map[domain.ClusterName]bool, error) {
	return k.in.WatchesOf(ctx, watcher)
}

func (k keeping) DeleteWatch(ctx context.Context, watcher string, c domain.ClusterName) error {
	return k.in.DeleteWatch(ctx, watcher, c)
}

func (k keeping) Pulse(ctx context.Context, watcher string, at time.Time) error {
	return k.in.Pulse(ctx, watcher, at)
}

func (k keeping) EndPulse(ctx context.Context, watcher string) error {
	return k.in.EndPulse(ctx, watcher)
}

// TestWatchShardReplacedWhileFrozen: an attempt that was frozen goes on where it was. What it says then, and what it reports, is older than
// what the one in its place has said, and it ends.
func TestWatchShardReplacedWhileFrozen(t *testing.T) {
	cluster := far("a")[0]
	app := domain.ObservedApp{ContextID: "1", App: "app", Cluster: cluster}
	report := func(ready string) *domain.Observation {
		return &domain.Observation{ObservedApp: app, Resources: []domain.ObservedResource{{Kind: "Deployment", Name: "d", Status: ready}}}
	}
	for late, goesOn := range map[string]func(observe.Sink) error{
		"says that the cluster is silent": func(sink observe.Sink) error {
			return sink.Contact(t.Context(), domain.Watch{Cluster: cluster, Reason: "the agent is silent"})
		},
		"reports what was": func(sink observe.Sink) error {
			_, err := sink.Put(t.Context(), report("NotReady"))
			return err
		},
		"forgets what was not there": func(sink observe.Sink) error { return sink.Delete(t.Context(), app) },
	} {
		t.Run(late, func(t *testing.T) {
			in := storetest.Open(t, store.Config{})
			attempt := func() (*sky, observe.Sink, chan error) {
				s := newSky(t)
				s.instances["1"] = domain.Instance{ContextID: "1", Status: domain.ContextInstantiated}
				ended := s.runWith(worker.Options{}, keeping{s, in})
				s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a"), Contexts: []string{"1"}}
				s.until(s.watching("a"))
				var sink observe.Sink
				s.do(func() { sink = s.watchers[cluster].Sink })
				require.NoError(t, sink.Contact(t.Context(), domain.Watch{Cluster: cluster, Connected: true, LastSeen: time.Now()}))
				_, err := sink.Put(t.Context(), report("Ready"))
				require.NoError(t, err)
				return s, sink, ended
			}
			_, frozen, gone := attempt()
			other, _, ended := attempt() // which hears the same: nothing but its turn is stored
			require.True(t, fail.Is(goesOn(frozen), fail.Aborted))
			require.ErrorContains(t, <-gone, "later watch")

			all, err := in.Watches(t.Context(), nil)
			require.NoError(t, err)
			require.True(t, all[cluster].Connected)
			require.NotZero(t, all[cluster].Pulse, "who says so lives")
			found := 0
			for o, err := range in.Observations(t.Context(), "1", "app", nil) {
				require.NoError(t, err)
				require.Equal(t, "Ready", o.Resources[0].Status)
				found++
			}
			require.Equal(t, 1, found)
			other.sets <- &activities.WatchSet{Generation: 1, Over: true}
			require.NoError(t, <-ended)
		})
	}
}

// TestTurnsOfWatches: a later attempt has a later turn, also of a workflow that was ended by hand and started again.
func TestTurnsOfWatches(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000, 0)
	turns := []domain.Turn{
		{}, // of a build without turns
		activities.WatchShardInput{Term: 7}.Turn(at, 1),
		activities.WatchShardInput{Term: 7}.Turn(at, 1_000_000),
		activities.WatchShardInput{Term: 8}.Turn(at, 1),
		activities.WatchShardInput{Term: 1}.Turn(at.Add(1), 1),
	}
	for i := range turns[1:] {
		require.True(t, turns[i].Before(turns[i+1]), "%d", i)
		require.False(t, turns[i+1].Before(turns[i]), "%d", i)
	}
}

// TestWatchShardSaysAgain what another worker has written over that knows no turns, and nothing that does not hold any more.
func TestWatchShardSaysAgain(t *testing.T) {
	activities.SetPulseEvery(t, 5*time.Millisecond)
	s := newSky(t)
	a, b := far("a")[0], far("b")[0]
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a", "b")}
	s.until(s.watching("a", "b"))
	sink := s.watchers[a].Sink
	lost := func(c domain.ClusterName) domain.Watch { return domain.Watch{Cluster: c, Reason: "silent"} }
	frozen := func() {
		s.do(func() { s.watches[a], s.by[a] = lost(a), "frozen" })
	}
	require.NoError(t, sink.Contact(t.Context(), domain.Watch{Cluster: a, Connected: true}))
	for range 3 {
		frozen()
		s.until(func() bool { return s.watches[a].Connected && s.by[a] != "frozen" })
	}
	require.NoError(t, sink.Contact(t.Context(), lost(a)))
	s.do(func() {
		require.False(t, s.watches[a].Connected)
		require.NotContains(t, s.watches, b, "of which nothing was said yet")
	})
	frozen()
	s.until(func() bool { return s.by[a] != "frozen" })
	require.Equal(t, "silent", s.watches[a].Reason)

	s.sets <- &activities.WatchSet{Generation: 2, Clusters: far("b")}
	s.until(func() bool { return s.by[a] == "" })
	frozen()
	require.NoError(t, s.watchers[b].Sink.Contact(t.Context(), lost(b)))
	for range 2 { // the first time may have begun before, and others are said beside it
		s.do(func() { s.by[b] = "frozen" })
		s.until(func() bool { return s.by[b] != "frozen" })
	}
	s.do(func() { require.Equal(t, "frozen", s.by[a], "it is not this attempt's any more") })

	s.do(func() { s.later, s.by[b] = true, "another" })
	require.ErrorContains(t, <-ended, "later turn")
	require.Empty(t, s.pulses)
}

// TestWatchShardOfAClusterThatComesBack: the watch that has ended must not take back what the new one says, and what it
// left in the store is looked at again.
func TestWatchShardOfAClusterThatComesBack(t *testing.T) {
	s := newSky(t)
	linger := make(chan struct{})
	s.linger = linger
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a", "b"), Contexts: []string{"1"}}
	s.until(s.watching("a", "b"))
	s.sets <- &activities.WatchSet{Generation: 2, Clusters: far("b"), Contexts: []string{"1"}}
	old := domain.ObservedApp{ContextID: "1", App: "app", Cluster: far("a")[0]}
	s.do(func() { s.observed = []domain.ObservedApp{old} }) // what the first one has stored since it began
	s.sets <- &activities.WatchSet{Generation: 3, Clusters: far("a", "b"), Contexts: []string{"1"}}
	s.until(func() bool { return s.asked[len(s.asked)-1].Generation == 3 })
	close(linger)
	s.until(func() bool { return s.begun == 3 })
	require.False(t, s.overlap)
	var again observe.Config
	s.do(func() { again = s.watchers[far("a")[0]] })
	require.Equal(t, []domain.ObservedApp{old}, again.Known)
	require.NoError(t, again.Sink.Contact(t.Context(), domain.Watch{Cluster: far("a")[0], Connected: true}))
	s.sets <- &activities.WatchSet{Generation: 3, Clusters: far("a", "b"), Over: true}
	require.NoError(t, <-ended)
	require.True(t, s.watches[far("a")[0]].Connected)
}

func TestWatchShardOfAWorkerThatStops(t *testing.T) {
	s := newSky(t)
	stop := make(chan struct{})
	env, w := s.environment(worker.Options{}), s.activity()
	env.SetWorkerStopChannel(stop)
	env.RegisterActivity(w)
	ended := make(chan error, 1)
	go func() {
		_, err := env.ExecuteActivity(w.WatchShard, activities.WatchShardInput{})
		ended <- err
	}()
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a")}
	s.until(s.watching("a"))
	close(stop)
	require.ErrorContains(t, <-ended, "worker stops")
	require.Empty(t, s.watchers)
}

// TestWatchShardOfAWorkerThatWasSuspended: it does not vouch for what it knew before, and another attempt lists all anew.
func TestWatchShardOfAWorkerThatWasSuspended(t *testing.T) {
	activities.SetPulseEvery(t, 5*time.Millisecond)
	var now, passes atomic.Int64 // each look
	activities.SetPulseClock(t, func() lease.Instant { return lease.Instant{Boot: time.Duration(now.Add(passes.Load()))} })
	s := newSky(t)
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a")}
	s.until(s.watching("a"))
	passes.Store(int64(domain.PulseLife))
	s.do(func() { clear(s.pulses) })
	s.until(func() bool { return len(s.pulses) == 1 }) // what took less is not noticed
	passes.Store(int64(time.Hour))
	require.ErrorContains(t, <-ended, "held up")
	require.Empty(t, s.pulses)
}

// TestAPulseThatCannotBeRecorded is logged when that begins and when it ends, not every few seconds.
func TestAPulseThatCannotBeRecorded(t *testing.T) {
	activities.SetPulseEvery(t, time.Millisecond)
	s := newSky(t)
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a")}
	s.until(s.watching("a"))
	beat := func(away error) {
		var before int
		s.do(func() { s.away, before = away, s.beats })
		s.until(func() bool { return s.beats > before+10 })
	}
	for range 2 {
		beat(fail.New(fail.Unavailable, "no database"))
		beat(nil)
	}
	s.sets <- &activities.WatchSet{Generation: 2, Over: true}
	require.NoError(t, <-ended)
	require.Equal(t, 2, strings.Count(s.logged.String(), "cannot be recorded"), s.logged.String())
	require.Equal(t, 2, strings.Count(s.logged.String(), "is recorded again"), s.logged.String())
}

// TestWhoIsHeard: the workflow is told when it changes.
func TestWhoIsHeard(t *testing.T) {
	activities.SetTellEvery(t, 5*time.Millisecond)
	s := newSky(t)
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a", "b")}
	s.until(s.watching("a", "b"))
	says := func(name string, w domain.Watch) {
		w.Cluster = far(name)[0]
		require.NoError(t, s.watchers[w.Cluster].Sink.Contact(t.Context(), w))
	}
	told := func(want activities.Heard) func() bool {
		return func() bool { return len(s.heard) > 0 && reflect.DeepEqual(want, s.heard[len(s.heard)-1]) }
	}
	says("b", domain.Watch{Reason: "refused"})
	s.until(told(activities.Heard{Lost: 1, Reasons: []activities.Unheard{{Cluster: far("b")[0], Reason: "refused"}}}))
	says("b", domain.Watch{Connected: true})
	says("a", domain.Watch{Connected: true})
	s.until(told(activities.Heard{Clusters: 2}))
	s.sets <- &activities.WatchSet{Generation: 2, Clusters: far("a")}
	s.until(told(activities.Heard{Clusters: 1}))
	s.do(func() {
		for i := range s.heard[1:] {
			require.NotEqual(t, s.heard[i], s.heard[i+1], "nothing is told twice")
		}
	})
	s.sets <- &activities.WatchSet{Generation: 3, Over: true}
	require.NoError(t, <-ended)
}

// TestForeignObservations: a cluster may belong to two control planes.
func TestForeignObservations(t *testing.T) {
	s := newSky(t)
	s.instances["1"] = domain.Instance{ContextID: "1"}
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a")}
	s.until(s.watching("a"))
	sink := s.watchers[far("a")[0]].Sink
	ours := domain.ObservedApp{ContextID: "1", App: "app", Cluster: far("a")[0]}
	for range 2 {
		kept, err := sink.Put(t.Context(), &domain.Observation{ObservedApp: ours})
		require.NoError(t, err)
		require.True(t, kept)
		kept, err = sink.Put(t.Context(), &domain.Observation{ObservedApp: domain.ObservedApp{ContextID: "2", App: "app", Cluster: far("a")[0]}})
		require.NoError(t, err)
		require.False(t, kept)
	}
	require.Equal(t, []domain.ObservedApp{ours, ours}, s.stored)
	require.NoError(t, sink.Delete(t.Context(), ours))
	require.Empty(t, s.stored)
	s.sets <- &activities.WatchSet{Generation: 2, Over: true}
	require.NoError(t, <-ended)
}

// TestAppsThatAClusterMakesUp: of an app that no plan of the context has nothing is kept when it has gone again.
func TestAppsThatAClusterMakesUp(t *testing.T) {
	s := newSky(t)
	planned := func(apps ...string) domain.Digest {
		p := plan.Plan{}
		for _, name := range apps {
			p.Apps = append(p.Apps, plan.App{Name: name})
		}
		data, err := json.Marshal(p)
		require.NoError(t, err)
		digest, err := s.PutBlob(t.Context(), data)
		require.NoError(t, err)
		return digest
	}
	long := strings.Repeat("long", 20)
	for _, i := range []domain.Instance{
		{ContextID: "1", Status: domain.ContextUpdated, Plan: planned("first", "dropped")},
		{ContextID: "2", Status: domain.ContextInstantiated, Label: "1", Plan: planned("first", "second", long)},
		{ContextID: "3", Status: domain.ContextTerminated, Plan: planned("first")},
		{ContextID: "4", Status: domain.ContextUpdated, Plan: planned("first")}, // it was migrated
		{ContextID: "5", Status: domain.ContextInstantiated, Plan: "lost"},
	} {
		i.Owner = "owner"
		s.instances[i.ContextID] = i
	}
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a")}
	s.until(s.watching("a"))
	sink := s.watchers[far("a")[0]].Sink
	_, shortened, _ := strings.Cut(plan.DeploymentID("1", long), "-")
	for _, x := range []struct {
		id, app string
		kept    bool
	}{
		{"1", "first", true}, {"1", "second", true}, {"1", "dropped", true}, {"1", shortened, true}, {"1", "made-up", false},
		{"3", "first", true}, {"3", "made-up", false}, {"4", "unknown", true}, {"5", "unknown", true},
	} {
		app := domain.ObservedApp{ContextID: x.id, App: x.app, Cluster: far("a")[0]}
		kept, err := sink.Put(t.Context(), &domain.Observation{ObservedApp: app, Resources: []domain.ObservedResource{{Kind: "ConfigMap", Name: "a"}}})
		require.NoError(t, err)
		require.True(t, kept, "it is there: %v", app)
		kept, err = sink.Put(t.Context(), &domain.Observation{ObservedApp: app})
		require.NoError(t, err)
		require.Equal(t, x.kept, kept, "%v", app)
		require.Equal(t, x.kept, slices.Contains(s.stored, app), "%v", app)
	}
	s.sets <- &activities.WatchSet{Generation: 2, Over: true}
	require.NoError(t, <-ended)
}

// damagedMatches are a tenant's whose ledger cannot be read.
type damagedMatches struct{ tenants }

func (damagedMatches) Reported(context.Context, *domain.Observation) (bool, error) {
	return true, &domain.Unreadable{IDs: []string{"matches of t"}, Cause: version.Refuse("match 1", 2, 1)}
}

// TestObservationsWhoseRecordCannotBeRead are kept for when it can be: one damaged record must not be the end of all that its cluster
// reports.
func TestObservationsWhoseRecordCannotBeRead(t *testing.T) {
	s := newSky(t)
	s.instances["good"] = domain.Instance{ContextID: "good"}
	s.damaged = map[string]error{
		"damaged": fmt.Errorf("%w: instances \"damaged\" is damaged", domain.ErrUnreadable), "newer": version.Refuse("instance newer", 2, 1),
		"unanswered": fail.New(fail.Unavailable, "the database cannot be reached"), "failed": fail.New(fail.Internal, "the database failed"),
	}
	s.tenants = damagedMatches{}
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a")}
	s.until(s.watching("a"))
	sink := s.watchers[far("a")[0]].Sink
	put := func(id string) error {
		_, err := sink.Put(t.Context(), &domain.Observation{ObservedApp: domain.ObservedApp{ContextID: id, App: "app", Cluster: far("a")[0]}})
		return err
	}
	var stored []string
	for _, id := range []string{"damaged", "newer", "good", "a tenant's", "damaged"} {
		require.NoError(t, put(id), id)
		stored = append(stored, id)
	}
	require.True(t, fail.Is(put("unanswered"), fail.Unavailable), "it is told again")
	require.True(t, fail.Is(put("failed"), fail.Internal), "which says nothing of the record")
	var got []string
	for _, o := range s.stored {
		got = append(got, o.ContextID)
	}
	require.Equal(t, stored, got)
	require.NoError(t, sink.Delete(t.Context(), s.stored[0]))
	require.Len(t, s.stored, 3)

	s.instances["damaged"] = domain.Instance{ContextID: "damaged", Owner: "owner", Status: domain.ContextTerminated}
	delete(s.damaged, "damaged")
	o := &domain.Observation{ObservedApp: domain.ObservedApp{ContextID: "damaged", App: "app", Cluster: far("a")[0]}}
	o.Resources = []domain.ObservedResource{{Kind: "ConfigMap", Name: "a"}}
	_, err := sink.Put(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, s.remnants, 1, "whose it is was not taken for known")
	s.sets <- &activities.WatchSet{Generation: 2, Over: true}
	require.NoError(t, <-ended)
	require.Equal(t, 3, strings.Count(s.logged.String(), "a record cannot be read"), "once for each app: %s", s.logged.String())
}

// TestWatchShardSeesRemnants: what a cluster reports of a context that has ended, and has nothing there as far as anybody
// knows, is to be removed.
func TestWatchShardSeesRemnants(t *testing.T) {
	s := newSky(t)
	for id, status := range map[string]domain.ContextStatus{
		"1": domain.ContextTerminated, "2": domain.ContextInstantiated, "3": domain.ContextUpdated, "4": domain.ContextTerminated,
		"5": domain.ContextTerminateFailed,
	} {
		s.instances[id] = domain.Instance{ContextID: id, Owner: "owner", Status: status}
	}
	s.instances["8"] = domain.Instance{
		ContextID: "8", Owner: "another", Status: domain.ContextTerminated, Plan: s.put(t, plan.Plan{ContextID: "8", Apps: []plan.App{{Name: "app"}}}),
	}
	ended := s.run(worker.Options{})
	s.instances["7"] = domain.Instance{ContextID: "7", Owner: "owner", Status: domain.ContextInstantiated, Label: "3"}
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a")}
	s.until(s.watching("a"))
	sink := s.watchers[far("a")[0]].Sink
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "8"} {
		o := &domain.Observation{ObservedApp: domain.ObservedApp{ContextID: id, App: "app", Cluster: far("a")[0]}}
		switch id {
		case "4": // of which there is nothing any more
		case "8":
			o.Error = "there is no room for it"
		default:
			o.Resources = []domain.ObservedResource{{Kind: "ConfigMap", Name: "a"}}
		}
		_, err := sink.Put(t.Context(), o)
		require.NoError(t, err)
	}
	s.do(func() {
		require.Equal(t, []activities.RemnantsInput{{Owner: "owner", ContextID: "1", Label: "1"}, {Owner: "another", ContextID: "8", Label: "8"}}, s.remnants)
		require.Len(t, s.stored, 6)
	})
	s.sets <- &activities.WatchSet{Generation: 2, Over: true}
	require.NoError(t, <-ended)
}

// TestWatchShardSeesWhatEndsLater: a cluster that is watched for others, too, is not told that a context has ended.
func TestWatchShardSeesWhatEndsLater(t *testing.T) {
	activities.SetLookAtNews(t, 10*time.Millisecond)
	s := newSky(t)
	live := map[string]domain.Instance{
		"ends": {Status: domain.ContextInstantiated}, "lives": {Status: domain.ContextInstantiated}, "emptied": {Status: domain.ContextInstantiated},
		"updated": {Status: domain.ContextUpdated}, "last": {Status: domain.ContextInstantiated, Label: "updated"},
		"taken": {Status: domain.ContextUpdated}, "new": {Status: domain.ContextInstantiated, Label: "taken"},
	}
	set := func(id string, status domain.ContextStatus) {
		i := live[id]
		i.ContextID, i.Owner, i.Status = id, "owner", status
		require.NoError(t, s.PutInstance(t.Context(), &i))
		_ = s.UpdateInstance(t.Context(), id, func(i *domain.Instance) error { i.Status = status; return nil })
	}
	for id, i := range live {
		set(id, i.Status)
	}
	ended := s.run(worker.Options{})
	s.sets <- &activities.WatchSet{Generation: 1, Clusters: far("a"), Contexts: []string{"ends", "lives", "updated"}}
	s.until(s.watching("a"))
	sink := s.watchers[far("a")[0]].Sink
	says := func(id string, n int) {
		t.Helper()
		o := &domain.Observation{ObservedApp: domain.ObservedApp{ContextID: id, App: "app", Cluster: far("a")[0]}}
		o.Resources = make([]domain.ObservedResource, n)
		_, err := sink.Put(t.Context(), o)
		require.NoError(t, err)
	}
	all := []string{"ends", "lives", "emptied", "updated", "taken"}
	for _, id := range all {
		says(id, 2)
	}
	// The look at this news has ended when the next one has begun: it may not see what comes now.
	looks := 0
	s.until(func() bool {
		looks = len(s.looked)
		return slices.ContainsFunc(s.looked, func(ids []string) bool { return slices.Contains(ids, "emptied") })
	})
	says("lives", 2)
	s.until(func() bool { return len(s.looked) > looks })
	set("ends", domain.ContextTerminated)
	set("last", domain.ContextTerminated)
	says("emptied", 0) // as a terminate ends
	set("emptied", domain.ContextTerminated)
	for _, id := range []string{"ends", "lives", "updated", "taken"} {
		says(id, 1)
	}
	seen := func(id string) bool {
		return slices.ContainsFunc(s.remnants, func(in activities.RemnantsInput) bool { return in.Label == id })
	}
	s.until(func() bool { return seen("ends") && seen("updated") })
	for _, id := range []string{"lives", "emptied", "taken", "new", "last"} {
		s.do(func() { require.False(t, seen(id), id) })
	}
	s.sets <- &activities.WatchSet{Generation: 2, Over: true}
	require.NoError(t, <-ended)
}

// TestStartAndStopWatching tell every shard that has clusters of the plan, of each cluster once.
func TestStartAndStopWatching(t *testing.T) {
	s := newSky(t)
	targets := []plan.Target{}
	for _, c := range far("a", "b", "c", "d", "e", "f", "g", "h") {
		targets = append(targets, plan.Target{ClusterName: c})
	}
	in := activities.WatchingInput{ContextID: "1", Plan: s.put(t, plan.Plan{Apps: []plan.App{{Name: "x", Targets: targets}, {Name: "y", Targets: targets[2:]}}})}
	env, w := s.environment(worker.Options{}), s.activity()
	env.RegisterActivity(w)
	_, err := env.ExecuteActivity(w.StartWatching, in)
	require.NoError(t, err)
	var told []domain.ClusterName
	for shard, clusters := range s.signals {
		require.Less(t, shard, activities.WatchShards)
		told = append(told, clusters...)
	}
	require.ElementsMatch(t, far("a", "b", "c", "d", "e", "f", "g", "h"), told)
	require.Greater(t, len(s.signals), 1, "they are spread")
	_, err = env.ExecuteActivity(w.StopWatching, in)
	require.NoError(t, err)
	require.Len(t, s.unwatched, len(s.signals))
}

// TestAWatchThatIsStartedAnewIsToldOfAll that have something in clusters of its shard: somebody may have ended the one before by hand, and who
// starts it again tells it of its own. What has gone meanwhile is forgotten of all of them, in clusters that come later, too.
func TestAWatchThatIsStartedAnewIsToldOfAll(t *testing.T) {
	c1, later := far("c1")[0], far("c21")[0]
	require.True(t, activities.SameShard(c1, later))
	seen := func(contextID string, c domain.ClusterName) domain.ObservedApp {
		return domain.ObservedApp{ContextID: contextID, App: "x", Cluster: c}
	}
	for name, c := range map[string]struct {
		term int
		want []domain.ClusterName
		// knows is what the watches of c1 and of the other one are begun with.
		knows [2][]domain.ObservedApp
	}{
		"a new one": {1, []domain.ClusterName{c1, later}, [2][]domain.ObservedApp{
			{seen("known", c1), seen("label", c1), seen("damaged", c1)}, {seen("label", later)},
		}},
		"one that has gone on": {2, nil, [2][]domain.ObservedApp{{seen("known", c1)}, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSky(t)
			planned := s.put(t, plan.Plan{Apps: []plan.App{{Name: "x", Targets: []plan.Target{{ClusterName: c1}, {ClusterName: later}}}}})
			near := s.put(t, plan.Plan{Apps: []plan.App{{Name: "x", Targets: []plan.Target{{ClusterName: c1}}}}})
			for id, i := range map[string]*domain.Instance{
				"known":   {Plan: near, Status: domain.ContextInstantiated},
				"other":   {Plan: planned, Label: "label", Status: domain.ContextInstantiateFailed},
				"gone":    {Plan: planned, Status: domain.ContextTerminated},
				"damaged": {Plan: near, Status: domain.ContextInstantiated},
			} {
				i.ContextID = id
				require.NoError(t, s.PutInstance(t.Context(), i))
			}
			s.damaged = map[string]error{"damaged": domain.ErrUnreadable}
			for _, id := range []string{"known", "label", "gone", "damaged"} {
				s.observed = append(s.observed, seen(id, c1))
			}
			s.observed = append(s.observed, seen("label", later))
			shard := activities.ShardOf(c1)
			env, w := s.environment(worker.Options{}), s.activity()
			env.RegisterActivity(w)
			ended := make(chan error, 1)
			go func() {
				_, err := env.ExecuteActivity(w.WatchShard, activities.WatchShardInput{Shard: shard, Term: c.term})
				ended <- err
			}()
			s.sets <- &activities.WatchSet{Generation: 1, Clusters: []domain.ClusterName{c1}, Contexts: []string{"known"}}
			s.until(func() bool { return len(s.watchers) == 1 && len(s.signals[shard]) == len(c.want) })
			s.sets <- &activities.WatchSet{Generation: 2, Clusters: []domain.ClusterName{c1, later}, Contexts: []string{"known", "label"}}
			s.until(func() bool { return len(s.watchers) == 2 })
			require.ElementsMatch(t, c.knows[0], s.watchers[c1].Known)
			require.ElementsMatch(t, c.knows[1], s.watchers[later].Known)
			s.sets <- &activities.WatchSet{Generation: 3, Over: true}
			require.NoError(t, <-ended)
			require.Equal(t, c.want, s.signals[shard])
			require.Empty(t, s.unwatched)
			require.Equal(t, c.want != nil, s.listed > 0, "whoever tells of all looks which there are")
		})
	}
}

// TestAFrozenWordClaimsNoCluster: the context may have ended since, and nobody would take the word back.
func TestAFrozenWordClaimsNoCluster(t *testing.T) {
	s := newSky(t)
	in := activities.WatchingInput{ContextID: "1", Plan: s.put(t, plan.Plan{Apps: []plan.App{{Name: "x", Targets: []plan.Target{{ClusterName: far("a")[0]}}}}})}
	frozen := lease.New(lease.Now, lease.Now(), time.Hour)
	t.Cleanup(frozen.Close)
	frozen.Lose()
	env, w := s.environment(worker.Options{BackgroundActivityContext: lease.With(t.Context(), frozen)}), s.activity()
	env.RegisterActivity(w)
	_, err := env.ExecuteActivity(w.StartWatching, in)
	require.ErrorContains(t, err, fail.TextOf(lease.ErrLost))
	require.Empty(t, s.signals)
}

// TestNarrowWatching: every shard of the plan is told in which of its clusters something is left.
func TestNarrowWatching(t *testing.T) {
	s := newSky(t)
	env, w := s.environment(worker.Options{}), s.activity()
	env.RegisterActivity(w)
	all := func(names ...string) (targets []plan.Target) {
		for _, c := range far(names...) {
			targets = append(targets, plan.Target{ClusterName: c, Leaving: c.Name > "d"})
		}
		return targets
	}
	stays := plan.App{Name: "x", Targets: all("a", "b", "c", "d")}
	whole := s.put(t, plan.Plan{Apps: []plan.App{stays, {Name: "y", Targets: all("e", "f", "g", "h", "i", "j", "k")}}})
	left := s.put(t, plan.Plan{Apps: []plan.App{stays, {Name: "y", Targets: all("h")}}})
	_, err := env.ExecuteActivity(w.StopWatching, activities.WatchingInput{ContextID: "1", Plan: whole})
	require.NoError(t, err)
	shards := len(s.unwatched)
	s.unwatched = nil
	_, err = env.ExecuteActivity(w.NarrowWatching, activities.WatchingInput{ContextID: "1", Plan: whole, Left: left})
	require.NoError(t, err)
	var told []domain.ClusterName
	for _, clusters := range s.signals {
		told = append(told, clusters...)
	}
	require.ElementsMatch(t, far("a", "b", "c", "d", "h"), told)
	require.Contains(t, slices.Collect(maps.Values(s.signals)), []domain.ClusterName(nil), "the clusters of some shards are empty")
	require.Len(t, s.signals, shards)
	require.Empty(t, s.unwatched, "the context has not ended")
}
