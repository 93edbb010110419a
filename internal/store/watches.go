package store

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// pulseKept is after how long what a watcher left that was killed is removed.
const pulseKept = 24 * time.Hour

// watchDoc is what a watcher, which is one attempt at a watching activity, says of a cluster. It holds only while the watcher has a pulse.
type watchDoc struct {
	ID                 domain.Key `bson:"_id"` // the cluster's
	domain.ClusterName `bson:",inline"`
	Watcher            string    `bson:"watcher"`
	Connected          bool      `bson:"connected"`
	LastSeen           time.Time `bson:"lastSeen"`
	Reason             string    `bson:"reason"`
}

type pulseDoc struct {
	Watcher string    `bson:"_id"`
	At      time.Time `bson:"at"`
}

func (s *Store) watches() *mongo.Collection { return s.db.Collection(watches) }
func (s *Store) pulses() *mongo.Collection  { return s.db.Collection(pulses) }

// PutWatch notes whether a cluster is heard, in the name of who watches it. That holds as long as the watcher gives
// pulses, or until another one says something of the cluster. A watch that never heard the cluster does not make
// forget when another one did.
func (s *Store) PutWatch(ctx context.Context, watcher string, w domain.Watch) error {
	if !w.Connected && w.LastSeen.IsZero() {
		before, err := s.watch(ctx, w.Cluster)
		if err != nil {
			return err
		}
		w.LastSeen = before.LastSeen
	}
	defer s.watchesChanged.Add(1)
	d := watchDoc{ID: w.Cluster.Key(), ClusterName: w.Cluster, Watcher: watcher, Connected: w.Connected, LastSeen: w.LastSeen, Reason: w.Reason}
	_, err := s.put(ctx, s.watches(), d.ID, d)
	return err
}

// DeleteWatch forgets what a watcher said of a cluster, which it does not watch any more; what another one said stays.
func (s *Store) DeleteWatch(ctx context.Context, watcher string, cluster domain.ClusterName) error {
	defer s.watchesChanged.Add(1)
	_, err := s.deleteOne(ctx, s.watches(), append(byID(cluster.Key()), bson.E{Key: "watcher", Value: watcher}))
	return err
}

// watchesAge is for how long what watchers said is not read again. Whoever asks judges each time whether their pulses still
// prove it: an old pulse can only prove less.
const watchesAge = 250 * time.Millisecond

// said is what watchers said at a time.
type said struct {
	at      time.Time
	changes int64 // of watchesChanged, before it was read
	watches []watchDoc
	pulses  map[string]time.Time // by watcher
}

// Watches is what was last said of clusters, watchesAge ago or later; nil clusters are all. Who said it lived at least until
// Watch.Pulse, and what it said held until then. What has been said with this Store counts at once.
func (s *Store) Watches(ctx context.Context, clusters []domain.ClusterName) (map[domain.ClusterName]domain.Watch, error) {
	heard, err := s.said(ctx)
	if err != nil {
		return nil, err
	}
	wanted := map[domain.ClusterName]bool{}
	for _, c := range clusters {
		wanted[c] = true
	}
	found := make(map[domain.ClusterName]domain.Watch, len(heard.watches))
	for i := range heard.watches {
		d := &heard.watches[i]
		if clusters != nil && !wanted[d.ClusterName] {
			continue
		}
		found[d.ClusterName] = d.watch(heard.pulses[d.Watcher])
	}
	return found, nil
}

// said is what watchers said last, for all who ask.
func (s *Store) said(ctx context.Context) (*said, error) {
	if kept := s.lastSaid(); kept != nil {
		return kept, nil
	}
	return s.watchReads.Get(ctx, "", func(ctx context.Context) (*said, error) {
		if kept := s.lastSaid(); kept != nil { // those who asked a moment before have read it
			return kept, nil
		}
		heard := &said{at: s.now(), changes: s.watchesChanged.Load(), pulses: map[string]time.Time{}}
		var err error
		if heard.watches, err = all[watchDoc](ctx, s, s.watches(), bson.D{}); err != nil {
			return nil, err
		}
		pulses, err := all[pulseDoc](ctx, s, s.pulses(), bson.D{})
		if err != nil {
			return nil, err
		}
		for _, p := range pulses {
			heard.pulses[p.Watcher] = p.At
		}
		s.watchesSaid.Store(heard)
		return heard, nil
	})
}

// lastSaid is what was read last, nil if that is too long ago.
func (s *Store) lastSaid() *said {
	kept := s.watchesSaid.Load()
	if kept == nil || kept.changes != s.watchesChanged.Load() || s.now().Sub(kept.at) >= watchesAge {
		return nil
	}
	return kept
}

// watch is Watches for one cluster; a zero Watch when nothing is known of it.
func (s *Store) watch(ctx context.Context, c domain.ClusterName) (domain.Watch, error) {
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
	return d.watch(p.At), nil
}

// watch is what the document says when its watcher had its last pulse at a time, zero for never.
func (d *watchDoc) watch(pulse time.Time) domain.Watch {
	w := domain.Watch{Cluster: d.ClusterName, Connected: d.Connected, LastSeen: d.LastSeen, Reason: d.Reason, Pulse: pulse}
	if w.Connected && pulse.After(w.LastSeen) {
		w.LastSeen = pulse
	}
	return w
}

// Pulse proves that the watcher was alive at a time, and with it all its watches. The first one removes what watchers left
// that were killed long ago.
func (s *Store) Pulse(ctx context.Context, watcher string, at time.Time) error {
	defer s.watchesChanged.Add(1)
	first, err := s.put(ctx, s.pulses(), watcher, pulseDoc{Watcher: watcher, At: at})
	if err != nil || !first {
		return err
	}
	old := bson.D{{Key: "at", Value: bson.D{{Key: "$lt", Value: at.Add(-pulseKept)}}}}
	if err := s.deleteMany(ctx, s.pulses(), old); err != nil {
		return fmt.Errorf("remove old pulses: %w", err)
	}
	return nil
}

// EndPulse says that the watcher watches nothing any more.
func (s *Store) EndPulse(ctx context.Context, watcher string) error {
	defer s.watchesChanged.Add(1)
	_, err := s.deleteOne(ctx, s.pulses(), byID(watcher))
	return err
}
