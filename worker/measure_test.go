package worker

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/telemetry"
	"github.com/drover-io/drover/workflows"
)

// durations are how many leaves were measured, by work and outcome.
func durations(t *testing.T) map[[2]string]uint64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := telemetry.Metrics("worker")
	require.NoError(t, err)
	require.NoError(t, registry.Register(metrics))
	families, err := registry.Gather()
	require.NoError(t, err)
	found := map[[2]string]uint64{}
	for _, f := range families {
		if f.GetName() == "drover_leaf_duration_seconds" {
			for _, m := range f.GetMetric() {
				found[[2]string{m.GetLabel()[1].GetValue(), m.GetLabel()[0].GetValue()}] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	return found
}

// TestLeavesAreMeasured once each, by what came of them.
func TestLeavesAreMeasured(t *testing.T) {
	applied, failed := domain.NewMarks(2, domain.MarkApplied).Encode(), domain.NewMarks(2, domain.MarkRefused).Encode()
	for name, c := range map[string]struct {
		in       activities.LeafInput
		marks    string
		cancel   bool
		work, of string
	}{
		"applied": {in: activities.LeafInput{Scope: domain.Scope{Operation: domain.OpInstantiate}}, marks: applied, work: "apply", of: "done"},
		"refused": {in: activities.LeafInput{Scope: domain.Scope{Operation: domain.OpInstantiate}}, marks: failed, work: "apply", of: "failed"},
		"pruned":  {in: activities.LeafInput{Scope: domain.Scope{Operation: domain.OpUpdate}, Prune: true}, marks: applied, work: "delete", of: "done"},
		"stopped": {
			in: activities.LeafInput{Scope: domain.Scope{Operation: domain.OpTerminate}}, marks: applied, cancel: true, work: "delete", of: "stopped",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := durations(t)
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.SetTestTimeout(time.Minute)
			env.SetWorkerOptions(sdkworker.Options{Interceptors: []interceptor.WorkerInterceptor{&measuring{}}})
			env.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ activities.LeafInput) (*workflows.ClusterProgress, error) {
				if c.cancel {
					ctx.Done().Receive(ctx, nil)
				}
				return &workflows.ClusterProgress{Marks: c.marks}, nil
			}, workflow.RegisterOptions{Name: workflows.ApplyToClusterName})
			if c.cancel {
				env.RegisterDelayedCallback(env.CancelWorkflow, time.Second)
			}
			env.ExecuteWorkflow(workflows.ApplyToClusterName, c.in)
			require.NoError(t, env.GetWorkflowError())
			after, key := durations(t), [2]string{c.work, c.of}
			require.Equal(t, before[key]+1, after[key])
			before[key]++
			require.Equal(t, before, after, "and nothing else")
		})
	}
}
