package workflows

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// batchwise runs an app that is split, with batches that do nothing. Time is the test's: a batch takes a minute, and tells of a cluster
// every half a second, unless its clusters hang or do not answer, which goes on for an hour.
type batchwise struct {
	hangs, away []int         // numbers of batches
	awake       time.Duration // after which those that hang go on as others do; 0 is never
	stopAt      time.Duration

	began        time.Time
	starts, ends map[int]time.Duration
	open, most   int
}

func (b *batchwise) run(t *testing.T, batches int) {
	t.Helper()
	b.starts, b.ends = map[int]time.Duration{}, map[int]time.Duration{}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	b.began = env.Now()
	env.RegisterWorkflowWithOptions(b.batch, workflow.RegisterOptions{Name: DeployAppName})
	env.RegisterWorkflowWithOptions(WorkApp, workflow.RegisterOptions{Name: "app"})
	if b.stopAt > 0 {
		env.RegisterDelayedCallback(env.CancelWorkflow, b.stopAt)
	}
	env.ExecuteWorkflow("app", AppInput{
		Scope: domain.Scope{Owner: "projects/p/composite-apps/c/v1/deployment-intent-groups/g", ContextID: "1", Operation: domain.OpInstantiate},
		App:   activities.PreparedApp{Name: "web", Resources: 1, Clusters: batches * batchSize}, To: batches * batchSize,
	})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
}

func (b *batchwise) batch(ctx workflow.Context, in AppInput) (*AppProgress, error) {
	n, done := in.From/batchSize, 0
	b.starts[n] = workflow.Now(ctx).Sub(b.began)
	b.open++
	b.most = max(b.most, b.open)
	defer func() { b.open--; b.ends[n] = workflow.Now(ctx).Sub(b.began) }()
	parent := workflow.GetInfo(ctx).ParentWorkflowExecution
	tell := func(p AppProgress) {
		p.App, p.From, p.Clusters = in.App.Name, in.From, in.To-in.From
		workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, ProgressSignal, p)
	}
	switch {
	case slices.Contains(b.hangs, n) && b.awake == 0:
		_ = workflow.Sleep(ctx, time.Hour)
	case slices.Contains(b.away, n):
		tell(AppProgress{Retrying: in.To - in.From})
		_ = workflow.Sleep(ctx, time.Hour)
	default:
		if slices.Contains(b.hangs, n) {
			_ = workflow.Sleep(ctx, b.awake)
		}
		for range 120 {
			if workflow.Sleep(ctx, 500*time.Millisecond) != nil {
				break
			}
			done++
			tell(AppProgress{Done: done})
		}
	}
	return &AppProgress{App: in.App.Name, From: in.From, Clusters: in.To - in.From, Done: in.To - in.From}, nil
}

func TestFewBatchesAreAtWork(t *testing.T) {
	b := &batchwise{}
	b.run(t, 10)
	require.Equal(t, openBatches, b.most)
	require.Len(t, b.ends, 10)
}

func TestNoBatchWaitsForOnesThatHang(t *testing.T) {
	b := &batchwise{hangs: []int{0, 1, 2, 3}}
	b.run(t, 8)
	for n := 4; n < 8; n++ {
		require.Less(t, b.starts[n], 3*patience, "batch %d", n)
		require.Less(t, b.ends[n], 2*time.Minute, "batch %d", n)
	}
}

// Batches 4 to 7 take the places of 0 to 3, which hang. When these go on, both fours are at work; until one of the fours has ended, no
// other begins.
func TestABatchThatGoesOnHasItsPlaceAgain(t *testing.T) {
	b := &batchwise{hangs: []int{0, 1, 2, 3}, awake: patience + 20*time.Second}
	b.run(t, 12)
	require.Equal(t, 2*openBatches, b.most)
	for n := 2 * openBatches; n < 12; n++ {
		require.GreaterOrEqual(t, b.starts[n], b.ends[0], "batch %d", n)
	}
}

func TestNoBatchWaitsForOnesThatDoNotAnswer(t *testing.T) {
	b := &batchwise{away: []int{0, 1, 2, 3}}
	b.run(t, 6)
	require.Less(t, b.starts[5], patience)
	require.Less(t, b.ends[5], 2*time.Minute)
}

func TestNoBatchBeginsAfterAStop(t *testing.T) {
	b := &batchwise{stopAt: 10 * time.Second}
	b.run(t, 10)
	require.Len(t, b.starts, openBatches)
	for n, end := range b.ends {
		require.Less(t, end, 20*time.Second, "batch %d", n)
	}
}
