package engine

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/client"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/workflows"
)

// Watch implements activities.Shards.
func (e *Engine) Watch(ctx context.Context, shard int, w activities.Watching) error {
	if len(w.Clusters) == 0 {
		return e.signalWatch(ctx, shard, workflows.WatchSignal, w)
	}
	return e.sent(ctx, workflow(workflows.WatchID(shard)), func(ctx context.Context) error {
		id := workflows.WatchID(shard)
		_, err := e.temporal.SignalWithStartWorkflow(ctx, id, workflows.WatchSignal, w, client.StartWorkflowOptions{
			ID: id, TaskQueue: workflows.LifecycleQueue,
			TypedSearchAttributes: workflows.WatchAttributes(), StaticSummary: workflows.WatchSummary(shard),
		}, workflows.WatchClustersName, workflows.WatchInput{Shard: shard})
		return err
	})
}

// Unwatch implements activities.Shards.
func (e *Engine) Unwatch(ctx context.Context, shard int, contextID string) error {
	return e.signalWatch(ctx, shard, workflows.UnwatchSignal, contextID)
}

// StopWatching implements service.Engine. Which shards have clusters of the context nobody need know.
func (e *Engine) StopWatching(ctx context.Context, contextID string) error {
	g, ctx := panics.WithContext(ctx)
	for shard := range activities.WatchShards {
		g.Go(func() error { return e.Unwatch(ctx, shard, contextID) })
	}
	return g.Wait()
}

// Heard implements activities.Shards.
func (e *Engine) Heard(ctx context.Context, shard int, h activities.Heard) error {
	return e.signalWatch(ctx, shard, workflows.HeardSignal, h)
}

// signalWatch signals a shard; one that does not run need not know.
func (e *Engine) signalWatch(ctx context.Context, shard int, signal string, arg any) error {
	err := e.call(ctx, workflow(workflows.WatchID(shard)), func(ctx context.Context) error {
		return e.temporal.SignalWorkflow(ctx, workflows.WatchID(shard), "", signal, arg)
	})
	if fail.Is(err, fail.NotFound) {
		return nil
	}
	return err
}

// Changes implements activities.Shards. Temporal is asked by long polls; a question is one update, however often it
// is asked.
func (e *Engine) Changes(ctx context.Context, shard int, in activities.ChangesInput) (*activities.WatchSet, error) {
	handle, err := e.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflows.WatchID(shard), UpdateName: workflows.ChangesUpdate, Args: []any{in},
		UpdateID:     fmt.Sprintf("%s/%d/%d/%d", workflows.ChangesUpdate, in.Term, in.Attempt, in.Generation),
		WaitForStage: client.WorkflowUpdateStageAccepted,
	})
	if err != nil {
		return nil, kindOf(err, workflow(workflows.WatchID(shard)))
	}
	var set activities.WatchSet
	if err := handle.Get(ctx, &set); err != nil {
		return nil, kindOf(err, workflow(workflows.WatchID(shard)))
	}
	return &set, nil
}
