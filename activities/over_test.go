package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
)

// TestWhatHasEndedSendsNothing: a leaf whose operation has ended by its record, as where Temporal's database was restored, asks its cluster for nothing, and
// what is recorded of the leaf stays. Without a record of it the workflow is told, and what that records of the leaf comes to nothing.
func TestWhatHasEndedSendsNothing(t *testing.T) {
	t.Parallel()
	for _, op := range []domain.Operation{domain.OpInstantiate, domain.OpTerminate} {
		l := newLeaf(t, op, 0, 0)
		l.in.Began = 7
		at := func(ended time.Time) {
			require.NoError(t, l.store.PutInstance(t.Context(), &domain.Instance{ContextID: "1", Operation: op, Began: 7, Ended: ended}))
		}
		if op == domain.OpTerminate {
			at(time.Unix(1, 0))
			_, err := l.run()
			require.True(t, fail.Is(err, fail.Conflict), "%v", err)
			control := &activities.Control{Store: l.store}
			require.NoError(t, control.RecordLeaf(t.Context(), domain.Leaf{
				ContextID: "1", Operation: op, App: l.in.App, Cluster: l.in.Cluster, Marks: "2s", Turn: l.in.Turn(activities.ByWorkflow, 0),
			}))
			require.Empty(t, l.store.leaves)
			require.Zero(t, l.asked())
			continue
		}
		at(time.Time{})
		_, err := l.run()
		require.NoError(t, err)
		sent := l.asked()
		require.Positive(t, sent)

		l.connect(kube.Config{Request: time.Minute})
		was := *l.recorded()
		require.NoError(t, l.store.DeleteInstance(t.Context(), "1"))
		at(time.Unix(1, 0))
		end, err := l.run()
		require.NoError(t, err)
		require.Equal(t, was.Marks, end.Marks)
		require.Equal(t, was, *l.recorded())
		require.Equal(t, sent, l.asked())
	}
}
