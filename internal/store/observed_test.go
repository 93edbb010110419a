package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/secret"
)

// pair are the stores of two processes on one database, with one clock.
type pair struct {
	*testing.T
	reader, writer *Store
	now            time.Time
	uri, database  string
	app            domain.ObservedApp
}

// pairBegan is where its clock begins.
var pairBegan = time.UnixMilli(1_000_000).UTC()

func testKeys(t *testing.T) *secret.Sealer {
	t.Helper()
	keys, err := secret.Parse("test:" + strings.Repeat("A", 43) + "=")
	require.NoError(t, err)
	return keys
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{T: t, now: pairBegan, app: domain.ObservedApp{ContextID: "1", App: "app", Cluster: domain.ClusterName{Provider: "p", Name: "c"}}}
	p.uri, p.database = mongotest.URI(t), mongotest.Database(t)
	for _, s := range []**Store{&p.reader, &p.writer} {
		var err error
		*s, err = Open(Config{URI: p.uri, Database: p.database, Timeout: mongotest.Timeout, Keys: testKeys(t), Now: func() time.Time { return p.now }})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, (*s).Close(context.Background())) })
	}
	return p
}

// ticks has time pass as the time of day tells it.
func (p *pair) ticks() {
	p.reader.moment = func() lease.Instant {
		return lease.Instant{Boot: time.Duration(p.now.UnixNano()), Wall: time.Duration(p.now.UnixNano())}
	}
	p.writer.moment = p.reader.moment
}

func (p *pair) observation(status string) *domain.Observation {
	return &domain.Observation{ObservedApp: p.app, Resources: []domain.ObservedResource{{Kind: "Pod", Name: "a", Status: status, JSON: []byte(`"` + status + `"`)}}}
}

// said is the status that the reader sees, "" for none, and that its object is of the same time.
func (p *pair) said() (status string) {
	p.Helper()
	for o, err := range p.reader.Observations(p.Context(), p.app.ContextID, p.app.App, nil) {
		require.NoError(p, err)
		status = o.Resources[0].Status
		data, err := o.Object(0)
		require.NoError(p, err)
		require.JSONEq(p, `"`+status+`"`, string(data))
	}
	return status
}

func TestWhatAnotherProcessObservedIsSeenAtOnce(t *testing.T) {
	p := newPair(t)
	require.Empty(t, p.said())
	for i := range 5 {
		status := fmt.Sprint("status", i)
		require.NoError(t, p.writer.PutObservation(t.Context(), p.observation(status)))
		require.Equal(t, status, p.said())
	}
	require.NoError(t, p.writer.DeleteObservation(t.Context(), p.app, domain.Turn{}))
	require.Empty(t, p.said())
}

func TestAnObservationWhoseWriterDiedIsSeenSoon(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.writer.PutObservation(t.Context(), p.observation("Ready")))
	require.Equal(t, "Ready", p.said())
	changed, err := p.writer.putObservation(t.Context(), p.observation("NotReady")) // the version is not written any more
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "Ready", p.said(), "it is kept")
	p.now = p.now.Add(policy.ObservedAge)
	require.Equal(t, "NotReady", p.said())
}

func TestWhoAsksWhileItGetsOldHasItReadForOthers(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.writer.PutObservation(t.Context(), p.observation("Ready")))
	require.Equal(t, "Ready", p.said())
	_, err := p.writer.putObservation(t.Context(), p.observation("NotReady"))
	require.NoError(t, err)
	p.now = p.now.Add(policy.ObservedAge / 2)
	require.Eventually(t, func() bool { return p.said() == "NotReady" }, waitTime, time.Millisecond)
}

func TestWhatDidNotChangeIsNotDecodedAgain(t *testing.T) {
	p := newPair(t)
	other := p.observation("Ready")
	other.Cluster.Name = "other"
	require.NoError(t, p.writer.PutObservation(t.Context(), other))
	require.NoError(t, p.writer.PutObservation(t.Context(), p.observation("Ready")))
	before, err := p.reader.saidOf(t.Context(), "1", "app")
	require.NoError(t, err)
	require.NoError(t, p.writer.PutObservation(t.Context(), p.observation("NotReady")))
	after, err := p.reader.saidOf(t.Context(), "1", "app")
	require.NoError(t, err)
	require.NotSame(t, before.clusters[0], after.clusters[0])
	require.Same(t, before.clusters[1], after.clusters[1])
}

func TestObservationsAreNotKeptBeyondTheirBound(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.writer.PutObservation(t.Context(), p.observation("Ready")))
	p.reader.observedApps.limit = 100
	require.Equal(t, "Ready", p.said())
	require.Zero(t, p.reader.observedApps.bytes)
	p.reader.observedApps.limit = 1 << 20
	for _, status := range []string{"Ready", "NotReady", "Ready"} { // each takes the place of the one before
		require.NoError(t, p.writer.PutObservation(t.Context(), p.observation(status)))
		require.Equal(t, status, p.said())
		kept, ok := p.reader.observedApps.lookup("1-app")
		require.True(t, ok)
		require.Equal(t, kept.size(), p.reader.observedApps.bytes)
	}
}

// TestWatchesByAClockThatIsAhead count while their pulse changes, and nothing was heard later than now.
func TestWatchesByAClockThatIsAhead(t *testing.T) {
	const ahead = 10 * time.Minute
	p := newPair(t)
	p.ticks()
	ctx, cluster := t.Context(), p.app.Cluster
	of := func() domain.Watch {
		t.Helper()
		found, err := p.reader.Watches(ctx, nil)
		require.NoError(t, err)
		return found[cluster]
	}
	later := func(d time.Duration) { p.now = p.now.Add(d) }
	require.NoError(t, p.writer.PutWatch(ctx, "ahead", &domain.Watch{Cluster: cluster, Connected: true, LastSeen: p.now.Add(ahead)}))
	require.Equal(t, p.now, of().LastSeen, "no pulse yet")
	for range 5 {
		later(domain.PulseEvery)
		require.NoError(t, p.writer.Pulse(ctx, "ahead", p.now.Add(ahead)))
		w := of()
		require.True(t, w.Stands(p.now))
		require.Equal(t, p.now, w.LastSeen)
	}
	dead := p.now
	for _, wait := range []time.Duration{domain.PulseLife + time.Second, ahead - domain.PulseLife, ahead} {
		later(wait)
		w := of()
		require.False(t, w.Stands(p.now), "after %s", p.now.Sub(dead))
		require.False(t, w.LastSeen.Before(dead) || w.LastSeen.After(p.now))
	}

	require.NoError(t, p.writer.Pulse(ctx, "ahead", p.now.Add(ahead)))
	never := domain.Watch{Cluster: cluster, Reason: "cannot be reached"}
	require.NoError(t, p.writer.PutWatch(ctx, "right", &never))
	require.Equal(t, p.now, never.LastSeen)
	later(time.Minute)
	require.Equal(t, never.LastSeen, of().LastSeen)
	require.NoError(t, p.writer.PutWatch(ctx, "ahead", &domain.Watch{Cluster: cluster, Reason: "lost", LastSeen: p.now.Add(ahead)}))
	require.NoError(t, p.writer.EndPulse(ctx, "ahead"))
	require.Equal(t, p.now, of().LastSeen)
}

// TestAClusterThatAClockThatIsAheadHasLost was heard at one time, however long its watcher lives after that, and who reads of it first.
func TestAClusterThatAClockThatIsAheadHasLost(t *testing.T) {
	const ahead, early = 10 * time.Minute, time.Minute
	p := newPair(t)
	p.ticks()
	ctx, cluster := t.Context(), p.app.Cluster
	of := func(s *Store) time.Time {
		t.Helper()
		found, err := s.Watches(ctx, nil)
		require.NoError(t, err)
		return found[cluster].LastSeen
	}
	lost := p.now
	require.NoError(t, p.writer.Pulse(ctx, "ahead", lost.Add(ahead)))
	require.NoError(t, p.writer.PutWatch(ctx, "ahead", &domain.Watch{Cluster: cluster, Reason: "lost", LastSeen: lost.Add(ahead)}))
	require.Equal(t, lost, of(p.reader))
	for p.now.Before(lost.Add(2 * ahead)) {
		p.now = p.now.Add(early)
		require.NoError(t, p.writer.Pulse(ctx, "ahead", p.now.Add(ahead)))
		require.Equal(t, lost, of(p.reader), "after %s", p.now.Sub(lost))
		if p.now.Equal(lost.Add(early)) {
			require.Equal(t, lost, of(p.writer), "who has not read it before")
		}
	}
	require.NoError(t, p.writer.PutWatch(ctx, "ahead", &domain.Watch{Cluster: cluster, Reason: "lost", LastSeen: p.now.Add(ahead)}))
	require.Equal(t, p.now, of(p.reader), "it was heard meanwhile")
}

// TestAFirstPulseByAClockThatIsAhead leaves those of others.
func TestAFirstPulseByAClockThatIsAhead(t *testing.T) {
	p := newPair(t)
	ctx, now := t.Context(), time.Now().Truncate(policy.StoredTime)
	given := func() (watchers []string) {
		t.Helper()
		all, err := all[pulseDoc](ctx, p.reader, p.reader.pulses(), bson.D{})
		require.NoError(t, err)
		for _, d := range all {
			watchers = append(watchers, d.Watcher)
		}
		slices.Sort(watchers)
		return watchers
	}
	require.NoError(t, p.writer.Pulse(ctx, "dead", now.Add(-policy.PulseKept-time.Hour)))
	require.NoError(t, p.writer.Pulse(ctx, "other", now))
	require.Equal(t, []string{"other"}, given())
	require.NoError(t, p.writer.Pulse(ctx, "ahead", now.Add(2*policy.PulseKept)))
	require.Equal(t, []string{"ahead", "other"}, given())
}

// TestWatchesOfAnotherProcess: what was written before the call shows in it, of whatever process. What nobody has written anew is
// not read again but for pulses; what somebody wrote who died before he wrote the version shows after watchesAge.
func TestWatchesOfAnotherProcess(t *testing.T) {
	p := newPair(t)
	ctx, cluster := t.Context(), p.app.Cluster
	of := func(s *Store) domain.Watch {
		t.Helper()
		found, err := s.Watches(ctx, nil)
		require.NoError(t, err)
		one, err := s.Watches(ctx, []domain.ClusterName{cluster, {Provider: "p", Name: "nobody"}})
		require.NoError(t, err)
		w, there := found[cluster]
		require.Equal(t, there, len(one) == 1)
		require.Equal(t, w, one[cluster])
		return w
	}
	seen := func() domain.Watch { return of(p.reader) }
	require.Zero(t, seen())
	for range 3 {
		for _, s := range []*Store{p.writer, p.reader} {
			require.NoError(t, s.PutWatch(ctx, "watcher", &domain.Watch{Cluster: cluster, Connected: true}))
			require.True(t, seen().Connected)
			require.True(t, of(p.writer).Connected)
			require.NoError(t, s.PutWatch(ctx, "watcher", &domain.Watch{Cluster: cluster, Reason: "dead"}))
			require.Equal(t, "dead", seen().Reason)
			require.Equal(t, "dead", of(p.writer).Reason)
		}
	}
	require.NoError(t, p.writer.Pulse(ctx, "watcher", p.now))
	require.Equal(t, p.now, seen().Pulse, "the first pulse counts at once")
	before := p.reader.watchesSaid.Load()
	require.NoError(t, p.writer.Pulse(ctx, "watcher", p.now.Add(policy.PulsesAge)))
	require.Equal(t, p.now, seen().Pulse, "an old pulse proves less")
	require.Same(t, before, p.reader.watchesSaid.Load())
	p.now = p.now.Add(policy.PulsesAge)
	require.Equal(t, pairBegan.Add(policy.PulsesAge), seen().Pulse)
	require.Same(t, &before.watches[0], &p.reader.watchesSaid.Load().watches[0], "watches are not read again")
	require.NoError(t, p.writer.EndPulse(ctx, "watcher"))
	require.Zero(t, seen().Pulse)
	require.NoError(t, p.writer.DeleteWatch(ctx, "another", cluster))
	require.NotZero(t, seen())
	require.NoError(t, p.writer.DeleteWatch(ctx, "watcher", cluster))
	require.Zero(t, seen())

	d := watchDoc{ID: cluster.Key(), ClusterName: cluster, Watcher: "dies", Connected: true}
	_, err := p.writer.put(ctx, p.writer.watches(), d.ID, d)
	require.NoError(t, err)
	p.now = p.now.Add(watchesAge)
	require.True(t, seen().Connected)
}

// TestAWatchThatWasPerhapsWritten: a caller that has given up is not answered, but what it wrote is not lost to those who read.
func TestAWatchThatWasPerhapsWritten(t *testing.T) {
	p := newPair(t)
	version := func() string {
		t.Helper()
		v, err := p.reader.versionOf(t.Context(), watchesVersion)
		require.NoError(t, err)
		return v
	}
	before := version()
	lost := errors.New("the answer is lost")
	require.ErrorIs(t, p.writer.watched(t.Context(), lost), lost)
	require.NotEqual(t, before, version())
	before = version()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.writer.PutWatch(ctx, "watcher", &domain.Watch{Cluster: p.app.Cluster, Connected: true}))
	require.Eventually(t, func() bool { return version() != before }, waitTime, time.Millisecond)
}

// longText does not get much shorter by compression.
func longText(n int) (text string) {
	for len(text) < n {
		text += rand.Text()
	}
	return text
}

// TestOneObjectIsReadWithoutTheOthers damages all frames but one.
func TestOneObjectIsReadWithoutTheOthers(t *testing.T) {
	p := newPair(t)
	var pods []domain.ObservedResource
	for range 200 {
		pods = append(pods, podOf(rand.Text(), longText(2_000)), podOf(rand.Text(), ""))
	}
	p.put(p.writer, pods...)
	var whole observation
	require.NoError(t, p.writer.findOne(t.Context(), p.writer.observations("1-app"), observationID(p.app), &whole))
	frames := whole.Bodies.Frames
	require.Greater(t, len(frames), 3)
	first := func() *StoredObservation {
		for o, err := range p.reader.Observations(t.Context(), "1", "app", []domain.ClusterName{p.app.Cluster}) {
			require.NoError(t, err)
			return o
		}
		return nil
	}
	o := first()
	for i, r := range pods { // of all frames
		data, err := o.Object(i)
		require.NoError(t, err)
		want := r.JSON
		if want == nil {
			want = []byte("null")
		}
		require.Equal(t, string(want), string(data))
	}
	size := frames[0].Packed
	require.Equal(t, 1, whole.Bodies.Chunks)
	id := chunkOf(whole.ID, whole.Upload, bodiesPart, 0)
	var chunk observedChunkDoc
	require.NoError(t, p.writer.findOne(t.Context(), p.writer.observedChunks("1-app"), id, &chunk))
	copy(chunk.Data[size:], bytes.Repeat([]byte{0}, len(chunk.Data)-size))
	_, err := p.writer.put(t.Context(), p.writer.observedChunks("1-app"), id, chunk)
	require.NoError(t, err)
	o = first()
	data, err := o.Object(0)
	require.NoError(t, err)
	require.Equal(t, string(pods[0].JSON), string(data))
	_, err = o.Object(len(pods) - 1)
	require.ErrorIs(t, err, domain.ErrUnreadable)
}
