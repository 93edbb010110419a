package activities

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/policy"
)

// TestLeavesAreCountedUntilTheirNextAttempt, which may be another worker's: then that one counts them.
func TestLeavesAreCountedUntilTheirNextAttempt(t *testing.T) {
	var o openLeaves
	now := time.Now()
	o.begin("a", now)
	o.begin("b", now)
	o.begin("c", now)
	o.end("b", measure.Unreachable, time.Minute)
	o.end("c", "", 0)
	count := func(at time.Time) map[string]int {
		open, stuck := o.count(at)
		require.Empty(t, some(stuck))
		return some(open)
	}
	require.Equal(t, map[string]int{measure.Working: 1, measure.Unreachable: 1}, count(now))
	require.Equal(t, map[string]int{measure.Working: 1}, count(now.Add(2*time.Minute)))
	require.Len(t, o.of, 1, "what is past is forgotten")
}

// TestLeavesThatAreOverElsewhereAreForgotten where nobody gathers metrics, too.
func TestLeavesThatAreOverElsewhereAreForgotten(t *testing.T) {
	var o openLeaves
	now := time.Now()
	o.begin("works", now)
	for i := range 10 * fewOpen {
		run := fmt.Sprint(i)
		o.begin(run, now)
		o.end(run, measure.Unreachable, -time.Minute)
	}
	require.LessOrEqual(t, len(o.of), 2*fewOpen+1)
	require.Contains(t, o.of, "works")
}

// some are those of which there are some.
func some(n map[string]int) map[string]int {
	maps.DeleteFunc(n, func(_ string, n int) bool { return n == 0 })
	return n
}

// TestLeavesAreStuckThroughTheirAttempts: one that is tried again and again is stuck also while an attempt goes on. What began shortly
// before, or has not failed, is not.
func TestLeavesAreStuckThroughTheirAttempts(t *testing.T) {
	var o openLeaves
	now := time.Now()
	stuck := func() map[string]int { _, n := o.count(now); return some(n) }
	old, young := now.Add(-2*time.Hour), now.Add(-time.Minute)
	o.begin("old", old)
	require.Empty(t, stuck(), "it works for two hours")
	o.begin("young", young)
	o.end("old", measure.Refusing, time.Minute)
	o.end("young", measure.Unreachable, time.Minute)
	for range 3 {
		require.Equal(t, map[string]int{measure.Refusing: 1}, stuck())
		o.begin("old", old)
		require.Equal(t, map[string]int{measure.Refusing: 1}, stuck(), "an attempt goes on")
		o.end("old", measure.Refusing, time.Minute)
	}
	o.begin("old", old)
	o.end("old", measure.Broken, time.Minute)
	require.Equal(t, map[string]int{measure.Broken: 1}, stuck())
	o.begin("old", old)
	require.Equal(t, map[string]int{measure.Broken: 1}, stuck())
	now = now.Add(2 * measure.Overcome)
	require.Empty(t, stuck(), "it goes on for so long, as with a hook, that what was before is over")
	o.end("old", "", 0)
	require.Empty(t, stuck())
}

func TestReasonsOfOpenLeaves(t *testing.T) {
	away := fail.New(fail.Unavailable, "no")
	for name, c := range map[string]struct {
		a    *attempt
		err  error
		want string
	}{
		"done":               {a: &attempt{}, err: nil, want: ""},
		"refused for good":   {a: &attempt{}, err: fail.New(fail.Invalid, "no"), want: ""},
		"tried at once":      {a: &attempt{}, err: ErrNotAtOnce, want: ""},
		"does not answer":    {a: &attempt{state: progress{Connectivity: domain.ConnectivityRetrying}}, err: away, want: measure.Unreachable},
		"answers and denies": {a: &attempt{reached: true, state: progress{Connectivity: domain.ConnectivityRetrying}}, err: away, want: measure.Refusing},
		"waits":              {a: &attempt{state: progress{Reason: "a finalizer"}}, err: away, want: measure.Waiting},
		"the store is away":  {a: &attempt{}, err: away, want: measure.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.a.openReason(t.Context(), c.err))
		})
	}
	require.Equal(t, policy.FirstWork+policy.HandedOut, waitAfter(away, 1))
	require.Equal(t, policy.LongestWork+policy.HandedOut, waitAfter(away, 1000))
	asked := fail.New(fail.Unavailable, "later")
	asked.RetryAfter = time.Hour
	require.Equal(t, time.Hour+policy.HandedOut, waitAfter(asked, 1))
}

// TestALeafWhoseAttemptPanicsIsOpen: it is tried again.
func TestALeafWhoseAttemptPanicsIsOpen(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	k := NewKube(nil, nil, nil, nil, nil)
	env.RegisterActivity(k)
	_, err := env.ExecuteActivity(k.ApplyToCluster, LeafInput{})
	require.Error(t, err, "there is no store")
	open, _ := k.pending.count(time.Now())
	require.Equal(t, 1, open[measure.Broken])
}

// TestClustersAreMeasured: those that were not heard for longest come first.
func TestClustersAreMeasured(t *testing.T) {
	now := time.Now().Add(time.Hour)
	w, s := &Watch{Now: func() time.Time { return now }}, &shard{}
	w.going.Store(s, nil)
	name := func(n string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: n} }
	s.contacts.put(domain.Watch{Cluster: name("heard"), Connected: true})
	s.contacts.put(domain.Watch{Cluster: name("silent"), Reason: "away", LastSeen: now.Add(-2 * time.Hour)})
	s.contacts.put(domain.Watch{Cluster: name("never"), Reason: "away"})
	s.contacts.put(domain.Watch{Cluster: name("none"), Reason: domain.Unreported})
	s.contacts.put(domain.Watch{Cluster: name("gone"), Reason: "away"})
	s.contacts.forget(name("gone"))
	found, unheard := map[string]float64{}, []string{}
	w.measure(func(g *measure.Gauge, value float64, values ...string) {
		switch g {
		case measure.Clusters:
			found[values[0]] = value
		case measure.ClusterUnheard:
			unheard = append(unheard, values[1])
		case measure.WatchAge:
			require.InDelta(t, 3600, value, 60)
		}
	})
	require.Equal(t, map[string]float64{measure.Heard: 1, measure.Unheard: 2, measure.Unreported: 1}, found)
	require.Equal(t, []string{"silent", "never"}, unheard)
}

// earlier is a store that knows when another watch heard a cluster.
type earlier struct {
	Observations
	at time.Time
}

func (e earlier) PutWatch(_ context.Context, _ string, w *domain.Watch) error {
	w.LastSeen = e.at
	return nil
}

// TestASilenceDoesNotBeginAnew with another attempt at a watch: a cluster that is gone for an hour would never be said to be.
func TestASilenceDoesNotBeginAnew(t *testing.T) {
	now := time.Now()
	w := &Watch{Now: func() time.Time { return now }}
	w.Store = earlier{at: now.Add(-time.Hour)}
	s := &shard{Watch: w}
	w.going.Store(s, nil)
	require.NoError(t, s.Contact(t.Context(), domain.Watch{Cluster: domain.ClusterName{Provider: "p", Name: "gone"}, Reason: "away"}))
	var silent float64
	w.measure(func(g *measure.Gauge, value float64, _ ...string) {
		if g == measure.ClusterUnheard {
			silent = value
		}
	})
	require.InDelta(t, 3600, silent, 0)
}
