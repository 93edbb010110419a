package activities

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/observe"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/version"
)

// WatchShards is the number of shards that clusters are watched in. Running workflows know their shard by its
// number: more shards would leave clusters watched twice until those have ended.
const WatchShards = 16

// shardOf is the shard of a cluster.
func shardOf(c domain.ClusterName) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.String()))
	return int(h.Sum32() % WatchShards)
}

// WatchingInput asks that the clusters of a context be watched, or not any more.
type WatchingInput struct {
	ContextID string        `json:"contextID"`
	Plan      domain.Digest `json:"plan"`
	Left      domain.Digest `json:"left,omitempty"` // what is left of the plan, see NarrowWatching
	Began     time.Time     `json:"began,omitzero"` // see Watching
}

// Watching is the signal to a shard that its clusters have something of a context.
type Watching struct {
	ContextID string               `json:"contextID"`
	Clusters  []domain.ClusterName `json:"clusters"`
	Only      bool                 `json:"only,omitempty"` // it has nothing in others any more
	// Began is when the operation that says so began: a word may arrive after that of a later one.
	Began time.Time `json:"began,omitzero"`
}

// WatchShardInput is the work of one watching activity; Term counts those of its workflow.
type WatchShardInput struct {
	Shard int `json:"shard"`
	Term  int `json:"term"`
}

// Turn is the place of what an attempt hears among what all attempts at the shard do. Temporal's clock is asked first, since a
// workflow that was ended and started again counts its terms anew.
func (in WatchShardInput) Turn(began time.Time, attempt int32) domain.Turn {
	return domain.Turn{Began: began.UnixNano(), Rank: int64(in.Term)<<32 | int64(attempt)}
}

// ChangesInput asks for the set of clusters that comes after a generation; 0 comes before all. Term and Attempt
// are those of the activity that asks.
type ChangesInput struct {
	Term       int   `json:"term"`
	Attempt    int32 `json:"attempt"`
	Generation int   `json:"generation"`
}

// Before says whether another activity, or another attempt at it, has come after the one that asks.
func (in ChangesInput) Before(other ChangesInput) bool {
	return cmp.Or(cmp.Compare(in.Term, other.Term), cmp.Compare(in.Attempt, other.Attempt)) < 0
}

// WatchSet is the set of clusters that are to be watched. Over says that it is not the asker's any more.
type WatchSet struct {
	Generation int                  `json:"generation"`
	Clusters   []domain.ClusterName `json:"clusters"`
	Contexts   []string             `json:"contexts"` // that have something there
	Over       bool                 `json:"over,omitempty"`
}

// Shards are the workflows that watch.
type Shards interface {
	// Watch tells a shard of the context's clusters, and starts it when there are any and it does not run.
	Watch(ctx context.Context, shard int, w Watching) error
	// Unwatch tells a shard, if it runs, that a context has nothing in its clusters any more.
	Unwatch(ctx context.Context, shard int, contextID string) error
	// Changes waits for a set of clusters that is newer than the one known, for as long as ctx allows.
	Changes(ctx context.Context, shard int, in ChangesInput) (*WatchSet, error)
	// Heard tells a shard, if it runs, which of its clusters are heard.
	Heard(ctx context.Context, shard int, h Heard) error
}

// Observations keeps what clusters report. A watcher is one attempt at a watching activity.
type Observations interface {
	stored.Blobs
	Instance(ctx context.Context, contextID string) (*domain.Instance, error)
	InstancesByID(ctx context.Context, contextIDs []string) ([]*domain.Instance, error)
	ActiveInstances(ctx context.Context) ([]*domain.Instance, error)
	InstancesOf(ctx context.Context, owner domain.Key) ([]*domain.Instance, error)
	Observed(ctx context.Context, contextIDs []string) ([]domain.ObservedApp, error)
	PutObservation(ctx context.Context, o *domain.Observation) error
	DeleteObservation(ctx context.Context, o domain.ObservedApp, turn domain.Turn) error
	PutWatch(ctx context.Context, watcher string, w *domain.Watch) error
	WatchesOf(ctx context.Context, watcher string) (map[domain.ClusterName]bool, error)
	DeleteWatch(ctx context.Context, watcher string, c domain.ClusterName) error
	Pulse(ctx context.Context, watcher string, at time.Time) error
	EndPulse(ctx context.Context, watcher string) error
}

// Observe watches one cluster until ctx ends; an error before that says why it cannot.
type Observe func(ctx context.Context, c observe.Config) error

// Watch watches clusters.
type Watch struct {
	Clusters observe.Clusters
	Reports  Reports
	Store    Observations
	Shards   Shards
	Sweeps   Sweeps
	Matches  Reported // nil: there are no tenants
	Observe  Observe
	Now      func() time.Time

	going sync.Map // the attempts at shards that go on here: a *shard
}

// Reported hears what clusters say of what matches have made.
type Reported interface {
	// Watched are the homes of tenants for which clusters are to be watched.
	Watched(ctx context.Context) ([]domain.Home, error)
	// Reported says whether the context is a tenant's. What is gone is due again then.
	Reported(ctx context.Context, o *domain.Observation) (ours bool, err error)
}

// StartWatching tells the watches that a context has something in its clusters.
func (w *Watch) StartWatching(ctx context.Context, in WatchingInput) error {
	return w.tell(ctx, in, func(ctx context.Context, shard int, clusters []domain.ClusterName) error {
		if len(clusters) == 0 {
			return nil
		}
		return w.Shards.Watch(ctx, shard, Watching{ContextID: in.ContextID, Clusters: clusters, Began: in.Began})
	})
}

// NarrowWatching tells them that of the clusters of its plan it has something only in those of what is left of it.
func (w *Watch) NarrowWatching(ctx context.Context, in WatchingInput) error {
	return w.tell(ctx, in, func(ctx context.Context, shard int, clusters []domain.ClusterName) error {
		return w.Shards.Watch(ctx, shard, Watching{ContextID: in.ContextID, Clusters: clusters, Only: true, Began: in.Began})
	})
}

// StopWatching tells them that it has nothing there any more.
func (w *Watch) StopWatching(ctx context.Context, in WatchingInput) error {
	return w.tell(ctx, in, func(ctx context.Context, shard int, _ []domain.ClusterName) error {
		return w.Shards.Unwatch(ctx, shard, in.ContextID)
	})
}

// tell calls tell for each shard that has clusters of the plan, side by side, with those in which something stays: what
// is left, or without that those that no app is to leave.
func (w *Watch) tell(ctx context.Context, in WatchingInput, tell func(context.Context, int, []domain.ClusterName) error) error {
	stop := beat(ctx)
	defer stop()
	p, err := stored.JSON[plan.Plan](ctx, w.Store, in.Plan)
	if err != nil {
		return err
	}
	staying := clustersOf(p, func(t *plan.Target) bool { return !t.Leaving })
	if in.Left != "" {
		left, err := stored.JSON[plan.Plan](ctx, w.Store, in.Left)
		if err != nil {
			return err
		}
		staying = clustersOf(left, anyTarget)
	}
	var shards [WatchShards][]domain.ClusterName
	for _, c := range staying {
		shards[shardOf(c)] = append(shards[shardOf(c)], c)
	}
	var concerned [WatchShards]bool
	for _, c := range clustersOf(p, anyTarget) {
		concerned[shardOf(c)] = true
	}
	g, all := panics.WithContext(ctx)
	for n, clusters := range shards {
		if concerned[n] {
			g.Go(func() error {
				if err := lease.Check(all); err != nil { // a word that comes when the context has ended would claim clusters for good
					return err
				}
				return tell(all, n, clusters)
			})
		}
	}
	return inTime(ctx, g.Wait())
}

// clustersOf are the clusters of a plan that have a target that counts, each once.
func clustersOf(p *plan.Plan, counts func(*plan.Target) bool) (clusters []domain.ClusterName) {
	seen := map[domain.ClusterName]bool{}
	for i := range p.Apps {
		for j := range p.Apps[i].Targets {
			if t := &p.Apps[i].Targets[j]; !seen[t.ClusterName] && counts(t) {
				seen[t.ClusterName] = true
				clusters = append(clusters, t.ClusterName)
			}
		}
	}
	return clusters
}

func anyTarget(*plan.Target) bool { return true }

// WatchShard watches the clusters of a shard and stores what they report, until it is cancelled or another attempt
// has taken over.
func (w *Watch) WatchShard(ctx context.Context, in WatchShardInput) error {
	stop := beat(ctx)
	defer stop()
	ctx, cancel := untilWorkerStops(ctx)
	defer cancel(nil)
	info := activity.GetInfo(ctx)
	s := &shard{
		Watch: w, number: in.Shard, log: activity.GetLogger(ctx), watcher: rand.Text(), turn: in.Turn(info.StartedTime, info.Attempt), replaced: cancel,
		watches: map[domain.ClusterName]watched{}, left: map[domain.ClusterName]<-chan struct{}{},
		apps: lru.NewWeighed[domain.Digest, []string](knownPlans, knownPlanBytes),
	}
	if err := w.Store.Pulse(ctx, s.watcher, w.Now()); err != nil {
		return err
	}
	w.going.Store(s, nil)
	defer w.going.Delete(s)
	defer s.end(ctx)
	defer cancel(nil)
	for _, do := range []func(){func() { s.pulse(ctx) }, func() { s.tell(ctx, in.Shard) }, func() { s.follow(ctx) }} {
		s.running.Go(func() {
			if err := panics.Do(ctx, func() error { do(); return nil }); err != nil {
				cancel(err) // another attempt does it all
			}
		})
	}
	ask := ChangesInput{Term: in.Term, Attempt: info.Attempt}
	for {
		set, err := w.Shards.Changes(ctx, in.Shard, ask)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case fail.Is(err, fail.NotFound): // somebody has ended the workflow by hand
			return err
		case err != nil: // the watches go on: whether they are still this attempt's, heartbeats tell
			activity.GetLogger(ctx).Warn("ask for changes", "shard", in.Shard, "error", err)
			if err := pause.For(ctx, policy.Changes); err != nil {
				return err
			}
			continue
		}
		var claimed []string
		if ask.Generation == 0 && !set.Over {
			claimed = s.claim(ctx, in.Shard, set)
			if in.Term == 1 && (info.Attempt == 1 || info.StartedTime.Sub(info.ScheduledTime) < policy.WatchedAnew) {
				active, err := s.active(ctx)
				if err != nil {
					return err
				}
				claimed = append(claimed, active...)
				s.claimAll(ctx, in.Shard, set)
			}
		}
		if !set.Over || len(set.Clusters) == 0 {
			if err := s.adjust(ctx, set, claimed); err != nil {
				return err
			}
		}
		if set.Over {
			return nil
		}
		ask.Generation = set.Generation
	}
}

// claim tells the shard's workflow of what it should know of tenants and does not: somebody may have ended the one before by hand,
// and whoever started this one has said what it needs itself. They are returned by the ids of their contexts.
func (s *shard) claim(ctx context.Context, n int, set *WatchSet) (claimed []string) {
	if s.Matches == nil {
		return nil
	}
	homes, err := s.Matches.Watched(ctx)
	for _, h := range homes {
		known := slices.Contains(set.Clusters, h.Cluster) && slices.Contains(set.Contexts, h.ContextID)
		if err == nil && shardOf(h.Cluster) == n && !known {
			claimed = append(claimed, h.ContextID)
			err = s.Shards.Watch(ctx, n, watchingOf(&h))
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("look what tenants have in clusters", "shard", n, "error", err)
	}
	return claimed
}

// active are the ids by which claimAll may tell of contexts. A record that cannot be read is not the end of the others.
func (s *shard) active(ctx context.Context) (ids []string, err error) {
	all, err := s.Store.ActiveInstances(ctx)
	for _, i := range all {
		ids = append(ids, i.LabelID())
	}
	unread, err := domain.UnreadableOf(err)
	return append(ids, unread...), err
}

// claimAll tells a workflow that has just been started, beside the watches, of all other contexts that have something in clusters of the shard: there
// was none before it, or somebody has ended that one by hand. What it misses the daily sweep tells.
func (s *shard) claimAll(ctx context.Context, n int, set *WatchSet) {
	s.running.Go(func() {
		err := panics.Do(ctx, func() error { return watchAgain(ctx, s.Store, s.Shards, map[int]*WatchSet{n: set}) })
		if err != nil && ctx.Err() == nil {
			s.log.Warn("look what contexts have in clusters", "shard", n, "error", err)
		}
	})
}

// contexts are the records of app contexts.
type contexts interface {
	stored.Blobs
	Instance(ctx context.Context, contextID string) (*domain.Instance, error)
	ActiveInstances(ctx context.Context) ([]*domain.Instance, error)
}

// watchAgain tells shards of the contexts of which they do not know, where known is what they know by their numbers; others are left as they are.
// Nor does it tell of a context that cannot be read; that is the error when it has told of all others.
func watchAgain(ctx context.Context, records contexts, shards Shards, known map[int]*WatchSet) error {
	active, unread := records.ActiveInstances(ctx)
	if _, err := domain.UnreadableOf(unread); err != nil {
		return err
	}
	for _, i := range active {
		if i.Plan == "" { // it has nothing yet, as a cloud of level 0 never has
			continue
		}
		p, err := stored.JSON[plan.Plan](ctx, records, i.Plan)
		switch {
		case err == nil:
		case ctx.Err() != nil || fail.IsUnanswered(err) && !errors.Is(err, version.ErrNewer): // the others will not be read either
			return err
		default: // it is damaged, gone or a newer build's
			unread = domain.And(unread, &domain.Unreadable{IDs: []string{i.ContextID}, Cause: err})
			continue
		}
		missing := map[int][]domain.ClusterName{}
		for _, c := range clustersOf(p, func(t *plan.Target) bool { return !t.Leaving }) {
			set := known[shardOf(c)]
			if set == nil || slices.Contains(set.Contexts, i.LabelID()) && slices.Contains(set.Clusters, c) {
				continue
			}
			missing[shardOf(c)] = append(missing[shardOf(c)], c)
		}
		if len(missing) == 0 {
			continue
		}
		switch now, err := statusNow(ctx, records, i.ContextID); {
		case err != nil:
			return err
		case now.Over(): // since it was listed
			continue
		}
		for n, clusters := range missing {
			if err := lease.Check(ctx); err != nil {
				return err
			}
			// When it began is left out: any operation has said later what it leaves.
			if err := shards.Watch(ctx, n, Watching{ContextID: i.LabelID(), Clusters: clusters}); err != nil {
				return err
			}
		}
		if err := unwatchEnded(ctx, records, shards, i, missing); err != nil {
			return err
		}
	}
	return unread
}

// unwatchEnded takes back what shards were told of a context that has ended meanwhile: its end is recorded before they are told of it, and may have
// been told before. Where that fails, the daily sweep does it.
func unwatchEnded(ctx context.Context, records contexts, shards Shards, i *domain.Instance, told map[int][]domain.ClusterName) error {
	// Where another context has taken over, it goes on under the same name.
	if now, err := statusNow(ctx, records, i.ContextID); err != nil || now != domain.ContextTerminated {
		return err
	}
	for n := range told {
		if err := shards.Unwatch(ctx, n, i.LabelID()); err != nil {
			return err
		}
	}
	return nil
}

// statusNow is that of a context; one that nobody knows any more was terminated.
func statusNow(ctx context.Context, records contexts, contextID string) (domain.ContextStatus, error) {
	i, err := records.Instance(ctx, contextID)
	switch {
	case fail.Is(err, fail.NotFound):
		return domain.ContextTerminated, nil
	case err != nil:
		return "", err
	}
	return i.Status, nil
}

// shard is one attempt at a shard.
type shard struct {
	*Watch
	number   int
	log      log.Logger               // of the activity: a watch tells of its cluster in a context of its own
	set      atomic.Pointer[WatchSet] // the last one
	watcher  string
	turn     domain.Turn  // of all that it stores
	replaced func(error)  // ends it, as a later attempt has stored something
	saying   sync.RWMutex // held to say again what was said last, and shared to say something
	running  sync.WaitGroup
	watches  map[domain.ClusterName]watched         // of the clusters that are watched
	left     map[domain.ClusterName]<-chan struct{} // closed with the end of the last watch of a cluster that was left
	begun    bool
	known    map[domain.ClusterName][]domain.ObservedApp // what was stored when it began, of clusters that are not watched yet
	tenants  sync.Map                                    // ids of contexts of tenants, of which none is ever anything else
	ours     sync.Map                                    // ids of contexts of this control plane that go on; in clusters there may be another's
	unread   sync.Map                                    // apps of which a record cannot be read: a domain.ObservedApp
	refused  sync.Map                                    // apps of which nothing can be stored: a domain.ObservedApp
	reported sync.Map                                    // ids of contexts of which this attempt has stored something
	apps     *lru.Weighed[domain.Digest, []string]       // of plans
	news     news
	contacts contacts
	outages  outages
}

// watched is the watch of a cluster.
type watched struct {
	end   context.CancelCauseFunc
	ended <-chan struct{}
}

// errUnwatched ends the watch of a cluster for good.
var errUnwatched = errors.New("nothing is deployed in the cluster")

// adjust begins and ends watches so that the clusters of the set are the ones that are watched. Contexts of which the workflow was just told
// are claimed: they come with a later set, or with none where their clusters are watched already.
func (s *shard) adjust(ctx context.Context, set *WatchSet, claimed []string) error {
	if !s.begun { // what has gone from the clusters while nobody watched must be forgotten
		var err error
		if s.known, err = s.observed(ctx, slices.Concat(set.Contexts, claimed)); err != nil {
			return err
		}
		s.begun = true
	}
	s.set.Store(set)
	wanted := make(map[domain.ClusterName]bool, len(set.Clusters))
	for _, c := range set.Clusters {
		wanted[c] = true
		if _, ok := s.watches[c]; !ok {
			s.begin(ctx, c, set.Contexts, s.known[c])
			delete(s.known, c)
		}
	}
	maps.DeleteFunc(s.known, func(c domain.ClusterName, _ []domain.ObservedApp) bool { return shardOf(c) != s.number })
	for c, x := range s.watches {
		if !wanted[c] {
			x.end(errUnwatched)
			s.left[c] = x.ended
			delete(s.watches, c)
		}
	}
	s.ours.Clear() // the group of one that has ended may be deleted
	return nil
}

// begin begins the watch of a cluster of which so much is stored. When this attempt has watched it before, that is found
// out after the end of the watch before, which may have stored something, and whose last word is that the cluster is not
// watched.
func (s *shard) begin(ctx context.Context, c domain.ClusterName, contextIDs []string, known []domain.ObservedApp) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	s.watches[c] = watched{cancel, ended}
	left, again := s.left[c]
	s.running.Go(func() {
		defer close(ended)
		defer cancel(nil)
		knows := func(context.Context) ([]domain.ObservedApp, error) { return known, nil }
		if again {
			<-left
			knows = func(ctx context.Context) ([]domain.ObservedApp, error) {
				all, err := s.observed(ctx, contextIDs)
				return all[c], err
			}
		}
		s.watch(ctx, c, knows)
	})
}

// contexts are the ids of those of which something may be stored: what came to a cluster that was watched already changes no set.
func (s *shard) contexts() []string {
	ids := slices.Clone(s.set.Load().Contexts)
	s.reported.Range(func(id, _ any) bool {
		ids = append(ids, id.(string))
		return true
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

// observed is what is stored of the contexts, by cluster.
func (s *shard) observed(ctx context.Context, contextIDs []string) (map[domain.ClusterName][]domain.ObservedApp, error) {
	apps, err := s.Store.Observed(ctx, contextIDs)
	if err != nil {
		return nil, err
	}
	known := map[domain.ClusterName][]domain.ObservedApp{}
	for _, o := range apps {
		known[o.Cluster] = append(known[o.Cluster], o)
	}
	return known, nil
}

// end waits for all that the shard began, and then takes back that its clusters are heard.
func (s *shard) end(ctx context.Context) {
	s.running.Wait()
	s.record(ctx, func(ctx context.Context) error { return s.Store.EndPulse(ctx, s.watcher) })
}

// record makes a last write in spite of ctx's end.
func (s *shard) record(ctx context.Context, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), policy.Record)
	defer cancel()
	if err := write(ctx); err != nil {
		activity.GetLogger(ctx).Warn("record the end of a watch", "error", err)
	}
}

// pulseEvery is domain.PulseEvery, and pulseClock tells how long that took, but in tests.
var (
	pulseEvery             = domain.PulseEvery
	pulseClock lease.Clock = lease.Now
)

// pulse proves until ctx ends that the watches are alive, and that it is they who say whether clusters are heard. A pulse that cannot be
// stored is not made up for: the statuses that depend on it cannot be asked for either. After a suspension the next attempt lists all clusters
// anew: what was known before may be long over, and connections take a while to notice.
func (s *shard) pulse(ctx context.Context) {
	var fails lasting.Trouble
	for began := pulseClock(); pause.For(ctx, pulseEvery) == nil; began = pulseClock() {
		if pulseClock().Since(began) > pulseEvery+domain.PulseLife {
			s.replaced(lease.ErrLost)
			return
		}
		err := s.Store.Pulse(ctx, s.watcher, s.Now())
		if err == nil {
			err = s.sayAgain(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		switch { // each of the shards finds the store away, and again every few seconds
		case err != nil && fails.Begins(""):
			s.log.Warn("the pulse of a shard cannot be recorded: what it hears does not count", "shard", s.number, "error", err)
		case err == nil && fails.Ends():
			s.log.Info("the pulse of a shard is recorded again", "shard", s.number)
		}
	}
}

// sayAgain says once more what was said last of clusters of which the store has another watcher's word. A worker of a release that
// knows no turns writes over any word when it was frozen and goes on, and a watch says nothing twice by itself.
func (s *shard) sayAgain(ctx context.Context) error {
	lost, err := s.unsaid(ctx)
	if err != nil || len(lost) == 0 {
		return err
	}
	s.saying.Lock()
	defer s.saying.Unlock()
	if lost, err = s.unsaid(ctx); err != nil { // without what was just being said
		return err
	}
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(sayers)
	for _, w := range lost {
		g.Go(func() error { return s.say(ctx, &w) })
	}
	return g.Wait()
}

// sayers is of how many clusters something is said again at a time.
const sayers = 4

// unsaid are the last words that the store does not have.
func (s *shard) unsaid(ctx context.Context) ([]domain.Watch, error) {
	stored, err := s.Store.WatchesOf(ctx, s.watcher)
	if err != nil {
		return nil, err
	}
	return s.contacts.without(stored), nil
}

// watch watches one cluster until ctx ends. knows says what is stored of it.
func (s *shard) watch(ctx context.Context, c domain.ClusterName, knows func(context.Context) ([]domain.ObservedApp, error)) {
	again := pause.Backoff{First: policy.FirstWatch, Most: policy.LongestWatch}
	for ctx.Err() == nil {
		err := panics.Do(ctx, func() error { return s.observe(ctx, c, knows) })
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, kube.ErrReplaced) { // what is known of it stays until the new watch says something else
			again.Reset()
			knows = func(ctx context.Context) ([]domain.ObservedApp, error) {
				all, err := s.observed(ctx, s.contexts())
				return all[c], err
			}
			continue
		}
		s.outages.gone(s.log, "watching", c, err)
		if err := s.Contact(ctx, domain.Watch{Cluster: c, Reason: fail.TextOf(err)}); err != nil {
			activity.GetLogger(ctx).Warn("record watch", "cluster", c, "error", err)
		}
		_ = again.Wait(ctx)
	}
	if errors.Is(context.Cause(ctx), errUnwatched) {
		s.saying.RLock()
		defer s.saying.RUnlock()
		s.contacts.forget(c)
		s.record(ctx, func(ctx context.Context) error { return s.Store.DeleteWatch(ctx, s.watcher, c) })
	}
}

// observe watches one cluster until ctx ends, or until it cannot for the reason that is returned: kube.ErrReplaced when its
// registration has been replaced.
func (s *shard) observe(ctx context.Context, c domain.ClusterName, knows func(context.Context) ([]domain.ObservedApp, error)) error {
	client, err := s.Clusters.Get(ctx, c)
	if err != nil {
		return err
	}
	ctx, leave := client.While(ctx)
	defer leave()
	how := s.Reports.Report(c)
	if how != domain.ReportNone {
		known, err := knows(ctx)
		if err != nil {
			return err
		}
		return s.Observe(ctx, observe.Config{Cluster: c, Report: how, Clusters: s.Clusters, Sink: s, Known: known})
	}
	if err := s.Contact(ctx, domain.Watch{Cluster: c, Reason: domain.Unreported}); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// Put implements observe.Sink. What belongs to no context of ours is another control plane's; what one of ours has
// although it has ended is a remnant. Where a record that says so cannot be read, what is reported is kept for when it can be.
func (s *shard) Put(ctx context.Context, o *domain.Observation) (kept bool, err error) {
	kept, err = s.put(ctx, o)
	switch {
	case err == nil:
		s.refused.Delete(o.ObservedApp)
		if kept {
			s.reported.Store(o.ContextID, nil)
		}
	case ctx.Err() == nil && !fail.IsUnanswered(err):
		if _, said := s.refused.LoadOrStore(o.ObservedApp, nil); !said { // it is tried again and again
			s.log.Error("what a cluster reports of an app cannot be stored",
				"cluster", o.Cluster.String(), "contextID", o.ContextID, "app", o.App, "error", err)
		}
	}
	return kept, err
}

func (s *shard) put(ctx context.Context, o *domain.Observation) (kept bool, err error) {
	if _, ok := s.tenants.Load(o.ContextID); ok {
		return s.putMatches(ctx, o)
	}
	something := len(o.Resources) > 0 || o.Error != "" // what cannot be reported may be there
	if len(o.Resources) == 0 {
		switch planned, err := s.planned(ctx, o.ObservedApp); {
		case err != nil:
			return false, err
		case !planned:
			s.news.forget(o.ObservedApp)
			return false, s.own(s.Store.DeleteObservation(ctx, o.ObservedApp, s.turn))
		}
	}
	if _, ok := s.ours.Load(o.ContextID); !ok {
		i, err := s.Store.Instance(ctx, o.ContextID)
		if fail.Is(err, fail.NotFound) {
			return s.putMatches(ctx, o)
		}
		ended := false
		if err = unreadable(o.ContextID, err); err == nil {
			ended, err = s.ended(ctx, i)
		}
		switch {
		case s.illegible(o.ObservedApp, err):
		case err != nil:
			return false, err
		case !ended:
			s.ours.Store(o.ContextID, nil)
		case something:
			if err := s.seen(ctx, i); err != nil {
				return false, err
			}
		}
	}
	if something {
		s.news.note(o.ObservedApp)
	} else {
		s.news.forget(o.ObservedApp)
	}
	return true, s.store(ctx, o)
}

// planned says whether an app may be one of the context in whose name a cluster tells of it, or of one that has taken over from that. A
// cluster may make up apps of a context that it knows, and have them go at once: what is said of them would be kept as long as the context
// is. Where the plans do not say all, it is planned: records that cannot be read, and a label that lives on in another group.
func (s *shard) planned(ctx context.Context, o domain.ObservedApp) (bool, error) {
	known := func(err error) (bool, error) {
		if ctx.Err() != nil || fail.IsUnanswered(err) && !errors.Is(err, version.ErrNewer) {
			return false, err
		}
		return true, nil
	}
	i, err := s.Store.Instance(ctx, o.ContextID)
	if err != nil {
		return known(err)
	}
	all, err := s.Store.InstancesOf(ctx, i.Owner)
	if err != nil {
		return known(err)
	}
	here, id := false, plan.DeploymentID(o.ContextID, o.App)
	for _, i := range all {
		if i.LabelID() != o.ContextID {
			continue
		}
		here = here || i.Status != domain.ContextUpdated
		apps, err := s.appsOf(ctx, i.Plan)
		if err != nil {
			return known(err)
		}
		if slices.ContainsFunc(apps, func(app string) bool { return plan.DeploymentID(o.ContextID, app) == id }) {
			return true, nil
		}
	}
	return !here, nil
}

// appsOf are the names of the apps of a plan, those included that are leaving.
func (s *shard) appsOf(ctx context.Context, digest domain.Digest) (names []string, err error) {
	if names, ok := s.apps.Get(digest); ok {
		return names, nil
	}
	p, err := stored.JSON[plan.Plan](ctx, s.Store, digest)
	if err != nil {
		return nil, err
	}
	for i := range p.Apps {
		names = append(names, p.Apps[i].Name)
	}
	s.apps.Add(digest, names, domain.WeightOfTexts(names))
	return names, nil
}

// knownPlans is of how many plans a shard knows the apps by heart, and knownPlanBytes what their names may take in memory.
const knownPlans, knownPlanBytes = 1_000, 4 << 20

// putMatches takes what is said of a tenant's matches, and of nobody else's.
func (s *shard) putMatches(ctx context.Context, o *domain.Observation) (kept bool, err error) {
	if s.Matches == nil {
		return false, nil
	}
	ours, err := s.Matches.Reported(ctx, o)
	if !s.illegible(o.ObservedApp, err) {
		if err != nil || !ours {
			return false, err
		}
		s.tenants.Store(o.ContextID, nil)
	}
	return true, s.store(ctx, o)
}

// illegible says whether err is that records cannot be read, which is logged once for each app until they can be. It must not be the
// end of what others report.
func (s *shard) illegible(o domain.ObservedApp, err error) bool {
	if err == nil {
		s.unread.Delete(o)
		return false
	}
	if _, other := domain.UnreadableOf(err); other != nil {
		return false
	}
	if _, said := s.unread.LoadOrStore(o, nil); !said {
		s.log.Error("a record cannot be read: what a cluster reports is stored without it",
			"cluster", o.Cluster.String(), "contextID", o.ContextID, "app", o.App, "error", err)
	}
	return true
}

// unreadable is the error of the read of one record, or of one ledger: domain.Unreadable where that itself is why, as a newer build
// has written it or somebody has damaged it.
func unreadable(id string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || !errors.Is(err, domain.ErrUnreadable) && !errors.Is(err, version.ErrNewer) {
		return err
	}
	return &domain.Unreadable{IDs: []string{id}, Cause: err}
}

// store stores what is said in the turn of this attempt.
func (s *shard) store(ctx context.Context, o *domain.Observation) error {
	o.Turn = s.turn
	return s.own(s.Store.PutObservation(ctx, o))
}

// own ends this attempt where an error says that a later one has stored something. What is stored then is left alone, and an attempt that
// was frozen, or does not reach Temporal, learns so that it was replaced. (Where it was not, as Temporal's clock has been set back since the
// other one began, the shard's next term begins later.)
func (s *shard) own(err error) error {
	if fail.Is(err, fail.Aborted) {
		s.replaced(err)
	}
	return err
}

// Delete implements observe.Sink.
func (s *shard) Delete(ctx context.Context, o domain.ObservedApp) error {
	if s.Matches != nil {
		if _, ok := s.ours.Load(o.ContextID); !ok {
			_, err := s.Matches.Reported(ctx, &domain.Observation{ObservedApp: o})
			if err != nil && !s.illegible(o, err) {
				return err
			}
		}
	}
	s.news.forget(o)
	return s.own(s.Store.DeleteObservation(ctx, o, s.turn))
}

// Contact implements observe.Sink.
func (s *shard) Contact(ctx context.Context, w domain.Watch) error {
	s.saying.RLock()
	defer s.saying.RUnlock()
	s.contacts.put(w)
	if w.Connected {
		s.outages.back(s.log, "watching", w.Cluster)
	}
	err := s.say(ctx, &w)
	if err == nil {
		s.contacts.put(w) // when another watch heard it last
	}
	return err
}

// say stores whether a cluster is heard. The lock is held, or shared.
func (s *shard) say(ctx context.Context, w *domain.Watch) error {
	w.Turn = s.turn
	return s.own(s.Store.PutWatch(ctx, s.watcher, w))
}
