package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/when"
)

// watchDoc is what a watcher, which is one attempt at a watching activity, says of a cluster. It holds only while the watcher has a pulse.
type watchDoc struct {
	ID                 domain.Key `bson:"_id"` // the cluster's
	domain.ClusterName `bson:",inline"`
	Watcher            string    `bson:"watcher"`
	Connected          bool      `bson:"connected"`
	LastSeen           time.Time `bson:"lastSeen"`
	Reason             string    `bson:"-"`
	Sealed             []byte    `bson:"sealed,omitempty"` // Reason
	// Turn is the watcher's. A document of a build that knew no turns has none, which is the earliest.
	Turn domain.Turn `bson:"turn"`
}

type pulseDoc struct {
	Watcher string    `bson:"_id"`
	At      time.Time `bson:"at"`
}

func (s *Store) watches() *mongo.Collection { return s.db.Collection(watches) }
func (s *Store) pulses() *mongo.Collection  { return s.db.Collection(pulses) }

// PutWatch notes whether a cluster is heard, in the name of who watches it. That holds as long as the watcher gives
// pulses, or until another one says something of the cluster. A watch that never heard the cluster does not make
// forget when another one did. Aborted when a watcher of a later turn has said something: a process that was frozen does
// not know that another one has taken its place, and it takes its pulse away in the end. LastSeen of a watch that never heard the cluster
// becomes what is stored.
func (s *Store) PutWatch(ctx context.Context, watcher string, w *domain.Watch) error {
	if !w.Connected && w.LastSeen.IsZero() {
		before, err := s.watch(ctx, w.Cluster)
		if err != nil {
			return err
		}
		w.LastSeen = before.LastSeen
	}
	d := watchDoc{
		ID: w.Cluster.Key(), ClusterName: w.Cluster, Watcher: watcher, Connected: w.Connected, LastSeen: w.LastSeen, Reason: w.Reason, Turn: w.Turn,
	}
	if err := s.sealWatch(&d); err != nil {
		return err
	}
	for range watchTries {
		if done, err := s.tryWatch(ctx, &d); done || err != nil {
			return s.watched(ctx, err)
		}
	}
	return fail.New(fail.Aborted, "a later watch of cluster %s has taken the place of this one", w.Cluster)
}

// watchTries is how often a watch is written: the first word of another watcher may come between the two commands of a try. That happens
// once, for then there is a word. It is no loop of cas: a word of a later turn looks the same, and no further try mends that.
const watchTries = 2

// tryWatch puts a watch in place of one that is not of a later turn, or of none; false where there is one of a later turn.
func (s *Store) tryWatch(ctx context.Context, d *watchDoc) (bool, error) {
	if replaced, err := s.replaceIf(ctx, s.watches(), append(byID(d.ID), s.notLater(d.Turn)), d); replaced || err != nil {
		return replaced, err
	}
	return s.insertOnce(ctx, s.watches(), d)
}

// notLater selects documents that who has a turn may put its own in place of: those of a turn that is not later, and those without one.
// One that began in the future counts for nothing: Temporal's clock was wrong then, and was set back. Its document would stay until then.
func (s *Store) notLater(turn domain.Turn) bson.E {
	const began, rank = "turn.began", "turn.rank"
	return bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: "turn", Value: nil}},
		bson.D{{Key: began, Value: bson.D{{Key: "$lt", Value: turn.Began}}}},
		bson.D{{Key: began, Value: turn.Began}, {Key: rank, Value: bson.D{{Key: "$lte", Value: turn.Rank}}}},
		bson.D{{Key: began, Value: bson.D{{Key: "$gt", Value: s.latestTurn()}}}},
	}}
}

// later says of the turn of a document that it is not what notLater selects.
func (s *Store) later(stored, turn domain.Turn) bool {
	return turn.Before(stored) && stored.Began <= s.latestTurn()
}

// latestTurn is the latest moment at which a turn may have begun.
func (s *Store) latestTurn() int64 { return s.now().Add(policy.ClockSkew).UnixNano() }

// DeleteWatch forgets what a watcher said of a cluster, which it does not watch any more; what another one said stays.
func (s *Store) DeleteWatch(ctx context.Context, watcher string, cluster domain.ClusterName) error {
	return s.deleteWatch(ctx, append(byID(cluster.Key()), bson.E{Key: "watcher", Value: watcher}))
}

// ForgetWatch forgets what anybody said of a cluster whose registration is gone. A watcher that has not been told yet that it is not to
// watch it says it once more, and takes that back when it is (DeleteWatch).
func (s *Store) ForgetWatch(ctx context.Context, cluster domain.ClusterName) error {
	return s.deleteWatch(ctx, byID(cluster.Key()))
}

func (s *Store) deleteWatch(ctx context.Context, which bson.D) error {
	gone, err := s.deleteOne(ctx, s.watches(), which)
	if err == nil && !gone {
		return nil
	}
	return s.watched(ctx, err)
}

// watchesVersion is the _id of the version of what watchers say. It is written after what has changed and before whoever changed it
// is answered, so that what is kept under a version has all that was answered before that was read.
const watchesVersion = "watches"

// watched notes that what watchers say has changed, or may have: a call that failed may have been carried out. Calls that come
// together are written together.
func (s *Store) watched(ctx context.Context, err error) error {
	return errors.Join(err, s.watchWrites.do(ctx, struct{}{}))
}

// putWatchesVersion belongs to many callers, so that no caller's context bounds it.
func (s *Store) putWatchesVersion(changes []struct{}) []error {
	write := func() error {
		_, err := s.put(context.Background(), s.versions(), watchesVersion, versionDoc{watchesVersion, bson.NewObjectID()})
		return err
	}
	err := write()
	if fail.Is(err, fail.Conflict) { // another process has written the first one in this moment
		err = write()
	}
	return slices.Repeat([]error{err}, len(changes))
}

const (
	// watchesAge is for how long watches are not read again though their version is the same: whoever dies between writing a watch
	// and the version leaves the old one. It is longer where reading takes long, which may cost a part of watchesShare of the time.
	watchesAge, watchesShare = domain.PulseLife, 50
)

// said is what watchers said at a time. It is shared, and must not be changed.
type said struct {
	version string        // before it was read
	whole   time.Time     // when watches were read
	took    time.Duration // to read them
	watches []watchDoc
	at      time.Time            // when pulses were read
	changes int64                // of pulsesChanged, before that
	pulses  map[string]pulseSeen // by watcher
	all     func() map[domain.ClusterName]domain.Watch
}

// pulseSeen is the last pulse of a process or a watcher. The zero pulseSeen is of one that never had any.
type pulseSeen struct {
	at     time.Time // by the clock of who gave it
	counts time.Time // as it counts here
}

// ahead is by how much that clock is ahead, as far as the pulse tells.
func (p pulseSeen) ahead() time.Duration { return p.at.Sub(p.counts) }

// notedSeen is of how many things it is kept when they were, of what was noted by a clock that is ahead.
const notedSeen = 1 << 14

// noted is when something was, by the clock of who has noted it, and as it counts here by what this process's clock told at a moment.
type noted struct {
	at, counts time.Time
	moment     lease.Instant
}

// by is when it was by what the clock tells at a later moment: that may have been set forward since, and nothing is older for it.
func (n noted) by(later lease.Instant) time.Time {
	set := (later.Wall - later.Boot) - (n.moment.Wall - n.moment.Boot)
	return when.Past(n.counts.Add(max(set, 0)).Truncate(policy.StoredTime), later.Day())
}

// Watches is what was last said of clusters, with every watch that was written before the call, and with pulses as they were
// policy.PulsesAge ago or later; nil clusters are all. Who said it lived at least until Watch.Pulse, and what it said held until then. What
// it returns is shared, and must not be changed.
func (s *Store) Watches(ctx context.Context, clusters []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error) {
	heard, err := s.said(ctx)
	if err != nil {
		return nil, err
	}
	all := heard.all()
	if clusters == nil {
		return all, nil
	}
	found := make(map[domain.ClusterName]domain.Watch, len(clusters))
	for _, c := range clusters {
		if w, ok := all[c]; ok {
			found[c] = w
		}
	}
	return found, nil
}

// WatchesOf are the clusters of which a watcher has said what was said last. It is as fresh as Watches, and costs as little.
func (s *Store) WatchesOf(ctx context.Context, watcher string) (map[domain.ClusterName]bool, error) {
	heard, err := s.said(ctx)
	if err != nil {
		return nil, err
	}
	found := map[domain.ClusterName]bool{}
	for i := range heard.watches {
		if d := &heard.watches[i]; d.Watcher == watcher {
			found[d.ClusterName] = true
		}
	}
	return found, nil
}

// said is what watchers said last, for all who ask.
func (s *Store) said(ctx context.Context) (*said, error) {
	version, err := s.versionOf(ctx, watchesVersion)
	if err != nil {
		return nil, err
	}
	if kept := s.lastSaid(version); kept != nil {
		return kept, nil
	}
	return s.watchReads.Get(ctx, "", func(ctx context.Context) (*said, error) {
		version, err := s.versionOf(ctx, watchesVersion)
		if err != nil {
			return nil, err
		}
		if kept := s.lastSaid(version); kept != nil { // those who asked a moment before have read it
			return kept, nil
		}
		return s.readWatches(ctx, version)
	})
}

// lastSaid is what was read last; nil where it is of another version, or too old.
func (s *Store) lastSaid(version string) *said {
	kept := s.watchesSaid.Load()
	if kept == nil || kept.version != version || kept.changes != s.pulsesChanged.Load() || s.now().Sub(kept.at) >= policy.PulsesAge {
		return nil
	}
	return kept
}

// readWatches reads what watchers said at a version or later: of one that is known already, pulses alone.
func (s *Store) readWatches(ctx context.Context, version string) (*said, error) {
	read := s.moment()
	heard := &said{version: version, at: s.now(), changes: s.pulsesChanged.Load(), pulses: map[string]pulseSeen{}}
	kept := s.watchesSaid.Load()
	same := kept != nil && kept.version == version && heard.at.Sub(kept.whole) < max(watchesAge, watchesShare*kept.took)
	var err error
	if same {
		heard.watches, heard.whole, heard.took = kept.watches, kept.whole, kept.took
	} else {
		if heard.watches, err = all[watchDoc](ctx, s, s.watches(), bson.D{}); err != nil {
			return nil, err
		}
		heard.whole, heard.took = heard.at, s.now().Sub(heard.at)
	}
	pulses, err := all[pulseDoc](ctx, s, s.pulses(), bson.D{})
	if err != nil {
		return nil, err
	}
	for _, p := range pulses {
		heard.pulses[p.Watcher] = s.seen(p, read)
	}
	if same && maps.Equal(heard.pulses, kept.pulses) {
		heard.all = kept.all
	} else {
		heard.all = sync.OnceValue(func() map[domain.ClusterName]domain.Watch { return s.joined(heard) })
	}
	s.watchesSaid.Store(heard)
	return heard, nil
}

// joined are watches with the pulses of those who said them.
func (s *Store) joined(a *said) map[domain.ClusterName]domain.Watch {
	found := make(map[domain.ClusterName]domain.Watch, len(a.watches))
	for i := range a.watches {
		d := &a.watches[i]
		found[d.ClusterName] = s.watchOf(d, a.pulses[d.Watcher])
	}
	return found
}

// watch is Watches for one cluster; a zero Watch when nothing is known of it.
func (s *Store) watch(ctx context.Context, c domain.ClusterName) (domain.Watch, error) {
	read := s.moment()
	var d watchDoc
	if err := s.findOne(ctx, s.watches(), c.Key(), &d); err != nil {
		if fail.Is(err, fail.NotFound) {
			return domain.Watch{}, nil
		}
		return domain.Watch{}, err
	}
	var p pulseDoc
	if err := s.findOne(ctx, s.pulses(), d.Watcher, &p); err != nil && !fail.Is(err, fail.NotFound) {
		return domain.Watch{}, err
	}
	return s.watchOf(&d, s.seen(p, read)), nil
}

// seen is a pulse as it counts here. The moment is from before it was read.
func (s *Store) seen(p pulseDoc, read lease.Instant) pulseSeen {
	return pulseSeen{p.At, s.counted(p.Watcher, p.At, read)}
}

// watchOf is what a document says when its watcher had its last pulse.
func (s *Store) watchOf(d *watchDoc, pulse pulseSeen) domain.Watch {
	w := domain.Watch{Cluster: d.ClusterName, Connected: d.Connected, LastSeen: s.counts(string(d.ID), d.LastSeen, pulse.ahead()), Reason: d.Reason, Pulse: pulse.counts}
	if w.Connected && w.Pulse.After(w.LastSeen) {
		w.LastSeen = w.Pulse
	}
	return w
}

// counts is when something was that somebody has noted at a time, and that has been read by now. What was noted by a clock that is ahead, by so much as far as
// is known, was by so much earlier, and is what it was when this process read it first: it does not move with the pulses, and stays when its time has come.
func (s *Store) counts(something string, at time.Time, ahead time.Duration) time.Time {
	moment := s.moment()
	if known, ok := s.notedSeen.Get(something); ok && known.at.Equal(at) {
		return known.by(moment)
	}
	now := s.now()
	if !at.After(now) {
		return at
	}
	counts := when.Past(at.Add(-ahead), now).UTC().Truncate(policy.StoredTime)
	s.notedSeen.Add(something, noted{at, counts, moment})
	return counts
}

// Pulse proves that the watcher was alive at a time, and with it all its watches. The first one removes what watchers left
// that were killed long ago, by the watcher's clock and the database's: one that is ahead would take away the pulses of all others.
func (s *Store) Pulse(ctx context.Context, watcher string, at time.Time) error {
	defer s.pulsesChanged.Add(1)
	first, err := s.put(ctx, s.pulses(), watcher, pulseDoc{Watcher: watcher, At: at})
	if err != nil || !first {
		return err
	}
	if err := s.watched(ctx, nil); err != nil {
		return err
	}
	ahead, err := when.Ahead(ctx, at, s.Clock)
	if err != nil {
		return fmt.Errorf("compare the clock before old pulses are removed: %w", err)
	}
	old := bson.D{{Key: "at", Value: bson.D{{Key: "$lt", Value: at.Add(-max(ahead, 0) - policy.PulseKept)}}}}
	if err := s.deleteMany(ctx, s.pulses(), old); err != nil {
		return fmt.Errorf("remove old pulses: %w", err)
	}
	return nil
}

// EndPulse says that the watcher watches nothing any more.
func (s *Store) EndPulse(ctx context.Context, watcher string) error {
	_, err := s.deleteOne(ctx, s.pulses(), byID(watcher))
	return s.watched(ctx, err)
}
