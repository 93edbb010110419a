package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// podOf is a resource whose JSON has the text; none when it is "".
func podOf(name, text string) domain.ObservedResource {
	r := domain.ObservedResource{Kind: "Pod", Namespace: "ns", Name: name, Status: "Ready"}
	if text != "" {
		r.JSON = []byte(`{"status":{"text":"` + text + `"}}`)
	}
	return r
}

func (p *pair) put(s *Store, pods ...domain.ObservedResource) {
	p.Helper()
	require.NoError(p, s.PutObservation(p.Context(), &domain.Observation{ObservedApp: p.app, Resources: pods}))
}

// stored are the times of the objects by name, in seconds after the beginning.
func (p *pair) stored() map[string]float64 {
	p.Helper()
	times := map[string]float64{}
	for o, err := range p.reader.Observations(p.Context(), p.app.ContextID, p.app.App, nil) {
		require.NoError(p, err)
		for _, r := range o.Resources {
			require.Equal(p, time.UTC, r.Stored.Location())
			times[r.Name] = r.Stored.Sub(pairBegan).Seconds()
		}
	}
	return times
}

func (p *pair) after(seconds float64) {
	p.now = pairBegan.Add(time.Duration(seconds * float64(time.Second)))
}

func TestAnObjectKeepsItsTimeUntilItSaysSomethingElse(t *testing.T) {
	p := newPair(t)
	p.put(p.writer, podOf("a", "one"), podOf("b", "one"), podOf("empty", ""))
	p.after(1)
	p.put(p.writer, podOf("b", "two"), podOf("empty", ""), podOf("a", "one")) // in another order, as another reporter has them
	require.Equal(t, map[string]float64{"a": 0, "b": 1, "empty": 0}, p.stored())
	p.after(2)
	p.put(p.reader, podOf("a", "one"), podOf("b", "one")) // another process takes over
	require.Equal(t, map[string]float64{"a": 0, "b": 2}, p.stored())
	p.after(3)
	judged := podOf("a", "one")
	judged.Status, judged.Message = "NotReady", "judged by another rule"
	p.put(p.writer, judged, podOf("b", "one"), podOf("empty", ""))
	require.Equal(t, map[string]float64{"a": 0, "b": 2, "empty": 3}, p.stored(), "what was gone is new")
	p.after(4.0005)
	p.put(p.writer, podOf("a", "three"), podOf("b", "one"), podOf("empty", ""))
	require.Equal(t, map[string]float64{"a": 4, "b": 2, "empty": 3}, p.stored(), "whole milliseconds")
}

// TestWhatWasReportedAndIsGone is known until it comes back, with when that was stored; what has an owner is not.
func TestWhatWasReportedAndIsGone(t *testing.T) {
	p := newPair(t)
	gone := func() map[string]float64 {
		t.Helper()
		names := map[uint64]string{}
		for _, name := range []string{"a", "b", "c", "owned", "new"} {
			names[domain.IdentityOf("", "Pod", "ns", name)] = name
		}
		times := map[string]float64{}
		for o, err := range p.reader.Observations(t.Context(), p.app.ContextID, p.app.App, nil) {
			require.NoError(t, err)
			for _, g := range o.Gone {
				times[names[g.Identity]] = g.Since.Sub(pairBegan).Seconds()
			}
		}
		return times
	}
	owned := podOf("owned", "")
	owned.JSON = []byte(`{"metadata":{"name":"owned","ownerReferences":[{"name":"rs"}]}}`)
	p.put(p.writer, podOf("a", "one"), podOf("b", "one"), podOf("c", ""), owned)
	require.Empty(t, gone())
	p.after(1)
	p.put(p.reader, podOf("b", "one"), podOf("c", "")) // another process takes over
	require.Equal(t, map[string]float64{"a": 1}, gone())
	p.after(2)
	p.put(p.writer, podOf("b", "two"), podOf("new", "one"))
	require.Equal(t, map[string]float64{"a": 1, "c": 2}, gone())
	p.after(3)
	p.put(p.writer, podOf("a", "one"), podOf("b", "two"))
	require.Equal(t, map[string]float64{"c": 2, "new": 3}, gone(), "a has come back")
	p.after(4)
	require.NoError(t, p.writer.PutObservation(t.Context(), &domain.Observation{ObservedApp: p.app, Error: "the agent is too old"}))
	require.Equal(t, map[string]float64{"c": 2, "new": 3}, gone(), "nobody knows whether a and b are")
	var many []domain.ObservedResource
	for i := range 2 * domain.MaxGone {
		many = append(many, podOf(fmt.Sprint(i), ""))
	}
	p.put(p.writer, many...)
	p.after(5)
	p.put(p.writer)
	require.Len(t, gone(), 1, "of which no name is known here")
	for o, err := range p.reader.Observations(t.Context(), p.app.ContextID, p.app.App, nil) {
		require.NoError(t, err)
		require.Len(t, o.Gone, domain.MaxGone)
	}
}

// TestWhatWasReportedBeforeAClusterFellSilent is kept, with its times, as long as it says why it cannot report.
func TestWhatWasReportedBeforeAClusterFellSilent(t *testing.T) {
	var long strings.Builder
	for range 2_000 {
		long.WriteString(rand.Text()) // does not get shorter by compression
	}
	for name, text := range map[string]string{"small": "one", "in chunks": long.String()} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			silent := func(s *Store, why string) {
				t.Helper()
				require.NoError(t, s.PutObservation(t.Context(), &domain.Observation{ObservedApp: p.app, Error: why}))
			}
			last := func() (found *StoredObservation) {
				t.Helper()
				for o, err := range p.reader.Observations(t.Context(), p.app.ContextID, p.app.App, nil) {
					require.NoError(t, err)
					found = o
				}
				return found
			}
			silent(p.writer, "it has never reported")
			require.Empty(t, last().Resources)
			require.Equal(t, pairBegan, last().Since)
			p.after(1)
			first := &domain.Observation{ObservedApp: p.app, Kinds: []string{"Pod"}, Resources: []domain.ObservedResource{podOf("a", text), podOf("b", "two")}}
			first.Unheard = []domain.UnheardKind{{Kind: "Secret", Reason: "forbidden"}}
			require.NoError(t, p.writer.PutObservation(t.Context(), first))
			require.Zero(t, last().Since)
			p.after(2)
			silent(p.reader, "it is too large")
			p.after(3)
			silent(p.writer, "it is far too large")
			silent(p.writer, "it is far too large")
			o := last()
			require.Equal(t, "it is far too large", o.Error)
			require.Equal(t, pairBegan.Add(2*time.Second), o.Since, "when it fell silent")
			require.Equal(t, first.Kinds, o.Kinds)
			require.Equal(t, first.Unheard, o.Unheard)
			require.Empty(t, o.Gone)
			require.Equal(t, map[string]float64{"a": 1, "b": 1}, p.stored())
			for i, r := range first.Resources {
				body, err := o.Object(i)
				require.NoError(t, err)
				require.JSONEq(t, string(r.JSON), string(body))
			}
			p.after(4)
			p.put(p.writer, podOf("a", text))
			require.Empty(t, last().Error)
			require.Zero(t, last().Since)
			require.Equal(t, map[string]float64{"a": 1}, p.stored())
			require.Len(t, last().Gone, 1)
			require.Equal(t, pairBegan.Add(4*time.Second), last().Gone[0].Since)
		})
	}
}

// TestADatabaseThatFailsLosesNoReport: what it fails at says nothing of what was reported before, which stays for when it can be read.
func TestADatabaseThatFailsLosesNoReport(t *testing.T) {
	p := newPair(t)
	p.put(p.writer, podOf("a", strings.Repeat("long", 10)), podOf("b", "two"))
	deployment, now := plan.DeploymentID(p.app.ContextID, p.app.App), observation{ID: observationID(p.app), Upload: bson.NewObjectID()}
	var before observation
	require.NoError(t, p.writer.findOne(t.Context(), p.writer.observations(deployment), now.ID, &before))
	before.Bodies.Chunks = 1
	silent := &domain.Observation{ObservedApp: p.app, Error: "it is too large"}
	require.NoError(t, p.writer.fallSilent(t.Context(), deployment, &before, &now, silent), "another one has taken its place")
	p.writer.db = p.writer.client.Database(strings.Repeat("x", 100)) // such a name is refused
	err := p.writer.fallSilent(t.Context(), deployment, &before, &now, silent)
	require.True(t, fail.Is(err, fail.Internal), "%v", err)
	require.NotErrorIs(t, err, domain.ErrUnreadable)
}

// TestChunksThatNothingNamesAreSwept: who replaces an observation, and hears nothing of that, leaves the chunks of the one before, or its own.
func TestChunksThatNothingNamesAreSwept(t *testing.T) {
	for name, fault := range map[string]mongotest.Fault{"the answer is lost": {Lost: true}, "it is never replaced": {Cut: true}} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			proxy := mongotest.NewProxy(t, p.uri)
			p.uri = proxy.URI()
			slow := newPairOn(p)
			long := func() string {
				var text strings.Builder
				for range 2_000 {
					text.WriteString(rand.Text()) // does not get shorter by compression
				}
				return text.String()
			}
			uploads := func() map[string]bool {
				found := map[string]bool{}
				ids, err := p.reader.ids(t.Context(), p.reader.observedChunks(plan.DeploymentID(p.app.ContextID, p.app.App)), bson.D{})
				require.NoError(t, err)
				for _, id := range ids {
					found[ofUpload(id)] = true
				}
				return found
			}
			sweep := func() {
				t.Helper()
				_, err := p.reader.SweepObservations(t.Context(), func(context.Context) (map[string]bool, error) {
					return map[string]bool{p.app.ContextID: true}, nil
				}, policy.Unwanted)
				require.NoError(t, err)
			}
			p.put(p.writer, podOf("a", long()))
			require.Len(t, uploads(), 1)
			p.after(1)
			proxy.Meet("observations-*", 1, fault)
			second := &domain.Observation{ObservedApp: p.app, Resources: []domain.ObservedResource{podOf("a", long())}}
			require.Error(t, slow.PutObservation(t.Context(), second))
			require.True(t, proxy.Met())
			require.Len(t, uploads(), 2)
			require.NoError(t, p.writer.PutObservation(t.Context(), second), "it is told again")
			sweep()
			require.Len(t, uploads(), 2, "an upload may go on")
			p.now = p.now.Add(policy.Unwanted + 2*time.Second)
			sweep()
			require.Len(t, uploads(), 1)
			for o, err := range p.reader.Observations(t.Context(), p.app.ContextID, p.app.App, nil) {
				require.NoError(t, err)
				body, err := o.Object(0)
				require.NoError(t, err)
				require.JSONEq(t, string(second.Resources[0].JSON), string(body), "what is named stays")
			}
		})
	}
}

func TestAnObjectKeepsItsTimeInChunks(t *testing.T) {
	p := newPair(t)
	want := map[string]float64{"first": 1}
	pods := []domain.ObservedResource{podOf("first", "one")}
	for range 3_000 {
		name := rand.Text() // does not get shorter by compression
		pods = append(pods, podOf(name, name))
		want[name] = 0
	}
	p.put(p.writer, pods...)
	p.after(1)
	pods[0] = podOf("first", "two")
	p.put(p.writer, pods...)
	require.Equal(t, want, p.stored())
}

func TestTimesOfObjectsDoNotGoBack(t *testing.T) {
	p := newPair(t)
	p.after(5)
	p.put(p.writer, podOf("a", "one"))
	p.after(2) // the clock of who takes over is a little behind
	p.put(p.reader, podOf("a", "two"))
	require.Equal(t, map[string]float64{"a": 5}, p.stored())
	p.after(3600)
	p.put(p.writer, podOf("a", "three"))
	p.after(10) // the clock before was wrong
	p.put(p.reader, podOf("a", "three"), podOf("b", "one"))
	require.Equal(t, map[string]float64{"a": 3600, "b": 10}, p.stored(), "what says the same keeps it")
	p.put(p.reader, podOf("a", "four"), podOf("b", "one"))
	require.Equal(t, map[string]float64{"a": 10, "b": 10}, p.stored())
}

// TestADamagedObservationIsReplaced by the next report. Till then it says so, and other clusters are heard.
func TestADamagedObservationIsReplaced(t *testing.T) {
	p := newPair(t)
	p.put(p.writer, podOf("a", "one"))
	other := p.app
	other.Cluster.Name = "other"
	require.NoError(t, p.writer.PutObservation(t.Context(), &domain.Observation{ObservedApp: other, Resources: []domain.ObservedResource{podOf("b", "one")}}))
	var damaged observation
	require.NoError(t, p.writer.findOne(t.Context(), p.writer.observations("1-app"), observationID(p.app), &damaged))
	damaged.Names.Data = []byte("damaged")
	_, err := p.writer.put(context.Background(), p.writer.observations("1-app"), damaged.ID, damaged)
	require.NoError(t, err)
	for _, clusters := range [][]domain.ClusterName{nil, {p.app.Cluster, other.Cluster}} {
		said := map[string]string{}
		for o, err := range p.reader.Observations(t.Context(), p.app.ContextID, p.app.App, clusters) {
			require.NoError(t, err)
			said[o.Cluster.Name] = fmt.Sprint(len(o.Resources), o.Error)
		}
		require.Equal(t, map[string]string{p.app.Cluster.Name: "0" + unreadReport, "other": "1"}, said)
	}
	require.NoError(t, p.writer.DeleteObservation(t.Context(), other, domain.Turn{}))
	p.after(3)
	p.put(p.writer, podOf("a", "one"), podOf("b", "one"))
	require.Equal(t, map[string]float64{"a": 3, "b": 3}, p.stored())
}
