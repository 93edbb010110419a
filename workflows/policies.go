package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// All timeouts, retries and bounds of the workflows.
const (
	// heartbeatTimeout is how long a dead worker is waited for; a new attempt then starts within the first
	// retry interval. The budget from kill to going on is 15 s.
	heartbeatTimeout = 10 * time.Second
	// progressInterval is the least time between two reports of an app to its operation.
	progressInterval = 500 * time.Millisecond
	// openLeaves bounds the leaves of one app that are at work at a time. Leaves whose cluster does not
	// answer do not count: a dead cluster never holds up a live one.
	openLeaves = 30
	// batchSize is the number of clusters from which an app's work is split, which keeps every history
	// far below 10,000 events.
	batchSize = 250
)

// quick is for calls to the store: they are tried until they get through, as without them there is no
// truth to go on from. They are short enough to do without heartbeats.
func quick(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           LifecycleQueue,
		StartToCloseTimeout: heartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
		},
	})
}

// preparing is for rendering and planning, which a caller waits for.
func preparing(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              LifecycleQueue,
		StartToCloseTimeout:    2 * time.Minute,
		ScheduleToCloseTimeout: 3 * time.Minute,
		HeartbeatTimeout:       heartbeatTimeout,
		WaitForCancellation:    true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
		},
	})
}

// waiting is for an activity that may take long, because it waits for another workflow to close or goes
// over all leaves.
func waiting(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           LifecycleQueue,
		StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:    heartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
		},
	})
}

// clusterWork is for applying and deleting: for ever, until stop or terminate. The interval's cap is how
// long a cluster that is back may have to wait.
func clusterWork(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           KubeQueue,
		StartToCloseTimeout: 24 * time.Hour,
		HeartbeatTimeout:    heartbeatTimeout,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
		},
	})
}

// child is for the children of the tree. A child ends in order when it is cancelled; when its parent is
// killed by hand it goes too.
func child(ctx workflow.Context, id string, attributes temporal.SearchAttributes, summary string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		TaskQueue:             LifecycleQueue,
		WaitForCancellation:   true,
		TypedSearchAttributes: attributes,
		StaticSummary:         summary,
	})
}
