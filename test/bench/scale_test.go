package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	temporalclient "go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// The composite app of the scale figures: the 3 apps of 4 resources each.
const (
	scaleApps      = 3
	scaleResources = 4
)

// registerAtOnce bounds the calls that register a fleet.
const registerAtOnce = 4

// simulated is a stack with a fleet of simulated clusters, all in one logical cloud.
type simulated struct {
	*harness.Stack
	fleet    *harness.Fleet
	provider string
	clusters []domain.ClusterName
	cloud    *client.Deployment // the project with its logical cloud
	temporal temporalclient.Client
	restarts int // see restartOnce
}

// firstLabel is the label of the first n clusters.
func firstLabel(n int) string { return fmt.Sprintf("first-%d", n) }

// simulate starts a fleet of n clusters and registers all of them, labelled for each size of first.
func simulate(ctx context.Context, t testing.TB, n int, first ...int) *simulated {
	t.Helper()
	return simulateOn(ctx, t, harness.Servers{}, domain.ReportAgent, n, first...)
}

// simulateOn is simulate with a stack on servers that are there, and clusters that report in some way.
func simulateOn(ctx context.Context, t testing.TB, servers harness.Servers, how domain.Report, n int, first ...int) *simulated {
	t.Helper()
	f := &simulated{Stack: harness.NewStackOn(t, servers), fleet: harness.StartFleet(t, n), provider: "fleet"}
	f.temporal = f.TemporalClient()
	first = slices.Compact(first) // a quick run has the same size twice
	api := f.Client.API()
	provider := &domain.ClusterProvider{Metadata: domain.Metadata{Name: f.provider}}
	require.NoError(t, api.Run(ctx, []client.Step{{Object: provider}}, nil))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(registerAtOnce)
	for i, name := range f.fleet.Names {
		f.clusters = append(f.clusters, domain.ClusterName{Provider: f.provider, Name: name})
		g.Go(func() error {
			c := &domain.Cluster{
				Identity: domain.Identity{Parent: domain.KeyOf(provider)}, Metadata: domain.Metadata{Name: name}, Spec: domain.ClusterSpec{Report: how},
			}
			steps := []client.Step{{Object: c, File: f.fleet.Kubeconfig(t, name)}}
			for _, size := range first {
				if i < size {
					steps = append(steps, client.Step{Object: &domain.ClusterLabel{
						Identity: domain.Identity{Parent: domain.KeyOf(c)}, Label: firstLabel(size),
					}})
				}
			}
			return api.Run(gctx, steps, nil)
		})
	}
	require.NoError(t, g.Wait())
	f.cloud = &client.Deployment{API: api, Project: "scale", LogicalCloud: "admin", Clusters: f.clusters}
	steps := f.cloud.CloudSteps()
	last := len(steps) - 1
	require.NoError(t, api.Run(ctx, steps[:2], nil))
	g, gctx = errgroup.WithContext(ctx)
	g.SetLimit(registerAtOnce)
	for _, step := range steps[2:last] {
		g.Go(func() error { return api.Run(gctx, []client.Step{step}, nil) })
	}
	require.NoError(t, g.Wait())
	require.NoError(t, api.Run(ctx, steps[last:], nil))
	return f
}

// labelled places on the clusters with a label.
func (f *simulated) labelled(label string) domain.Placement {
	return harness.Labelled(label, domain.ClusterName{Provider: f.provider})
}

// deployment is apps of ConfigMaps on the clusters with a label, approved.
func (f *simulated) deployment(ctx context.Context, t testing.TB, name, label string, apps, resources int) *client.Deployment {
	t.Helper()
	return f.approved(ctx, t, f.group(t, name, label, apps, resources))
}

// approved describes a group and approves it.
func (f *simulated) approved(ctx context.Context, t testing.TB, d *client.Deployment) *client.Deployment {
	t.Helper()
	require.NoError(t, d.API.Run(ctx, d.GroupSteps(), nil))
	require.NoError(t, d.Do(ctx, "approve"))
	return d
}

// run is one instantiate or terminate, with what it cost.
type run struct {
	took       time.Duration
	accepted   time.Duration            // until the POST was answered
	cpu        map[string]time.Duration // by process
	peakMiB    map[string]float64
	contextID  string
	leafMillis float64 // wall time per (app, cluster)
}

// processes are those whose cost is counted.
func (f *simulated) processes() map[string]*harness.Process {
	return map[string]*harness.Process{
		"worker": f.Worker, "temporal": f.Temporal, "database": f.Database, "api": f.API, "fleet": f.fleet.Process,
	}
}

// operate runs an operation on apps of scaleResources to its end, and checks the end by status and by what
// is in the clusters.
func (f *simulated) operate(ctx context.Context, t testing.TB, d *client.Deployment, operation domain.Operation, clusters int) run {
	t.Helper()
	return f.operateOn(ctx, t, d, operation, clusters, scaleResources)
}

// operateOn is operate for apps of so many resources.
func (f *simulated) operateOn(ctx context.Context, t testing.TB, d *client.Deployment, operation domain.Operation, clusters, perApp int) run {
	t.Helper()
	r := run{cpu: map[string]time.Duration{}, peakMiB: map[string]float64{}}
	for name, p := range f.processes() {
		p.ForgetPeak(t)
		r.cpu[name] = -p.CPU(t)
	}
	under, ended, state, left := domain.ContextInstantiating, domain.ContextInstantiated, domain.ResourceApplied, true
	if operation == domain.OpTerminate {
		under, ended, state, left = domain.ContextTerminating, domain.ContextTerminated, domain.ResourceDeleted, false
	}
	begun := time.Now()
	require.NoError(t, d.Do(ctx, operation))
	r.accepted = time.Since(begun)
	got, err := d.Wait(ctx, calm*4, func(s *status.Document) bool { return s.Status != under })
	r.took = time.Since(begun)
	require.NoError(t, err)
	if got.Status != ended {
		why, err := d.API.ExplainText(ctx, d.Key())
		t.Logf("%s %v", why, err)
	}
	require.Equal(t, ended, got.Status)
	resources := len(d.Apps) * perApp * clusters
	require.Equal(t, map[domain.ResourceState]int{state: resources}, got.Deployed)
	for name, p := range f.processes() {
		r.cpu[name] += p.CPU(t)
		r.peakMiB[name] = p.PeakMiB(t)
	}
	r.contextID = got.States.ContextID()
	r.leafMillis = r.took.Seconds() * 1000 / float64(len(d.Apps)*clusters)
	there := 0
	for i := range d.Apps {
		there += f.fleet.Count(t, fmt.Sprintf("emco/deployment-id=%s-app%d", r.contextID, i))
	}
	if left {
		require.Equal(t, resources, there)
	} else {
		require.Zero(t, there)
	}
	return r
}

// bareProcess is this one, in which the worker of bare workflows runs.
const bareProcess = "bare_worker"

// bareRun is a tree of bare workflows, with what it costs.
func (f *simulated) bareRun(ctx context.Context, t testing.TB, b *bare, in bareInput) run {
	t.Helper()
	spent := func() map[string]time.Duration {
		return map[string]time.Duration{"temporal": f.Temporal.CPU(t), bareProcess: ownCPU(t)}
	}
	before := spent()
	r := run{took: b.tree(ctx, t, in), cpu: spent()}
	for name := range r.cpu {
		r.cpu[name] -= before[name]
	}
	r.leafMillis = millis(r.took) / float64(in.Apps*in.Leaves)
	return r
}

// ownCPU is what this process has spent.
func ownCPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bareCosts are the medians over trees of bare workflows.
func bareCosts(size int, runs []run) (figures []figure) {
	what := fmt.Sprintf("a tree of bare workflows, %d × %d", scaleApps, size)
	per := func(of func(run) float64) (each []float64) {
		for _, r := range runs {
			each = append(each, of(r))
		}
		return each
	}
	figures = append(figures, values(fmt.Sprintf("bare_leaf_ms_%d", size), what+": wall time per leaf", "ms", per(func(r run) float64 { return r.leafMillis })))
	for _, process := range []string{"temporal", bareProcess} {
		figures = append(figures, values(fmt.Sprintf("bare_leaf_ms_%d_cpu_%s", size, process), what+": CPU time of "+process+" per leaf", "ms",
			per(func(r run) float64 { return millis(r.cpu[process]) / float64(scaleApps*size) })))
	}
	return figures
}

// grain is what Temporal keeps of a leaf: its own history, and its part of its app's.
func (f *simulated) grain(ctx context.Context, t testing.TB, key, what, leaf, app string, leaves int) []figure {
	t.Helper()
	own, ownBytes := f.history(ctx, t, leaf)
	all, allBytes := f.history(ctx, t, app)
	per := func(n int64) []float64 { return []float64{float64(n) / float64(leaves)} }
	return []figure{
		values(key+"_events", what+": events of a leaf's history", "events", []float64{float64(own)}),
		values(key+"_history_bytes", what+": size of a leaf's history", "bytes", []float64{float64(ownBytes)}),
		values(key+"_events_of_app", what+": events of the app's history per leaf", "events", per(all)),
		values(key+"_history_bytes_of_app", what+": size of the app's history per leaf", "bytes", per(allBytes)),
	}
}

// history is the length and size of a workflow's history.
func (f *simulated) history(ctx context.Context, t testing.TB, id string) (events, bytes int64) {
	t.Helper()
	d, err := f.temporal.DescribeWorkflowExecution(ctx, id, "")
	require.NoError(t, err)
	return d.GetWorkflowExecutionInfo().GetHistoryLength(), d.GetWorkflowExecutionInfo().GetHistorySizeBytes()
}

// scope is that of an operation on a deployment's context.
func scope(d *client.Deployment, contextID string, op domain.Operation) domain.Scope {
	return domain.Scope{Owner: d.Key(), ContextID: contextID, Operation: op}
}

// largest is the greatest history of an instantiate's workflows.
func (f *simulated) largest(ctx context.Context, t testing.TB, d *client.Deployment, contextID string, clusters int) (events, bytes int64) {
	t.Helper()
	s := scope(d, contextID, domain.OpInstantiate)
	ids := []string{
		workflows.OperationID(s), workflows.AppID(s, "app0", 0, 0),
		workflows.LeafID(s, "app0", domain.ClusterName{Provider: f.provider, Name: f.fleet.Names[0]}),
	}
	if clusters > 250 { // the app is split
		ids = append(ids, workflows.AppID(s, "app0", 0, 250))
	}
	for _, id := range ids {
		e, b := f.history(ctx, t, id)
		events, bytes = max(events, e), max(bytes, b)
	}
	return events, bytes
}

// quick says that the parts need only show that they work, and how they change while one works on what they measure.
func quick() bool { return os.Getenv("DROVER_BENCH_QUICK") != "" }

// mostQuick is how long a part may take that need only show that it works, beside whatever else the machine does.
const mostQuick = 5 * time.Minute

// sizedDown is a size, or the one that will do where parts need only show that they work.
func sizedDown(size, small int) int {
	if quick() {
		return small
	}
	return size
}

// scale measures 3 apps of 4 resources on 1, 10, 100 and 1,000 clusters, and beside it a tree of bare workflows like that of the operation.
func scale(ctx context.Context, t *trial) {
	t.Helper()
	type of struct {
		size, rounds, fewest int
		applied, removed     []run
		bare                 []run
	}
	sizes := []*of{{size: 1, rounds: 9, fewest: 3}, {size: 10, rounds: 5, fewest: 2}, {size: 100, rounds: 4, fewest: 3}, {size: 1000, rounds: 1, fewest: 1}}
	hundred, most := sizes[2], sizes[3]
	hundred.size, most.size = sizedDown(hundred.size, 20), sizedDown(most.size, 40)
	f := simulate(ctx, t, most.size, sizes[0].size, sizes[1].size, hundred.size, most.size)
	b := startBare(t, f.Stack)
	var growths []float64
	var events, bytes int64
	var grains []figure
	measure := func(o *of, d *client.Deployment) {
		if o != most || t.part > 0 { // a machine with little time leaves out what has no goal
			o.bare = append(o.bare, f.bareRun(ctx, t, b, bareInput{Apps: scaleApps, Leaves: o.size, Window: atOnce / scaleApps, Leaf: "BareLeaf"}))
		}
		r := f.operate(ctx, t, d, "instantiate", o.size)
		o.applied = append(o.applied, r)
		if o == hundred && len(grains) == 0 {
			s := scope(d, r.contextID, domain.OpInstantiate)
			leaf := workflows.LeafID(s, "app0", domain.ClusterName{Provider: f.provider, Name: f.fleet.Names[0]})
			grains = append(f.grain(ctx, t, "leaf", "an instantiate", leaf, workflows.AppID(s, "app0", 0, 0), o.size), f.grain(ctx, t, "bare_leaf", "a tree of bare workflows", b.id(0, 0), b.id(0), o.size)...)
		}
		e, n := f.largest(ctx, t, d, r.contextID, o.size)
		events, bytes = max(events, e), max(bytes, n)
	}
	remove := func(o *of, d *client.Deployment) {
		o.removed = append(o.removed, f.operate(ctx, t, d, "terminate", o.size))
	}
	t.finally(func() []figure {
		figures := grains
		for _, o := range sizes {
			figures = append(append(figures, f.costs(scaleApps, o.size, "leaf_ms", "instantiate", o.applied)...), f.costs(scaleApps, o.size, "leaf_terminate_ms", "terminate", o.removed)...)
			key, bound := fmt.Sprintf("leaf_over_bare_%d", o.size), 0.0
			if o == hundred {
				key, bound = "leaf_over_bare", 1.4
			}
			var ours, bare []time.Duration
			for i := range min(len(o.applied), len(o.bare)) {
				ours, bare = append(ours, o.applied[i].took), append(bare, o.bare[i].took)
			}
			figures = append(figures,
				overBare(key, fmt.Sprintf("instantiate, %d apps × %d clusters × %d resources, over a tree of bare workflows of the same form, as many at a time", scaleApps, o.size, scaleResources), ours, bare, bound))
			figures = append(figures, bareCosts(o.size, o.bare)...)
		}
		return append(figures,
			atMost(values("leaf_growth_1000", "wall time per (app, cluster) at 1,000 clusters over that at 100 right before and after it", "ratio", growths), 1.3),
			values("largest_history_events", "largest workflow's history", "events", []float64{float64(events)}),
			values("largest_history_kib", "largest workflow's history", "KiB", []float64{float64(bytes) / 1024}))
	})
	deployments := map[*of]*client.Deployment{}
	for _, o := range sizes {
		d := f.deployment(ctx, t, fmt.Sprintf("scale%d", o.size), firstLabel(o.size), scaleApps, scaleResources)
		deployments[o] = d
		before := f.stored(ctx, t)
		for round := range t.rounds(ctx, o.rounds, o.fewest) {
			at := func() float64 { // of the hundred, as it is now
				measure(hundred, deployments[hundred])
				remove(hundred, deployments[hundred])
				return hundred.applied[len(hundred.applied)-1].leafMillis
			}
			neighbour := 0.0
			if o == most {
				neighbour = at()
			}
			measure(o, d)
			if round == 0 && neighbour == 0 {
				t.add(f.storage(ctx, t, "stored_bytes_per_leaf", o.size, "instantiated", before)...)
			}
			remove(o, d)
			if round == 0 && neighbour == 0 {
				t.add(f.storage(ctx, t, "stored_bytes_per_leaf_terminated", o.size, "instantiated and terminated", before)...)
			}
			if neighbour > 0 {
				growths = append(growths, o.applied[len(o.applied)-1].leafMillis/((neighbour+at())/2))
			}
		}
	}
}

// tenThousand measures one app on 10,000 clusters, and the apps of scale on 100 of them right before and after it.
func tenThousand(ctx context.Context, t *trial) {
	t.Helper()
	const hundred = 100
	clusters := sizedDown(10_000, 300)
	f := simulate(ctx, t, clusters, hundred, clusters)
	d := f.deployment(ctx, t, "ten-thousand", firstLabel(clusters), 1, scaleResources)
	small := f.deployment(ctx, t, "hundred", firstLabel(hundred), scaleApps, scaleResources)
	at := func() float64 { // a leaf of the hundred, as it is now
		r := f.operate(ctx, t, small, "instantiate", hundred)
		f.operate(ctx, t, small, "terminate", hundred)
		return r.leafMillis
	}
	at() // it warms up
	before := at()
	applied := f.operate(ctx, t, d, "instantiate", clusters)
	after := at()
	t.add(f.costs(1, clusters, "leaf_ms", "instantiate", []run{applied})...)
	t.add(
		values("leaf_ms_100_beside_10000", "instantiate of 3 apps on 100 of 10,000 clusters, right before and after it: wall time per (app, cluster)", "ms", []float64{before, after}),
		most("leaf_growth_10000", "wall time per (app, cluster) of one app on 10,000 clusters over that of 3 apps on 100 right before and after it", "ratio", applied.leafMillis/((before+after)/2), 1.5),
		measured("ten_thousand_accepted_ms", "one app on 10,000 clusters: until the POST was answered", []time.Duration{applied.accepted}),
	)
	events, bytes := f.largest(ctx, t, d, applied.contextID, clusters)
	removed := f.operate(ctx, t, d, "terminate", clusters)
	t.add(f.costs(1, clusters, "leaf_terminate_ms", "terminate", []run{removed})...)
	t.add(
		values("ten_thousand_history_events", "one app on 10,000 clusters: largest workflow's history", "events", []float64{float64(events)}),
		values("ten_thousand_history_kib", "one app on 10,000 clusters: largest workflow's history", "KiB", []float64{float64(bytes) / 1024}),
	)
}

// workers measures the scale app on 100 clusters with one, two and four workers.
func workers(ctx context.Context, t *trial) {
	t.Helper()
	const clusters, rounds = 100, 5
	f := simulate(ctx, t, clusters, clusters)
	d := f.deployment(ctx, t, "workers", firstLabel(clusters), scaleApps, scaleResources)
	for n := 1; n <= 4; n++ {
		if n > 1 {
			f.AddWorker()
		}
		if n == 3 {
			continue
		}
		var per []float64
		for round := range rounds + 1 {
			if r := f.operate(ctx, t, d, "instantiate", clusters); round > 0 { // the first warms up
				per = append(per, r.leafMillis)
			}
			f.operate(ctx, t, d, "terminate", clusters)
		}
		t.add(values(fmt.Sprintf("leaf_ms_100_%d_workers", n),
			fmt.Sprintf("instantiate, %d apps × %d clusters × %d resources, %d workers: wall time per (app, cluster)", scaleApps, clusters, scaleResources, n), "ms", per))
	}
}

// storage is what has come into the store since before, per (app, cluster); of 100 clusters the key is without the size.
func (f *simulated) storage(ctx context.Context, t testing.TB, key string, size int, what string, before map[string]int) []figure {
	t.Helper()
	total, where := grown(before, f.stored(ctx, t))
	per := float64(total) / float64(scaleApps*size)
	stored := values(fmt.Sprintf("%s_%d", key, size), fmt.Sprintf("bytes stored per (app, cluster) at %d clusters, %s (%s)", size, what, where), "bytes", []float64{per})
	if key == "stored_bytes_per_leaf" && size == 100 {
		stored.Key = key
		stored = atMost(stored, 4096)
	}
	return []figure{stored}
}

// costs are the medians over runs.
func (f *simulated) costs(apps, size int, key, operation string, runs []run) []figure {
	what := fmt.Sprintf("%s, %d apps × %d clusters × %d resources", operation, apps, size, scaleResources)
	per := make([]float64, 0, len(runs))
	for _, r := range runs {
		per = append(per, r.leafMillis)
	}
	figures := []figure{values(fmt.Sprintf("%s_%d", key, size), what+": wall time per (app, cluster)", "ms", per)}
	if key == "leaf_ms" && size == 1000 {
		worker := values("worker_peak_mib_1000", what+": peak memory of worker", "MiB", peaks(runs, "worker"))
		figures = append(figures, goal(worker, "≤ 1024", worker.Max <= 1024))
	}
	for _, process := range []string{"worker", "temporal", "database", "api", "fleet"} {
		cpu := make([]float64, 0, len(runs))
		for _, r := range runs {
			cpu = append(cpu, r.cpu[process].Seconds()*1000/float64(apps*size))
		}
		figures = append(figures,
			values(fmt.Sprintf("%s_%d_cpu_%s", key, size, process), what+": CPU time of "+process+" per (app, cluster)", "ms", cpu),
			values(fmt.Sprintf("%s_%d_peak_mib_%s", key, size, process), what+": peak memory of "+process, "MiB", peaks(runs, process)))
	}
	return figures
}

// peaks are those of a process.
func peaks(runs []run, process string) (mib []float64) {
	for _, r := range runs {
		mib = append(mib, r.peakMiB[process])
	}
	return mib
}

// goal adds what a figure should be.
func goal(f figure, is string, met bool) figure {
	f.Goal, f.Met = is, &met
	return f
}

// values is a figure of any unit.
func values(key, what, unit string, samples []float64) figure {
	s := slices.Sorted(slices.Values(samples))
	// Processor time is counted in ticks: what is small enough has none, and a ratio to it is no number.
	s = slices.DeleteFunc(s, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	if len(s) == 0 {
		return figure{Key: key, What: what, Unit: unit}
	}
	return figure{
		Key: key, What: what, N: len(s), Unit: unit, sorted: s,
		Min: s[0], Median: s[len(s)/2], P95: s[(len(s)*95+99)/100-1], Max: s[len(s)-1],
	}
}

// confident adds the interval that has the true median with 95 % confidence, whatever the samples' distribution: so
// many of n samples are below the median as so many of n coins show heads.
func confident(f figure) figure {
	n, outside := f.N, 0.0
	chance := math.Pow(0.5, float64(n)) // of k heads
	for k := range n / 2 {
		if outside += 2 * chance; outside > 0.05 {
			break
		}
		f.Low, f.High = &f.sorted[k], &f.sorted[n-1-k]
		chance *= float64(n-k) / float64(k+1)
	}
	return f
}
