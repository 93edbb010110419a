package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/workflows"
)

// tenant is a tenant whose matches are due, as its store would say.
type tenant struct {
	*testsuite.TestWorkflowEnvironment
	mu     sync.Mutex // activities run beside children
	due    []activities.DueMatch
	next   time.Time // when others are due
	awaits int       // how often the cluster was waited for
	begun  [][]string
	ids    []string   // of the children
	atOnce bool       // what is tried at once is settled
	few    int        // so many of what is tried at once are settled, and then its time is over
	silent int        // so many tries hear that the cluster does not answer others
	tried  [][]string // what was
	long   bool       // a child takes an hour
	never  error      // what waiting for the cluster ends with
	// settle is what a child does; nil settles all.
	settle func(child int, in activities.MatchesInput) (*activities.Settled, error)
}

func newTenant(t *testing.T, due int) *tenant {
	t.Helper()
	w := &tenant{TestWorkflowEnvironment: (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()}
	for i := range due {
		w.mark(i)
	}
	workflows.Register(w)
	var m *activities.Match
	w.RegisterActivity(m)
	w.OnActivity(m.DueMatches, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.DueInput) (*activities.DueMatches, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		n := min(len(w.due), in.Limit)
		return &activities.DueMatches{Matches: slices.Clone(w.due[:n]), More: len(w.due) > n, Next: w.next}, nil
	})
	w.OnActivity(m.SettleMatches, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.MatchesInput) (*activities.Settled, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.tried = append(w.tried, in.IDs); w.silent > 0 {
			w.silent--
			return &activities.Settled{Away: true}, nil
		}
		if !w.atOnce {
			w.done(in.IDs[:min(w.few, len(in.IDs))]...)
			return nil, errors.New("not done at once")
		}
		w.done(in.IDs...)
		return &activities.Settled{}, nil
	})
	w.OnActivity(m.AwaitCluster, mock.Anything, mock.Anything).Return(func(context.Context, activities.TenantInput) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.awaits++
		return w.never
	})
	w.OnWorkflow(workflows.SettleMatchName, mock.Anything, mock.Anything).Return(func(ctx workflow.Context, in activities.MatchesInput) (*activities.Settled, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.begun, w.ids = append(w.begun, in.IDs), append(w.ids, workflow.GetInfo(ctx).WorkflowExecution.ID)
		if w.long {
			w.mu.Unlock()
			err := workflow.Sleep(ctx, time.Hour) // a mock hears of no cancellation
			if w.mu.Lock(); err != nil {
				return nil, err
			}
		}
		if w.settle != nil {
			if out, err := w.settle(len(w.begun), in); out != nil || err != nil {
				return out, err
			}
		}
		w.done(in.IDs...)
		return &activities.Settled{}, nil
	})
	return w
}

// mark makes a match due, and done settles some.
func (w *tenant) mark(i int) {
	w.due = append(w.due, activities.DueMatch{ID: fmt.Sprintf("t/%032d", i), Rule: "side", Of: fmt.Sprintf("default.pod-%d", i)})
}

func (w *tenant) done(ids ...string) {
	w.due = slices.DeleteFunc(w.due, func(d activities.DueMatch) bool { return slices.Contains(ids, d.ID) })
}

func (w *tenant) run(t *testing.T) {
	t.Helper()
	w.ExecuteWorkflow(workflows.SettleTenantName, activities.TenantInput{Tenant: "t"})
	require.True(t, w.IsWorkflowCompleted())
	require.NoError(t, w.GetWorkflowError())
	require.Empty(t, w.due)
}

func TestNothingIsDue(t *testing.T) {
	w := newTenant(t, 0)
	w.run(t)
	require.Empty(t, w.begun)
}

// TestAClusterThatIsKnownNotToAnswerIsWaitedForAtOnce, without a child that would find it out.
func TestAClusterThatIsKnownNotToAnswerIsWaitedForAtOnce(t *testing.T) {
	w := newTenant(t, 2)
	w.atOnce, w.silent = true, 2
	w.run(t)
	require.Equal(t, 2, w.awaits)
	require.Len(t, w.tried, 3)
	require.Empty(t, w.begun)
}

// TestFewMatchesAreSettledAtOnce, together and without a child; of many none is tried.
func TestFewMatchesAreSettledAtOnce(t *testing.T) {
	few := newTenant(t, 30)
	few.atOnce = true
	few.run(t)
	require.Len(t, few.tried, 1)
	require.Len(t, few.tried[0], 30)
	require.Empty(t, few.begun)
	many := newTenant(t, 100)
	many.run(t)
	require.Empty(t, many.tried)
	require.Len(t, many.begun, 2)
}

// TestWhatATryLeavesHasOneChild, which has the name of the match when it is one alone.
func TestWhatATryLeavesHasOneChild(t *testing.T) {
	for name, c := range map[string]struct {
		settled, left int
		id            string
	}{
		"nothing was settled": {0, 30, "match/t/batch-1"},
		"some were settled":   {10, 20, "match/t/batch-1"},
		"one is left":         {29, 1, "match/t/side/default.pod-29-0000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTenant(t, 30)
			w.few = c.settled
			w.run(t)
			require.Len(t, w.tried, 1, "what was not done at once is not tried so again")
			require.Len(t, w.begun, 1)
			require.Len(t, w.begun[0], c.left)
			require.Equal(t, []string{c.id}, w.ids)
		})
	}
}

// TestManyMatchesHaveAChildForEachBatch, each of which has another id.
func TestManyMatchesHaveAChildForEachBatch(t *testing.T) {
	many := newTenant(t, 1210)
	many.run(t)
	// What is due is read while children end, so that not all batches are full.
	require.GreaterOrEqual(t, len(many.begun), 1210/50+1)
	require.Less(t, len(many.begun), 2*1210/50)
	var ids []string
	for _, batch := range many.begun {
		require.LessOrEqual(t, len(batch), 50)
		ids = append(ids, batch...)
	}
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), 1210)
	slices.Sort(many.ids)
	require.Len(t, slices.Compact(slices.Clone(many.ids)), len(many.ids))
}

// TestAClusterThatIsAwayIsWaitedForOnce, by one activity, and nothing is begun meanwhile.
func TestAClusterThatIsAwayIsWaitedForOnce(t *testing.T) {
	w := newTenant(t, 5000)
	w.settle = func(int, activities.MatchesInput) (*activities.Settled, error) {
		if w.awaits == 0 {
			return &activities.Settled{Away: true}, nil
		}
		return nil, nil
	}
	w.run(t)
	require.Equal(t, 1, w.awaits)
	// 100 full batches, and what is read while children end makes some that are not.
	require.Less(t, len(w.begun), 2*100, "what is due is not tried one by one")
}

// TestAMatchThatIsMarkedWhileItIsSettled is settled once more.
func TestAMatchThatIsMarkedWhileItIsSettled(t *testing.T) {
	w := newTenant(t, 1)
	w.settle = func(child int, _ activities.MatchesInput) (*activities.Settled, error) {
		if child == 1 { // it has read the record before it was marked again, and wrote nothing of that
			w.SignalWorkflow(workflows.SettleSignal, nil)
			return &activities.Settled{}, nil
		}
		return nil, nil
	}
	w.run(t)
	require.Len(t, w.begun, 2)
}

// TestAChildThatIsEndedByHand leaves its matches due, which are tried again.
func TestAChildThatIsEndedByHand(t *testing.T) {
	w := newTenant(t, 2)
	w.settle = func(child int, _ activities.MatchesInput) (*activities.Settled, error) {
		if child == 1 {
			return nil, errors.New("terminated")
		}
		return nil, nil
	}
	began := w.Now()
	w.run(t)
	require.Len(t, w.begun, 2)
	require.Equal(t, w.begun[0], w.begun[1])
	require.NotEqual(t, w.ids[0], w.ids[1])
	require.GreaterOrEqual(t, w.Now().Sub(began), 10*time.Second)
}

// TestAMatchThatIsDueBesideAChild is tried at once, and does not wait for the child, which may take long.
func TestAMatchThatIsDueBesideAChild(t *testing.T) {
	w := newTenant(t, 2)
	w.long = true
	w.RegisterDelayedCallback(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.atOnce = true
		w.mark(2)
		w.SignalWorkflow(workflows.SettleSignal, nil)
	}, time.Second)
	w.RegisterDelayedCallback(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Len(t, w.due, 2, "the third is settled")
	}, time.Minute)
	w.run(t)
	require.Equal(t, []string{"match/t/batch-1"}, w.ids)
	require.Len(t, w.tried, 2)
	require.Len(t, w.tried[1], 1)
}

// TestWhatIsDueLater is waited for by a timer.
func TestWhatIsDueLater(t *testing.T) {
	w := newTenant(t, 1)
	at := w.Now().Add(time.Hour)
	w.settle = func(child int, in activities.MatchesInput) (*activities.Settled, error) {
		w.done(in.IDs...)
		if child > 1 {
			return &activities.Settled{}, nil
		}
		w.next = at
		w.RegisterDelayedCallback(func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.next = time.Time{}
			w.mark(0)
		}, at.Sub(w.Now()))
		return &activities.Settled{Next: at}, nil
	}
	w.run(t)
	require.Len(t, w.begun, 2)
	require.False(t, w.Now().Before(at))
}

// TestASettlementThatIsCancelled by somebody ends when what it has begun has ended, wherever it is. What is due stays so.
func TestASettlementThatIsCancelled(t *testing.T) {
	for name, at := range map[string]func(*tenant){
		"while children are at work": func(w *tenant) { w.long = true },
		"while its cluster is away": func(w *tenant) {
			w.settle = func(int, activities.MatchesInput) (*activities.Settled, error) {
				return &activities.Settled{Away: true}, nil
			}
		},
		"while something is due later": func(w *tenant) {
			w.settle = func(int, activities.MatchesInput) (*activities.Settled, error) { return nil, errors.New("terminated") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTenant(t, 2)
			at(w)
			w.RegisterDelayedCallback(w.CancelWorkflow, 2*time.Second)
			w.ExecuteWorkflow(workflows.SettleTenantName, activities.TenantInput{Tenant: "t"})
			require.True(t, w.IsWorkflowCompleted())
			var cancelled *temporal.CanceledError
			require.ErrorAs(t, w.GetWorkflowError(), &cancelled)
			if w.long {
				require.Empty(t, w.due, "its children are waited for")
			} else {
				require.Len(t, w.due, 2)
			}
		})
	}
}
