package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/fleet"
	"github.com/drover-io/drover/test/harness"
)

// restarted is one round: every process was killed and started again while operations were open.
type restarted struct {
	first, all time.Duration // until the first and the last operation had what it was to apply
	storeCPU   time.Duration // of the store, from its start
}

// restart measures how long it takes until work goes on after every process was killed, with open operations: twice with 1,000
// (app, cluster) pairs in the store, twice with 100,000, and once with these beside other work.
func restart(ctx context.Context, t *trial) {
	t.Helper()
	clusters, open, groups := sizedDown(1000, 20), sizedDown(100, 10), sizedDown(seeded, 3)
	var servers harness.Servers
	if asks() {
		servers.SlowDatabase = true // what the store is asked is counted on its way
	}
	f := simulateOn(ctx, t, servers, domain.ReportAgent, clusters, min(100, clusters), clusters)
	var few, many, loaded []restarted
	t.finally(func() []figure { return restartFigures(few, many, loaded, open, clusters, groups) })
	round := func() restarted {
		r := f.restartOnce(ctx, t, open)
		t.Logf("%+v", r)
		return r
	}
	times := sizedDown(2, 1)
	f.carry(ctx, t, 0, 1)
	for range times {
		few = append(few, round())
	}
	f.carry(ctx, t, 1, groups)
	for range times {
		many = append(many, round())
	}
	end := f.load(ctx, f.deployment(ctx, t, "load", firstLabel(min(100, clusters)), scaleApps, scaleResources))
	defer end()
	loaded = append(loaded, round())
}

// asks says that it is told what the store is asked.
func asks() bool { return os.Getenv("DROVER_BENCH_ASKED") != "" }

func restartFigures(few, many, loaded []restarted, open, clusters, groups int) (figures []figure) {
	of := func(rounds []restarted, what func(restarted) time.Duration) (all []time.Duration) {
		for _, r := range rounds {
			all = append(all, what(r))
		}
		return all
	}
	ended, first := func(r restarted) time.Duration { return r.all }, func(r restarted) time.Duration { return r.first }
	what := fmt.Sprintf("every process killed and started again, %d operations open, %d pairs stored", open, groups*clusters)
	figures = append(figures,
		measured("restart_all_ms", what+": until the last of the operations has ended", of(many, ended)),
		measured("restart_first_ms", what+": until the first of them has applied something", of(many, first)),
		measured("restart_1000_pairs_all_ms", fmt.Sprintf("the same with %d pairs", clusters), of(few, ended)),
		measured("restart_loaded_all_ms", what+": the same beside instantiates and terminates of 3 apps on 100 clusters", of(loaded, ended)))
	var cpu []float64
	for _, r := range many {
		cpu = append(cpu, millis(r.storeCPU)/float64(open))
	}
	figures = append(figures, values("restart_store_cpu_ms_per_operation", what+": the store's processor time, its start included, for each operation", "ms", cpu))
	if len(few) == 2 {
		figures = append(figures, most("restart_round2_over_round1", "the second restart over the first one, on the same data", "ratio", few[1].all.Seconds()/few[0].all.Seconds(), 1.2))
	}
	if len(few)*len(many) > 0 {
		fastest := func(rounds []restarted) float64 { return slices.Min(of(rounds, ended)).Seconds() }
		figures = append(figures, most("restart_100000_over_1000_pairs",
			fmt.Sprintf("the restart with %d pairs stored over that with %d: the faster one of two each", groups*clusters, clusters), "ratio", fastest(many)/fastest(few), 1.3))
		if len(loaded) > 0 {
			figures = append(figures, values("restart_loaded_over_quiet", "the restart beside other work over that without", "ratio", []float64{loaded[0].all.Seconds() / fastest(many)}))
		}
	}
	return figures
}

// restartOnce opens operations on clusters that refuse, kills every process and starts all of them again.
func (f *simulated) restartOnce(ctx context.Context, t testing.TB, open int) (r restarted) {
	t.Helper()
	f.restarts++
	deployments := make([]*client.Deployment, open)
	f.fleet.Harm(t, fleet.All, fleet.Fault{Verb: "apply", Refuse: true})
	for i := range deployments {
		deployments[i] = f.single(ctx, t, fmt.Sprintf("open%d-%d", f.restarts, i), f.clusters[i])
		require.NoError(t, deployments[i].Do(ctx, "instantiate"))
	}
	applied := func() int { return f.fleet.Count(t, "emco/deployment-id") }
	there := applied()
	if f.Slow != nil {
		f.Slow.Asked()
	}
	began := time.Now()
	f.Restart()
	f.fleet.Harm(t, fleet.All)
	for ; applied() == there; time.Sleep(4 * calm) {
		require.NoError(t, context.Cause(ctx))
	}
	r.first = time.Since(began)
	for _, d := range deployments {
		_, err := d.Wait(ctx, 4*calm, func(s *status.Document) bool { return s.Status == "Instantiated" })
		require.NoError(t, err)
	}
	r.all, r.storeCPU = time.Since(began), f.Database.CPU(t)
	if f.Slow != nil {
		t.Logf("what the store was asked:\n%s", table(f.Slow.Asked()))
	}
	return r
}

// table are questions, those first that took longest.
func table(asked map[mongotest.Question]mongotest.Answers) (text string) {
	for _, q := range slices.SortedFunc(maps.Keys(asked), func(a, b mongotest.Question) int { return cmp.Compare(asked[b].Took, asked[a].Took) }) {
		text += fmt.Sprintf("%6d × %8.2f ms  %s %s by %s\n", asked[q].N, millis(asked[q].Took)/float64(asked[q].N), q.Command, q.Collection, q.By)
	}
	return text
}

// load instantiates and terminates a group again and again, whatever becomes of it, until end is called.
func (f *simulated) load(ctx context.Context, d *client.Deployment) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for operation, under := range map[domain.Operation]domain.ContextStatus{domain.OpInstantiate: domain.ContextInstantiating, domain.OpTerminate: domain.ContextTerminating} {
				_ = d.Do(ctx, operation) // refused when it is the other one's turn, or nobody answers
				_, _ = d.Wait(ctx, 4*calm, func(s *status.Document) bool { return s.Status != under })
			}
		}
	}()
	return func() { cancel(); <-done }
}

// single is one app of one ConfigMap for one cluster, approved.
func (f *simulated) single(ctx context.Context, t testing.TB, name string, c domain.ClusterName) *client.Deployment {
	t.Helper()
	d := *f.cloud
	d.CompositeApp, d.Version, d.Profile, d.Group, d.Release = name, "v1", "profile", name, name
	d.Apps = []client.App{{
		Name: "app0", Chart: harness.Chart(t, "app0", harness.ConfigMaps("app0", 1)), Profile: harness.Profile(t),
		Intent: harness.All(c),
	}}
	return f.approved(ctx, t, &d)
}
