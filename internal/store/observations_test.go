package store_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func clusterAt(provider, name string) domain.ClusterName {
	return domain.ClusterName{Provider: provider, Name: name}
}

func observationOf(contextID, app string, c domain.ClusterName, resources ...domain.ObservedResource) *domain.Observation {
	return &domain.Observation{
		ObservedApp: domain.ObservedApp{ContextID: contextID, App: app, Cluster: c}, Kinds: []string{"Pod"}, Resources: resources,
	}
}

func resourceOf(name, value string) domain.ObservedResource {
	data, _ := json.Marshal(map[string]string{"text": value}) // a string can be encoded
	return domain.ObservedResource{
		Group: "g", Version: "v1", Kind: "Pod", Namespace: "ns", Name: name, Status: "NotReady", Message: "because", JSON: data,
	}
}

// text does not get shorter by compression.
func text(n int) string {
	return base64.StdEncoding.EncodeToString(noise(n))[:n]
}

// read collects observations with their JSON.
func read(t testing.TB, s *store.Store, contextID, app string, clusters []domain.ClusterName) []*domain.Observation {
	t.Helper()
	found := []*domain.Observation{}
	for o, err := range s.Observations(t.Context(), contextID, app, clusters) {
		require.NoError(t, err)
		o.Resources = slices.Clone(o.Resources) // they are shared
		for i := range o.Resources {
			data, err := o.Object(i)
			require.NoError(t, err)
			o.Resources[i].JSON = data
			require.NotZero(t, o.Resources[i].Stored)
			require.NotZero(t, o.Resources[i].Sum)
			o.Resources[i].Stored, o.Resources[i].Sum, o.Resources[i].Size = time.Time{}, 0, 0
		}
		o.Gone = nil
		found = append(found, &o.Observation)
	}
	return found
}

func TestObservationsComeBackAsTheyWere(t *testing.T) {
	s, ctx := open(t), t.Context()
	long := strings.Repeat("long", 30)
	for name, o := range map[string]*domain.Observation{
		"small":    observationOf("1", "small", clusterAt("p", "c"), resourceOf("a", "x"), resourceOf("b", "y")),
		"none":     observationOf("1", "none", clusterAt("p", "c")),
		"no kinds": {ObservedApp: domain.ObservedApp{ContextID: "1", App: "kinds", Cluster: clusterAt("p", "c")}, Resources: []domain.ObservedResource{}},
		"unheard": {
			ObservedApp: domain.ObservedApp{ContextID: "1", App: "unheard", Cluster: clusterAt("p", "c")},
			Unheard:     []domain.UnheardKind{{Kind: "Pod", Since: time.Unix(1, 0).UTC(), Reason: "forbidden"}, {Kind: "Secret", Reason: "forbidden"}},
		},
		"long name":  observationOf("1", long, clusterAt("p", "c"), resourceOf("a", "x")),
		"chunks":     observationOf("1", "chunks", clusterAt("p", "c"), resourceOf("a", text(1<<20)), resourceOf("b", "y")),
		"many names": observationOf("1", "names", clusterAt("p", "c"), many(10_000)...),
		"no size":    observationOf("1", "large", clusterAt("p", "c"), resourceOf("a", text(17<<20))),
	} {
		t.Run(name, func(t *testing.T) {
			if o.Resources == nil {
				o.Resources = []domain.ObservedResource{}
			}
			require.NoError(t, s.PutObservation(ctx, o))
			require.Empty(t, cmp.Diff([]*domain.Observation{o}, read(t, s, "1", o.App, nil), cmp.Comparer(bytes.Equal)))
			require.NoError(t, s.DeleteObservation(ctx, o.ObservedApp, domain.Turn{}))
			require.NoError(t, s.DeleteObservation(ctx, o.ObservedApp, domain.Turn{}), "twice")
			require.Empty(t, read(t, s, "1", o.App, nil))
		})
	}
}

func many(n int) []domain.ObservedResource {
	list := make([]domain.ObservedResource, n)
	for i := range list {
		list[i] = resourceOf(text(20), "x")
	}
	return list
}

func TestObservationsAreReplaced(t *testing.T) {
	s, ctx := open(t), t.Context()
	for _, o := range []*domain.Observation{
		observationOf("1", "app", clusterAt("p", "c"), resourceOf("a", "x")),
		observationOf("1", "app", clusterAt("p", "c"), resourceOf("a", text(1<<20))),
		observationOf("1", "app", clusterAt("p", "c"), resourceOf("a", text(1<<20)), resourceOf("b", "y")),
		observationOf("1", "app", clusterAt("p", "c"), resourceOf("a", "x")),
	} {
		require.NoError(t, s.PutObservation(ctx, o))
		require.NoError(t, s.PutObservation(ctx, o), "the same again")
		require.Empty(t, cmp.Diff([]*domain.Observation{o}, read(t, s, "1", "app", nil), cmp.Comparer(bytes.Equal)))
	}
}

func TestAnObservationThatIsReplacedWhileItIsRead(t *testing.T) {
	s, ctx := open(t), t.Context()
	require.NoError(t, s.PutObservation(ctx, observationOf("1", "app", clusterAt("p", "c"), resourceOf("a", text(1<<20)), resourceOf("b", text(1<<20)))))
	for o, err := range s.Observations(ctx, "1", "app", nil) {
		require.NoError(t, err)
		require.NoError(t, s.PutObservation(ctx, observationOf("1", "app", clusterAt("p", "c"), resourceOf("b", "newer"))))
		data, err := o.Object(1)
		require.NoError(t, err)
		require.JSONEq(t, `{"text":"newer"}`, string(data))
		data, err = o.Object(0)
		require.NoError(t, err)
		require.Nil(t, data, "it is not there any more")
	}
}

func TestObservationsAreSorted(t *testing.T) {
	s, ctx := open(t), t.Context()
	sorted := []domain.ClusterName{clusterAt("a", "b"), clusterAt("a", "b-c"), clusterAt("a", "b.c"), clusterAt("a-b", "a"), clusterAt("a.b", "a"), clusterAt("b", "A"), clusterAt("b", "a")}
	for _, i := range rand.Perm(len(sorted)) {
		require.NoError(t, s.PutObservation(ctx, observationOf("1", "app", sorted[i])))
		require.NoError(t, s.PutObservation(ctx, observationOf("1", "app-b", sorted[i])), "another app")
		require.NoError(t, s.PutObservation(ctx, observationOf("12", "app", sorted[i])), "another context")
	}
	names := func(clusters []domain.ClusterName) []domain.ClusterName {
		var found []domain.ClusterName
		for _, o := range read(t, s, "1", "app", clusters) {
			found = append(found, o.Cluster)
		}
		return found
	}
	require.Empty(t, cmp.Diff(sorted, names(nil)))
	require.Empty(t, cmp.Diff(sorted[1:3], names([]domain.ClusterName{sorted[2], sorted[1], clusterAt("not", "there")})))
	require.Empty(t, cmp.Diff(sorted[:5], names(sorted[:5])))
	require.Empty(t, names([]domain.ClusterName{}))
	for range s.Observations(ctx, "1", "app", nil) {
		break // what is left unread is no error
	}
}

func TestObservationsGoWithTheirContext(t *testing.T) {
	s, ctx := open(t), t.Context()
	require.NoError(t, s.PutInstance(ctx, instanceOf("7", group, domain.ContextTerminated)))
	kept := observationOf("8", "app", clusterAt("p", "c"), resourceOf("a", text(1<<20)))
	require.NoError(t, s.PutObservation(ctx, kept))
	for _, app := range []string{"app", "other"} {
		require.NoError(t, s.PutObservation(ctx, observationOf("7", app, clusterAt("p", "c"), resourceOf("a", text(1<<20)))))
	}
	observed, err := s.Observed(ctx, []string{"7"})
	require.NoError(t, err)
	require.Len(t, observed, 2)
	require.NoError(t, s.DeleteInstances(ctx, []string{"7"}))
	observed, err = s.Observed(ctx, []string{"7", "8"})
	require.NoError(t, err)
	require.Equal(t, []domain.ObservedApp{kept.ObservedApp}, observed)
	require.Empty(t, cmp.Diff([]*domain.Observation{kept}, read(t, s, "8", "app", nil), cmp.Comparer(bytes.Equal)))
}

// TestWhatIsStoredWhileAContextGoes goes with it: who watches has found its record a moment before.
func TestWhatIsStoredWhileAContextGoes(t *testing.T) {
	c := storetest.Config(t)
	proxy, behind := mongotest.NewProxy(t, c.URI), c
	behind.URI = proxy.URI()
	s, watcher, ctx := storetest.Open(t, behind), storetest.Open(t, c), t.Context()
	require.NoError(t, s.PutInstance(ctx, instanceOf("7", group, domain.ContextTerminated)))
	proxy.Meet("instances", 1, mongotest.Fault{Before: func() {
		require.NoError(t, watcher.PutObservation(ctx, observationOf("7", "app", clusterAt("p", "c"), resourceOf("a", text(1<<20)))))
	}})
	require.NoError(t, s.DeleteInstances(ctx, []string{"7"}))
	require.True(t, proxy.Met())
	observed, err := watcher.Observed(ctx, []string{"7"})
	require.NoError(t, err)
	require.Empty(t, observed)
}

// TestWatchesComeWithPulses: what a watcher said comes with its last pulse, and what it hears was seen at that. Whether it still
// holds is for view.ContactAt.
func TestWatchesComeWithPulses(t *testing.T) {
	s, ctx, now := open(t), t.Context(), time.UnixMilli(1_000_000).UTC()
	a, b := clusterAt("p", "a"), clusterAt("p", "b")
	watch := func(c domain.ClusterName) domain.Watch {
		t.Helper()
		found, err := s.Watches(ctx, []domain.ClusterName{c})
		require.NoError(t, err)
		return found[c]
	}
	began, lost := now, now.Add(-time.Hour)
	require.NoError(t, s.PutWatch(ctx, "one", &domain.Watch{Cluster: a, Connected: true, LastSeen: began}))
	require.NoError(t, s.PutWatch(ctx, "one", &domain.Watch{Cluster: b, LastSeen: lost, Reason: "dead"}))
	require.Equal(t, domain.Watch{Cluster: a, Connected: true, LastSeen: began}, watch(a), "no pulse yet")
	require.NoError(t, s.Pulse(ctx, "one", now))
	require.Equal(t, domain.Watch{Cluster: a, Connected: true, LastSeen: now, Pulse: now}, watch(a))
	require.Equal(t, domain.Watch{Cluster: b, LastSeen: lost, Reason: "dead", Pulse: now}, watch(b))

	now = now.Add(10 * time.Second)
	require.NoError(t, s.Pulse(ctx, "one", now))
	require.Equal(t, domain.Watch{Cluster: a, Connected: true, LastSeen: now, Pulse: now}, watch(a))
	require.Equal(t, domain.Watch{Cluster: b, LastSeen: lost, Reason: "dead", Pulse: now}, watch(b), "a pulse is none of the cluster's")

	last := now
	never := domain.Watch{Cluster: a, Reason: "cannot be reached"}
	require.NoError(t, s.PutWatch(ctx, "two", &never))
	require.Equal(t, last, never.LastSeen, "the watch learns when another one heard it")
	require.Equal(t, domain.Watch{Cluster: a, LastSeen: last, Reason: "cannot be reached"}, watch(a), "when it was seen is not forgotten")
	now = now.Add(domain.PulseLife)
	require.NoError(t, s.Pulse(ctx, "two", now))
	require.NoError(t, s.PutWatch(ctx, "two", &domain.Watch{Cluster: a, Connected: true, LastSeen: now}))
	require.NoError(t, s.DeleteWatch(ctx, "one", a))
	require.Equal(t, domain.Watch{Cluster: a, Connected: true, LastSeen: now, Pulse: now}, watch(a), "it is another watcher's")
	require.NoError(t, s.EndPulse(ctx, "two"))
	require.Zero(t, watch(a).Pulse)
	require.NoError(t, s.DeleteWatch(ctx, "two", a))
	all, err := s.Watches(ctx, nil)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// TestObservationsOfManyClusters are read by many at the same time.
func TestObservationsOfManyClusters(t *testing.T) {
	s, ctx := open(t), t.Context()
	const n = 150
	var want []domain.ClusterName
	for i := range n {
		c := clusterAt("p", fmt.Sprintf("c%03d", i))
		want = append(want, c)
		require.NoError(t, s.PutObservation(ctx, observationOf("1", "app", c, resourceOf("a", "x"))))
	}
	require.NoError(t, s.PutObservation(ctx, observationOf("1", "app-2", want[0])))
	require.NoError(t, s.PutObservation(ctx, observationOf("1", "ap", want[0])))
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			var found []domain.ClusterName
			for o, err := range s.Observations(ctx, "1", "app", nil) {
				if err != nil {
					return err
				}
				found = append(found, o.Cluster)
			}
			if !slices.Equal(want, found) {
				return fmt.Errorf("found %d of %d: %v", len(found), n, found)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, read(t, s, "1", "app", append(slices.Clone(want[120:140]), clusterAt("p", "none"))), 20)
}

// BenchmarkObservations writes and reads what 1,000 clusters say of an app of four resources.
func BenchmarkObservations(b *testing.B) {
	s, ctx := open(b), b.Context()
	const n = 1000
	value := strings.Repeat(text(200), 5)
	put := func(round int) {
		for i := range n {
			o := observationOf("1", "app", clusterAt("p", fmt.Sprint("c", i)))
			for r := range 4 {
				o.Resources = append(o.Resources, resourceOf(fmt.Sprint("r", r), fmt.Sprint(round, value)))
			}
			require.NoError(b, s.PutObservation(ctx, o))
		}
	}
	timed := func(what string, do func()) {
		began := time.Now()
		do()
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000/n, what)
	}
	for round := 0; b.Loop(); round++ {
		timed("ms/first-put", func() { put(2 * round) })
		timed("ms/put", func() { put(2*round + 1) })
		timed("ms/same-put", func() { put(2*round + 1) })
		timed("ms/read", func() {
			for _, err := range s.Observations(ctx, "1", "app", nil) {
				require.NoError(b, err)
			}
		})
		timed("ms/read-detail", func() { read(b, s, "1", "app", nil) })
		timed("ms/read-one", func() {
			for i := range n {
				read(b, s, "1", "app", []domain.ClusterName{clusterAt("p", fmt.Sprint("c", i))})
			}
		})
	}
}
