package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/fleet"
	"github.com/drover-io/drover/test/harness"
)

const workloadClusters = 10

var allWorkloads = tenantCount * workloadsEach

// workloadEvents measures what tenants say that matches nothing: how much of it is stored in time, what it takes, and what it
// takes to say all of it again.
func workloadEvents(ctx context.Context, p *trial) {
	p.Helper()
	e := newTenancies(ctx, p, workloadClusters)
	before, workflowsBefore := e.heap(ctx), e.workflowsOfMatches(ctx)
	e.connect(ctx)
	began := time.Now()
	e.all(func(s *speaker) error { return s.sync(workloadsEach, "no") })
	e.taken(ctx, nil)
	first := time.Since(began).Seconds()
	what := fmt.Sprintf("%d tenants × %d workloads × %d rules", tenantCount, workloadsEach, rulesEach)
	p.add(
		values("workload_first_sync_s", what+": all streams begin and say everything for the first time", "s", []float64{first}),
		most("workload_api_kib", what+": memory of the API for a workload, with its part of the tenant's stream and rules", "KiB",
			(e.heap(ctx)-before)/float64(allWorkloads), 2))

	sustained, achieved := 0, 0.0
	rates, over := []int{1000, 1500, 2000, 3000, 4000, 6000}, time.Duration(sizedDown(8, 1))*time.Second
	for _, rate := range rates[:sizedDown(len(rates), 1)] {
		profiled := e.profiled(ctx, fmt.Sprint("events-", rate), over)
		took, perSecond := e.offer(ctx, rate, over)
		profiled()
		p95 := percentile(took, 95)
		p.add(values(fmt.Sprintf("workload_event_p95_ms_at_%d", rate), fmt.Sprintf("%s: %d changes a second that match nothing, sent until stored: p95", what, rate), "ms",
			[]float64{float64(p95.Milliseconds())}))
		p.Logf("%d a second: %.0f stored a second, p50 %s, p95 %s", rate, perSecond, percentile(took, 50), p95)
		if p95 > time.Second {
			if sustained == 0 {
				achieved = perSecond
			}
			break
		}
		sustained, achieved = rate, float64(rate)
	}
	p.add(
		least("workload_events_per_s", what+": changes that match nothing, stored within 1 s at p95", "events/s", achieved, 1000),
		most("workload_stored_bytes", what+": bytes in the store for a workload, after those changes", "bytes", float64(e.kept(ctx, "workloads")/allWorkloads), 2048))

	var took []float64
	writes := 0
	for range sizedDown(3, 1) {
		seconds, n := e.resync(ctx)
		took, writes = append(took, seconds), writes+n
	}
	again := values("workload_resync_s", what+": all streams cut, connected again and synced, unchanged", "s", took)
	p.add(goal(again, "≤ 5", again.Max <= 5), most("workload_resync_writes", "what is written by that", "writes", float64(writes), 0))
	time.Sleep(3 * time.Second) // Temporal tells of workflows a little later
	p.add(most("workload_unmatched_workflows", "workflows begun by all of that", "workflows", float64(e.workflowsOfMatches(ctx)-workflowsBefore), 0))
}

// offer has all tenants together change so many workloads a second, none of which matches anything. It returns how long after it
// was to be sent each change was stored, and how many were in a second.
func (e *tenancies) offer(ctx context.Context, rate int, over time.Duration) (took []time.Duration, perSecond float64) {
	e.Helper()
	each := int(over.Seconds()) * rate / len(e.streams)
	period := time.Duration(len(e.streams)) * time.Second / time.Duration(rate)
	base := e.counted(ctx, "messages_total")
	began := time.Now().Add(50 * time.Millisecond)
	at := func(stream, n int) time.Time {
		return began.Add(period*time.Duration(n) + period*time.Duration(stream)/time.Duration(len(e.streams)))
	}
	g, gctx := errgroup.WithContext(ctx)
	for i, s := range e.streams {
		g.Go(func() error {
			for n := range each {
				select {
				case <-time.After(time.Until(at(i, n))):
				case <-gctx.Done():
					return context.Cause(gctx)
				}
				if err := s.update(workload((n*37+i)%workloadsEach, rate*1000+n, "no")); err != nil {
					return err
				}
			}
			return nil
		})
	}
	stored := make([]int, len(e.streams))
	e.until(ctx, 2*calm, "not all changes are stored", func() bool {
		now, counts, all := time.Now(), e.counted(ctx, "messages_total"), true
		for i, s := range e.streams {
			for ; stored[i] < min(counts[s.tenant]-base[s.tenant], each); stored[i]++ {
				took = append(took, max(now.Sub(at(i, stored[i])), 0))
			}
			all = all && stored[i] == each
		}
		return all
	})
	require.NoError(e, g.Wait())
	return took, float64(each*len(e.streams)) / time.Since(began).Seconds()
}

// resync cuts all streams and has all tenants say again what they have said. It returns how long that takes from the cut, and
// how much was written by it.
func (e *tenancies) resync(ctx context.Context) (seconds float64, writes int) {
	e.Helper()
	e.all(func(s *speaker) error { return s.sync(workloadsEach, "no") })
	written := func() int { return e.total(ctx, "workload_changes_total") + e.total(ctx, "match_writes_total") }
	said := e.total(ctx, "messages_total")
	e.until(ctx, calm, "what was said before the cut is not stored", func() bool {
		now := e.total(ctx, "messages_total")
		still := now == said
		said = now
		return still && e.sameWorkloads(ctx)
	})
	before, kept, base := written(), e.kept(ctx, "workloads")+e.kept(ctx, "matches"), e.counted(ctx, "messages_total")
	began := time.Now()
	for _, s := range e.streams {
		require.NoError(e, s.connection.Close())
	}
	e.connect(ctx)
	e.all(func(s *speaker) error { return s.sync(workloadsEach, "no") })
	e.taken(ctx, base)
	seconds = time.Since(began).Seconds()
	writes = written() - before
	if now := e.kept(ctx, "workloads") + e.kept(ctx, "matches"); writes == 0 && now != kept {
		writes = 1 // an entry without a change
	}
	return seconds, writes
}

// sameWorkloads says whether each tenant has the workloads of a sync.
func (e *tenancies) sameWorkloads(ctx context.Context) bool {
	e.Helper()
	for _, name := range e.names {
		all, err := e.store.Workloads(ctx, name)
		require.NoError(e, err)
		if len(all) != workloadsEach || slices.ContainsFunc(all, func(w *domain.Workload) bool { return w.Extra["annotations"]["example.com/change"] != "0" }) {
			return false
		}
	}
	return true
}

// workloadMatches measures a new rule in each tenant that matches all of its workloads.
func workloadMatches(ctx context.Context, p *trial) {
	p.Helper()
	few := tenantCount / 10
	e := newTenancies(ctx, p, workloadClusters)
	e.connect(ctx)
	e.all(func(s *speaker) error { return s.sync(workloadsEach, "no") })
	e.taken(ctx, nil)
	arrived := e.watchArrivals(ctx)
	ofFew := e.newRule(ctx, arrived, few)
	p.add(values("workload_match_ms_1000", "1,000 matches by a new rule in each of 10 tenants: time for each", "ms", []float64{ofFew}))
	began := time.Now()
	for _, name := range e.names[:few] {
		require.NoError(p, e.Client.API().Delete(ctx, domain.TenantKey(name).Child(domain.WorkloadRules.Collection).Child("all")))
	}
	e.settled(ctx, 0)
	p.add(values("workload_unmatch_ms_1000", "their rules deleted, until the objects and records are gone: time for each", "ms",
		[]float64{time.Since(began).Seconds() * 1000 / float64(few*workloadsEach)}))

	before := e.spent()
	profiled := e.profiled(ctx, "matches", 20*time.Second)
	ofAll := e.newRule(ctx, arrived, tenantCount)
	profiled()
	p.add(
		most("workload_match_ms", "10,000 matches by a new rule in each of 100 tenants: time for each", "ms", ofAll, 10),
		most("workload_match_growth", "time for each of 10,000 matches over that for each of 1,000", "ratio", ofAll/ofFew, 1.3))
	e.costs("workload_match_cpu_", "each of 10,000 matches: CPU time of ", before, allWorkloads)
	p.add(most("match_stored_bytes", "10,000 matches: bytes in the store for each", "bytes", float64(e.kept(ctx, "matches")/allWorkloads), 1024))
}

// processes are those whose cost is counted.
func (e *tenancies) processes() map[string]*harness.Process {
	return map[string]*harness.Process{"worker": e.Worker, "temporal": e.Temporal, "database": e.Database, "api": e.API, "fleet": e.fleet.Process}
}

// spent is the processor time of each process.
func (e *tenancies) spent() map[string]time.Duration {
	e.Helper()
	spent := map[string]time.Duration{}
	for name, of := range e.processes() {
		spent[name] = of.CPU(e)
	}
	return spent
}

// costs adds what each process has spent since then, for each of n things.
func (e *tenancies) costs(key, what string, before map[string]time.Duration, n int) {
	e.Helper()
	for name, now := range e.spent() {
		e.add(values(key+name, what+name, "ms", []float64{(now - before[name]).Seconds() * 1000 / float64(n)}))
	}
}

// newRule makes a rule in each of the first tenants and returns the time until its objects are there, in milliseconds for each.
func (e *tenancies) newRule(ctx context.Context, a *arrivals, tenants int) float64 {
	e.Helper()
	a.mu.Lock()
	clear(a.at)
	a.mu.Unlock()
	count := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.at)
	}
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(registerAtOnce)
	for _, name := range e.names[:tenants] {
		g.Go(func() error {
			return e.Client.API().Run(gctx, []client.Step{{Object: workloadRule(name, "all", []string{"no"})}}, nil)
		})
	}
	require.NoError(e, g.Wait())
	made := time.Since(began)
	want := tenants * workloadsEach
	e.until(ctx, calm, "not all objects are made", func() bool { return count() >= want })
	took := time.Since(began)
	e.Logf("%d rules made after %s, their %d objects after %s", tenants, made, want, took)
	e.settled(ctx, want)
	return took.Seconds() * 1000 / float64(want)
}

// workloadLatency measures how long it takes from a change of a workload until the resource for it is there, and how much longer
// while a tenant says as much as it can.
func workloadLatency(ctx context.Context, p *trial) {
	p.Helper()
	const rate = 10
	window, pairs := sizedDown(6, 2), sizedDown(4, 1)
	e := newTenancies(ctx, p, workloadClusters)
	e.connect(ctx)
	e.all(func(s *speaker) error { return s.sync(workloadsEach, "no") })
	e.taken(ctx, nil)
	arrived := e.watchArrivals(ctx)
	next := 0
	e.run(ctx, arrived, &next, tenantCount, 1) // each tenant has had a match: the first ones make collections
	profiled, before := e.profiled(ctx, "latency", 20*time.Second), e.spent()
	took := e.run(ctx, arrived, &next, rate, sizedDown(20, 2))
	e.costs("workload_to_resource_cpu_", "a change until its resource is there: CPU time of ", before, len(took))
	profiled()
	p95 := percentile(took, 95).Seconds()
	what := fmt.Sprintf("%d tenants × %d workloads × %d rules, %d changes a second: sent until the resource is there", tenantCount, workloadsEach, rulesEach, rate)
	p.add(most("workload_to_resource_p95_s", what+": p95", "s", p95, 1), measured("workload_to_resource_ms", what, took))

	noisy := e.streams[tenantCount-1]
	quiet := []time.Duration{percentile(e.run(ctx, arrived, &next, rate, window), 50)}
	var shifts, quietShifts, flood []float64
	for i := range pairs {
		stop, said := make(chan struct{}), make(chan error, 1)
		began, before := time.Now(), noisy.sent
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					said <- nil
					return
				default:
				}
				if err := noisy.update(workload(n%workloadsEach, 1_000_000*(i+1)+n, "no")); err != nil {
					said <- err
					return
				}
			}
		}()
		with := percentile(e.run(ctx, arrived, &next, rate, window), 50)
		close(stop)
		require.NoError(p, <-said)
		flood = append(flood, float64(noisy.sent-before)/time.Since(began).Seconds())
		e.until(ctx, calm, "the flood is not stored", func() bool {
			return e.counted(ctx, "messages_total")[noisy.tenant] == noisy.sent
		})
		quiet = append(quiet, percentile(e.run(ctx, arrived, &next, rate, window), 50))
		shifts = append(shifts, 100*(with.Seconds()/((quiet[i]+quiet[i+1]).Seconds()/2)-1))
		quietShifts = append(quietShifts, 100*(quiet[i+1].Seconds()/quiet[i].Seconds()-1))
	}
	shift := values("workload_noisy_shift_pct", "the same, of other tenants, while one says as much as it can: how much longer the median is than before and after", "%", shifts)
	p.add(goal(shift, "≤ 10", shift.Median <= 10),
		values("workload_quiet_shift_pct", "how much longer it is than the one before when nobody does", "%", quietShifts),
		values("workload_noisy_per_s", "how many changes a second that tenant gets rid of", "events/s", flood))
}

// run changes so many workloads a second for some seconds so that they match, each another one, and returns how long it takes until the
// resource of each is there.
func (e *tenancies) run(ctx context.Context, a *arrivals, next *int, rate, seconds int) (took []time.Duration) {
	e.Helper()
	type change struct {
		tenant, n int
		sent      time.Time
	}
	var changes []change
	began := time.Now()
	quiet := tenantCount - 1 // the last tenant is the one that may be noisy
	for i := range rate * seconds {
		select {
		case <-time.After(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate)))):
		case <-ctx.Done():
			require.NoError(e, context.Cause(ctx))
		}
		c := change{*next % quiet, *next / quiet, time.Now()}
		*next++
		require.NoError(e, e.streams[c.tenant].update(workload(c.n, 1, "yes")))
		changes = append(changes, c)
		waits := func(c change) bool {
			_, ok := a.of(e.names[c.tenant], workload(c.n, 1, "yes"))
			return !ok && time.Since(c.sent) > late
		}
		if os.Getenv("DROVER_BENCH_PROFILE") != "" && slices.ContainsFunc(changes, waits) {
			e.stalled(ctx)
		}
	}
	for _, c := range changes {
		e.until(ctx, calm, "a resource is not made", func() bool {
			at, ok := a.of(e.names[c.tenant], workload(c.n, 1, "yes"))
			if ok {
				took = append(took, at.Sub(c.sent))
			}
			return ok
		})
	}
	if percentile(took, 95) > late { // which of them, one after another
		e.Logf("changes took %v", took)
		e.logs(fmt.Sprint("late-", *next))
	}
	return took
}

// logs writes the ends of the logs of all processes into a folder in that which DROVER_BENCH_PROFILE names.
func (e *tenancies) logs(what string) {
	e.Helper()
	folder := os.Getenv("DROVER_BENCH_PROFILE")
	if folder == "" {
		return
	}
	folder = filepath.Join(folder, what)
	require.NoError(e, os.MkdirAll(folder, 0o755))
	for name, of := range e.processes() {
		require.NoError(e, os.WriteFile(filepath.Join(folder, name+".log"), []byte(of.Log()), 0o600))
	}
}

// late is when a change is so long not done that whoever looks for the cause wants to know what everybody is doing.
const late = 1200 * time.Millisecond

// stalled writes that, at most every 3 s, into a folder in that which DROVER_BENCH_PROFILE names.
func (e *tenancies) stalled(ctx context.Context) {
	e.Helper()
	if time.Since(e.told) < 3*time.Second {
		return
	}
	e.told = time.Now()
	folder := filepath.Join(os.Getenv("DROVER_BENCH_PROFILE"), "stall-"+e.told.Format("15-04-05"))
	go func() { // changes go on being sent
		if err := e.Goroutines(ctx, folder); err != nil {
			e.Log("what goes on in a stall is not known: ", err)
		}
	}()
}

// workloadOutage measures what a cluster is asked that does not answer, with 10,000 matches due in it, of 100 tenants.
func workloadOutage(ctx context.Context, p *trial) {
	p.Helper()
	over := time.Duration(sizedDown(30, 3)) * time.Second
	e := newTenancies(ctx, p, 1)
	e.connect(ctx)
	e.all(func(s *speaker) error { return s.sync(workloadsEach, "no") })
	e.taken(ctx, nil)
	requests := func() (map[string]int64, int64) {
		all, err := e.fleet.Requests(ctx, fleet.All)
		require.NoError(p, err)
		n := int64(0)
		for _, of := range all {
			n += of
		}
		return all, n
	}
	e.fleet.Harm(p, fleet.All, fleet.Fault{Refuse: true})
	verbs, before := requests()
	began, said := time.Now(), e.counted(ctx, "messages_total")
	for _, s := range e.streams {
		s.sent = 0
	}
	e.all(func(s *speaker) error { return s.sync(workloadsEach, "yes") })
	e.taken(ctx, said)
	p.Logf("%d matches are due after %s", allWorkloads, time.Since(began))
	_, due := requests()
	var perSecond []float64
	for last, since := due, time.Now(); time.Since(since) < over; {
		time.Sleep(time.Second)
		_, now := requests()
		perSecond, last = append(perSecond, float64(now-last)), now
	}
	after, all := requests()
	seconds := time.Since(began).Seconds()
	for verb := range after {
		after[verb] -= verbs[verb]
	}
	p.Logf("requests by verb: %v", after)
	require.Len(p, e.records(ctx), allWorkloads)
	what := fmt.Sprintf("%d matches of %d tenants in a cluster that refuses", allWorkloads, tenantCount)
	p.add(
		most("workload_outage_requests_per_s", what+", from when they become due until 30 s after all are: requests to it", "requests/s", float64(all-before)/seconds, 10),
		values("workload_outage_requests", what+", when all are due: requests in each second", "requests/s", perSecond))
	e.fleet.Harm(p, fleet.All)
	began = time.Now()
	e.until(ctx, 10*calm, "nothing is made", func() bool { return e.objects() > 0 })
	p.add(values("workload_outage_over_s", "the cluster answers again, until the first of them is made", "s", []float64{time.Since(began).Seconds()}))
}

// workloadRestart measures how long it takes until matches are made after every process was killed.
func workloadRestart(ctx context.Context, p *trial) {
	p.Helper()
	e := newTenancies(ctx, p, workloadClusters)
	var took []float64
	for round := range sizedDown(2, 1) {
		e.connect(ctx)
		e.fleet.Harm(p, fleet.All, fleet.Fault{Refuse: true})
		e.all(func(s *speaker) error { return s.update(workload(round, 0, "yes")) })

		e.until(ctx, calm, "not all matches are due", func() bool {
			due := 0
			for _, m := range e.records(ctx) {
				if !m.Due.IsZero() {
					due++
				}
			}
			return due == tenantCount
		})
		began := time.Now()
		e.Restart()
		e.fleet.Harm(p, fleet.All)
		e.until(ctx, 4*calm, "not all objects are made", func() bool { return e.objects() == (round+1)*tenantCount })
		took = append(took, time.Since(began).Seconds())
		e.settled(ctx, (round+1)*tenantCount)
		for _, s := range e.streams {
			require.NoError(p, s.connection.Close())
		}
	}
	f := values("workload_restart_s", "every process killed and started again, 100 matches of 100 tenants open: until the last is made", "s", took)
	p.add(goal(f, "≤ 15", f.Max <= 15))
}
