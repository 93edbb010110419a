package test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchpb "go.temporal.io/api/batch/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// TestWatchesGoBack to the last release, which knows no WatchManyClusters: as docs/how-to/production.md has it, these are ended while the
// present workers run, which watch again what they watched, and the last release goes on with that.
func TestWatchesGoBack(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(built.Root(t), "build", "bin", released)); err != nil {
		t.Skipf("%s: the program of the last release is not built (deploy/tools/release.sh build)", err)
	}
	ctx, s, c := within(t), harness.NewStack(t), harness.NewCluster(t, harness.ClusterNames[0])
	temporal := s.TemporalClient()
	name := register(ctx, t, s, c, "agentless")
	d := s.On(ctx, []domain.ClusterName{name}, reportedApp(t))
	do(ctx, t, d, "approve", "instantiate")
	contextID := s.Await(ctx, d, "Instantiated").States.ContextID()
	reports(ctx, t, s, d, "status=ready", ready(1))
	shard := -1
	for n := range activities.WatchShards {
		if run, err := temporal.DescribeWorkflowExecution(ctx, workflows.WatchID(n), ""); err == nil && run.GetWorkflowExecutionInfo().GetCloseTime() == nil {
			shard = n
		}
	}
	require.GreaterOrEqual(t, shard, 0)
	many := temporalclient.StartWorkflowOptions{ID: workflows.WatchID(shard), TaskQueue: workflows.LifecycleQueue}
	require.NoError(t, temporal.TerminateWorkflow(ctx, many.ID, "", "it has become one of many"))
	_, err := temporal.ExecuteWorkflow(ctx, many, workflows.WatchManyClustersName, workflows.WatchManyInput{
		Shard: shard, Generation: 1, Term: 1, Clusters: []domain.ClusterName{name},
		Claims: []workflows.ClaimOnMany{{Claim: workflows.Claim{ContextID: contextID, Began: time.Now()}, On: []int{0, 1}}},
	})
	require.NoError(t, err)
	heard := func(pods int32) {
		scale(ctx, t, c, d, pods)
		reports(ctx, t, s, d, "status=ready", func(r *reportedStatus) bool { return ready(int(pods))(r) && !r.Apps[0].Clusters[0].Stale })
	}
	heard(2)

	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.WatchManyClustersName)
	running := func(query string) int64 {
		count, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: "drover", Query: query})
		require.NoError(t, err)
		return count.GetCount()
	}
	harness.Until(ctx, t, "Temporal finds it", func() bool { return running(query) == 1 })
	_, err = temporal.WorkflowService().StartBatchOperation(ctx, &workflowservice.StartBatchOperationRequest{ // temporal workflow terminate --query
		Namespace: "drover", VisibilityQuery: query, JobId: "back", Reason: "back to the release before",
		Operation: &workflowservice.StartBatchOperationRequest_TerminationOperation{TerminationOperation: &batchpb.BatchOperationTermination{}},
	})
	require.NoError(t, err)
	harness.Until(ctx, t, "it has ended", func() bool { return running(query) == 0 })
	require.NoError(t, temporal.GetWorkflow(ctx, sweep(ctx, t, temporal), "").Get(ctx, nil))
	heard(3)

	s.Worker.Kill()
	s.API.Kill()
	s.Use(released)
	s.StartAPI()
	s.Worker = s.AddWorker("DROVER_WORKER_VERSIONING=force")
	heard(1)
}
