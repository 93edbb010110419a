package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// cutOff says that nobody vouches for the report: in the form of EMCO 22.x.
func cutOff(r *reportedStatus) bool {
	c := r.Apps[0].Clusters[0]
	return c.Connectivity == "Retrying" && c.Stale && c.Reason != ""
}

// TestClusterStatusOfAClusterThatIsCutOff: the old report is shown as old, since when and why.
func TestClusterStatusOfAClusterThatIsCutOff(t *testing.T) {
	t.Parallel()
	ctx, s, c := within(t), harness.NewStack(t), harness.NewCluster(t, harness.ClusterNames[0])
	cutOffAndBack(ctx, t, s, c, "agentless", func(up int) {
		watched(ctx, t, s, fmt.Sprintf("| 1 | %d | %d | 0 |", up, 1-up), c.Name+" | 1 |")
	})
}

// cutOffAndBack deploys to a cluster, cuts the way to it off and makes it again. seen is called when it has been seen that
// 0 or 1 clusters are heard.
func cutOffAndBack(ctx context.Context, t *testing.T, s *harness.Stack, c *harness.Cluster, how domain.Report, seen func(up int)) *client.Deployment {
	t.Helper()
	d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, c, how)}, reportedApp(t))
	began := time.Now()
	do(ctx, t, d, "approve", "instantiate")
	reports(ctx, t, s, d, "status=ready", ready(1))
	c.Down()
	got := fresh(ctx, t, s, d, "status=ready", cutOff)
	require.Equal(t, "NotReady", got.Ready)
	require.NotNil(t, got.Apps[0].Clusters[0].SeenLast)
	require.WithinRange(t, *got.Apps[0].Clusters[0].SeenLast, began, time.Now())
	pod := got.of("Pod")[0]
	require.Equal(t, []string{"NotReady", "Ready"}, []string{pod.Ready, pod.Was}, "what it was is said, but nobody relies on it")
	got = fresh(ctx, t, s, d, "type=cluster", cutOff)
	require.Equal(t, map[string]int{"Unknown": got.Counts["Unknown"]}, got.Counts)
	require.NotNil(t, got.Apps[0].Clusters[0].LastSeen)
	require.Equal(t, "Present", got.of("Pod")[0].Last)
	seen(0)
	scale(ctx, t, c, d, 2)
	c.Up(t)
	reports(ctx, t, s, d, "status=ready", ready(2))
	seen(1)
	return d
}

// clusterStatusWithoutAnAPIServer: what clusters report is old as long as nobody can ask them, however they report.
func clusterStatusWithoutAnAPIServer(t *testing.T) {
	ctx, s, clusters := within(t), harness.SharedStack(t), clustersOfAgents(t)
	clusters[1].DefineReports(t)
	agent := clusters[1].StartAgent(t)
	agentless := s.On(ctx, []domain.ClusterName{register(ctx, t, s, clusters[0], "agentless")}, reportedApp(t))
	do(ctx, t, agentless, "approve", "instantiate")
	reports(ctx, t, s, agentless, "status=ready", ready(1))
	deployments := []*client.Deployment{agentless, cutOffAndBack(ctx, t, s, clusters[1], "agent", func(int) {})}

	again := harness.KillAPIServers(t)
	for _, d := range deployments {
		fresh(ctx, t, s, d, "status=ready", cutOff)
	}
	again()
	for i, d := range deployments {
		reports(ctx, t, s, d, "status=ready", ready(1+i))
		scale(ctx, t, clusters[i], d, 3)
		reports(ctx, t, s, d, "status=ready", ready(3))
		terminate(ctx, t, s, d, clusters[i])
	}
	require.True(t, agent.Alive(), "the agent has outlived its API server")
}

// watched waits until a person sees a watch whose details have all of the lines in the Web UI, where they come some
// seconds later.
func watched(ctx context.Context, t *testing.T, s *harness.Stack, lines ...string) {
	t.Helper()
	temporal := s.TemporalClient()
	harness.Until(ctx, t, fmt.Sprintf("a watch with %q", lines), func() bool {
		runs, err := temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: "drover", Query: `DroverOperation = "watch" AND ExecutionStatus = "Running"`,
		})
		require.NoError(t, err)
		for _, run := range runs.GetExecutions() {
			var metadata sdkpb.WorkflowMetadata
			answer, err := temporal.QueryWorkflow(ctx, run.GetExecution().GetWorkflowId(), "", "__temporal_workflow_metadata")
			require.NoError(t, err)
			require.NoError(t, answer.Get(&metadata))
			if !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(metadata.GetCurrentDetails(), line) }) {
				return true
			}
		}
		return false
	})
}
