package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/mongotest"
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

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{T: t, now: pairBegan, app: domain.ObservedApp{ContextID: "1", App: "app", Cluster: domain.ClusterName{Provider: "p", Name: "c"}}}
	p.uri, p.database = mongotest.URI(t), mongotest.Database(t)
	for _, s := range []**Store{&p.reader, &p.writer} {
		var err error
		*s, err = Open(Config{URI: p.uri, Database: p.database, Timeout: mongotest.Timeout, Now: func() time.Time { return p.now }})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, (*s).Close(context.Background())) })
	}
	return p
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
	require.NoError(t, p.writer.DeleteObservation(t.Context(), p.app))
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
	p.now = p.now.Add(observedAge)
	require.Equal(t, "NotReady", p.said())
}

func TestWhoAsksWhileItGetsOldHasItReadForOthers(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.writer.PutObservation(t.Context(), p.observation("Ready")))
	require.Equal(t, "Ready", p.said())
	_, err := p.writer.putObservation(t.Context(), p.observation("NotReady"))
	require.NoError(t, err)
	p.now = p.now.Add(observedAge / 2)
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

func TestWatchesAreReadOnceInAWhile(t *testing.T) {
	p := newPair(t)
	ctx, cluster := t.Context(), p.app.Cluster
	connected := func() bool {
		t.Helper()
		found, err := p.reader.Watches(ctx, nil)
		require.NoError(t, err)
		return found[cluster].Connected
	}
	require.NoError(t, p.writer.PutWatch(ctx, "watcher", domain.Watch{Cluster: cluster, Connected: true}))
	require.True(t, connected())
	require.NoError(t, p.writer.PutWatch(ctx, "watcher", domain.Watch{Cluster: cluster, Reason: "dead"}))
	require.True(t, connected(), "it is kept")
	p.now = p.now.Add(watchesAge)
	require.False(t, connected())
	require.NoError(t, p.reader.PutWatch(ctx, "watcher", domain.Watch{Cluster: cluster, Connected: true}))
	require.True(t, connected(), "what is said with the same store counts at once")
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
	require.ErrorIs(t, err, errDamaged)
}
