package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/workflows"
)

// busy is a Temporal that takes its time for each call.
type busy struct {
	client.Client
	takes time.Duration
}

func (b busy) WorkflowService() workflowservice.WorkflowServiceClient { return busyService{busy: b} }

// busyService is the same one as its own protocol knows it.
type busyService struct {
	workflowservice.WorkflowServiceClient
	busy busy
}

func (b busy) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.takes):
		return nil
	}
}

func (b busyService) DescribeTaskQueue(ctx context.Context, in *workflowservice.DescribeTaskQueueRequest, _ ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Stats: &taskqueuepb.TaskQueueStats{ApproximateBacklogCount: int64(len(in.TaskQueue.Name))}}, b.busy.wait(ctx)
}

func (b busy) CountWorkflow(ctx context.Context, _ *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	return &workflowservice.CountWorkflowExecutionsResponse{Count: 2}, b.wait(ctx)
}

// TestABusyTemporalIsMeasured: all is asked for at once, as what measures does not wait for as many answers one after the other.
func TestABusyTemporalIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine.New(busy{takes: policy.Measure * 3 / 4})
		ctx, cancel := context.WithTimeout(t.Context(), policy.Measure)
		defer cancel()
		queues, err := e.Backlogs(ctx, "default")
		require.NoError(t, err)
		require.Len(t, queues, 5)
		for _, q := range queues {
			require.EqualValues(t, len(q.Queue), q.Tasks, q.Queue)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := engine.New(busy{takes: policy.Measure * 3 / 4})
		ctx, cancel := context.WithTimeout(t.Context(), policy.Measure)
		defer cancel()
		running, err := e.RunningByOperation(ctx)
		require.NoError(t, err)
		require.Len(t, running, len(workflows.Operations()))
		require.EqualValues(t, 2, running[domain.OpUpdate])
	})
}
