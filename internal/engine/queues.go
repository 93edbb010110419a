package engine

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/drover-io/drover/internal/domain"
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

// Backlogs are what waits in the task queues of a namespace.
func (e *Engine) Backlogs(ctx context.Context, namespace string) ([]Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	var found []Backlog
	for _, q := range queues {
		r, err := e.temporal.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: q.name}, TaskQueueType: q.kind, ReportStats: true,
		})
		if err != nil {
			return nil, kindOf(err, "task queue "+q.name)
		}
		s := r.GetStats()
		found = append(found, Backlog{q.name, q.task, s.GetApproximateBacklogCount(), s.GetApproximateBacklogAge().AsDuration()})
	}
	return found, nil
}

// RunningByOperation is how many operations go on, by what was asked for. It asks Temporal's visibility, which may be a moment late.
func (e *Engine) RunningByOperation(ctx context.Context) (map[domain.Operation]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Describe)
	defer cancel()
	found := map[domain.Operation]int64{}
	for _, op := range workflows.Operations() {
		r, err := e.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Query: workflows.OperationsQuery(workflows.Wanted{Operation: op, Open: true}),
		})
		if err != nil {
			return nil, kindOf(err, "the number of operations")
		}
		found[op] = r.GetCount()
	}
	return found, nil
}
