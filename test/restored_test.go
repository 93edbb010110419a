package test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// TestTemporalComesBackAsItWas, and the store does not: runs that were at work then go on, and the store says that these operations have ended, and
// what came after them. They write to no cluster, and end.
func TestTemporalComesBackAsItWas(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.NewStack(t), twoClusters(t)
	gone, live := s.Deployment(ctx, clusters[:1], many(t, 60)), s.Deployment(ctx, clusters[1:], many(t, 60))
	do(ctx, t, gone, "approve")
	do(ctx, t, live, "approve", "instantiate")
	s.Await(ctx, live, "Instantiated")
	applies := midway(ctx, t, gone, clusters[:1], "instantiate", 60)
	deletes := midway(ctx, t, live, clusters[1:], "terminate", 60)
	s.Temporal.Kill()
	restore := s.KeepTemporal()
	s.StartTemporal()

	applies()
	instantiated := s.Await(ctx, gone, "Instantiated").States.ContextID()
	do(ctx, t, gone, "terminate")
	s.Await(ctx, gone, "Terminated")
	do(ctx, t, live, "stop")
	terminated := s.Await(ctx, live, "TerminateFailed").States.ContextID()
	deletes()
	do(ctx, t, live, "instantiate")
	is := s.Await(ctx, live, "Instantiated")
	require.Len(t, clusters[1].Labelled(t, terminated), 60, "it has taken over from what the terminate has left")

	for _, p := range []*harness.Process{s.API, s.Worker, s.Temporal} {
		p.Kill()
	}
	var written atomic.Int32
	harm(clusters, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet {
			written.Add(1)
			t.Log(r.Method, r.URL)
		}
		next.ServeHTTP(w, r)
	})
	restore()
	s.StartTemporal()
	s.StartAPI()
	s.StartWorker()
	temporal := s.TemporalClient()
	for _, of := range []domain.Scope{scope(gone, instantiated, domain.OpInstantiate), scope(live, terminated, domain.OpTerminate)} {
		harness.Until(ctx, t, "the run has ended", func() bool {
			run, err := temporal.DescribeWorkflowExecution(ctx, workflows.OperationID(of), "")
			return err == nil && run.GetWorkflowExecutionInfo().GetCloseTime() != nil
		})
	}
	require.Zero(t, written.Load())
	require.Empty(t, clusters[0].Labelled(t, instantiated))
	require.Len(t, clusters[1].Labelled(t, terminated), 60)
	got, err := gone.Summary(ctx)
	require.NoError(t, err)
	require.Equal(t, domain.ContextStatus("Terminated"), got.Status)
	got, err = live.Summary(ctx)
	require.NoError(t, err)
	require.Equal(t, is.Deployed, got.Deployed)
	require.Equal(t, is.Status, got.Status)
}
