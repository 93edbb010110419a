package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/test/harness"
)

// bare runs workflows that do nothing, on the Temporal of a stack and as the product's worker does: what a tree of workflows costs whoever
// has one.
type bare struct {
	client temporalclient.Client
	number int // of trees
}

const bareQueue = "bare"

// startBare starts a worker in this process.
func startBare(t testing.TB, s *harness.Stack) *bare {
	t.Helper()
	b := &bare{client: s.DialTemporal(temporalclient.ConnectionOptions{})}
	w := worker.New(b.client, bareQueue, worker.Options{
		MaxConcurrentWorkflowTaskPollers: 8, MaxConcurrentActivityTaskPollers: 4, StickyScheduleToStartTimeout: policy.Sticky,
		MaxHeartbeatThrottleInterval: policy.Throttle,
	})
	for name, f := range map[string]any{"BareTree": bareTree, "BareApp": bareApp, "BareLeaf": bareLeaf, "BareOpenLeaf": bareOpenLeaf, "BareWorkingLeaf": bareWorkingLeaf} {
		w.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	w.RegisterActivityWithOptions(untilCancelled, activity.RegisterOptions{Name: "UntilCancelled"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return b
}

// bareInput is a tree: so many apps, each with so many leaves of a kind, of which so many are at work at a time.
type bareInput struct {
	Apps, Leaves, Window int
	Leaf                 string
}

func bareChild(ctx workflow.Context, i int) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: fmt.Sprintf("%s/%d", workflow.GetInfo(ctx).WorkflowExecution.ID, i), WaitForCancellation: true, WorkflowTaskTimeout: policy.Task,
	})
}

// bareTree is the root.
func bareTree(ctx workflow.Context, in bareInput) error {
	var apps []workflow.Future
	for i := range in.Apps {
		apps = append(apps, workflow.ExecuteChildWorkflow(bareChild(ctx, i), "BareApp", in))
	}
	for _, app := range apps {
		if err := app.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// bareApp runs its leaves, a window of them at a time.
func bareApp(ctx workflow.Context, in bareInput) error {
	whole, _ := workflow.NewDisconnectedContext(ctx)
	open, failed := 0, false
	for i := range in.Leaves {
		if err := workflow.Await(ctx, func() bool { return open < in.Window }); err != nil {
			break
		}
		open++
		leaf := workflow.ExecuteChildWorkflow(bareChild(ctx, i), in.Leaf)
		workflow.Go(whole, func(c workflow.Context) {
			failed = leaf.Get(c, nil) != nil || failed
			open--
		})
	}
	if err := workflow.Await(whole, func() bool { return open == 0 }); err != nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if failed {
		return temporal.NewApplicationError("a leaf has failed", "bare")
	}
	return nil
}

// bareLeaf has a local activity that does nothing.
func bareLeaf(ctx workflow.Context) error {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: policy.Task, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
	return workflow.ExecuteLocalActivity(ctx, nothing).Get(ctx, nil)
}

func nothing(context.Context) error { return nil }

// bareOpenLeaf waits until it is cancelled, and has a local activity then, as whoever records its end.
func bareOpenLeaf(ctx workflow.Context) error {
	ctx.Done().Receive(ctx, nil)
	whole, _ := workflow.NewDisconnectedContext(ctx)
	return bareLeaf(whole)
}

// bareWorkingLeaf has an activity that goes on until it is cancelled, as whoever asks a cluster that hangs.
func bareWorkingLeaf(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: whole, HeartbeatTimeout: policy.Heartbeat, WaitForCancellation: true, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	return workflow.ExecuteActivity(ctx, "UntilCancelled").Get(ctx, nil)
}

func untilCancelled(ctx context.Context) error {
	beat := time.NewTicker(policy.Beat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // in order
		case <-beat.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// start starts a workflow.
func (b *bare) start(ctx context.Context, t testing.TB, name string, args ...any) temporalclient.WorkflowRun {
	t.Helper()
	b.number++
	run, err := b.client.ExecuteWorkflow(ctx, temporalclient.StartWorkflowOptions{
		ID: b.id(), TaskQueue: bareQueue, WorkflowTaskTimeout: policy.Task,
	}, name, args...)
	require.NoError(t, err)
	return run
}

// tree runs a tree to its end, and returns how long that takes.
func (b *bare) tree(ctx context.Context, t testing.TB, in bareInput) time.Duration {
	t.Helper()
	began := time.Now()
	require.NoError(t, b.start(ctx, t, "BareTree", in).Get(ctx, nil))
	return time.Since(began)
}

// id is that of the last workflow that was started, or of one below it.
func (b *bare) id(below ...int) string {
	id := fmt.Sprintf("bare-%d", b.number)
	for _, i := range below {
		id += fmt.Sprintf("/%d", i)
	}
	return id
}

// cancelled has a tree of leaves that never end, waits until the first windows of all apps are open, and returns how long it takes from
// the cancellation to the end of the tree.
func (b *bare) cancelled(ctx context.Context, t testing.TB, in bareInput) time.Duration {
	t.Helper()
	run := b.start(ctx, t, "BareTree", in)
	for i := range in.Apps {
		for n := range min(in.Window, in.Leaves) { // the last one begins last
			if n < min(in.Window, in.Leaves)-1 {
				continue
			}
			for {
				d, err := b.client.DescribeWorkflowExecution(ctx, fmt.Sprintf("%s/%d/%d", run.GetID(), i, n), "")
				if err == nil && d.GetWorkflowExecutionInfo().GetHistoryLength() >= 4 { // its first task is over: begun, and the task scheduled, begun and completed
					break
				}
				require.NoError(t, ctx.Err())
				time.Sleep(calm)
			}
		}
	}
	time.Sleep(time.Second) // all tasks and activities have begun
	began := time.Now()
	require.NoError(t, b.client.CancelWorkflow(ctx, run.GetID(), run.GetRunID()))
	err := run.Get(ctx, nil)
	took := time.Since(began)
	require.True(t, err == nil || temporal.IsCanceledError(err), "%v", err)
	return took
}

// The sizes of what calibrates.
const (
	calibrateApplies = 200
	calibrateLeaves  = 100
	calibrateFsyncs  = 50
	calibrateRounds  = 3
)

// calibrate measures how fast the machine is.
func calibrate(ctx context.Context, p *trial) calibration {
	p.Helper()
	s := harness.NewStack(p)
	a := applyingTo(ctx, p, s)
	b := startBare(p, s)
	tree := bareInput{Apps: 1, Leaves: calibrateLeaves, Window: atOnce / scaleApps, Leaf: "BareLeaf"}
	var applies, children []time.Duration
	for round := range calibrateRounds + 1 {
		apply, child := a.byLoop(ctx, p, calibrateApplies, fmt.Sprint("calibration", round))/calibrateApplies, b.tree(ctx, p, tree)/calibrateLeaves
		if round > 0 { // the first warms up
			applies, children = append(applies, apply), append(children, child)
		}
	}
	syncs := fsyncs(p, s.Dir())
	p.add(
		measured("calibration_clientgo_ms", fmt.Sprintf("an apply of a bare client-go loop, %d at a time", parallel), applies),
		measured("calibration_child_ms", fmt.Sprintf("a bare child workflow with a local activity that does nothing, %d at a time", tree.Window), children),
		measured("calibration_fsync_ms", "4 KiB written and synced", syncs))
	return calibration{ClientGo: percentile(applies, 50), Child: percentile(children, 50), Fsync: percentile(syncs, 50)}
}

// fsyncs are how long it takes to write a page and have it on the disk.
func fsyncs(t testing.TB, dir string) (took []time.Duration) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fsync"))
	require.NoError(t, err)
	defer f.Close()
	page := slices.Repeat([]byte{'x'}, 4096)
	for range calibrateFsyncs {
		began := time.Now()
		_, err := f.Write(page)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		took = append(took, time.Since(began))
	}
	return took
}

// overBare compares round by round what something takes with what it takes bare; 0 is no goal.
func overBare(key, what string, took, bare []time.Duration, bound float64) figure {
	if bound == 0 {
		return ratio(key, what, took, bare, "", nil)
	}
	return ratio(key, what, took, bare, fmt.Sprintf("≤ %g", bound), func(r float64) bool { return r <= bound })
}
