package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/test/harness"
)

// combinedStatus measures tables over stored clusters, asked for and streamed, and how soon a change in a real one shows.
func combinedStatus(ctx context.Context, t *trial) {
	t.Helper()
	t.stage("stored", func(t *trial) { t.add(storedTables(ctx, t)...) })
	t.stage("fresh", func(t *trial) { t.add(freshTables(ctx, t)...) })
}

// fiveCollectors are what is asked of a Deployment: those of the seed's examples.
var fiveCollectors = map[string]string{
	"count":     `{"combinedFields":[{"name":"count","type":"COUNT"}]}`,
	"histogram": `{"groupBy":[{"name":"available","def":"returned.status.availableReplicas"}],"combinedFields":[{"name":"count","type":"COUNT"}]}`,
	"sums": `{"combinedFields":[{"name":"wanted","type":"SUM","subject":"obj.spec.replicas"},` +
		`{"name":"available","type":"SUM","subject":"returned.status.availableReplicas"}]}`,
	"lacking": `{"filter":"obj.spec.replicas != returned.status.availableReplicas","select":[{"name":"wec","def":"inventory.name"}]}`,
	"full": `{"select":[{"name":"wec","def":"inventory.name"},{"name":"status","def":"returned.status"},` +
		`{"name":"stored","def":"propagation.lastReturnedUpdateTimestamp"}]}`,
}

// reporting is a group that was never instantiated: what there would be of it is put into the store.
type reporting struct {
	key       domain.Key
	contextID string
	objects   int
	store     *store.Store
}

func reportingCluster(n int) domain.ClusterName {
	return domain.ClusterName{Provider: "fleet", Name: fmt.Sprintf("edge-%05d", n)}
}

// reporter is who hears the clusters of all these groups.
const reporter = "bench"

// lives has the reporter live until end is called: clusters would count as not heard, which changes their rows.
func lives(ctx context.Context, t testing.TB, s *store.Store) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := s.Pulse(ctx, reporter, time.Now()); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		ended <- nil
	}()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// reported stores a group with so many Deployments on so many clusters, all of which have reported.
func reported(ctx context.Context, t testing.TB, s *store.Store, name, contextID string, clusters, objects int) *reporting {
	t.Helper()
	now := time.Now()
	project := domain.Key("projects/" + name)
	require.NoError(t, s.Create(ctx, &domain.Project{Metadata: domain.Metadata{Name: name}}))
	g := &domain.DeploymentIntentGroup{
		Identity: domain.Identity{Parent: project + "/composite-apps/a/v1"}, Metadata: domain.Metadata{Name: "group"}, History: domain.NewHistory(now),
	}
	g.History.Append(domain.Instantiated, contextID, 1, now)
	require.NoError(t, s.Create(ctx, g))
	r := &reporting{domain.KeyOf(g), contextID, objects, s}
	a := plan.App{Name: "web"}
	bundle := plan.Bundle{App: "web"}
	for i := range objects {
		id := plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: fmt.Sprint("web-", i)}
		a.Resources = append(a.Resources, id)
		bundle.Resources = append(bundle.Resources, plan.Resource{ResourceID: id, Manifest: json.RawMessage(fmt.Sprintf(
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q},"spec":{"replicas":3}}`, id.Name))})
	}
	var g2 errgroup.Group
	g2.SetLimit(8)
	for c := range clusters {
		on := reportingCluster(c)
		a.Targets = append(a.Targets, plan.Target{ClusterName: on})
		g2.Go(func() error {
			if err := r.says(ctx, c, 3); err != nil {
				return err
			}
			if err := s.PutWatch(ctx, reporter, &domain.Watch{Cluster: on, Connected: true, LastSeen: now}); err != nil {
				return err
			}
			return s.PutLeaf(ctx, domain.Leaf{
				ContextID: contextID, App: "web", Cluster: on, Operation: domain.OpInstantiate, Connectivity: domain.ConnectivityAvailable,
				Marks: domain.NewMarks(objects, domain.MarkApplied).Encode(),
			})
		})
	}
	require.NoError(t, g2.Wait())
	require.NoError(t, s.Pulse(ctx, reporter, now))
	put := func(v any) domain.Digest {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		digest, err := s.PutBlob(ctx, data)
		require.NoError(t, err)
		return digest
	}
	a.Bundle = put(bundle)
	require.NoError(t, s.PutInstance(ctx, &domain.Instance{
		ContextID: contextID, Owner: r.key, Operation: domain.OpInstantiate, Status: domain.ContextInstantiated, Ended: now, Namespace: "default",
		Plan: put(plan.Plan{ContextID: contextID, Owner: r.key, Namespace: "default", Apps: []plan.App{a}}),
	}))
	intent := domain.StatusIntents.New().(*domain.StatusIntent)
	intent.Parent, intent.Name = r.key, "five"
	for name, spec := range fiveCollectors {
		c := domain.ProjectCollectors.New().(*domain.StatusCollector)
		c.Parent, c.Metadata.Name = project, name
		require.NoError(t, json.Unmarshal([]byte(spec), &c.Spec))
		require.NoError(t, s.Create(ctx, c))
		intent.Spec.StatusCollectors = append(intent.Spec.StatusCollectors, name)
	}
	require.NoError(t, s.Create(ctx, intent))
	return r
}

// says has a cluster report so many available replicas.
func (r *reporting) says(ctx context.Context, cluster, available int) error {
	o := &domain.Observation{
		ObservedApp: domain.ObservedApp{ContextID: r.contextID, App: "web", Cluster: reportingCluster(cluster)}, Kinds: []string{"Deployment.apps"},
	}
	for i := range r.objects {
		name := fmt.Sprint("web-", i)
		o.Resources = append(o.Resources, domain.ObservedResource{
			Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: name, Status: "Ready",
			JSON: fmt.Appendf(nil, `{"metadata":{"name":%q,"generation":1},"spec":{"replicas":3},"status":{"observedGeneration":1,"replicas":3,`+
				`"updatedReplicas":3,"readyReplicas":%d,"availableReplicas":%[2]d,"conditions":[{"type":"Available","status":"True"}]}}`, name, available),
		})
	}
	return r.store.PutObservation(ctx, o)
}

// storedTables measures one object on 10,000 clusters with five collectors, and many objects on few.
func storedTables(ctx context.Context, t testing.TB) []figure {
	t.Helper()
	many, few, subscribers, changes := sizedDown(10_000, 500), sizedDown(1_000, 200), sizedDown(500, 20), sizedDown(40, 4)
	s := harness.NewStack(t)
	db, err := store.Open(s.StoreConfig())
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(ctx))
	defer lives(ctx, t, db)()
	small := reported(ctx, t, db, "small", "2621114006130701073", few, 1)
	wide := reported(ctx, t, db, "wide", "2621114006130701075", 100, 12)
	api := s.Client.API()

	path := func(r *reporting) string { return client.At(r.key) + "/combined-status" }
	get := func(path string) {
		_, err := s.Read(ctx, path, nil)
		require.NoError(t, err)
	}
	// cost is what each of some answers costs the API in processor time. Each asks for a kind more that is not there, so that
	// nobody has asked for the same: what is kept for others is not what is measured.
	asked := 0
	cost := func(r *reporting, n int) time.Duration {
		get(path(r)) // what clusters say is in memory then
		began := s.API.CPU(t)
		for range n {
			asked++
			get(fmt.Sprintf("%s?kind=Deployment&kind=none-%d", path(r), asked))
		}
		return (s.API.CPU(t) - began) / time.Duration(n)
	}
	ofFew := cost(small, 20)
	over := overStatus(ctx, t, s, wide)
	reporting, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- wide.goOn(reporting) }()
	overChanging := overStatus(ctx, t, s, wide)
	stop()
	require.NoError(t, <-stopped)

	large := reported(ctx, t, db, "large", "2621114006130701074", many, 1)
	file := filepath.Join(t.TempDir(), "heap")
	heap := func() float64 {
		require.NoError(t, s.HeapOfAPI(ctx, file))
		return harness.Metrics(ctx, t, s.URL())["go_memstats_heap_alloc_bytes"] / (1 << 20)
	}
	before := heap()
	first := watchTables(ctx, t, api, large.key)
	memory := heap() - before
	whole := cost(large, 3)
	shared := s.API.CPU(t)
	for range 20 {
		get(path(large))
	}
	shared = (s.API.CPU(t) - shared) / 20
	growth := (whole.Seconds() / float64(many)) / (ofFew.Seconds() / float64(few))

	// One stream: what a change costs beyond what looking costs anyway.
	const rest = 500 * time.Millisecond
	span := time.Duration(changes) * rest
	time.Sleep(2 * time.Second)
	idle := s.API.CPU(t)
	time.Sleep(span)
	idle = s.API.CPU(t) - idle
	var took []time.Duration
	profiled := make(chan error, 1)
	go func() { profiled <- profileWhile(ctx, s, span) }()
	busy, began := s.API.CPU(t), time.Now()
	for i := range changes {
		until := time.Now().Add(rest)
		require.NoError(t, large.says(ctx, i*7, 100+i))
		sent := time.Now()
		took = append(took, first.next(t).Sub(sent))
		time.Sleep(time.Until(until))
	}
	// Without the changes it would have taken as much in the same time as while nothing changed.
	busy = s.API.CPU(t) - busy - time.Duration(float64(idle)*time.Since(began).Seconds()/span.Seconds())
	require.NoError(t, <-profiled)
	change := max(busy, 0) / time.Duration(changes)
	fraction := change.Seconds() / whole.Seconds()

	others := make([]*tables, 0, subscribers)
	for range subscribers - 1 {
		others = append(others, watchTables(ctx, t, api, large.key))
	}
	var evaluations []float64
	for i := range 10 {
		n := harness.Metrics(ctx, t, s.URL())["drover_status_evaluations_total"]
		require.NoError(t, large.says(ctx, i*11+1, 200+i))
		first.next(t)
		for _, o := range others {
			o.next(t)
		}
		evaluations = append(evaluations, harness.Metrics(ctx, t, s.URL())["drover_status_evaluations_total"]-n)
	}
	p95 := percentile(took, 95).Seconds() * 1000
	once := values("combined_evaluations_per_change", "evaluations for a change that 500 subscribers see", "evaluations", evaluations)
	return []figure{
		goal(values("combined_change_p95_ms", "one of 10,000 clusters stored until the event of five tables: p95", "ms", []float64{p95}), "≤ 500", p95 <= 500),
		measured("combined_change_ms", "the same", took),
		goal(values("combined_change_over_full", "CPU of the API for that change over a whole answer's", "ratio", []float64{fraction}), "≤ 0.02", fraction <= 0.02),
		values("combined_whole_10000_cpu_ms", "CPU of the API for a whole answer", "ms", []float64{whole.Seconds() * 1000}),
		values("combined_idle_10000_cpu_ms_per_s", "CPU of the API while it is streamed and nothing changes, a second", "ms",
			[]float64{idle.Seconds() * 1000 / span.Seconds()}),
		goal(values("combined_growth_10000", "CPU of a whole answer, per row, over 1,000 clusters'", "ratio", []float64{growth}), "≤ 1.2", growth <= 1.2),
		goal(values("combined_mib_10000", "what streaming it adds to the API's heap", "MiB", []float64{memory}), "≤ 64", memory <= 64),
		goal(once, "1", once.Median == 1),
		values("combined_shared_10000_cpu_ms", "CPU of the API for an answer where nothing has changed since the last one", "ms",
			[]float64{shared.Seconds() * 1000}),
		goal(values("combined_over_status", "p99 of combined-status over status=ready's, 1,200 resources, 20 clients", "ratio", []float64{over}), "≤ 1.5", over <= 1.5),
		values("combined_over_status_changing", "the same while a cluster reports every 50 ms", "ratio", []float64{overChanging}),
	}
}

// goOn has one cluster after the other report something new, until ctx ends.
func (r *reporting) goOn(ctx context.Context) error {
	const every = 50 * time.Millisecond
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		if err := r.says(context.WithoutCancel(ctx), n%100, 10+n); err != nil {
			return err
		}
	}
}

// profileWhile writes profiles of processor time into the folder that DROVER_BENCH_PROFILE names, if it does.
func profileWhile(ctx context.Context, s *harness.Stack, d time.Duration) error {
	folder := os.Getenv("DROVER_BENCH_PROFILE")
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return s.Profile(ctx, d, folder)
}

// overStatus is by how much longer a whole answer takes than a status, by 20 clients.
func overStatus(ctx context.Context, t testing.TB, s *harness.Stack, r *reporting) float64 {
	t.Helper()
	const clients, times = 20, 10
	p99 := func(path string) time.Duration {
		each := make([][]time.Duration, clients)
		var g errgroup.Group
		for i := range each {
			g.Go(func() error {
				for range times {
					began := time.Now()
					if _, err := s.Read(ctx, path, nil); err != nil {
						return err
					}
					each[i] = append(each[i], time.Since(began))
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
		var all []time.Duration
		for _, took := range each {
			all = append(all, took...)
		}
		return percentile(all, 99)
	}
	status, tables := client.At(r.key)+"/status?status=ready", client.At(r.key)+"/combined-status"
	p99(status)
	p99(tables)
	return p99(tables).Seconds() / p99(status).Seconds()
}

// tables is a stream of tables.
type tables struct {
	arrived chan time.Time // closed when the stream has ended
	err     error          // why
}

// watchTables begins a stream, and returns when the list is there.
func watchTables(ctx context.Context, t testing.TB, api *client.API, group domain.Key) *tables {
	t.Helper()
	w := &tables{arrived: make(chan time.Time, 1000)}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(w.arrived)
		for event, err := range api.StreamCombinedStatus(ctx, group, url.Values{}, "") {
			if err == nil && event.Kind != string(notify.Status) && event.Kind != string(notify.Change) {
				err = fmt.Errorf("the stream ends: %s %s", event.Kind, event.Data)
			}
			if w.err = err; err != nil {
				return
			}
			w.arrived <- time.Now()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	w.next(t)
	return w
}

// next is when the next event came.
func (w *tables) next(t testing.TB) time.Time {
	t.Helper()
	select {
	case at, open := <-w.arrived:
		if !open {
			require.FailNow(t, "the stream has ended", "%v", w.err)
		}
		return at
	case <-time.After(time.Minute):
		require.FailNow(t, "no event")
		return time.Time{}
	}
}

// freshTables measures the time from the request that changes something in a real cluster until the event of a table.
func freshTables(ctx context.Context, t testing.TB) []figure {
	t.Helper()
	s := harness.NewStack(t)
	f := newChanging(ctx, t, s, domain.ReportAgentless, harness.NewCluster(t, harness.ClusterNames[0]))
	group := f.group
	project := domain.Key(strings.Join(strings.Split(string(group), "/")[:2], "/"))
	post := func(parent domain.Key, body string) {
		answer := s.Send(ctx, http.MethodPost, s.At(parent), map[string]string{"Content-Type": "application/json"}, body)
		require.Equal(t, http.StatusCreated, answer.Code, string(answer.Body))
	}
	post(project.Child(domain.ProjectCollectors.Collection),
		`{"metadata":{"name":"change"},"spec":{"select":[{"name":"change","def":"returned.metadata.annotations.change"}]}}`)
	post(group.Child(domain.StatusIntents.Collection), fmt.Sprintf(
		`{"metadata":{"name":"change"},"spec":{"kinds":["ConfigMap"],"objectNames":[%q],"statusCollectors":["change"]}}`, f.name))
	w := watchTables(ctx, t, s.Client.API(), group)
	var took []time.Duration
	for i := range sizedDown(40, 3) {
		time.Sleep(1200*time.Millisecond + time.Duration(i)*7*time.Millisecond)
		sent := f.change(ctx, t)
		took = append(took, w.next(t).Sub(sent))
	}
	p95 := percentile(took, 95).Seconds()
	return []figure{
		goal(values("combined_fresh_p95_s", "change in a real cluster until the event of a table: p95", "s", []float64{p95}), "≤ 1", p95 <= 1),
		measured("combined_fresh_ms", "the same", took),
	}
}
