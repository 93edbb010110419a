package workflows_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/workflows"
)

// TestAttemptsThatWereFrozen say nothing of their cluster: another one does the work.
func TestAttemptsThatWereFrozen(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "a")
	w.clusters.acts["a"] = func(ctx context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		if info := activity.GetInfo(ctx); info.IsLocalActivity || info.Attempt < 3 {
			return nil, workflows.ToTemporal(lease.ErrLost, info.Attempt)
		}
		return w.clusters.end(ctx, in, domain.NewMarks(in.Resources, domain.MarkApplied))
	}
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, out.Status)
	require.Equal(t, 4, w.clusters.asked["a"])
	require.Empty(t, w.leaf("a").LastError)
}

// TestRunsAreToldApart: what is recorded says in which run of the operation.
func TestRunsAreToldApart(t *testing.T) {
	w := newWorld(t, domain.OpInstantiate, 1, "broken")
	var began int64
	w.clusters.acts["broken"] = func(_ context.Context, in activities.LeafInput) (*domain.Leaf, error) {
		began = in.Began
		return nil, workflows.ToTemporal(fail.New(fail.Invalid, "kubeconfig is broken"), 1)
	}
	_, err := w.run()
	require.NoError(t, err)
	require.NotZero(t, began)
	require.Equal(t, began, w.store.instances[contextID].Began)
	in := activities.LeafInput{Scope: domain.Scope{Began: began}}
	require.Equal(t, in.Turn(activities.ByWorkflow, 0), w.leaf("broken").Turn)
	require.True(t, in.Turn(activities.ByAttempt, 1000).Before(w.leaf("broken").Turn))
}
