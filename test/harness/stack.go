package harness

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"crypto/rand"

	"github.com/stretchr/testify/require"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/codec"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/tempdir"
	"github.com/drover-io/drover/internal/tenantcert"
)

// Stack is the product and its servers, each a process of its own that a test may kill and start again on
// the same data and the same ports.
type Stack struct {
	t                  testing.TB
	dir                string
	servers            Servers
	ports              [11]int // Temporal, Web UI, database, API, worker's metrics, profiles of all four, gRPC, tenants
	Temporal, Database *Process
	API, Worker        *Process
	Client             *client.Client
	// Slow lets the writes of API and worker take their time when a test says so; nil for nothing between.
	Slow *mongotest.Proxy
	Wire *Wire // to Temporal; nil without Servers.WireToTemporal
}

// Servers are what a Stack uses of what is there; the zero value is nothing.
type Servers struct {
	// Postgres is the URL of Temporal's database. When it is empty Temporal has a SQLite file.
	Postgres string
	// SlowDatabase has API and worker reach the database by Stack.Slow.
	SlowDatabase bool
	// WireToTemporal has API and worker reach Temporal by Stack.Wire.
	WireToTemporal bool
	// Traces is the URL that API and worker send traces to; "" for none.
	Traces string
	// Keys are lines of the file of secret keys; "" for one that is made.
	Keys string
	// Program is what API and worker are, in build/bin; drover when it is "".
	Program string
}

// NewStack starts everything.
func NewStack(t testing.TB) *Stack {
	t.Helper()
	return NewStackOn(t, Servers{})
}

// NewStackOn is NewStack on servers that are there.
func NewStackOn(t testing.TB, servers Servers) *Stack {
	t.Helper()
	s := &Stack{t: t, dir: t.TempDir(), servers: servers, ports: [11]int(freeport.Block(11))}
	if servers.Keys != "" {
		require.NoError(t, os.WriteFile(s.Keys(), []byte(servers.Keys), 0o600))
	}
	_, err := secret.LoadOrCreate(s.Keys())
	require.NoError(t, err)
	require.NoError(t, tenantcert.Make(s.Certificates()))
	s.StartTemporal()
	s.StartDatabase()
	if servers.WireToTemporal {
		s.Wire = NewWire(t, s.temporalAddress())
	}
	if servers.SlowDatabase {
		s.Slow = mongotest.NewProxy(t, s.DatabaseURI())
	}
	s.StartAPI()
	s.StartWorker()
	s.Client = client.New(s.URL() + "/v2")
	t.Cleanup(s.Client.Close)
	s.tellOfFailure()
	return s
}

// tellOfFailure shows the logs of a test that has failed.
func (s *Stack) tellOfFailure() {
	s.t.Cleanup(func() {
		if !s.t.Failed() {
			return
		}
		for _, p := range []*Process{s.API, s.Worker, s.Temporal, s.Database} {
			s.t.Logf("the end of the log of %s:\n%s", p.name, last(p.Log(), 4000))
		}
	})
}

// shared is the stack of all tests of a process that disturb nobody else on it.
var shared struct {
	once  sync.Once
	stack *Stack
	life  *lifetime
}

// SharedStack is a stack that others use too: it is started when first asked for, and nothing of it may be killed.
func SharedStack(t testing.TB) *Stack {
	t.Helper()
	shared.once.Do(func() {
		shared.life = &lifetime{TB: t}
		shared.stack = NewStack(shared.life)
	})
	require.NotNil(t, shared.stack, "the shared stack could not be started")
	s := *shared.stack
	s.t = t
	s.tellOfFailure()
	return &s
}

// lifetime is that of the process, for what a test starts and does not end.
type lifetime struct {
	testing.TB
	ends []func()
}

// Cleanup has f called when the process ends.
func (l *lifetime) Cleanup(f func()) { l.ends = append(l.ends, f) }

// TempDir is a folder until then.
func (l *lifetime) TempDir() string {
	dir, err := tempdir.Make("drover-stack")
	require.NoError(l, err)
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Failed says nothing: each test tells of its own failure.
func (l *lifetime) Failed() bool { return false }

// Stop ends what tests share; TestMain calls it at the end.
func Stop() {
	if shared.life != nil {
		for _, end := range slices.Backward(shared.life.ends) {
			end()
		}
	}
	clusters.stop()
	agentClusters.stop()
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// URL is the API's, without /v2.
func (s *Stack) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.ports[3]) }

// RPC is the address of the API's gRPC services.
func (s *Stack) RPC() string { return fmt.Sprintf("127.0.0.1:%d", s.ports[9]) }

// StartTemporal starts the Temporal server.
func (s *Stack) StartTemporal() {
	s.t.Helper()
	store := "--db=" + filepath.Join(s.dir, "temporal.db")
	if s.servers.Postgres != "" {
		store = "--postgres=" + s.servers.Postgres
	}
	s.Temporal = Start(s.t, "temporal", "ready", nil, built.Binary(s.t, "drover-local"), "temporal", store,
		"--port", fmt.Sprint(s.ports[0]), "--ui-port", fmt.Sprint(s.ports[1]), "--namespace", "drover",
		"--profile-listen", s.profiles(5))
}

// LoseTemporal removes what Temporal has in its SQLite file. It must not run.
func (s *Stack) LoseTemporal() {
	s.t.Helper()
	for _, file := range s.temporalFiles() {
		require.NoError(s.t, os.Remove(file))
	}
}

// KeepTemporal copies what Temporal has in its SQLite file, and returns what puts the copy back in the place of what there is. It must not run
// at either time.
func (s *Stack) KeepTemporal() (restore func()) {
	s.t.Helper()
	kept := map[string][]byte{}
	for _, file := range s.temporalFiles() {
		data, err := os.ReadFile(file)
		require.NoError(s.t, err)
		kept[file] = data
	}
	return func() {
		s.t.Helper()
		s.LoseTemporal()
		for file, data := range kept {
			require.NoError(s.t, os.WriteFile(file, data, 0o600))
		}
	}
}

// temporalFiles are Temporal's SQLite file and what belongs to it.
func (s *Stack) temporalFiles() []string {
	s.t.Helper()
	require.Empty(s.t, s.servers.Postgres)
	files, err := filepath.Glob(filepath.Join(s.dir, "temporal.db*"))
	require.NoError(s.t, err)
	require.NotEmpty(s.t, files)
	return files
}

// StartDatabase starts the document store.
func (s *Stack) StartDatabase() {
	s.t.Helper()
	s.Database = Start(s.t, "database", "ready", nil, built.Binary(s.t, "drover-local"), "mongo",
		"--dir", filepath.Join(s.dir, "documents"), "--database", "drover", "--port", fmt.Sprint(s.ports[2]), "--profile-listen", s.profiles(6))
}

// Use has API and worker be another program of build/bin from their next start on.
func (s *Stack) Use(program string) { s.servers.Program = program }

func (s *Stack) program() string { return built.Binary(s.t, cmp.Or(s.servers.Program, "drover")) }

// StartAPI starts the API.
func (s *Stack) StartAPI() {
	s.t.Helper()
	s.API = Start(s.t, "api", "ready", s.Env(), s.program(), "api", "--profile-listen", s.profiles(7))
	if s.Client != nil {
		s.Client.Close() // the connections to the one before
		raw.CloseIdleConnections()
	}
}

// StartWorker starts the worker.
func (s *Stack) StartWorker() {
	s.t.Helper()
	s.Worker = Start(s.t, "worker", "ready", s.Env(), s.program(), "worker", "--profile-listen", s.profiles(8))
}

func (s *Stack) profiles(port int) string { return fmt.Sprintf("127.0.0.1:%d", s.ports[port]) }

// SendTraces starts API and worker anew, which send traces to a URL then; "" for none.
func (s *Stack) SendTraces(url string) {
	s.t.Helper()
	s.Worker.Kill()
	s.API.Kill()
	s.servers.Traces = url
	s.StartAPI()
	s.StartWorker()
}

// Restart ends every process as kill -9 does and starts all of them again on their data, the servers first.
func (s *Stack) Restart() {
	s.t.Helper()
	for _, p := range []*Process{s.API, s.Worker, s.Temporal, s.Database} {
		p.Kill()
	}
	s.StartTemporal()
	s.StartDatabase()
	s.StartAPI()
	s.StartWorker()
}

// Profile writes CPU profiles of all processes over a time, as <process>.pprof into a folder, and returns
// when that is done.
func (s *Stack) Profile(ctx context.Context, over time.Duration, folder string) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range []string{"temporal", "database", "api", "worker"} {
		g.Go(func() error {
			return s.download(ctx, 5+i, fmt.Sprintf("profile?seconds=%.0f", over.Seconds()), filepath.Join(folder, name+".pprof"))
		})
	}
	return g.Wait()
}

// Goroutines writes what all processes are doing now, as <process>.txt into a folder.
func (s *Stack) Goroutines(ctx context.Context, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for i, name := range []string{"temporal", "database", "api", "worker"} {
		g.Go(func() error { return s.download(ctx, 5+i, "goroutine?debug=2", filepath.Join(folder, name+".txt")) })
	}
	return g.Wait()
}

// HeapOfTemporal writes a profile of what is alive in Temporal's heap after a collection.
func (s *Stack) HeapOfTemporal(ctx context.Context, file string) error {
	return s.download(ctx, 5, "heap?gc=1", file)
}

// HeapOfAPI writes a profile of what is alive in the API's heap after a collection.
func (s *Stack) HeapOfAPI(ctx context.Context, file string) error {
	return s.download(ctx, 7, "heap?gc=1", file)
}

// download writes a profile of the process whose profiles are at a port.
func (s *Stack) download(ctx context.Context, port int, profile, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.profiles(port)+"/debug/pprof/"+profile, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// DatabaseURI is how the document store is reached.
func (s *Stack) DatabaseURI() string { return fmt.Sprintf("mongodb://127.0.0.1:%d", s.ports[2]) }

// WorkerURL is where the worker serves its metrics.
func (s *Stack) WorkerURL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.ports[4]) }

// AddWorker starts one more worker, which ends with the test; env overrides what the other has.
func (s *Stack) AddWorker(env ...string) *Process {
	s.t.Helper()
	return Start(s.t, "another worker", "ready", append(s.Env(), env...), s.program(), "worker", "--metrics-listen", freeport.Address())
}

// Replica is one more process of the API.
type Replica struct {
	*Process
	URL     string // without /v2
	Client  *client.Client
	Tenants string // the address of its services for tenants
	RPC     string // the address of its gRPC services
	env     []string
	program string
}

// AddAPI starts one more API, which ends with the test; env overrides what the others have.
func (s *Stack) AddAPI(t testing.TB, env ...string) *Replica {
	t.Helper()
	listen, tenants, rpc := freeport.Address(), freeport.Address(), freeport.Address()
	r := &Replica{
		RPC: rpc, program: s.program(),
		URL: "http://" + listen, Client: client.New("http://" + listen + "/v2"), Tenants: tenants,
		env: append(s.Env(), "DROVER_LISTEN="+listen, "DROVER_GRPC_LISTEN="+rpc, "DROVER_TENANT_LISTEN="+tenants),
	}
	r.Start(t, env...)
	t.Cleanup(r.Client.Close)
	return r
}

// Start starts a replica that was killed again, at its addresses; env overrides what it has had.
func (r *Replica) Start(t testing.TB, env ...string) {
	t.Helper()
	r.env = append(r.env, env...)
	r.Process = Start(t, "another api", "ready", r.env, r.program, "api")
}

func (s *Stack) temporalAddress() string { return fmt.Sprintf("127.0.0.1:%d", s.ports[0]) }

// Env is the configuration of API and worker.
func (s *Stack) Env() []string {
	database := s.DatabaseURI()
	if s.Slow != nil {
		database = s.Slow.URI()
	}
	temporal := s.temporalAddress()
	if s.Wire != nil {
		temporal = s.Wire.Address()
	}
	env := []string{
		"DROVER_TEMPORAL_ADDRESS=" + temporal,
		"DROVER_MONGO_URI=" + database,
		fmt.Sprintf("DROVER_LISTEN=127.0.0.1:%d", s.ports[3]),
		"DROVER_GRPC_LISTEN=" + s.RPC(),
		"DROVER_TENANT_LISTEN=" + s.TenantAddress(),
		"DROVER_TENANT_TLS_CERT=" + filepath.Join(s.Certificates(), "server.crt"),
		"DROVER_TENANT_TLS_KEY=" + filepath.Join(s.Certificates(), "server.key"),
		"DROVER_TENANT_TLS_CA=" + filepath.Join(s.Certificates(), "ca.crt"),
		fmt.Sprintf("DROVER_METRICS_LISTEN=127.0.0.1:%d", s.ports[4]),
		"DROVER_SECRET_KEYS_FILE=" + s.Keys(),
		"DROVER_WEB_UI=" + s.WebUI(),
		"DROVER_AUTH=off",       // as for clients that know no tokens; TestCallersProveWhoTheyAre has it on
		"DROVER_PROJECT_RATE=0", // tests ask as fast as they can; the benchmark noisy-project has it
		"DROVER_LOG_LEVEL=" + level(),
	}
	if s.servers.Traces != "" {
		env = append(env, "DROVER_OTLP_ENDPOINT="+s.servers.Traces, "OTEL_BSP_SCHEDULE_DELAY=100")
	}
	return env
}

func level() string {
	if l := os.Getenv("DROVER_TEST_LOG_LEVEL"); l != "" {
		return l
	}
	return "info"
}

// TemporalClient is what a person has in the Web UI, who may have payloads opened: those of histories too.
func (s *Stack) TemporalClient() temporalclient.Client {
	s.t.Helper()
	root, err := s.Store().Root(s.t.Context())
	require.NoError(s.t, err)
	opened := codec.New(func() (secret.Root, error) { return root, nil })
	payloads, err := converter.NewPayloadCodecGRPCClientInterceptor(converter.PayloadCodecGRPCClientInterceptorOptions{Codecs: []converter.PayloadCodec{opened}})
	require.NoError(s.t, err)
	failures, err := converter.NewFailureGRPCClientInterceptor(converter.NewFailureGRPCClientInterceptorOptions{EncodeCommonAttributes: true})
	require.NoError(s.t, err)
	return s.DialTemporal(temporalclient.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(failures, payloads)}})
}

// DialTemporal is a client that sees what Temporal keeps as it is.
func (s *Stack) DialTemporal(options temporalclient.ConnectionOptions) temporalclient.Client {
	s.t.Helper()
	c, err := temporalclient.Dial(temporalclient.Options{
		HostPort: s.temporalAddress(), Namespace: "drover", Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)), ConnectionOptions: options,
	})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

// Dir is the folder with all that the stack keeps.
func (s *Stack) Dir() string { return s.dir }

// Keys is the file with the secret keys.
func (s *Stack) Keys() string { return filepath.Join(s.dir, "keys") }

// StoreConfig is how the product's store is opened.
func (s *Stack) StoreConfig() store.Config {
	s.t.Helper()
	keys, err := secret.ReadFile(s.Keys())
	require.NoError(s.t, err)
	return store.Config{URI: s.DatabaseURI(), Database: "drover", Keys: keys}
}

// Store is the product's store.
func (s *Stack) Store() *store.Store {
	s.t.Helper()
	db, err := store.Open(s.StoreConfig())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, db.Close(context.WithoutCancel(s.t.Context()))) })
	return db
}

// WebUI is the address of Temporal's Web UI.
func (s *Stack) WebUI() string { return fmt.Sprintf("http://127.0.0.1:%d", s.ports[1]) }

// Deployment describes apps on clusters, all registered, with names of the test's own.
func (s *Stack) Deployment(ctx context.Context, clusters []*Cluster, apps ...client.App) *client.Deployment {
	s.t.Helper()
	provider := "provider-" + unique()
	kubeconfigs, names, registered := map[string][]byte{}, []string{}, []domain.ClusterName{}
	for _, c := range clusters {
		kubeconfigs[c.Name] = c.Kubeconfig(s.t)
		names = append(names, c.Name)
		registered = append(registered, domain.ClusterName{Provider: provider, Name: c.Name})
	}
	require.NoError(s.t, s.Client.API().Register(ctx, provider, kubeconfigs, names, []string{"edge"}, nil))
	return s.On(ctx, registered, apps...)
}

// Register registers one cluster by its kubeconfig.
func (s *Stack) Register(ctx context.Context, name string, kubeconfig []byte) domain.ClusterName {
	s.t.Helper()
	provider := "provider-" + unique()
	require.NoError(s.t, s.Client.API().Register(ctx, provider, map[string][]byte{name: kubeconfig}, []string{name}, []string{"edge"}, nil))
	return domain.ClusterName{Provider: provider, Name: name}
}

// RegisterAs registers one cluster that reports what becomes of resources in some way.
func (s *Stack) RegisterAs(ctx context.Context, name string, kubeconfig []byte, how domain.Report) domain.ClusterName {
	s.t.Helper()
	c := domain.ClusterName{Provider: string(how) + "-" + unique(), Name: name}
	provider, _ := domain.Cut(domain.ClustersNoun, c.Key())
	require.NoError(s.t, s.Client.API().Run(ctx, []client.Step{
		{Object: &domain.ClusterProvider{Metadata: domain.Metadata{Name: c.Provider}}},
		{Object: &domain.Cluster{
			Identity: domain.Identity{Parent: provider}, Metadata: domain.Metadata{Name: name}, Spec: domain.ClusterSpec{Report: how},
		}, File: kubeconfig},
		{Object: &domain.ClusterLabel{Identity: domain.Identity{Parent: c.Key()}, Label: "edge"}},
	}, nil))
	return c
}

// On describes apps on registered clusters; an app without an intent goes to all of them.
func (s *Stack) On(ctx context.Context, clusters []domain.ClusterName, apps ...client.App) *client.Deployment {
	s.t.Helper()
	id := unique()
	d := &client.Deployment{
		API: s.Client.API(), Project: "project-" + id, CompositeApp: "composite", Version: "v1", Profile: "profile", LogicalCloud: "admin",
		Group: "group-" + id, Release: "r" + id, Apps: slices.Clone(apps), Clusters: clusters,
	}
	for i := range d.Apps {
		if where := &d.Apps[i].Intent; len(where.AllOf)+len(where.AnyOf) == 0 {
			*where = Labelled("edge", clusters...)
		}
		if d.Apps[i].Profile == nil {
			d.Apps[i].Profile = Profile(s.t)
		}
	}
	require.NoError(s.t, d.Create(ctx, nil))
	return d
}

// Labelled places on the clusters of these clusters' providers that carry a label.
func Labelled(label string, clusters ...domain.ClusterName) (where domain.Placement) {
	for _, c := range clusters {
		where.AllOf = append(where.AllOf, domain.AllOf{Clusters: domain.Clusters{ClusterProvider: c.Provider, ClusterLabel: label}})
	}
	return where
}

// All places on clusters.
func All(clusters ...domain.ClusterName) (where domain.Placement) {
	for _, c := range clusters {
		where.AllOf = append(where.AllOf, domain.AllOf{Clusters: One(c)})
	}
	return where
}

// One is one cluster of a placement.
func One(c domain.ClusterName) domain.Clusters {
	return domain.Clusters{ClusterProvider: c.Provider, Cluster: c.Name}
}

func unique() string { return strings.ToLower(rand.Text()[:8]) }

// Await waits for a status of the app context.
func (s *Stack) Await(ctx context.Context, d *client.Deployment, where domain.ContextStatus) *status.Document {
	s.t.Helper()
	got, err := LookAt(ctx, d, func(g *status.Document) bool { return g.Status == where })
	require.NoError(s.t, err, "%s is not %s: %+v", d.Group, where, got)
	return got
}
