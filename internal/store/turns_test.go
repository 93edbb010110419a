package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/policy"
)

// turnAt is the turn of an attempt that began so long after the pair's clock.
func (p *pair) turnAt(after time.Duration) domain.Turn {
	return domain.Turn{Began: p.now.Add(after).UnixNano(), Rank: 1}
}

// TestWatchesOfALaterTurnStay: who was frozen, or did not reach Temporal, may speak when another one has taken its place.
func TestWatchesOfALaterTurnStay(t *testing.T) {
	p := newPair(t)
	p.now = pairBegan.Add(24 * time.Hour)
	s, ctx, c := p.writer, t.Context(), p.app.Cluster
	says := func(watcher string, turn domain.Turn) error {
		return s.PutWatch(ctx, watcher, &domain.Watch{Cluster: c, Connected: true, LastSeen: p.now, Turn: turn})
	}
	last := func(watcher string) {
		t.Helper()
		for _, w := range []string{"old", "frozen", "other", "next", "wrong"} {
			found, err := s.WatchesOf(ctx, w)
			require.NoError(t, err)
			require.Equal(t, w == watcher, found[c], w)
		}
	}
	frozen, next := p.turnAt(-time.Hour), p.turnAt(-time.Minute)
	other := domain.Turn{Began: frozen.Began, Rank: frozen.Rank + 1}
	_, err := s.put(ctx, s.watches(), c.Key(), bson.D{ // as a build without turns does
		{Key: "_id", Value: c.Key()}, {Key: "provider", Value: c.Provider}, {Key: "name", Value: c.Name}, {Key: "watcher", Value: "old"},
		{Key: "connected", Value: true}, {Key: "lastSeen", Value: p.now},
	})
	require.NoError(t, err)
	last("old")
	require.NoError(t, says("frozen", frozen))
	last("frozen")
	require.NoError(t, says("frozen", frozen), "again")
	require.NoError(t, says("other", other))
	last("other")
	require.NoError(t, says("next", next))
	for watcher, earlier := range map[string]domain.Turn{"frozen": frozen, "other": other, "old": {}} {
		require.True(t, fail.Is(says(watcher, earlier), fail.Aborted), watcher)
		require.NoError(t, s.DeleteWatch(ctx, watcher, c))
		last("next")
	}
	require.NoError(t, says("wrong", p.turnAt(policy.ClockSkew)))
	require.True(t, fail.Is(says("next", next), fail.Aborted), "clocks differ by as much")
	require.NoError(t, says("wrong", p.turnAt(time.Hour)))
	require.NoError(t, says("next", next), "Temporal's clock was set back")
	last("next")
}

// TestObservationsOfALaterTurnStay: what was on its way for long is older than what was reported since, and nobody reports that again.
func TestObservationsOfALaterTurnStay(t *testing.T) {
	for name, says := range map[string]struct{ was, is string }{
		"small": {"1 of 3", "3 of 3"}, "in chunks": {longText(200 << 10), longText(200 << 10)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.now = pairBegan.Add(24 * time.Hour)
			s, ctx := p.writer, t.Context()
			put := func(status string, turn domain.Turn) error {
				o := p.observation(status)
				o.Turn = turn
				return s.PutObservation(ctx, o)
			}
			stored := func() (o observation) {
				t.Helper()
				require.NoError(t, s.findOne(ctx, s.observations("1-app"), observationID(p.app), &o))
				return o
			}
			frozen, other, next := p.turnAt(-time.Hour), p.turnAt(-time.Minute), p.turnAt(-time.Second)
			require.NoError(t, put(says.was, domain.Turn{}))
			old := bson.D{{Key: "$unset", Value: bson.D{{Key: "turn", Value: ""}}}} // as a build without turns leaves it
			_, err := s.observations("1-app").UpdateOne(ctx, byID(observationID(p.app)), old)
			require.NoError(t, err)
			require.NoError(t, put(says.is, frozen))
			require.Equal(t, says.is, p.said())

			before := stored()
			require.NoError(t, put(says.is, other), "the same again")
			require.Equal(t, before.Upload, stored().Upload, "nothing is written but the turn")
			late := before
			late.Upload, late.Digest = bson.NewObjectID(), "late"
			done, err := s.replaceObservation(ctx, "1-app", &before, &late)
			require.NoError(t, err)
			require.False(t, done, "it was read before that")
			done, err = s.raiseTurn(ctx, "1-app", &observation{ID: before.ID, Upload: before.Upload}, frozen)
			require.NoError(t, err)
			require.False(t, done, "it was read before that")
			require.True(t, fail.Is(put(says.was, frozen), fail.Aborted))
			require.True(t, fail.Is(put(says.is, frozen), fail.Aborted))
			require.True(t, fail.Is(s.DeleteObservation(ctx, p.app, frozen), fail.Aborted))
			require.Equal(t, says.is, p.said())

			require.NoError(t, put(says.is, p.turnAt(time.Hour)))
			require.NoError(t, put(says.was, other), "Temporal's clock was set back")
			require.Equal(t, says.was, p.said())
			require.NoError(t, put(says.is, next))
			require.Equal(t, says.is, p.said())
			require.NoError(t, s.DeleteObservation(ctx, p.app, next))
			require.Empty(t, p.said())
		})
	}
}

// slow is a Store whose writes meet faults.
func (p *pair) slow() (*Store, *mongotest.Proxy) {
	p.Helper()
	proxy := mongotest.NewProxy(p, p.uri)
	behind := *p
	behind.uri = proxy.URI()
	return newPairOn(&behind), proxy
}

// TestADeletionTakesNoChunksOfWhatIsStoredSince: who deletes the document stalls before that, or between that and the chunks.
func TestADeletionTakesNoChunksOfWhatIsStoredSince(t *testing.T) {
	for stalls, fault := range map[string]func(do func()) mongotest.Fault{
		"before": func(do func()) mongotest.Fault { return mongotest.Fault{Before: do} },
		"after":  func(do func()) mongotest.Fault { return mongotest.Fault{Done: do} },
	} {
		t.Run(stalls, func(t *testing.T) {
			p := newPair(t)
			p.now = pairBegan.Add(24 * time.Hour)
			frozen, next := p.turnAt(-time.Hour), p.turnAt(-time.Minute)
			was, is := longText(200<<10), longText(200<<10)
			put := func(status string, turn domain.Turn) {
				o := p.observation(status)
				o.Turn = turn
				require.NoError(t, p.writer.PutObservation(t.Context(), o))
			}
			put(was, frozen)
			late, proxy := p.slow()
			proxy.Meet(observationsName+"*", 1, fault(func() { put(is, next) }))
			if err := late.DeleteObservation(t.Context(), p.app, frozen); err != nil {
				require.True(t, fail.Is(err, fail.Aborted), err)
			}
			require.True(t, proxy.Met())
			require.True(t, p.said() == is)
		})
	}
}

// TestAnObservationWithoutItsChunksIsDamaged, and the next report takes its place.
func TestAnObservationWithoutItsChunksIsDamaged(t *testing.T) {
	p := newPair(t)
	require.NoError(t, p.writer.PutObservation(t.Context(), p.observation(longText(200<<10))))
	require.NoError(t, p.writer.deleteRange(t.Context(), p.writer.observedChunks("1-app"), below(observationID(p.app))))
	var o observation
	require.NoError(t, p.reader.findOne(t.Context(), p.reader.observations("1-app"), observationID(p.app), &o))
	require.NotZero(t, o.Names.Chunks)
	_, _, err := p.reader.resourcesOf(t.Context(), &o)
	require.ErrorIs(t, err, domain.ErrUnreadable)
	next := longText(200 << 10)
	require.NoError(t, p.writer.PutObservation(t.Context(), p.observation(next)))
	require.True(t, p.said() == next)
}

// TestNothingIsStoredAfterALaterWatchHasFoundNothing: the later one has deleted the observation, or has found none, and an earlier report arrives.
func TestNothingIsStoredAfterALaterWatchHasFoundNothing(t *testing.T) {
	for _, status := range []string{"small", longText(200 << 10)} {
		p := newPair(t)
		p.now = pairBegan.Add(24 * time.Hour)
		frozen, next := p.turnAt(-time.Hour), p.turnAt(-time.Minute)
		o := p.observation(status)
		o.Turn = frozen
		later := func() {
			require.NoError(t, p.writer.PutWatch(t.Context(), "next", &domain.Watch{Cluster: p.app.Cluster, Connected: true, LastSeen: p.now, Turn: next}))
			require.NoError(t, p.writer.DeleteObservation(t.Context(), p.app, next))
		}
		late, proxy := p.slow()
		proxy.Meet(observationsName+"*", 1, mongotest.Fault{Before: later})
		require.True(t, fail.Is(late.PutObservation(t.Context(), o), fail.Aborted), "it comes between the look and the insert")
		require.True(t, proxy.Met())
		require.Empty(t, p.said())
		chunks, err := late.ids(t.Context(), late.observedChunks("1-app"), below(observationID(p.app)))
		require.NoError(t, err)
		require.Empty(t, chunks)
		require.True(t, fail.Is(late.PutObservation(t.Context(), o), fail.Aborted), "it has come before the look")
		require.Empty(t, p.said())
		o.Turn = next
		require.NoError(t, late.PutObservation(t.Context(), o))
		require.True(t, p.said() == status)
	}
}
