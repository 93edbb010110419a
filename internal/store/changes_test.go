package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/policy"
)

// says has a writer store what a cluster says of an app.
func (p *pair) says(s *Store, app, cluster, text string) {
	p.Helper()
	o := &domain.Observation{ObservedApp: p.app, Resources: []domain.ObservedResource{podOf("a", text)}}
	o.App, o.Cluster.Name = app, cluster
	require.NoError(p, s.PutObservation(p.Context(), o))
}

// since are the changes since a version as "app/cluster", sorted; "all" when nobody can tell.
func (p *pair) since(version string, at time.Time) (changed []string, now string) {
	p.Helper()
	c, err := p.reader.ObservationsSince(p.Context(), p.app.ContextID, version, lease.By(func() time.Time { return at })())
	require.NoError(p, err)
	if !c.Known {
		return []string{"all"}, c.Version
	}
	for _, o := range c.Of {
		changed = append(changed, o.App+"/"+o.Cluster.Name)
	}
	slices.Sort(changed)
	return changed, c.Version
}

// entries is how many the chain has.
func (p *pair) entries() int {
	p.Helper()
	ids, err := p.reader.ids(p.Context(), p.reader.changes(p.app.ContextID), below(p.app.ContextID))
	require.NoError(p, err)
	return len(ids)
}

func TestWhatHasChangedSinceAVersion(t *testing.T) {
	p := newPair(t)
	changed, version := p.since("", p.now)
	require.Empty(t, changed)
	p.says(p.writer, "app", "a", "one")
	p.says(p.reader, "other", "b", "one") // another process
	p.says(p.writer, "app", "a", "two")
	changed, version = p.since(version, p.now)
	require.Equal(t, []string{"app/a", "other/b"}, changed)
	changed, version = p.since(version, p.now)
	require.Empty(t, changed)
	p.says(p.writer, "app", "a", "two")
	changed, version = p.since(version, p.now)
	require.Empty(t, changed, "it says nothing new")
	require.NoError(t, p.writer.DeleteObservation(t.Context(), domain.ObservedApp{ContextID: "1", App: "app", Cluster: domain.ClusterName{Provider: "p", Name: "a"}}, domain.Turn{}))
	changed, after := p.since(version, p.now)
	require.Equal(t, []string{"app/a"}, changed)
	changed, _ = p.since(after, p.now)
	require.Empty(t, changed)

	at := p.now
	p.now = p.now.Add(policy.FollowAge + time.Second)
	changed, _ = p.since(version, at)
	require.Equal(t, []string{"all"}, changed, "nobody has looked for long")
	changed, _ = p.since(bson.NewObjectID().Hex(), p.now)
	require.Equal(t, []string{"all"}, changed, "nobody knows the version")

	require.NoError(t, p.writer.deleteObservations(t.Context(), []string{"1"}))
	require.Zero(t, p.entries())
	changed, now := p.since(after, p.now)
	require.Equal(t, []string{"all"}, changed, "the context is gone")
	require.Empty(t, now)
}

// TestChangesAroundASuspension: for who was suspended a time has passed of which the time of day may not tell. Others have removed meanwhile
// what came after the end that it knows.
func TestChangesAroundASuspension(t *testing.T) {
	p := newPair(t)
	suspended := time.Duration(0)
	clock := func() lease.Instant {
		return lease.Instant{Boot: suspended, Wall: time.Duration(p.now.UnixNano())}
	}
	p.reader.moment, p.writer.moment = clock, clock
	since := func(version string, at lease.Instant) bool {
		t.Helper()
		c, err := p.reader.ObservationsSince(t.Context(), p.app.ContextID, version, at)
		require.NoError(t, err)
		return c.Known
	}
	suspended = time.Hour // since the machine was started
	p.says(p.writer, "app", "a", "one")
	_, known := p.since("", p.now)
	other := newPairOn(p)
	p.says(other, "app", "b", "one")
	_, last := p.since("", p.now)
	_, err := p.reader.changes(p.app.ContextID).DeleteMany(t.Context(), bson.D{{Key: "version", Value: bson.D{{Key: "$exists", Value: true}}}})
	require.NoError(t, err)

	before := clock()
	suspended += policy.FollowAge + 1
	p.says(p.writer, "app", "a", "two")
	require.True(t, since(last, clock()), "it goes on from the end that there is")
	require.False(t, since(known, clock()))
	require.False(t, since(last, before), "nobody has looked for long")
}

func TestNothingIsMissingOfWhatManyWrite(t *testing.T) {
	p := newPair(t)
	third := newPairOn(p)
	const rounds = 20
	var g errgroup.Group
	for n, s := range []*Store{p.reader, p.writer, third} {
		for k := range 3 {
			g.Go(func() error {
				for i := range rounds {
					o := &domain.Observation{ObservedApp: p.app, Resources: []domain.ObservedResource{podOf("a", fmt.Sprint(i))}}
					o.Cluster.Name = fmt.Sprint("c", n, k, "-", i)
					if err := s.PutObservation(t.Context(), o); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	done := make(chan error, 1)
	go func() { done <- g.Wait() }()
	seen, version := map[string]bool{}, ""
	for running := true; running; {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		default:
		}
		var changed []string
		changed, version = p.since(version, p.now)
		for _, c := range changed {
			if c == "all" { // all that there is by then has been seen
				for o, err := range p.reader.Observations(t.Context(), "1", "app", nil) {
					require.NoError(t, err)
					seen["app/"+o.Cluster.Name] = true
				}
				continue
			}
			seen[c] = true
		}
	}
	require.Len(t, seen, 9*rounds)
}

// TestAVersionDoesNotGoBack: of two that store at the same time for a context, the one whose change comes first is the last to say so. Who reads
// meanwhile, and after it, misses nothing.
func TestAVersionDoesNotGoBack(t *testing.T) {
	for name, before := range map[string]int{"the first change": 0, "a later one": 1} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			for range before {
				p.says(p.writer, "app", "z", "one")
			}
			_, version := p.since("", p.now)
			proxy := mongotest.NewProxy(t, p.uri)
			p.uri = proxy.URI()
			slow := newPairOn(p)
			var between []string
			proxy.Meet("versions", 1, mongotest.Fault{Before: func() {
				p.says(p.writer, "app", "b", "one")
				between, version = p.since(version, p.now)
			}})
			p.says(slow, "app", "a", "one")
			require.True(t, proxy.Met())
			after, version := p.since(version, p.now)
			if before > 0 {
				require.Equal(t, []string{"app/a", "app/b"}, between)
			}
			require.Empty(t, after)
			p.says(slow, "app", "a", "two")
			after, _ = p.since(version, p.now)
			require.Equal(t, []string{"app/a"}, after)
		})
	}
}

func newPairOn(p *pair) *Store {
	p.Helper()
	s, err := Open(Config{URI: p.uri, Database: p.database, Timeout: p.reader.timeout, Keys: p.reader.keys, Now: func() time.Time { return p.now }})
	require.NoError(p, err)
	p.Cleanup(func() { require.NoError(p, s.Close(context.Background())) })
	return s
}

// TestOldChangesAreRemoved checks too that a writer that has been away does not take the place of what was removed.
func TestOldChangesAreRemoved(t *testing.T) {
	p := newPair(t)
	p.says(p.reader, "app", "a", "0")
	p.says(p.writer, "app", "a", "1")
	for i := range 2 * trimmedAtOnce {
		p.says(p.writer, "app", "a", fmt.Sprint("old", i))
	}
	_, version := p.since("", p.now)
	p.now = p.now.Add(policy.ChangesKept + time.Second)
	p.says(p.writer, "app", "a", "new")
	require.LessOrEqual(t, p.entries(), trimmedAtOnce)
	p.says(p.reader, "app", "b", "new") // it knows an end that was removed
	changed, _ := p.since(version, p.now)
	require.Equal(t, []string{"app/a", "app/b"}, changed)

	p.now = p.now.Add(policy.ChangesKept + time.Second)
	restarted := newPairOn(p)
	p.says(restarted, "app", "c", "new")
	require.Equal(t, 1, p.entries(), "what those left that are gone is removed too")

	p.now = p.now.Add(policy.ChangesKept + time.Second)
	restarted = newPairOn(p)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, restarted.putChanges(gone, p.app.ContextID, []string{"x"}))
	p.says(restarted, "app", "d", "new")
	require.Equal(t, 1, p.entries(), "also where the first one could not be put there")
}

func TestWhatADeadProcessHasNotToldIsToldByTheNext(t *testing.T) {
	p := newPair(t)
	p.says(p.writer, "app", "a", "one")
	_, version := p.since("", p.now)
	o := &domain.Observation{ObservedApp: p.app, Resources: []domain.ObservedResource{podOf("a", "two")}}
	o.Cluster.Name = "a"
	_, err := p.writer.putObservation(t.Context(), o) // and it dies
	require.NoError(t, err)
	changed, version := p.since(version, p.now)
	require.Empty(t, changed)
	restarted := newPairOn(p)
	p.says(restarted, "app", "a", "two")
	changed, version = p.since(version, p.now)
	require.Equal(t, []string{"app/a"}, changed)
	p.says(restarted, "app", "a", "two")
	changed, _ = p.since(version, p.now)
	require.Empty(t, changed, "once")
}

// TestOnlyWhatHasChangedIsRead has the database answer whole readings with what only they find.
func TestOnlyWhatHasChangedIsRead(t *testing.T) {
	p := newPair(t)
	for _, c := range []string{"a", "b", "d"} {
		p.says(p.writer, "app", c, "one")
	}
	names := func() (names []string) {
		said, err := p.reader.saidOf(t.Context(), "1", "app")
		require.NoError(t, err)
		for _, c := range said.clusters {
			names = append(names, clusterOf(c.ID).Name+" "+string(c.Digest[:4]))
		}
		return names
	}
	first := names()
	require.Len(t, first, 3)
	hidden := &domain.Observation{ObservedApp: p.app, Resources: []domain.ObservedResource{podOf("a", "two")}}
	hidden.Cluster.Name = "a"
	_, err := p.writer.putObservation(t.Context(), hidden) // nobody is told
	require.NoError(t, err)
	p.says(p.writer, "app", "b", "two")
	p.says(p.writer, "app", "c", "two")
	require.NoError(t, p.writer.DeleteObservation(t.Context(), domain.ObservedApp{ContextID: "1", App: "app", Cluster: domain.ClusterName{Provider: "p", Name: "d"}}, domain.Turn{}))
	second := names()
	require.Len(t, second, 3)
	require.Equal(t, first[0], second[0], "it was not read")
	require.NotEqual(t, first[1], second[1])
	require.Equal(t, "c", second[2][:1])
	p.now = p.now.Add(policy.ObservedAge)
	require.NotEqual(t, first[0], names()[0])

	before := names()
	for i := range fewChanged + 1 {
		p.says(p.writer, "app", fmt.Sprintf("z%03d", i), "one")
	}
	require.Len(t, names(), len(before)+fewChanged+1)
}
