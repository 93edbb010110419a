package test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// A worker that is frozen does not know that others do its work meanwhile.

// freezes are how long a worker is frozen: once until the others have done its work, which is just over the timeouts; or
// so often for each of the times that DROVER_TEST_FREEZES gives, as "20x10s,20x60s".
func freezes(t *testing.T) []time.Duration {
	t.Helper()
	asked := os.Getenv("DROVER_TEST_FREEZES")
	if asked == "" {
		return []time.Duration{0}
	}
	var all []time.Duration
	for _, f := range strings.Split(asked, ",") {
		times, long, _ := strings.Cut(f, "x")
		n, err := strconv.Atoi(times)
		require.NoError(t, err, "DROVER_TEST_FREEZES")
		d, err := time.ParseDuration(long)
		require.NoError(t, err, "DROVER_TEST_FREEZES")
		for range n {
			all = append(all, d)
		}
	}
	return all
}

// frozenMidway is a deployment in the middle of an operation.
type frozenMidway struct {
	what     string
	label    string // the context by whose id the clusters know it
	d        *client.Deployment
	clusters []*harness.Cluster
	ends     domain.ContextStatus // how the operation ends
	goOn     func()
}

// frozenSize is how many ConfigMaps a deployment has: more than a frozen worker has sent when it is held.
const frozenSize = 60

// halfway brings a deployment of its own into the middle of each of an instantiate, a terminate, an update and a hook.
func halfway(ctx context.Context, t *testing.T, s *harness.Stack) []*frozenMidway {
	t.Helper()
	var all []*frozenMidway
	add := func(what string, ends domain.ContextStatus, a client.App) *frozenMidway {
		f := &frozenMidway{what: what, clusters: twoClusters(t), ends: ends}
		f.d = s.Deployment(ctx, f.clusters, a)
		do(ctx, t, f.d, "approve")
		all = append(all, f)
		return f
	}
	hooks := add("hooks", "Instantiated", hookApp(t, "hooked", map[string]string{"before": hookJob("before", "pre-install", "", suspended)}))
	do(ctx, t, hooks.d, "instantiate")
	hooks.named(ctx, t)
	hooks.goOn = func() {
		for _, c := range hooks.clusters {
			release(ctx, t, c, hooks.d, "before")
		}
	}
	deleted, updated := add("delete", "Terminated", many(t, frozenSize)), add("update", "Instantiated", many(t, frozenSize))
	do(ctx, t, deleted.d, "instantiate")
	do(ctx, t, updated.d, "instantiate")
	deleted.named(ctx, t)
	updated.named(ctx, t)
	applied := add("apply", "Instantiated", many(t, frozenSize))
	applied.goOn = midway(ctx, t, applied.d, applied.clusters, "instantiate", frozenSize)
	applied.named(ctx, t)

	s.Await(ctx, deleted.d, "Instantiated")
	deleted.goOn = midway(ctx, t, deleted.d, deleted.clusters, "terminate", frozenSize)

	s.Await(ctx, updated.d, "Instantiated")
	replaceChart(ctx, t, updated.d, "many", harness.Chart(t, "many", harness.ConfigMaps("more", frozenSize)))
	open := hold(updated.clusters)
	do(ctx, t, updated.d, "update")
	updated.goOn = open
	harness.Until(ctx, t, "midway", func() bool { return len(updated.clusters[0].Labelled(t, updated.label)) > frozenSize })
	awaitReason(ctx, t, hooks.d, "hooked", "waits for the pre-install hook")
	return all
}

// named keeps the id of the deployment's first context.
func (f *frozenMidway) named(ctx context.Context, t *testing.T) {
	t.Helper()
	got, err := f.d.Summary(ctx)
	require.NoError(t, err)
	f.label = got.States.ContextID()
}

// atWork are the activities that a worker has at clusters.
func atWork(ctx context.Context, t *testing.T, s *harness.Stack) (n float64) {
	t.Helper()
	for name, used := range harness.Metrics(ctx, t, s.WorkerURL()) {
		if strings.HasPrefix(name, "temporal_worker_task_slots_used{") && strings.Contains(name, `worker_type="ActivityWorker"`) &&
			(strings.Contains(name, `"drover-kube"`) || strings.Contains(name, `"drover-wait"`)) {
			n += used
		}
	}
	return n
}

// TestFrozenWorker freezes a worker in the middle of all that is done to clusters. Another one brings it to its end, all is
// terminated, and when the first one goes on nothing comes back, in clusters or in records.
func TestFrozenWorker(t *testing.T) {
	t.Parallel()
	s := harness.NewStack(t)
	for i, long := range freezes(t) {
		if i > 0 { // the worker that has taken over is in the way of the next one that is to
			s.Worker.Kill()
			s.StartWorker()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*harness.Patience+long)
		frozen(ctx, t, s, long)
		cancel()
	}
}

func frozen(ctx context.Context, t *testing.T, s *harness.Stack, long time.Duration) {
	t.Helper()
	all := halfway(ctx, t, s)
	harness.Until(ctx, t, "a leaf of each is at work on either cluster", func() bool { return atWork(ctx, t, s) >= float64(2*len(all)) })
	thaw := s.Worker.Freeze(t)
	since := time.Now()
	other := s.AddWorker()
	defer other.Kill()
	for _, f := range all {
		f.goOn()
	}
	for _, f := range all {
		s.Await(ctx, f.d, f.ends)
		if f.ends != "Terminated" {
			do(ctx, t, f.d, "terminate")
		}
	}
	check := func(when string) {
		for _, f := range all {
			got := s.Await(ctx, f.d, "Terminated")
			require.Equal(t, domain.Terminated, got.States.State(), "%s, %s", f.what, when)
			require.Equal(t, got.Deployed["Deleted"], total(got.Deployed), "%s, %s: %v", f.what, when, got.Deployed)
			for _, c := range f.clusters {
				require.Empty(t, c.Labelled(t, f.label), "%s, %s, on %s", f.what, when, c.Name)
				require.Nil(t, job(ctx, t, c, f.d, "before"), "%s, %s, on %s", f.what, when, c.Name)
			}
		}
	}
	check("before it goes on")
	harness.Until(ctx, t, "frozen for long enough", func() bool { return time.Since(since) >= long })
	thaw()
	harness.Until(ctx, t, "its attempts have ended", func() bool { return atWork(ctx, t, s) == 0 })
	check("after")
	t.Logf("frozen for %s", time.Since(since).Round(time.Second))
}

// watchesAt are the shards of clusters that a worker watches.
func watchesAt(ctx context.Context, t *testing.T, s *harness.Stack) (n float64) {
	t.Helper()
	for name, used := range harness.Metrics(ctx, t, s.WorkerURL()) {
		if strings.HasPrefix(name, "temporal_worker_task_slots_used{") && strings.Contains(name, `worker_type="ActivityWorker"`) &&
			strings.Contains(name, `"drover-watch"`) {
			n += used
		}
	}
	return n
}

// TestFrozenWatcher freezes the worker that watches a cluster. Another one watches it, and when the first one goes on with what it has
// heard before, the status is that of what there is, and somebody vouches for it.
func TestFrozenWatcher(t *testing.T) {
	t.Parallel()
	ctx, s, c := within(t), harness.NewStack(t), harness.NewCluster(t, harness.ClusterNames[0])
	d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, c, "agentless")}, reportedApp(t))
	do(ctx, t, d, "approve", "instantiate")
	reports(ctx, t, s, d, "status=ready", ready(1))
	harness.Until(ctx, t, "it is watched", func() bool { return watchesAt(ctx, t, s) > 0 })
	thaw := s.Worker.Freeze(t)
	other := s.AddWorker()
	defer other.Kill()
	scale(ctx, t, c, d, 3)
	heard := func(r *reportedStatus) bool { return ready(3)(r) && !r.Apps[0].Clusters[0].Stale }
	reports(ctx, t, s, d, "status=ready", heard)
	thaw()
	harness.Until(ctx, t, "its watches have ended", func() bool { return watchesAt(ctx, t, s) == 0 })
	fresh(ctx, t, s, d, "status=ready", heard)
	require.True(t, other.Alive())
}

func total(counts map[domain.ResourceState]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
