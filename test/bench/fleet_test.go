package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/fleet"
	"github.com/drover-io/drover/test/harness"
)

// place measures a new app for 100 of 1,000 clusters that carry 100 groups already.
func place(ctx context.Context, t *trial) {
	t.Helper()
	const attempts = 10
	clusters, of, groups := sizedDown(100, 20), sizedDown(1000, 50), sizedDown(seeded, 3)
	f := simulate(ctx, t, of, clusters, of)
	f.carry(ctx, t, 0, groups)
	b := startBare(t, f.Stack)
	var took, accepted, plain []time.Duration
	what := fmt.Sprintf("one new app onto %d of %d clusters that carry %d groups", clusters, of, groups)
	t.finally(func() []figure {
		return []figure{
			measured("place_100_of_1000_ms", what, took), measured("place_100_of_1000_accepted_ms", what+": until the POST was answered", accepted),
			overBare("place_100_of_1000_over_bare", what+": over as many bare children", took, plain, 0),
		}
	})
	for i := range t.rounds(ctx, attempts, 4) {
		plain = append(plain, b.tree(ctx, t, bareInput{Apps: 1, Leaves: clusters, Window: atOnce / scaleApps, Leaf: "BareLeaf"}))
		d := f.deployment(ctx, t, fmt.Sprintf("placed%d", i), firstLabel(clusters), 1, scaleResources)
		r := f.operate(ctx, t, d, "instantiate", clusters)
		took, accepted = append(took, r.took), append(accepted, r.accepted)
	}
}

// percentile is the nearest-rank percentile.
func percentile(samples []time.Duration, p int) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(samples))
	return s[max((len(s)*p+99)/100-1, 0)]
}

// atOnce is how many leaves of the scale app are at work at a time: 30 of each app.
const atOnce = 30 * scaleApps

// latency measures the scale app on 100 clusters that take 100 ms for every answer, against what the latency
// alone would take (one round trip per leaf, atOnce leaves at a time) or what the work takes without latency,
// whichever is more; and one app of many resources on one such cluster, where the latency decides.
func latency(ctx context.Context, t *trial) {
	t.Helper()
	const delay, rounds, inParallel = 100 * time.Millisecond, 5, 8
	clusters, many := sizedDown(100, 20), sizedDown(400, 40)
	f := simulate(ctx, t, clusters, clusters, 1)
	d := f.deployment(ctx, t, "latency", firstLabel(clusters), scaleApps, scaleResources)
	big := f.deployment(ctx, t, "big", firstLabel(1), 1, many)
	waves := math.Ceil(float64(clusters*scaleApps) / atOnce)
	var near, far []time.Duration
	var ratios, bigRatios []float64
	what := fmt.Sprintf("%d apps × %d clusters × %d resources", scaleApps, clusters, scaleResources)
	t.finally(func() []figure {
		return []figure{
			atMost(values("latency_over_ideal", what+": with 100 ms to every cluster over the greater of the latency alone and of the time without it", "ratio", ratios), 1.5),
			atMost(values("latency_over_ideal_big", fmt.Sprintf("one app of %d resources, one cluster 100 ms away: over the latency alone at %d in parallel", many, inParallel), "ratio", bigRatios), 1.5),
			measured("latency_near_ms", what+": without latency", near), measured("latency_far_ms", what+": with 100 ms", far),
		}
	})
	for range t.rounds(ctx, rounds, 2) {
		near = append(near, f.operate(ctx, t, d, "instantiate", clusters).took)
		f.operate(ctx, t, d, "terminate", clusters)
		f.fleet.Harm(t, fleet.All, fleet.Fault{Latency: fleet.Duration(delay)})
		far = append(far, f.operate(ctx, t, d, "instantiate", clusters).took)
		r := f.operateOn(ctx, t, big, "instantiate", 1, many)
		f.fleet.Harm(t, fleet.All)
		f.operate(ctx, t, d, "terminate", clusters)
		f.operateOn(ctx, t, big, "terminate", 1, many)
		last := len(near) - 1
		ratios = append(ratios, far[last].Seconds()/max(near[last].Seconds(), waves*delay.Seconds()))
		bigRatios = append(bigRatios, r.took.Seconds()/(math.Ceil(float64(many)/inParallel)*delay.Seconds()))
	}
}

// dead measures how much later the clusters that answer are done when others of the same deployment do not: they refuse
// connections, or accept them and never answer. On a machine that is shared, runs of one kind differ by far more than
// the 5 % in question. So each run with a dead cluster is compared with those without that were right before and after
// it, and there are many short ones: the median of the comparisons comes with its interval of confidence. What runs
// without a dead cluster differ by among themselves, compared in the same way, says what the method can see.
func dead(ctx context.Context, t *trial) {
	t.Helper()
	const apps = 1
	clusters := sizedDown(100, 20)
	f := simulate(ctx, t, clusters, clusters)
	d := f.deployment(ctx, t, "dead", firstLabel(clusters), apps, scaleResources)
	run := func(dead int, faults ...fleet.Fault) live {
		t.Helper()
		l := f.live(ctx, t, d, clusters, dead, faults...)
		got, err := d.Wait(ctx, calm, func(s *status.Document) bool { return s.Status != "Instantiating" })
		require.NoError(t, err)
		if got.Status != "Instantiated" {
			why, err := f.Read(ctx, client.At(d.Key())+"/status?output=detail&cluster="+f.provider+"%2B"+f.fleet.Names[0], nil)
			require.NoError(t, err)
			t.Logf("%s", why.Body)
		}
		require.Equal(t, map[domain.ResourceState]int{"Applied": apps * scaleResources * clusters}, got.Deployed, "they are back")
		f.operate(ctx, t, d, "terminate", clusters)
		return l
	}
	run(0) // it warms up
	for _, w := range []struct {
		key, what string
		dead      int
		fault     fleet.Fault
		pairs     int
	}{
		{"dead_cluster", "one cluster in 100 refuses", 1, fleet.Fault{Refuse: true}, 11},
		{"hanging_cluster", "one cluster in 100 hangs", 1, fleet.Fault{Hang: true}, 7},
		{"dead_10", "ten clusters in 100 refuse", 10, fleet.Fault{Refuse: true}, 4},
		{"hanging_10", "ten clusters in 100 hang", 10, fleet.Fault{Hang: true}, 4},
	} {
		beside, with := []live{run(w.dead)}, []live(nil)
		t.finally(func() []figure {
			took, cpu := shifts(with[:min(len(with), len(beside)-1)], beside)
			figures := []figure{
				confident(values(w.key+"_shift_pct", w.what+": how much longer the others take", "%", took)),
				confident(values(w.key+"_cpu_shift_pct", w.what+": how much more processor time is spent until the others are done, per cluster", "%", cpu)),
			}
			if w.dead == 1 {
				figures[1] = atMost(figures[1], 10)
			}
			if w.key == "dead_cluster" {
				figures = append(figures, control(beside)...)
			}
			return figures
		})
		for range t.rounds(ctx, w.pairs, 2) {
			with = append(with, run(w.dead, w.fault))
			beside = append(beside, run(w.dead))
		}
	}
}

// control compares every other run without a dead cluster with its neighbours.
func control(healthy []live) []figure {
	var of, beside []live
	for i := 0; i+2 < len(healthy); i += 2 {
		of, beside = append(of, healthy[i+1]), append(beside, healthy[i])
	}
	if len(of) == 0 {
		return nil
	}
	took, cpu := shifts(of, append(beside, healthy[2*len(of)]))
	return []figure{
		confident(values("dead_none_shift_pct", "no cluster is dead: how much longer a run takes than those before and after it", "%", took)),
		confident(values("dead_none_cpu_shift_pct", "no cluster is dead: how much more processor time a run spends than those before and after it", "%", cpu)),
	}
}

// live is how long it took, in wall and processor time for each of them, until the clusters that are to answer had everything.
type live struct{ took, cpu float64 }

// shifts are how much more each is than the mean of its two neighbours, in percent.
func shifts(of, beside []live) (took, cpu []float64) {
	percent := func(of, before, after float64) float64 { return 100 * (of/((before+after)/2) - 1) }
	for i := range of {
		took = append(took, percent(of[i].took, beside[i].took, beside[i+1].took))
		cpu = append(cpu, percent(of[i].cpu, beside[i].cpu, beside[i+1].cpu))
	}
	return took, cpu
}

// live instantiates while the first so many clusters have the faults, and heals them when all others have everything.
func (f *simulated) live(ctx context.Context, t testing.TB, d *client.Deployment, clusters, dead int, faults ...fleet.Fault) live {
	t.Helper()
	for _, name := range f.fleet.Names[:dead] {
		f.fleet.Harm(t, name, faults...)
	}
	spent := func() (all time.Duration) {
		for _, p := range f.processes() {
			all += p.CPU(t)
		}
		return all
	}
	// To count requests costs the fleet nothing, to count objects much.
	applied := func() (n int64) {
		all, err := f.fleet.Requests(ctx, fleet.All)
		require.NoError(t, err)
		n = all["apply"]
		for _, name := range f.fleet.Names[:dead] {
			of, err := f.fleet.Requests(ctx, name)
			require.NoError(t, err)
			n -= of["apply"]
		}
		return n
	}
	want := applied() + int64(len(d.Apps)*scaleResources*(clusters-dead))
	begun, before := time.Now(), spent()
	require.NoError(t, d.Do(ctx, "instantiate"))
	for applied() < want {
		require.NoError(t, ctx.Err())
		time.Sleep(calm)
	}
	per := 1000 / float64(clusters-dead)
	l := live{took: time.Since(begun).Seconds() * per, cpu: (spent() - before).Seconds() * per}
	f.fleet.Harm(t, fleet.All)
	return l
}

// stopping measures stop and terminate when all of 100 clusters hang, beside the cancellation of as many bare children as are open then; and
// the stop while another 100 clusters have other work.
func stopping(ctx context.Context, t *trial) {
	t.Helper()
	const rounds, loadedRounds = 10, 3
	clusters := sizedDown(100, 2*atOnce/scaleApps) // twice as many leaves as are at work at a time
	f := simulate(ctx, t, 2*clusters, clusters)
	hanging, others, everywhere := f.fleet.Names[:clusters], f.clusters[clusters:], []string{fleet.All}
	b := startBare(t, f.Stack)
	d := f.deployment(ctx, t, "stopped", firstLabel(clusters), scaleApps, scaleResources)
	var stopped, replaced, stoppedAgain, loaded, cancelled, cancelledAtWork []time.Duration
	what := fmt.Sprintf("%d apps on %d clusters that all hang", scaleApps, clusters)
	t.finally(func() []figure {
		all := append(slices.Clone(stopped), stoppedAgain...)
		if len(all) == 0 {
			return nil
		}
		figures := []figure{
			overBare("stop_over_bare", what+": stop of an instantiate over the cancellation of as many bare children as are open, with an activity each that ends at once", stopped, cancelledAtWork, 1.5),
			overBare("stop_over_bare_idle", what+": the same over that of bare children that only wait for it", stopped, cancelled, 0),
			most("stop_p99_s", what+": p99 of POST stop until the operation is over and its end recorded", "s", percentile(all, 99).Seconds(), 2.5),
			measured("stop_ms", what+": stop of an instantiate", stopped),
			measured("stop_terminate_ms", what+": stop of a terminate", stoppedAgain),
			measured("terminate_ms", what+": terminate during instantiate until it has taken over", replaced),
			measured("bare_cancel_ms", "bare children with an activity: cancellation until the end of the tree", cancelledAtWork),
			measured("bare_cancel_idle_ms", "bare children that wait: cancellation until the end of the tree", cancelled),
		}
		if len(loaded) > 0 {
			over := percentile(loaded, 50).Seconds() / percentile(stopped, 50).Seconds()
			figures = append(figures,
				measured("stop_loaded_ms", what+": stop of an instantiate beside instantiates and terminates of 3 apps on 100 other clusters", loaded),
				values("stop_loaded_over_quiet", what+": the stop beside other work over that without, of medians", "ratio", []float64{over}))
		}
		return figures
	})
	tried := func(where []string) { f.asked(ctx, t, where, 2*atOnce) } // the first try of each and the second
	begin := func(where []string) {
		f.harm(t, where, fleet.Fault{Hang: true})
		require.NoError(t, d.Do(ctx, "instantiate"))
		tried(where)
	}
	for range t.rounds(ctx, rounds, 4) {
		open := bareInput{Apps: scaleApps, Leaves: atOnce / scaleApps, Window: atOnce / scaleApps}
		open.Leaf = "BareOpenLeaf"
		cancelled = append(cancelled, b.cancelled(ctx, t, open))
		open.Leaf = "BareWorkingLeaf"
		cancelledAtWork = append(cancelledAtWork, b.cancelled(ctx, t, open))

		begin(everywhere)
		stopped = append(stopped, f.until(ctx, t, d, "stop", "InstantiateFailed"))

		f.harm(t, everywhere)
		f.operate(ctx, t, d, "terminate", clusters)
		begin(everywhere)
		replaced = append(replaced, f.until(ctx, t, d, "terminate", "Terminating"))
		tried(everywhere)
		stoppedAgain = append(stoppedAgain, f.until(ctx, t, d, "stop", "TerminateFailed"))
		f.harm(t, everywhere)
		f.operate(ctx, t, d, "terminate", clusters)
	}
	other := f.group(t, "load", firstLabel(clusters), scaleApps, scaleResources)
	for i := range other.Apps {
		other.Apps[i].Intent = harness.All(others...)
	}
	end := f.load(ctx, f.approved(ctx, t, other))
	defer end()
	for range t.rounds(ctx, loadedRounds, 1) {
		begin(hanging)
		loaded = append(loaded, f.until(ctx, t, d, "stop", "InstantiateFailed"))
		f.harm(t, hanging)
		require.NoError(t, d.Do(ctx, "terminate"))
		_, err := d.Wait(ctx, calm, func(s *status.Document) bool { return s.Status == domain.ContextTerminated })
		require.NoError(t, err)
	}
}

// harm is fleet.Harm of some clusters, or of fleet.All.
func (f *simulated) harm(t testing.TB, names []string, faults ...fleet.Fault) {
	t.Helper()
	for _, name := range names {
		f.fleet.Harm(t, name, faults...)
	}
}

// asked waits until so many requests have reached the clusters, or fleet.All, since now: they hang by then.
func (f *simulated) asked(ctx context.Context, t testing.TB, names []string, requests int64) {
	t.Helper()
	total := func() (n int64) {
		for _, name := range names {
			counts, err := f.fleet.Requests(ctx, name)
			require.NoError(t, err)
			for _, c := range counts {
				n += c
			}
		}
		return n
	}
	for before := total(); total() < before+requests; time.Sleep(calm) {
		require.NoError(t, context.Cause(ctx))
	}
}

// until posts an operation and returns how long it takes until the app context has the status.
func (f *simulated) until(ctx context.Context, t testing.TB, d *client.Deployment, operation domain.Operation, where domain.ContextStatus) time.Duration {
	t.Helper()
	begun := time.Now()
	require.NoError(t, d.Do(ctx, operation))
	_, err := d.Wait(ctx, calm, func(s *status.Document) bool { return s.Status == where })
	require.NoError(t, err)
	return time.Since(begun)
}

// answers measures the status of 1,200 and of 120,000 resources, asked by one client and by twenty.
func answers(ctx context.Context, t *trial) {
	t.Helper()
	clusters, manyResources := sizedDown(1000, 100), sizedDown(40, 5)
	f := simulate(ctx, t, clusters, clusters, 100)
	small := f.deployment(ctx, t, "small", firstLabel(100), scaleApps, scaleResources)
	f.operate(ctx, t, small, "instantiate", 100)
	large := f.deployment(ctx, t, "large", firstLabel(clusters), scaleApps, manyResources)
	f.operateOn(ctx, t, large, "instantiate", clusters, manyResources)
	queries := []struct{ key, query string }{
		{"summary", "output=summary"}, {"all", "output=all"}, {"detail", "output=detail"},
		{"filtered", "output=all&app=app1&cluster=fleet%2Bedge0050"},
	}
	for _, size := range []struct {
		key        string
		what       string
		d          *client.Deployment
		times      int
		concurrent []int
	}{
		{"", "1,200 resources", small, sizedDown(400, 20), []int{1, 20}},
		{"_120000", "120,000 resources", large, sizedDown(10, 4), []int{1, 4}},
	} {
		for _, q := range queries {
			for _, clients := range size.concurrent {
				f.API.ForgetPeak(t)
				took, bytes := f.askAll(ctx, t, size.d, q.query, clients, size.times)
				what := fmt.Sprintf("GET status, %s, %s, %d clients", q.key, size.what, clients)
				key := fmt.Sprintf("status_%s%s_%d_clients", q.key, size.key, clients)
				t.add(measured(key+"_ms", what, took),
					values(key+"_kib", what+": size of the answer", "KiB", []float64{float64(bytes) / 1024}),
					values(key+"_peak_mib", what+": peak memory of the API", "MiB", []float64{f.API.PeakMiB(t)}))
				if size.key == "" && clients == 20 && (q.key == "summary" || q.key == "all") {
					limit := map[string]float64{"summary": 30, "all": 150}[q.key]
					p99 := percentile(took, 99).Seconds() * 1000
					t.add(goal(values("status_"+q.key+"_p99_ms", what+": p99", "ms", []float64{p99}), fmt.Sprintf("≤ %.0f", limit), p99 <= limit))
				}
			}
		}
	}
}

// askAll asks a query so many times, by clients side by side.
func (f *simulated) askAll(ctx context.Context, t testing.TB, d *client.Deployment, query string, clients, times int) (took []time.Duration, bytes int) {
	t.Helper()
	each := make([][]time.Duration, clients)
	g, ctx := errgroup.WithContext(ctx)
	for i := range each {
		g.Go(func() error {
			for range max(times/clients, 1) {
				begun := time.Now()
				a, err := f.Read(ctx, client.At(d.Key())+"/status?"+query, nil)
				if err != nil {
					return err
				}
				each[i] = append(each[i], time.Since(begun))
				if i == 0 {
					bytes = len(a.Body)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	return slices.Concat(each...), bytes
}
