package temporal_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/deploy/local/temporal"
)

// Touch is an activity that does nothing, so that a benchmark measures what it
// costs to get there and back; unless a test holds it up.
func Touch(ctx context.Context) (int, error) {
	if until := hold.Load(); until != nil {
		select {
		case <-*until:
		case <-ctx.Done():
		}
	}
	return 1, ctx.Err()
}

// hold is closed when Touch may end; nil for at once.
var hold atomic.Pointer[chan struct{}]

var touchOptions = workflow.ActivityOptions{StartToCloseTimeout: time.Minute}

// One runs one activity.
func One(ctx workflow.Context) (int, error) {
	var n int
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, touchOptions), Touch).Get(ctx, &n)
	return n, err
}

// Accept runs one activity when it is updated, answers, and ends: how an
// instantiate is accepted.
func Accept(ctx workflow.Context) error {
	accepted := false
	err := workflow.SetUpdateHandler(ctx, "accept", func(ctx workflow.Context) (int, error) {
		defer func() { accepted = true }()
		return One(ctx)
	})
	if err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return accepted })
}

// acceptance starts Accept, which must not be running, and waits for its answer.
func acceptance(c client.Client, id string) client.UpdateWithStartWorkflowOptions {
	return client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID:                       id,
			TaskQueue:                taskQueue,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		}, Accept),
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateName:   "accept",
			WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	}
}

// FanOut runs One as n children of which window are open at a time.
func FanOut(ctx workflow.Context, n, window int) (int, error) {
	var open, done int
	var failed error
	for range n {
		if err := workflow.Await(ctx, func() bool { return open < window }); err != nil {
			return 0, err
		}
		open++
		child := workflow.ExecuteChildWorkflow(ctx, One)
		workflow.Go(ctx, func(ctx workflow.Context) {
			if err := child.Get(ctx, nil); err != nil {
				failed = err
			}
			open--
			done++
		})
	}
	err := workflow.Await(ctx, func() bool { return open == 0 })
	if err == nil {
		err = failed
	}
	return done, err
}

// Queried ends at once and answers a query.
func Queried(ctx workflow.Context) error {
	return workflow.SetQueryHandler(ctx, "state", func() (string, error) { return "closed", nil })
}

// benchServer is a server on disk with a client and a worker.
func benchServer(b *testing.B) client.Client {
	b.Helper()
	s := start(b, temporal.Config{DBFile: filepath.Join(b.TempDir(), "temporal.db")})
	c := dial(b, s)
	b.Cleanup(work(b, c))
	return c
}

// BenchmarkLoneWorkflow is one workflow with one activity, start to result.
func BenchmarkLoneWorkflow(b *testing.B) {
	c := benchServer(b)
	for b.Loop() {
		run, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{TaskQueue: taskQueue}, One)
		if err != nil {
			b.Fatal(err)
		}
		if err := run.Get(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUpdateWithStart starts a workflow and waits for the answer of an
// update that runs one activity.
func BenchmarkUpdateWithStart(b *testing.B) {
	c := benchServer(b)
	i := 0
	for b.Loop() {
		i++
		update, err := c.UpdateWithStartWorkflow(b.Context(), acceptance(c, fmt.Sprint("accept-", i)))
		if err != nil {
			b.Fatal(err)
		}
		if err := update.Get(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFanOut is a workflow with 100 children of one activity each, 30 open
// at a time.
func BenchmarkFanOut(b *testing.B) { fanOut(b, benchServer(b)) }

func fanOut(b *testing.B, c client.Client) {
	b.Helper()
	const children, window = 100, 30
	for b.Loop() {
		run, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{TaskQueue: taskQueue}, FanOut, children, window)
		if err != nil {
			b.Fatal(err)
		}
		var done int
		if err := run.Get(b.Context(), &done); err != nil {
			b.Fatal(err)
		}
		if done != children {
			b.Fatalf("%d of %d children done", done, children)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N)/children, "ms/child")
}

// BenchmarkQueryClosed queries a workflow that has ended.
func BenchmarkQueryClosed(b *testing.B) {
	c := benchServer(b)
	run, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{TaskQueue: taskQueue}, Queried)
	if err != nil {
		b.Fatal(err)
	}
	if err := run.Get(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := c.QueryWorkflow(b.Context(), run.GetID(), run.GetRunID(), "state"); err != nil {
			b.Fatal(err)
		}
	}
}
