package workflows

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/domain"
)

func TestTheOrderOfLeaves(t *testing.T) {
	w := window{leaves: leaves("suspect", "idle", "other", "idle suspect", "another")}
	w.leaves[0].suspect, w.leaves[3].suspect = true, true
	w.leaves[1].done, w.leaves[3].done = true, true
	require.Equal(t, []string{"other", "another", "suspect"}, names(w.order()))
}

func TestWhoHasAPlace(t *testing.T) {
	for name, c := range map[string]struct {
		leaf leafState
		want bool
	}{
		"not started":                 {leafState{}, false},
		"at work":                     {leafState{started: true}, true},
		"done":                        {leafState{started: true, done: true}, false},
		"slow, and others wait":       {leafState{started: true, slow: true}, false},
		"its cluster does not answer": {leafState{started: true, ClusterProgress: ClusterProgress{Connectivity: domain.ConnectivityRetrying}}, false},
		"its cluster answers":         {leafState{started: true, ClusterProgress: ClusterProgress{Connectivity: domain.ConnectivityAvailable}}, true},
		"waits for a hook":            {leafState{started: true, ClusterProgress: ClusterProgress{Reason: "waits for Job a"}}, false},
	} {
		require.Equal(t, c.want, c.leaf.atWork(), name)
	}
}

func TestSlotsAreSharedByBatches(t *testing.T) {
	for clusters, want := range map[int]int{0: 30, 1: 30, 250: 30, 251: 15, 750: 10, 751: 7, 2000: 7, 10_000: 7} {
		require.Equal(t, want, slots(clusters, openBatches), "%d clusters", clusters)
	}
}

// sliding runs a window in a workflow of its own. Time is the test's: a leaf takes as long as its name is given here, and
// one that is not named hangs until it is cancelled.
type sliding struct {
	window
	takes    map[string]time.Duration
	loses    map[string]time.Duration // after which the cluster does not answer any more
	halts    []domain.ClusterName
	stopAt   time.Duration // 0: never
	gathered int

	began   time.Time
	started map[string]time.Duration // when a leaf was
	ends    map[string]time.Duration // when it was done
	most    int                      // at work at a time
}

func slide(t *testing.T, slots int, s *sliding, of ...string) {
	t.Helper()
	s.leaves, s.slots = leaves(of...), slots
	s.started, s.ends = map[string]time.Duration{}, map[string]time.Duration{}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.RegisterWorkflow(s.run)
	env.RegisterActivity(s)
	if s.stopAt > 0 {
		env.RegisterDelayedCallback(env.CancelWorkflow, s.stopAt)
	}
	env.ExecuteWorkflow(s.run)
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	require.True(t, s.quiet(), "it ends when all leaves have ended")
}

// Gather is activities.Kube's.
func (s *sliding) Gather(context.Context, time.Duration) error {
	s.gathered++
	return nil
}

func (s *sliding) run(ctx workflow.Context) error {
	s.whole, _ = workflow.NewDisconnectedContext(ctx)
	s.began = workflow.Now(ctx)
	s.begin = func(ctx workflow.Context, l *leafState) {
		s.started[l.Cluster.Name] = workflow.Now(ctx).Sub(s.began)
		s.most = max(s.most, s.atWork())
		workflow.Go(s.whole, func(c workflow.Context) { s.work(c, ctx, l) })
	}
	s.halt = func(workflow.Context) []domain.ClusterName { return s.halts }
	return s.slide(ctx)
}

// work is a leaf's, which is cancelled by the context.
func (s *sliding) work(c, leaf workflow.Context, l *leafState) {
	name := l.Cluster.Name
	if d, ok := s.loses[name]; ok {
		_ = workflow.Sleep(c, d)
		l.Connectivity = domain.ConnectivityRetrying
		s.moved()
	}
	if d, ok := s.takes[name]; ok {
		_ = workflow.NewTimer(leaf, d).Get(c, nil)
	} else {
		leaf.Done().Receive(c, nil)
	}
	s.ends[name] = workflow.Now(c).Sub(s.began)
	s.ended(l)
}

func leaves(of ...string) (all []leafState) {
	for _, name := range of {
		all = append(all, leafState{ClusterProgress: ClusterProgress{Cluster: named(name)}})
	}
	return all
}

func named(name string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: name} }

func names(of []*leafState) (all []string) {
	for _, l := range of {
		all = append(all, l.Cluster.Name)
	}
	return all
}

// many are leaves that take so long each.
func many(n int, d time.Duration) (of []string, takes map[string]time.Duration) {
	takes = map[string]time.Duration{}
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		of, takes[name] = append(of, name), d
	}
	return of, takes
}

func TestNoMoreLeavesThanSlots(t *testing.T) {
	of, takes := many(10, time.Second)
	s := &sliding{takes: takes}
	slide(t, 3, s, of...)
	require.Equal(t, 3, s.most)
	require.Len(t, s.ends, 10)
	require.Equal(t, 3*time.Second, s.started["c9"], "a slot is taken as soon as there is one")
}

func TestALeafWithoutWorkIsNotStarted(t *testing.T) {
	s := &sliding{}
	slide(t, 3, s)
	require.Empty(t, s.started)
}

// TestAClusterThatDoesNotAnswerGivesItsPlaceAway as soon as that is known.
func TestAClusterThatDoesNotAnswerGivesItsPlaceAway(t *testing.T) {
	s := &sliding{
		loses: map[string]time.Duration{"dead": time.Second}, takes: map[string]time.Duration{"dead": time.Hour, "live": time.Second},
	}
	slide(t, 1, s, "dead", "live")
	require.Equal(t, time.Second, s.started["live"])
}

// TestLeavesThatHang give their slots away when none of them has moved for patience, and not before.
func TestLeavesThatHang(t *testing.T) {
	s := &sliding{takes: map[string]time.Duration{"hangs": time.Hour, "hangs too": time.Hour, "live": time.Second, "and live": time.Second}}
	slide(t, 2, s, "hangs", "hangs too", "live", "and live")
	require.Equal(t, patience, s.started["live"])
	require.Equal(t, patience, s.started["and live"])

	slow := patience - time.Millisecond
	s = &sliding{takes: map[string]time.Duration{"long": time.Hour, "a": slow, "b": slow, "c": slow}}
	slide(t, 2, s, "long", "a", "b", "c")
	require.Equal(t, 2*slow, s.started["c"], "others move")
}

// TestStopOfAWindow starts no more, cancels what cannot be halted, and after haltGrace what was and has not ended.
func TestStopOfAWindow(t *testing.T) {
	const at = time.Second
	s := &sliding{
		takes: map[string]time.Duration{"ends": at + haltGrace/2, "later": time.Second}, halts: []domain.ClusterName{named("ends"), named("hangs")},
		stopAt: at,
	}
	slide(t, 3, s, "elsewhere", "ends", "hangs", "later")
	require.Equal(t, map[string]time.Duration{"elsewhere": at, "ends": at + haltGrace/2, "hangs": at + haltGrace}, s.ends)
	require.NotContains(t, s.started, "later")
}

// TestGather is of the fewest leaves for which it is worth while.
func TestGather(t *testing.T) {
	for _, n := range []int{gatherLeast - 1, gatherLeast} {
		of, takes := many(n+1, time.Second)
		takes[of[n]] = time.Millisecond // whose end is what is gathered
		s := &sliding{takes: takes}
		slide(t, n+1, s, slices.Clip(of)...)
		require.Equal(t, n == gatherLeast, s.gathered > 0, "%d at work", n)
	}
}

// TestGatherTime: the slower leaves end the longer it is, and never so long that those at work come to an end meanwhile.
func TestGatherTime(t *testing.T) {
	for name, c := range map[string]struct {
		atWork, ended int
		in, want      time.Duration
	}{
		"nothing has ended yet": {atWork: 30, in: time.Hour, want: gatherMost},
		"few are at work":       {atWork: 4, ended: 1, in: time.Millisecond, want: 4 * gatherEach},
		"quick ones":            {atWork: 30, ended: 30, in: 150 * time.Millisecond, want: gatherMost},
		"slow ones":             {atWork: 30, ended: 5, in: 150 * time.Millisecond, want: 180 * time.Millisecond},
		"few slow ones":         {atWork: 7, ended: 1, in: 100 * time.Millisecond, want: 140 * time.Millisecond},
		"very slow ones":        {atWork: 30, ended: 1, in: time.Hour, want: gatherLongest},
	} {
		require.Equal(t, c.want, gatherTime(c.atWork, c.ended, c.in), name)
	}
}

// TestTheWindowTellsHowItStands whenever that has changed, whatever becomes of its leaves.
func TestTheWindowTellsHowItStands(t *testing.T) {
	s := &sliding{
		takes: map[string]time.Duration{"a": time.Second, "b": time.Hour, "c": time.Second, "d": time.Second},
		loses: map[string]time.Duration{"b": 100 * time.Millisecond},
	}
	var told []WindowState
	s.tell = func(now WindowState) { told = append(told, now) }
	slide(t, 2, s, "a", "b", "c", "d")
	require.Equal(t, WindowState{Slots: 2, Waiting: 4}, told[0])
	require.Equal(t, WindowState{Slots: 2}, told[len(told)-1], "all are done")
	require.Contains(t, told, WindowState{Slots: 2, AtWork: 2, Waiting: 2})
	require.Contains(t, told, WindowState{Slots: 2, AtWork: 2, Outside: 1, Waiting: 1}, "b does not answer, and has left its slot to c")
	for _, now := range told {
		require.LessOrEqual(t, now.AtWork, now.Slots)
	}
}
