package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/workflows"
)

// TestTerminateWaitsForWhatOutlivesItsDeletion until it is stopped between two attempts. Then the leaf's record says what is
// left, and what it waits for.
func TestTerminateWaitsForWhatOutlivesItsDeletion(t *testing.T) {
	w := newWorld(t, domain.OpTerminate, 1, "held", "free")
	notes := []domain.Note{{Index: 1, Message: "waits for finalizer example.com/held"}}
	w.clusters.acts["held"] = func(ctx context.Context, _ activities.LeafInput) (*domain.Leaf, error) {
		err := fail.New(fail.Unavailable, "waits until ConfigMap b is gone")
		if activity.GetInfo(ctx).Attempt == 1 {
			activity.RecordHeartbeat(ctx, activities.Contact{
				Connectivity: domain.ConnectivityAvailable, Marks: "1D1L", Reason: err.Message, Notes: notes,
			})
		}
		err.RetryAfter = time.Hour
		return nil, workflows.ToTemporal(err, activity.GetInfo(ctx).Attempt)
	}
	w.at(midway, func() {
		require.Equal(t, domain.ContextTerminating, ask[workflows.OperationProgress](w, workflows.OperationID(w.scope)).Status)
		app := ask[workflows.AppDetail](w, workflows.AppID(w.scope, "app0", 0, 0))
		require.Len(t, app.Open, 1)
		require.Equal(t, notes, app.Open[0].Notes)
		require.Equal(t, "waits until ConfigMap b is gone", app.Open[0].Reason)
		require.Equal(t, workflows.Counts{domain.ResourceDeleted: 3, domain.ResourceRetrying: 1},
			ask[workflows.OperationProgress](w, workflows.OperationID(w.scope)).Apps[0].Counts)
	})
	w.update(workflows.StopUpdate, midway+time.Second)
	out, err := w.run()
	require.NoError(t, err)
	require.Equal(t, domain.ContextTerminateFailed, out.Status)
	require.Equal(t, map[domain.ResourceState]int{domain.ResourceDeleted: 3, domain.ResourceFailed: 1}, out.Counts)
	require.Equal(t, "1D1L", w.leaf("held").Marks)
	require.Equal(t, notes, w.leaf("held").Notes)
}
