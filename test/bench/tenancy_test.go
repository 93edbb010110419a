package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/match"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/universe"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// The tenants of the figures: issue 13's 100 tenants of 100 workloads and 10 rules.
const (
	workloadsEach = 100
	rulesEach     = 10
)

var tenantCount = sizedDown(100, 20)

// tenancies are tenants on simulated clusters, each with rules and a stream of its own.
type tenancies struct {
	*harness.Stack
	*trial
	fleet    *harness.Fleet
	store    *store.Store
	temporal temporalclient.Client
	names    []string
	streams  []*speaker
	told     time.Time // when stalled wrote last
}

// newTenancies starts everything. The tenants are in turns in so many clusters. Of their rules the first matches a workload that
// is wanted (see speaker.say), the others match nothing.
func newTenancies(ctx context.Context, p *trial, clusters int) *tenancies {
	p.Helper()
	e := &tenancies{trial: p, Stack: harness.NewStack(p), fleet: harness.StartFleet(p, clusters)}
	e.temporal = e.TemporalClient()
	var err error
	e.store, err = store.Open(e.StoreConfig())
	require.NoError(p, err)
	p.Cleanup(func() { _ = e.store.Close(context.WithoutCancel(ctx)) })
	api := e.Client.API()
	provider := &domain.ClusterProvider{Metadata: domain.Metadata{Name: "fleet"}}
	require.NoError(p, api.Run(ctx, []client.Step{{Object: provider}}, nil))
	for _, name := range e.fleet.Names {
		c := &domain.Cluster{Identity: domain.Identity{Parent: domain.KeyOf(provider)}, Metadata: domain.Metadata{Name: name}}
		c.Spec.Report = domain.ReportAgentless
		require.NoError(p, api.Run(ctx, []client.Step{{Object: c, File: e.fleet.Kubeconfig(p, name)}}, nil))
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(registerAtOnce)
	for i := range tenantCount {
		name := fmt.Sprintf("tenant-%03d", i)
		e.names = append(e.names, name)
		g.Go(func() error {
			tenant := &domain.Tenant{Metadata: domain.Metadata{Name: name}, Spec: domain.TenantSpec{
				Cluster: "fleet+" + e.fleet.Names[i%clusters], Nodes: domain.NodesAll,
			}}
			return api.Run(gctx, []client.Step{{Object: tenant}}, nil)
		})
	}
	require.NoError(p, g.Wait())
	for _, name := range e.names { // as the API stores them, at once: nobody has said anything yet that they could match
		for i := range rulesEach {
			values := []string{"yes"}
			if i > 0 {
				values = []string{fmt.Sprint("never-", i)}
			}
			require.NoError(p, e.store.Create(ctx, workloadRule(name, fmt.Sprint("rule-", i), values)))
		}
	}
	return e
}

// workloadRule is a rule for workloads whose label wanted is one of the values.
func workloadRule(tenant, name string, values []string) *domain.WorkloadRule {
	return &domain.WorkloadRule{
		Identity: domain.Identity{Parent: domain.TenantKey(tenant)}, Metadata: domain.Metadata{Name: name},
		Spec: domain.WorkloadRuleSpec{
			OrchestratorType: domain.Kubernetes, ResourceType: domain.KindPod, DPUSelectionPolicy: domain.AnyNode,
			WorkloadTerms: []domain.WorkloadTerm{{MatchExpressions: []domain.MatchExpression{
				{Key: "metadata.resourceNamespace", Operation: domain.OperationIn, Values: []string{"default", "apps"}},
				{Key: "state.extra.labels.wanted", Operation: domain.OperationIn, Values: values},
				{Key: "state.extra.annotations['example.com/skip']", Operation: domain.OperationDoesNotExist, Values: []string{""}},
			}}},
			WorkloadInfoInject: []domain.WorkloadInfoInject{{Key: "@", AsAnnotation: &domain.WorkloadInfoAsAnnotation{Name: "full-workload-info"}}},
			RuleTemplate: domain.Template(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"side","labels":{"app":"side"}},"spec":{` +
				`"automountServiceAccountToken":false,"containers":[{"name":"side","image":"registry.example.com/side:1.2.3",` +
				`"args":["--listen=:8080"],"resources":{"requests":{"cpu":"10m","memory":"32Mi"}}}]}}`),
		},
	}
}

// speaker is the cluster of a tenant.
type speaker struct {
	tenant     string
	connection *grpc.ClientConn
	stream     grpc.ClientStreamingClient[universe.WorkloadStreamRequest, universe.WorkloadStreamResponse]
	mu         sync.Mutex // of sending
	sent       int        // messages
	ended      chan error // with what the API has ended the stream
}

// connect begins a stream of each tenant, on a connection of its own.
func (e *tenancies) connect(ctx context.Context) {
	e.Helper()
	e.streams = e.streams[:0]
	for _, name := range e.names {
		s := &speaker{tenant: name, connection: e.TenantConnection("")}
		e.streams = append(e.streams, s)
	}
	e.begin(ctx)
}

// begin begins a stream on each connection.
func (e *tenancies) begin(ctx context.Context) {
	e.Helper()
	var g errgroup.Group
	for _, s := range e.streams {
		g.Go(func() (err error) {
			s.sent, s.ended = 0, make(chan error, 1)
			s.stream, err = universe.NewWorkloadServiceClient(s.connection).WorkloadStream(harness.ForTenant(ctx, s.tenant))
			if err == nil {
				go func(stream grpc.ClientStreamingClient[universe.WorkloadStreamRequest, universe.WorkloadStreamResponse]) {
					s.ended <- stream.RecvMsg(&universe.WorkloadStreamResponse{})
				}(s.stream)
			}
			return err
		})
	}
	require.NoError(e, g.Wait())
}

// workload is number n of a tenant's. Change is part of its state, and wanted its label.
func workload(n, change int, wanted string) *universe.WorkloadUpdate {
	name := fmt.Sprintf("backend-%02d-6d4cf56db6-x%04d", n%7, n)
	u := &universe.WorkloadUpdate{
		WorkloadMetadata: &universe.WorkloadMetadata{
			Id: fmt.Sprintf("3f1c2b7e-5a0d-4c6e-9b1f-%012d", n), Orchestrator: universe.OrchestratorType_ORCHESTRATOR_TYPE_KUBERNETES,
			ResourceType: domain.KindPod, ResourceNamespace: "default", ResourceName: name,
		},
		WorkloadState: &universe.WorkloadState{
			NodeName: fmt.Sprint("node-", n%10), Ready: true,
			Extra: map[string]*universe.WorkloadState_ExtraData{
				"labels": {Data: map[string]string{
					"app.kubernetes.io/name": "backend", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "6d4cf56db6",
					"tier": "backend", "wanted": wanted,
				}},
				"annotations": {Data: map[string]string{
					"example.com/owner": "team-backend@example.com", "kubernetes.io/config.seen": "2026-01-02T03:04:05.000000000Z",
					"example.com/change": fmt.Sprint(change),
				}},
			},
		},
	}
	return u
}

// sync tells of all workloads of a tenant.
func (s *speaker) sync(count int, wanted string) error {
	all := &universe.WorkloadSync{}
	for n := range count {
		all.WorkloadUpdates = append(all.WorkloadUpdates, workload(n, 0, wanted))
	}
	return s.send(&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: all}})
}

// update tells of a workload.
func (s *speaker) update(u *universe.WorkloadUpdate) error {
	return s.send(&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: u}})
}

func (s *speaker) send(m *universe.WorkloadStreamRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	return s.stream.Send(m)
}

// all has each speaker say something, at the same time.
func (e *tenancies) all(say func(*speaker) error) {
	e.Helper()
	var g errgroup.Group
	for _, s := range e.streams {
		g.Go(func() error { return say(s) })
	}
	require.NoError(e, g.Wait())
}

// counted is what the API has counted of something, by tenant: see app.tenantMetrics.
func (e *tenancies) counted(ctx context.Context, what string) map[string]int {
	e.Helper()
	counts := map[string]int{}
	for name, n := range harness.Metrics(ctx, e, e.URL()) {
		if tenant, ok := strings.CutPrefix(name, "drover_tenant_"+what+`{tenant="`); ok {
			counts[strings.TrimSuffix(tenant, `"}`)] = int(n)
		}
	}
	return counts
}

// total is the sum of what was counted.
func (e *tenancies) total(ctx context.Context, what string) (n int) {
	e.Helper()
	for _, of := range e.counted(ctx, what) {
		n += of
	}
	return n
}

// taken waits until all that speakers have said since some counts is stored, with what follows from it.
func (e *tenancies) taken(ctx context.Context, before map[string]int) {
	e.Helper()
	e.until(ctx, calm, "not all that was said is stored", func() bool {
		for _, s := range e.streams {
			select {
			case err := <-s.ended:
				require.NoError(e, err, "the stream of "+s.tenant)
			default:
			}
		}
		now := e.counted(ctx, "messages_total")
		return !slices.ContainsFunc(e.streams, func(s *speaker) bool { return now[s.tenant]-before[s.tenant] < s.sent })
	})
}

// workflowsOfMatches counts the workflows that settle matches, those that have ended too.
func (e *tenancies) workflowsOfMatches(ctx context.Context) int {
	e.Helper()
	r, err := e.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType IN ('%s', '%s')", workflows.SettleTenantName, workflows.SettleMatchName),
	})
	require.NoError(e, err)
	return int(r.GetCount())
}

// records are the matches of all tenants.
func (e *tenancies) records(ctx context.Context) (all []domain.Match) {
	e.Helper()
	for _, name := range e.names {
		records, err := e.store.Matches(ctx, name)
		require.NoError(e, err)
		all = append(all, records...)
	}
	return all
}

// settled waits until nothing is due, and n matches are there as they are wanted.
func (e *tenancies) settled(ctx context.Context, n int) {
	e.Helper()
	e.until(ctx, 4*calm, fmt.Sprintf("there are not %d matches that are settled", n), func() bool {
		records := e.records(ctx)
		return len(records) == n && !slices.ContainsFunc(records, func(m domain.Match) bool { return !m.Due.IsZero() || m.Mark != domain.MarkApplied })
	})
	require.Equal(e, n, e.objects())
}

// objects is how many objects of matches are in all clusters.
func (e *tenancies) objects() int {
	e.Helper()
	return e.fleet.Count(e, plan.DeploymentLabel)
}

// arrivals is when objects of matches have come to be in the clusters.
type arrivals struct {
	mu sync.Mutex
	at map[string]time.Time // by tenant and workload
}

// watchArrivals watches all clusters.
func (e *tenancies) watchArrivals(ctx context.Context) *arrivals {
	e.Helper()
	a := &arrivals{at: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	for _, name := range e.fleet.Names {
		pods := kubetest.Dynamic(e, e.fleet.Kubeconfig(e, name)).Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: plan.DeploymentLabel})
		require.NoError(e, err)
		w, err := pods.Watch(ctx, metav1.ListOptions{LabelSelector: plan.DeploymentLabel, ResourceVersion: list.GetResourceVersion()})
		require.NoError(e, err)
		watching.Go(func() {
			for event := range w.ResultChan() {
				if o, ok := event.Object.(*unstructured.Unstructured); ok && event.Type == watch.Added {
					a.mu.Lock()
					a.at[strings.TrimPrefix(o.GetNamespace(), "tenant-")+"/"+o.GetAnnotations()[match.AnnotationWorkload]] = time.Now()
					a.mu.Unlock()
				}
			}
		})
		e.Cleanup(w.Stop)
	}
	e.Cleanup(func() { cancel(); watching.Wait() })
	return a
}

func (a *arrivals) of(tenant string, u *universe.WorkloadUpdate) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.at[tenant+"/"+u.GetWorkloadMetadata().GetId()]
	return at, ok
}

// kept is how many bytes the store has in a divided collection.
func (e *tenancies) kept(ctx context.Context, collection string) int {
	e.Helper()
	return storedAt(ctx, e, e.DatabaseURI())[collection]
}

// heap is what is alive in the API's memory, in KiB. There are two collections, as the first leaves what pools keep.
func (e *tenancies) heap(ctx context.Context) float64 {
	e.Helper()
	folder := os.Getenv("DROVER_BENCH_PROFILE")
	if folder == "" {
		folder = e.TempDir()
	}
	for range 2 {
		require.NoError(e, e.HeapOfAPI(ctx, filepath.Join(folder, "heap-of-api.pprof")))
	}
	return harness.Metrics(ctx, e, e.URL())["go_memstats_heap_alloc_bytes"] / 1024
}

// profiled writes CPU profiles of all processes while something is measured, into a folder in that which DROVER_BENCH_PROFILE names.
func (e *tenancies) profiled(ctx context.Context, what string, over time.Duration) (done func()) {
	e.Helper()
	folder := os.Getenv("DROVER_BENCH_PROFILE")
	if folder == "" {
		return func() {}
	}
	folder = filepath.Join(folder, what)
	require.NoError(e, os.MkdirAll(folder, 0o755))
	ended := make(chan error, 1)
	go func() { ended <- e.Profile(ctx, over, folder) }()
	return func() { require.NoError(e, <-ended) }
}
