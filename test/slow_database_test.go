package test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/test/harness"
)

// TestSlowDatabase has one that does not answer what an operation records before the attempt in its workflow's task has given up:
// the attempt after it finds another revision than it has read, by a write of which nobody got the answer. In the end the worker is
// killed while it waits for the database.
func TestSlowDatabase(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.NewStackOn(t, harness.Servers{SlowDatabase: true}), twoClusters(t)[:1]
	d := s.Deployment(ctx, clusters, many(t, 3))
	do(ctx, t, d, "approve")
	slow := func(collection string, nth int) { s.Slow.Meet(collection, nth, mongotest.Fault{UntilNext: true}) }
	met := func() {
		_, unmet := s.Slow.Flush()
		require.False(t, unmet, "the database was not slow")
	}

	slow("deployment-intent-groups", 1) // of the first attempt; the next one is the second's
	slow("instances", 2)                // of the first attempt at the end
	do(ctx, t, d, "instantiate")
	got := s.Await(ctx, d, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 3}, got.Deployed)
	require.Equal(t, []string{"Created", "Approved", "Instantiated"}, states(got))
	holds(t, clusters, got, 3)
	met()

	slow("deployment-intent-groups", 1)
	do(ctx, t, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, []string{"Created", "Approved", "Instantiated", "Terminated"}, states(got))
	holds(t, clusters, got, 0)
	met()

	killedInPrepare(ctx, t, s, clusters[0])
}
