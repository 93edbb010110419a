package test

import (
	"context"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/test/harness"
)

// TestStoppedWhenItsWorkerHasDied kills the worker when it has stored that an operation begins, and stops the operation before another worker goes
// on with it, which has not heard of that. The stop is in the history all the same, and what comes next is done.
func TestStoppedWhenItsWorkerHasDied(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.NewStackOn(t, harness.Servers{SlowDatabase: true}), twoClusters(t)[:1]
	d := s.Deployment(ctx, clusters, client.App{Name: "web", Chart: says(t, "web", "a=1")})
	do(ctx, t, d, "approve")
	stoppedUnheard(ctx, t, s, d, domain.OpInstantiate, domain.ContextInstantiateFailed, "Created", "Approved", "Instantiated", "InstantiateStopped")
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	do(ctx, t, d, "instantiate")
	s.Await(ctx, d, "Instantiated")
	before := states(s.Await(ctx, d, "Instantiated"))
	replaceChart(ctx, t, d, "web", says(t, "web", "a=1 b=1"))
	stoppedUnheard(ctx, t, s, d, domain.OpUpdate, domain.ContextInstantiateFailed, append(before, "Updated", "Instantiated", "InstantiateStopped")...)
	do(ctx, t, d, "update")
	before = states(s.Await(ctx, d, "Instantiated"))
	stoppedUnheard(ctx, t, s, d, domain.OpTerminate, domain.ContextTerminateFailed, append(before, "Terminated", "TerminateStopped")...)
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	require.Empty(t, clusters[0].Labelled(t, s.Await(ctx, d, "Terminated").States.StatusContextID))
}

// stoppedUnheard asks for an operation whose worker dies when that is stored, and stops it.
func stoppedUnheard(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment, op domain.Operation, status domain.ContextStatus, history ...string) {
	t.Helper()
	died, last := make(chan struct{}), "deployment-intent-groups" // what is stored last
	if op == domain.OpTerminate {
		last = "instances"
	}
	s.Slow.Meet(last, 1, mongotest.Fault{Done: func() { s.Worker.Kill(); close(died) }})
	stops := func() (n int) {
		t.Helper()
		filter := url.Values{"resource": {string(d.Key())}, "event": {string(audit.Begun)}, "verb": {string(domain.OpStop)}}
		for _, err := range d.API.AuditRecords(ctx, "", filter) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	before := stops()
	asked, stopped := make(chan error, 1), make(chan error, 1)
	go func() { asked <- d.Do(ctx, op) }()
	<-died
	go func() { stopped <- d.Do(ctx, domain.OpStop) }()
	harness.Until(ctx, t, "the stop has begun", func() bool { return stops() > before }) // it is asked of the engine next, which waits for a worker
	s.StartWorker()
	require.NoError(t, <-stopped, op)
	<-asked // it was stopped before anybody knew that it is recorded, and may be answered so
	require.Equal(t, history, states(s.Await(ctx, d, status)))
}
