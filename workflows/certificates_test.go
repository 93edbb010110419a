package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/workflows"
)

// keeping stands for the activities of one KeepCertificates. A certificate is renewed 60 days after the last time.
type keeping struct {
	*testsuite.TestWorkflowEnvironment
	t *testing.T

	mu      sync.Mutex
	due     map[string]time.Time // by cluster
	more    []string             // clusters besides a and b
	before  bool                 // what is due is read by a worker of v0.1.0
	dead    map[string]int       // clusters that fail that many times more
	away    string               // a cluster that does not answer
	once    string               // one that does not answer the first time
	looks   []time.Time
	renewed []string
	over    func(*keeping) bool
	slow    chan struct{} // renewals wait until it is closed, if there is one
	quick   string        // the cluster whose renewal does not, and closes it
	hangs   string        // the only cluster whose renewal does, "" for all
}

const renewedAfter = 60 * 24 * time.Hour

func newKeeping(t *testing.T, over func(*keeping) bool) *keeping {
	t.Helper()
	k := &keeping{t: t, due: map[string]time.Time{}, dead: map[string]int{}, over: over}
	k.begin(newEnvironment())
	return k
}

// begin is for another run.
func (k *keeping) begin(e *testsuite.TestWorkflowEnvironment) {
	k.TestWorkflowEnvironment = e
	workflows.Register(k)
	k.RegisterActivity(&keeper{k})
}

// keeper has the activities alone.
type keeper struct{ k *keeping }

func (a *keeper) Renewals(_ context.Context, cloud domain.Key, part *activities.RenewalsPart) (*activities.Renewals, error) {
	k := a.k
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks = append(k.looks, k.Now())
	if k.over(k) {
		return &activities.Renewals{Over: true}, nil
	}
	leaf := activities.LeafInput{Scope: domain.Scope{Owner: cloud}}
	var places []activities.RenewalPlace
	out := &activities.Renewals{}
	for _, name := range append([]string{"a", "b"}, k.more...) {
		leaf.Cluster = domain.ClusterName{Provider: "p", Name: name}
		places = append(places, activities.RenewalPlace{At: k.due[name], Cluster: leaf.Cluster})
		out.Due = append(out.Due, activities.Renewal{At: k.due[name], Leaf: leaf})
	}
	if k.before {
		return out, nil
	}
	return part.Of(activities.LeafInput{Scope: leaf.Scope}, places), nil
}

func (a *keeper) RenewCertificate(_ context.Context, in activities.LeafInput) error {
	k := a.k
	switch {
	case k.slow == nil, k.hangs != "" && in.Cluster.Name != k.hangs:
	case in.Cluster.Name == k.quick:
		defer close(k.slow)
	default:
		<-k.slow
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if name := in.Cluster.Name; name == k.away || name == k.once {
		k.once = ""
		return workflows.ToTemporal(fail.New(fail.Unavailable, "it does not answer"), 1)
	}
	if k.dead[in.Cluster.Name] > 0 {
		k.dead[in.Cluster.Name]--
		return workflows.ToTemporal(fail.New(fail.Forbidden, "not now"), 1)
	}
	k.renewed = append(k.renewed, in.Cluster.Name)
	k.due[in.Cluster.Name] = k.Now().Add(renewedAfter)
	return nil
}

func (k *keeping) run() {
	k.t.Helper()
	k.ExecuteWorkflow(workflows.KeepCertificatesName, domain.Key("projects/p/logical-clouds/lc"))
	require.True(k.t, k.IsWorkflowCompleted())
}

func TestCertificatesAreRenewedInTime(t *testing.T) {
	for name, before := range map[string]bool{"": false, "read by a worker of v0.1.0": true} {
		t.Run(name, func(t *testing.T) {
			k := newKeeping(t, func(k *keeping) bool { return len(k.renewed) == 4 })
			k.before = before
			begun := k.Now()
			k.due["a"], k.due["b"] = begun.Add(24*time.Hour), begun.Add(40*24*time.Hour)
			k.run()
			require.NoError(t, k.GetWorkflowError())
			require.Equal(t, []string{"a", "b", "a", "b"}, k.renewed)
			days := []int{}
			for _, look := range k.looks {
				days = append(days, int(look.Sub(begun).Round(time.Hour)/(24*time.Hour)))
			}
			require.Equal(t, []int{0, 1, 31, 40, 61, 91, 100}, slices.Compact(days), "and once a month in any case")
		})
	}
}

func TestARenewalThatFailsComesUpAgain(t *testing.T) {
	k := newKeeping(t, func(k *keeping) bool { return len(k.renewed) == 2 })
	k.dead["a"] = 3
	begun := k.Now()
	k.run()
	require.NoError(t, k.GetWorkflowError())
	require.Equal(t, []string{"b", "a"}, k.renewed, "without holding up the other")
	require.Equal(t, 4*time.Minute, k.looks[len(k.looks)-1].Sub(begun).Round(time.Minute))
}

// TestClustersThatHangDoNotHoldUpRenewals has more clusters that hang, and have been due for long, than are renewed at a
// time. They answer when the one that has come due last is renewed.
func TestClustersThatHangDoNotHoldUpRenewals(t *testing.T) {
	k := newKeeping(t, func(k *keeping) bool { return len(k.renewed) > 0 })
	k.more = append(crowd("hangs"), "live")
	begun := k.Now()
	for _, name := range append(k.more, "a", "b") {
		k.due[name] = begun.Add(-time.Hour)
	}
	k.due["live"] = begun.Add(-time.Minute)
	k.slow, k.quick = make(chan struct{}), "live"
	k.run()
	require.NoError(t, k.GetWorkflowError())
	require.Equal(t, "live", k.renewed[0])
}

// TestAClusterThatIsAwayDoesNotHoldUpTheNextRound: what comes due while it is tried is renewed soon.
func TestAClusterThatIsAwayDoesNotHoldUpTheNextRound(t *testing.T) {
	k := newKeeping(t, func(k *keeping) bool { return len(k.renewed) > 0 })
	begun := k.Now()
	k.away, k.due["b"] = "a", begun.Add(time.Minute)
	k.run()
	require.NoError(t, k.GetWorkflowError())
	require.Equal(t, []string{"b"}, k.renewed)
	require.Less(t, k.due["b"].Sub(begun), renewedAfter+90*time.Second, "ten attempts, after which Temporal's test environment stops, take 56 s")
}

func TestCertificatesAreRenewedWhenAPersonAsks(t *testing.T) {
	k := newKeeping(t, func(k *keeping) bool { return len(k.renewed) == 2 })
	k.due["a"], k.due["b"] = k.Now().Add(renewedAfter), k.Now().Add(renewedAfter)
	k.RegisterDelayedCallback(func() { k.SignalWorkflow(workflows.RenewSignal, nil) }, time.Hour)
	begun := k.Now()
	k.run()
	require.NoError(t, k.GetWorkflowError())
	slices.Sort(k.renewed)
	require.Equal(t, []string{"a", "b"}, k.renewed)
	require.Less(t, k.looks[len(k.looks)-1].Sub(begun), 2*time.Hour)
}

// TestOneThatFailsIsRenewedWithAllWhenAPersonAsks: it is not due, so that no other round has it.
func TestOneThatFailsIsRenewedWithAllWhenAPersonAsks(t *testing.T) {
	k := newKeeping(t, func(k *keeping) bool { return len(k.renewed) == 2 })
	k.due["a"], k.due["b"] = k.Now().Add(renewedAfter), k.Now().Add(renewedAfter)
	k.once = "a"
	k.RegisterDelayedCallback(func() { k.SignalWorkflow(workflows.RenewSignal, nil) }, time.Hour)
	begun := k.Now()
	k.run()
	require.NoError(t, k.GetWorkflowError())
	slices.Sort(k.renewed)
	require.Equal(t, []string{"a", "b"}, k.renewed)
	require.Less(t, k.due["a"].Sub(begun), renewedAfter+time.Hour+5*time.Minute)
}

func TestCertificatesOfMoreClustersAreLookedAt(t *testing.T) {
	k := newKeeping(t, func(k *keeping) bool { return len(k.looks) == 2 })
	k.due["a"], k.due["b"] = k.Now().Add(renewedAfter), k.Now().Add(renewedAfter)
	k.RegisterDelayedCallback(func() { k.SignalWorkflow(workflows.KeepSignal, nil) }, time.Hour)
	begun := k.Now()
	k.run()
	require.NoError(t, k.GetWorkflowError())
	require.Equal(t, time.Hour, k.looks[1].Sub(begun))
}

// kept is what Temporal keeps of the runs of one KeepCertificates.
type kept struct {
	handed []workflows.KeepRun // by one run to the next
	events int                 // of the longest history
	bytes  int                 // of the largest payload
}

// runAll has one run after another, until one ends. Done is called after each renewal, with how many its run has done.
func (k *keeping) runAll(done func(int)) (all kept) {
	k.t.Helper()
	cloud := domain.Key("projects/p/logical-clouds/lc")
	in := []any{cloud}
	for {
		const began, marker, activityEvents, task, timer = 4, 1, 3, 3, 2
		events, renewals := began, 0
		count := func(n int) {
			events += n
			k.SetCurrentHistoryLength(events)
		}
		k.SetOnLocalActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { count(marker + task) })
		k.SetOnTimerFiredListener(func(string) { count(timer + task) })
		k.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) {
			count(activityEvents + task)
			renewals++
			done(renewals)
		})
		payloads := &sizes{DataConverter: converter.GetDefaultDataConverter()}
		k.SetDataConverter(payloads)
		k.ExecuteWorkflow(workflows.KeepCertificatesName, in...)
		require.True(k.t, k.IsWorkflowCompleted())
		all.events, all.bytes = max(all.events, events), max(all.bytes, payloads.most)
		var again *workflow.ContinueAsNewError
		if !errors.As(k.GetWorkflowError(), &again) {
			require.NoError(k.t, k.GetWorkflowError())
			return all
		}
		all.bytes = max(all.bytes, proto.Size(again.Input))
		var run workflows.KeepRun
		require.NoError(k.t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &cloud, &run))
		all.handed = append(all.handed, run)
		in = []any{cloud, run}
		now := k.Now()
		k.begin(newEnvironment())
		k.SetStartTime(now)
	}
}

// sizes knows the largest payload.
type sizes struct {
	converter.DataConverter
	mu   sync.Mutex
	most int // guarded by mu
}

func (s *sizes) ToPayload(value any) (*commonpb.Payload, error) {
	p, err := s.DataConverter.ToPayload(value)
	s.seen(proto.Size(p))
	return p, err
}

func (s *sizes) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	p, err := s.DataConverter.ToPayloads(values...)
	s.seen(proto.Size(p))
	return p, err
}

func (s *sizes) seen(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, size)
}

// times says how many clusters were renewed how often.
func (k *keeping) times() map[int]int {
	of, times := map[string]int{}, map[int]int{}
	for _, name := range k.renewed {
		of[name]++
	}
	for _, n := range of {
		times[n]++
	}
	return times
}

// many gives it clusters, with the longest names, of which all are due at a time: a and b, too.
func (k *keeping) many(clusters int, due time.Time) {
	for i := range clusters - len([]string{"a", "b"}) {
		k.more = append(k.more, fmt.Sprintf("%0128d", i))
	}
	for _, name := range append([]string{"a", "b"}, k.more...) {
		k.due[name] = due
	}
}

// TestRenewalsOfManyClusters: however many clusters come due at once, Temporal is given short payloads and histories, and each is renewed once. What
// fails holds up none, and comes up again.
func TestRenewalsOfManyClusters(t *testing.T) {
	const clusters, mostBytes, mostEvents = 9_000, 256 << 10, 8_000 // Temporal takes 2 MiB, and 51,200 events: 8,500 renewals
	var begun time.Time
	k := newKeeping(t, func(k *keeping) bool { return k.Now().Sub(begun) > 20*24*time.Hour })
	begun = k.Now()
	k.many(clusters, begun)
	fails := []string{k.more[0], k.more[len(k.more)/2], k.more[len(k.more)-1]}
	for _, name := range fails {
		k.dead[name] = 1
	}
	got := k.runAll(func(int) {})
	require.Less(t, got.bytes, mostBytes)
	require.Less(t, got.events, mostEvents)
	require.Equal(t, map[int]int{1: clusters}, k.times(), "each once")
	again := slices.Clone(k.renewed[clusters-len(fails):])
	slices.Sort(again)
	require.Equal(t, fails, again, "in a round of their own, after all others")
	require.Greater(t, len(got.handed), clusters*6/mostEvents)
}

// TestRenewalOfAllOutlivesARun: a person asks for it while a round goes on, which is in the middle when its run ends.
func TestRenewalOfAllOutlivesARun(t *testing.T) {
	const clusters, part, firstRun = 1_600, 500, 1_000 // the first run has two parts
	for name, at := range map[string]int{"in the first part": part / 2, "while the run waits for its last renewal": firstRun - 1} {
		t.Run(name, func(t *testing.T) {
			var begun time.Time
			k := newKeeping(t, func(k *keeping) bool { return k.Now().Sub(begun) > 20*24*time.Hour })
			begun = k.Now()
			k.many(clusters, begun)
			k.slow, k.hangs = make(chan struct{}), k.more[part+1]
			asked := false
			got := k.runAll(func(done int) {
				if done == at && !asked {
					asked = true
					k.SignalWorkflow(workflows.RenewSignal, nil)
					close(k.slow)
				}
			})
			require.NotEmpty(t, got.handed)
			require.True(t, got.handed[0].All)
			require.False(t, got.handed[0].Round.All, "the round that goes on is none of all")
			require.True(t, slices.ContainsFunc(got.handed, func(r workflows.KeepRun) bool {
				return !r.All && r.Round != nil && r.Round.All
			}), "that of all is in the middle, too, when its run ends")
			require.Equal(t, map[int]int{2: clusters}, k.times())
			require.WithinDuration(t, begun.Add(renewedAfter), k.due["a"], 30*time.Second, "at once after the round")
		})
	}
}

// TestARunWithALongHistoryHandsOnWhenToLook: what failed at once is not tried again at once, and again.
func TestARunWithALongHistoryHandsOnWhenToLook(t *testing.T) {
	k := newKeeping(t, func(k *keeping) bool { return len(k.looks) == 2 })
	begun := k.Now()
	k.dead["a"], k.dead["b"] = 1, 1
	got := k.runAll(func(int) { k.SetCurrentHistoryLength(5_000) })
	require.Len(t, got.handed, 1)
	require.Nil(t, got.handed[0].Round)
	require.Equal(t, time.Minute, k.looks[1].Sub(begun).Round(time.Second))
}

func TestKeepingEndsAfterTheRenewalsUnderWay(t *testing.T) {
	k := newKeeping(t, func(*keeping) bool { return false })
	k.slow = make(chan struct{})
	t.Cleanup(func() { close(k.slow) })
	k.RegisterDelayedCallback(k.CancelWorkflow, 10*time.Millisecond)
	cancelled := 0
	k.SetOnActivityCanceledListener(func(*activity.Info) { cancelled++ })
	k.run()
	var ended *temporal.CanceledError
	require.ErrorAs(t, k.GetWorkflowError(), &ended)
	require.Equal(t, 2, cancelled, "a terminate deletes next what a renewal may still make")
}

func TestKeepingEndsWhenItIsCancelled(t *testing.T) {
	k := newKeeping(t, func(*keeping) bool { return false })
	k.due["a"], k.due["b"] = k.Now().Add(renewedAfter), k.Now().Add(renewedAfter)
	k.RegisterDelayedCallback(k.CancelWorkflow, time.Hour)
	k.run()
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, k.GetWorkflowError(), &cancelled)
	require.Empty(t, k.renewed)
}
