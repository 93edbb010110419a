package engine

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/workflows"
)

// Backlog is what waits in a task queue.
type Backlog struct {
	Queue, Task string // the queue's name, and "workflow" or "activity"
	Tasks       int64  // that no worker has taken yet, as Temporal estimates them
	Age         time.Duration
}

// queues are those that workers poll, and for what.
var queues = []struct {
	name, task string
	kind       enumspb.TaskQueueType
}{
	{workflows.LifecycleQueue, "workflow", enumspb.TASK_QUEUE_TYPE_WORKFLOW},
	{workflows.LifecycleQueue, "activity", enumspb.TASK_QUEUE_TYPE_ACTIVITY},
	{workflows.KubeQueue, "activity", enumspb.TASK_QUEUE_TYPE_ACTIVITY},
	{workflows.WatchQueue, "activity", enumspb.TASK_QUEUE_TYPE_ACTIVITY},
	{workflows.WaitQueue, "activity", enumspb.TASK_QUEUE_TYPE_ACTIVITY},
}

// Backlogs are what waits in the task queues of a namespace. All are asked for at once: who wants to know gives them little time.
func (e *Engine) Backlogs(ctx context.Context, namespace string) ([]Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	found := make([]Backlog, len(queues))
	g, all := panics.WithContext(ctx)
	for n, q := range queues {
		g.Go(func() error {
			r, err := e.temporal.WorkflowService().DescribeTaskQueue(all, &workflowservice.DescribeTaskQueueRequest{
				Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: q.name}, TaskQueueType: q.kind, ReportStats: true,
			})
			if err != nil {
				return kindOf(err, "task queue "+q.name)
			}
			s := r.GetStats()
			found[n] = Backlog{q.name, q.task, s.GetApproximateBacklogCount(), s.GetApproximateBacklogAge().AsDuration()}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return found, nil
}

// RunningByOperation is how many operations go on, by what was asked for. It asks Temporal's visibility, which may be a moment late, for
// all at once.
func (e *Engine) RunningByOperation(ctx context.Context) (map[domain.Operation]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	operations := workflows.Operations()
	counts := make([]int64, len(operations))
	g, all := panics.WithContext(ctx)
	for n, op := range operations {
		g.Go(func() error {
			r, err := e.temporal.CountWorkflow(all, &workflowservice.CountWorkflowExecutionsRequest{
				Query: workflows.OperationsQuery(workflows.Wanted{Operation: op, Open: true}),
			})
			if err != nil {
				return kindOf(err, "the number of operations")
			}
			counts[n] = r.GetCount()
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	found := map[domain.Operation]int64{}
	for n, op := range operations {
		found[op] = counts[n]
	}
	return found, nil
}
