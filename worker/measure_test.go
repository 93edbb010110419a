package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/span/spantest"
	"github.com/drover-io/drover/internal/telemetry"
	"github.com/drover-io/drover/workflows"
)

// shown are the series of a metric that this process shows.
func shown(t *testing.T, name string) []*dto.Metric {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := telemetry.Metrics("worker")
	require.NoError(t, err)
	require.NoError(t, registry.Register(metrics))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

// durations are how many leaves were measured, by work and outcome.
func durations(t *testing.T) map[[2]string]uint64 {
	t.Helper()
	found := map[[2]string]uint64{}
	for _, m := range shown(t, "drover_leaf_duration_seconds") {
		found[[2]string{m.GetLabel()[1].GetValue(), m.GetLabel()[0].GetValue()}] = m.GetHistogram().GetSampleCount()
	}
	return found
}

// TestTheFirstFailureIsSeen: Prometheus sees an increase only of a series that was there before.
func TestTheFirstFailureIsSeen(t *testing.T) {
	shown(t, "") // the process measures
	t.Cleanup(activities.Measure(activities.NewKube(nil, nil, nil, nil, nil), &activities.Watch{Now: time.Now}))
	for _, o := range []domain.Operation{
		domain.OpInstantiate, domain.OpUpdate, domain.OpRollback, domain.OpMigrate, domain.OpTerminate,
	} {
		for _, outcome := range []string{measure.Done, measure.Failed, measure.Stopped} {
			require.True(t, slices.ContainsFunc(shown(t, "drover_operations_ended_total"), func(m *dto.Metric) bool {
				return m.GetLabel()[0].GetValue() == string(o) && m.GetLabel()[1].GetValue() == outcome && m.GetCounter().GetValue() == 0
			}), "%s %s", o, outcome)
		}
	}
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
		"halted":  {in: activities.LeafInput{Scope: domain.Scope{Operation: domain.OpInstantiate}}, marks: "1A1s", work: "apply", of: "stopped"},
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

// TestWhatIsHandedOverHasNotFailed: a first try in a workflow's task that is not enough is followed by an activity, which is no retry.
func TestWhatIsHandedOverHasNotFailed(t *testing.T) {
	ended := func(outcome string) (n float64) {
		for _, m := range shown(t, "drover_attempts_total") {
			if m.GetLabel()[0].GetValue() == "FailWhenCancelled" && m.GetLabel()[2].GetValue() == outcome {
				n += m.GetCounter().GetValue()
			}
		}
		return n
	}
	shown(t, "") // the process measures
	others := func() float64 { return ended("Unavailable") + ended(measure.Canceled) }
	before, failed := ended(measure.HandedOver), others()
	r := spantest.Record(t)
	f := &failing{err: activities.ErrNotAtOnce}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it is out of time
	env := newEnvironment(ctx, t, f)
	env.SetWorkerOptions(sdkworker.Options{
		Interceptors: []interceptor.WorkerInterceptor{newKinds(), newTracing()}, BackgroundActivityContext: span.Below(ctx, span.Parse(traced)),
	})
	_, err := env.ExecuteActivity(f.FailWhenCancelled)
	require.Error(t, err)
	require.InDelta(t, before+1, ended(measure.HandedOver), 0)
	require.InDelta(t, failed, others(), 0)
	for _, s := range r.Ended() {
		require.Zero(t, s.Status().Code)
		require.Contains(t, s.Attributes(), span.String(span.Outcome, measure.HandedOver))
	}
	require.NotEmpty(t, r.Ended())
}

// TestWindowsAreMeasured: what apps tell of their windows is added up, and a run that is over, or not in memory any more, counts no more.
func TestWindowsAreMeasured(t *testing.T) {
	shown(t, "") // the process measures
	w := &windows{of: map[string]workflows.WindowState{}}
	t.Cleanup(measure.Read(w.say, measure.Windows, measure.WindowLeaves))
	stands := func() map[string]float64 {
		found := map[string]float64{}
		for _, name := range []string{"drover_app_windows", "drover_app_window_leaves"} {
			for _, m := range shown(t, name) {
				found[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		return found
	}
	none := map[string]float64{"free": 0, "full": 0, "slots": 0, "at work": 0, "outside": 0, "waiting": 0}
	require.Equal(t, none, stands())
	w.Tell("a", workflows.WindowState{Slots: 30, AtWork: 30, Outside: 2, Waiting: 7})
	w.Tell("b", workflows.WindowState{Slots: 15, AtWork: 20, Outside: 1})
	w.Tell("b", workflows.WindowState{Slots: 15, AtWork: 4, Outside: 1})
	require.Equal(t, map[string]float64{"free": 1, "full": 1, "slots": 45, "at work": 34, "outside": 3, "waiting": 7}, stands())
	w.End("a")
	w.End("b")
	require.Equal(t, none, stands())
}
