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
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// batchwise runs an app that is split, with batches that do nothing. Time is the test's: a batch takes a minute, and tells of a cluster
// every half a second, unless its clusters hang or do not answer, or it may tell nothing more, which goes on for an hour.
type batchwise struct {
	hangs, away []int         // numbers of batches
	quiet       []int         // these, too; after half an hour they need their places no longer
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
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // which a loaded machine cannot miss
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
	case slices.Contains(b.quiet, n):
		tell(AppProgress{Done: 1, Quiet: true})
		_ = workflow.Sleep(ctx, time.Hour/2)
		tell(AppProgress{Done: 1})
		_ = workflow.Sleep(ctx, time.Hour/2)
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

func TestABatchThatTellsNoMoreKeepsItsPlace(t *testing.T) {
	b := &batchwise{quiet: []int{0, 1, 2, 3}}
	b.run(t, 6)
	for n := 4; n < 6; n++ {
		require.GreaterOrEqual(t, b.starts[n], time.Hour/2, "batch %d", n)
		require.Less(t, b.ends[n], time.Hour, "batch %d", n)
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

// TestABatchTellsAsMuchAsItMay: one of many batches in which something ends all the time, until all that is left is a cluster that does not answer.
func TestABatchTellsAsMuchAsItMay(t *testing.T) {
	const batches, each, long = 1000, 3 * time.Second / 2, time.Hour
	targets, takes := &activities.Targets{}, map[domain.ClusterName]time.Duration{}
	for i := range batchSize {
		c := domain.ClusterName{Provider: "p", Name: fmt.Sprint("c", i)}
		targets.Clusters = append(targets.Clusters, c)
		takes[c] = time.Duration(min(i, openLeaves/openBatches)) * each // one after the other
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // which a loaded machine cannot miss
	env.RegisterActivity(&gatherer{})
	env.RegisterWorkflowWithOptions(WorkApp, workflow.RegisterOptions{Name: DeployAppName})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in activities.LeafInput) (*ClusterProgress, error) {
		p := &ClusterProgress{Cluster: in.Cluster, Connectivity: domain.ConnectivityAvailable, Marks: domain.NewMarks(1, domain.MarkApplied).Encode()}
		if in.Cluster != targets.Clusters[0] {
			return p, workflow.Sleep(ctx, takes[in.Cluster])
		}
		parent := workflow.GetInfo(ctx).ParentWorkflowExecution
		workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, ContactSignal, ClusterProgress{Cluster: in.Cluster, Connectivity: domain.ConnectivityRetrying})
		return p, workflow.Sleep(ctx, long)
	}, workflow.RegisterOptions{Name: ApplyToClusterName})
	var told []AppProgress
	var at []time.Duration
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		workflow.Go(ctx, func(ctx workflow.Context) {
			for {
				var p AppProgress
				workflow.GetSignalChannel(ctx, ProgressSignal).Receive(ctx, &p)
				told, at = append(told, p), append(at, age(ctx))
			}
		})
		return startApp(ctx, AppInput{
			Scope: domain.Scope{Owner: "projects/p/composite-apps/c/v1/deployment-intent-groups/g", ContextID: "1", Operation: domain.OpInstantiate},
			App:   activities.PreparedApp{Name: "web", Resources: 1, Clusters: batches * batchSize, Targets: targets}, To: batchSize, Batches: batches,
		}, "batch").Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "app"})
	env.ExecuteWorkflow("app")
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, told, mostOfBatches/batches)
	last := len(told) - 1
	for i, p := range told {
		require.Equal(t, i == last-1, p.Quiet, "report %d", i)
	}
	require.Equal(t, batchSize, told[last].Done+told[last].Retrying, "it needs its place no longer")
	require.Less(t, at[last], long/2)
}

// gatherer is what the window of an app asks of a worker.
type gatherer struct{}

func (*gatherer) Gather(context.Context, time.Duration) error { return nil }
