package workflows_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

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
	dead    map[string]int       // clusters that fail that many times more
	looks   []time.Time
	renewed []string
	over    func(*keeping) bool
	slow    chan struct{} // renewals wait until it is closed, if there is one
	quick   string        // the cluster whose renewal does not, and closes it
}

const renewedAfter = 60 * 24 * time.Hour

func newKeeping(t *testing.T, over func(*keeping) bool) *keeping {
	t.Helper()
	k := &keeping{TestWorkflowEnvironment: newEnvironment(), t: t, due: map[string]time.Time{}, dead: map[string]int{}, over: over}
	workflows.Register(k)
	k.RegisterActivity(&keeper{k})
	return k
}

// keeper has the activities alone.
type keeper struct{ k *keeping }

func (a *keeper) Renewals(_ context.Context, cloud domain.Key) (*activities.Renewals, error) {
	k := a.k
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks = append(k.looks, k.Now())
	out := &activities.Renewals{Over: k.over(k)}
	for _, name := range append([]string{"a", "b"}, k.more...) {
		out.Due = append(out.Due, activities.Renewal{At: k.due[name], Leaf: activities.LeafInput{Scope: domain.Scope{Owner: cloud}, Cluster: domain.ClusterName{Provider: "p", Name: name}}})
	}
	return out, nil
}

func (a *keeper) RenewCertificate(_ context.Context, in activities.LeafInput) error {
	k := a.k
	switch {
	case k.slow == nil:
	case in.Cluster.Name == k.quick:
		defer close(k.slow)
	default:
		<-k.slow
	}
	k.mu.Lock()
	defer k.mu.Unlock()
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
	k := newKeeping(t, func(k *keeping) bool { return len(k.renewed) == 4 })
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

func TestCertificatesOfMoreClustersAreLookedAt(t *testing.T) {
	k := newKeeping(t, func(k *keeping) bool { return len(k.looks) == 2 })
	k.due["a"], k.due["b"] = k.Now().Add(renewedAfter), k.Now().Add(renewedAfter)
	k.RegisterDelayedCallback(func() { k.SignalWorkflow(workflows.KeepSignal, nil) }, time.Hour)
	begun := k.Now()
	k.run()
	require.NoError(t, k.GetWorkflowError())
	require.Equal(t, time.Hour, k.looks[1].Sub(begun))
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
