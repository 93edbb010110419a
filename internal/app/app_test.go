package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/logicalcloud"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/secret"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/worker"
)

// nobody is an address that nobody listens at.
const nobody = "127.0.0.1:1"

func configured(t testing.TB) *config.Config {
	t.Helper()
	return &config.Config{
		MongoURI: mongotest.URI(t), Database: mongotest.Database(t), SecretKeys: "test:" + strings.Repeat("A", 43) + "=", Auth: "off",
		Temporal: config.Temporal{Address: nobody, Namespace: "drover"}, LogLevel: slog.LevelInfo, LogFormat: "text",
	}
}

// partial are parts without a Temporal that answers.
func partial(t testing.TB) *Parts {
	t.Helper()
	c := configured(t)
	p := &Parts{config: c, log: slog.New(slog.DiscardHandler), leases: worker.NewLeases(lease.Now), metrics: prometheus.NewRegistry(), newer: new(atomic.Pointer[string]), ramp: new(atomic.Pointer[string])}
	var err error
	p.sealer, err = secret.Parse(c.SecretKeys)
	require.NoError(t, err)
	p.store, err = store.Open(store.Config{URI: c.MongoURI, Database: c.Database, Keys: p.sealer, Timeout: mongotest.Timeout})
	require.NoError(t, err)
	require.NoError(t, p.store.EnsureLayout(t.Context()))
	require.NoError(t, p.reachTemporal())
	p.rules = rulesIn(p.store)
	p.charts, err = render.NewProcesses(render.Options{Size: 1, Log: p.log})
	require.NoError(t, err)
	p.audit, err = newAuditing(p)
	require.NoError(t, err)
	require.NoError(t, p.begin(t.Context()))
	t.Cleanup(p.Close)
	return p
}

// said is a log that may be read while it is written.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

func (s *said) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.text.String(), text)
}

func TestConnectSaysWhatItWaitsFor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, log := configured(t), &said{}
	c.Listen = freeport.Address()
	front, err := OpenAPI(ctx, c, Logger(c, log))
	require.NoError(t, err)
	defer front.Close()
	failed := `dependency="Temporal at ` + nobody + `" error`
	ended := make(chan error, 1)
	go func() {
		_, err := Connect(ctx, c, Logger(c, log), front)
		ended <- err
	}()
	require.Eventually(t, func() bool { return log.has(failed) }, time.Minute, 10*time.Millisecond)
	for path, says := range map[string]string{
		"/healthz": "200 ok\n", "/readyz": "503 not ready: this process waits for Temporal at " + nobody + "\n",
		"/v2/projects": "503 not ready: this process waits for Temporal at " + nobody + "\n",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.Listen+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, says, fmt.Sprint(answer.StatusCode, " ", string(text)), path)
		require.Equal(t, answer.StatusCode == http.StatusServiceUnavailable, answer.Header.Get("Retry-After") == "1", path)
		require.Equal(t, answer.StatusCode == http.StatusServiceUnavailable, answer.Header.Get("Drover-Undone") == "true", path)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.Listen+"/v2/projects", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, fail.ProblemJSON, answer.Header.Get("Content-Type"), "by which the command tells it from a proxy's page")
	require.Equal(t, "true", answer.Header.Get("Drover-Undone"))
	var problem fail.Problem
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&problem))
	require.Equal(t, "not ready: this process waits for Temporal at "+nobody, problem.Detail)
	require.Equal(t, fail.Unavailable, problem.Kind)
	cancel()
	err = <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "wait for Temporal at "+nobody)
	require.False(t, log.has(`dependency=database error`), "the database was there")
	require.True(t, log.has("--temporal-address (DROVER_TEMPORAL_ADDRESS)"), "what to do")
	require.Equal(t, 1, log.count(failed), "it is said once, and then every 30 s; what only takes long has no error")
	require.Equal(t, 1, log.count("limits of sizes"))
	require.True(t, log.has(`body="256 MiB"`))
}

// TestAStartThatIsEndedEndsInTheLog: a process that is told to end while it waits for Temporal is not taken for one that was killed.
func TestAStartThatIsEndedEndsInTheLog(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, log := configured(t), &said{}
	ended := make(chan error, 1)
	go func() {
		_, err := Connect(ctx, c, Logger(c, log), nil)
		ended <- err
	}()
	require.Eventually(t, func() bool { return log.has(`dependency="Temporal at ` + nobody + `" error`) }, time.Minute, 10*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	keys, err := secret.Parse(c.SecretKeys)
	require.NoError(t, err)
	s, err := store.Open(store.Config{URI: c.MongoURI, Database: c.Database, Keys: keys, Timeout: mongotest.Timeout})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close(context.WithoutCancel(t.Context()))) }()
	present, err := s.Auditors(t.Context())
	require.NoError(t, err)
	require.Len(t, present, 1)
	require.True(t, present[0].Closed)
	stated, err := audit.Whole([]byte(present[0].Checkpoint))
	require.NoError(t, err)
	require.True(t, stated.Checkpoint.Closes)
}

func TestConnectSaysThatThereIsNoDatabase(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, log := configured(t), &said{}
	c.MongoURI = "mongodb://" + nobody
	ended := make(chan error, 1)
	go func() {
		_, err := Connect(ctx, c, Logger(c, log), nil)
		ended <- err
	}()
	require.Eventually(t, func() bool { return log.has(`dependency=database error`) }, time.Minute, 10*time.Millisecond)
	require.True(t, log.has("connection refused"))
	require.True(t, log.has("--mongo-uri (DROVER_MONGO_URI)"))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestConnectRefusesWhatCannotWork(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Config)
		text   string
	}{
		"keys that are none":      {func(c *config.Config) { c.SecretKeys = "test:short" }, "key"},
		"a file that is none":     {func(c *config.Config) { c.SecretKeysFile = t.TempDir() + "/none" }, "read secret keys"},
		"a database that is none": {func(c *config.Config) { c.MongoURI = "http://db" }, "scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := configured(t)
			c.change(broken)
			_, err := Connect(t.Context(), broken, slog.New(slog.DiscardHandler), nil)
			require.ErrorContains(t, err, c.text)
		})
	}
}

// TestConnectRefusesKeysOfAnotherInstallation: it would wait for ever, and say that the database is what it waits for.
func TestConnectRefusesKeysOfAnotherInstallation(t *testing.T) {
	c := configured(t)
	keys, err := secret.Parse(c.SecretKeys)
	require.NoError(t, err)
	s, err := store.Open(store.Config{URI: c.MongoURI, Database: c.Database, Keys: keys})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.WithoutCancel(t.Context()))) })
	require.NoError(t, s.EnsureLayout(t.Context()))
	_, err = s.Root(t.Context())
	require.NoError(t, err)
	for name, keys := range map[string]string{
		"of another name":         "another:" + strings.Repeat("B", 43) + "=",
		"of that name, and other": "test:" + strings.Repeat("B", 43) + "=",
	} {
		t.Run(name, func(t *testing.T) {
			c := *c
			c.SecretKeys = keys
			_, err := Connect(t.Context(), &c, slog.New(slog.DiscardHandler), nil)
			require.True(t, fail.Is(err, fail.Precondition), "%v", err)
			require.ErrorContains(t, err, "--secret-keys-file")
		})
	}
}

// TestConnectRefusesADatabaseOfAnotherLayout: no time puts that right, so that it is not waited for.
func TestConnectRefusesADatabaseOfAnotherLayout(t *testing.T) {
	c := configured(t)
	s, err := store.Open(store.Config{URI: c.MongoURI, Database: c.Database, Timeout: mongotest.Timeout, Keys: must(sealer(c))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.WithoutCancel(t.Context()))) })
	require.NoError(t, s.Create(t.Context(), &domain.Project{Metadata: domain.Metadata{Name: "of-before"}}))
	_, err = Connect(t.Context(), c, slog.New(slog.DiscardHandler), nil)
	require.ErrorContains(t, err, "database layout: the database has documents and no layout")
}

func TestLogger(t *testing.T) {
	c, log := configured(t), &said{}
	Logger(c, log).Info("word")
	require.True(t, log.has("level=INFO msg=word"))
	c.LogFormat = "json"
	Logger(c, log).Warn("word")
	require.True(t, log.has(`"msg":"word"`))
	Logger(c, log).Debug("quiet")
	require.False(t, log.has("quiet"))
}

func TestRegistrations(t *testing.T) {
	p := partial(t)
	s := service.New(service.Deps{
		Store: p.store, Sealer: p.inner, Instances: service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now), Now: time.Now,
		Checks: service.Checks{Kubeconfig: func([]byte) error { return nil }}, Renewing: p.store.Renewing,
	})
	require.NoError(t, s.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	register := func(name string, how domain.Report) domain.ClusterName {
		c := &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: name}, Spec: domain.ClusterSpec{Report: how}}
		if name != "bare" {
			require.NoError(t, s.Attach(t.Context(), c, []byte("kubeconfig of "+name)))
		}
		require.NoError(t, s.Create(t.Context(), c))
		return c.ClusterName()
	}
	far, bare := register("far", domain.ReportAgentless), register("bare", "")
	r := &registrations{parts: p}
	require.Equal(t, domain.ReportAuto, r.Report(far), "what most are, as long as nobody has asked")
	opened, digest, err := r.credentials(t.Context(), far)
	require.NoError(t, err)
	require.Equal(t, "kubeconfig of far", string(opened))
	require.NotEmpty(t, digest)
	require.Equal(t, domain.ReportAgentless, r.Report(far))

	_, _, err = r.credentials(t.Context(), bare)
	require.True(t, fail.Is(err, fail.Precondition), "%v", err)
	_, _, err = r.credentials(t.Context(), domain.ClusterName{Provider: "p", Name: "none"})
	require.True(t, fail.Is(err, fail.NotFound), "%v", err)
}

// TestReplacedRegistrations: what goes on with a registration ends when another process has replaced it.
func TestReplacedRegistrations(t *testing.T) {
	p := partial(t)
	s := service.New(service.Deps{
		Store: p.store, Sealer: p.inner, Instances: service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now), Now: time.Now,
		Checks: service.Checks{Kubeconfig: kube.Config{}.CheckKubeconfig}, Renewing: p.store.Renewing,
	})
	require.NoError(t, s.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	cluster := func(how domain.Report, token string) *domain.Cluster {
		c := &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: "c"}, Spec: domain.ClusterSpec{Report: how}}
		var file []byte
		if token != "" {
			file = fmt.Appendf(nil, `{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
				"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "u", "user": {"token": %q}}]}`, token)
		}
		require.NoError(t, s.Attach(t.Context(), c, file))
		return c
	}
	require.NoError(t, s.Create(t.Context(), cluster("", "old")))
	r := &registrations{parts: p}
	clusters, err := kube.NewClusters(kube.Config{Fresh: time.Hour}, r.credentials)
	require.NoError(t, err)
	defer clusters.Close()
	users, err := kube.NewUsers(kube.Config{}, r.user)
	require.NoError(t, err)
	defer users.Close()
	go r.follow(t.Context(), clusters, users)
	name := cluster("", "").ClusterName()
	for _, change := range []*domain.Cluster{cluster("", "new"), cluster(domain.ReportAgentless, "")} {
		c, err := clusters.Get(t.Context(), name)
		require.NoError(t, err)
		while, leave := c.While(t.Context())
		_, err = s.Put(t.Context(), change)
		require.NoError(t, err)
		<-while.Done()
		require.Equal(t, kube.ErrReplaced, context.Cause(while))
		leave()
		kubeconfig, _, err := r.credentials(t.Context(), name)
		require.NoError(t, err)
		require.Contains(t, string(kubeconfig), `"new"`)
		require.Equal(t, change.Reporting(), r.Report(name))
	}
}

// TestUserKubeconfigsThatAreGivenOut have nothing by which a proxy knows the administrator, and those by which Drover works have it.
func TestUserKubeconfigsThatAreGivenOut(t *testing.T) {
	p := partial(t)
	admin := `{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
		"clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1", "proxy-url": "http://admin:xyzzy@proxy.example.com:3128"}}],
		"users": [{"name": "u", "user": {"token": "t"}}]}`
	s := service.New(service.Deps{
		Store: p.store, Sealer: p.inner, Instances: service.NewLifecycle(p.store, p.store, heard{p.store, p.rules}, p.engine, time.Now), Now: time.Now,
		Checks: service.Checks{Kubeconfig: kube.Config{Allowed: kube.Allowed{Proxy: true}}.CheckKubeconfig}, Renewing: p.store.Renewing,
	})
	require.NoError(t, s.Create(t.Context(), &domain.ClusterProvider{Metadata: domain.Metadata{Name: "p"}}))
	cluster := &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: "c"}}
	require.NoError(t, s.Attach(t.Context(), cluster, []byte(admin)))
	require.NoError(t, s.Create(t.Context(), cluster))

	key, request, err := logicalcloud.NewKey("bob")
	require.NoError(t, err)
	cloud := &domain.LogicalCloud{
		Identity: domain.Identity{Parent: "projects/p"}, Metadata: domain.Metadata{Name: "lc"}, Request: request,
		Spec: domain.LogicalCloudSpec{Level: domain.LevelStandard, Namespace: "ns", User: domain.CloudUser{UserName: "bob"}},
	}
	cloud.Key, err = p.inner.Seal(string(domain.KeyOf(cloud)), key)
	require.NoError(t, err)
	require.NoError(t, p.store.Create(t.Context(), cloud))
	reference := &domain.ClusterReference{
		Identity: domain.Identity{Parent: domain.KeyOf(cloud)}, Metadata: domain.Metadata{Name: "ref"},
		Spec: domain.ClusterReferenceSpec{ClusterProvider: "p", Cluster: "c", Certificate: base64.StdEncoding.EncodeToString(signed(t, key))},
	}
	require.NoError(t, p.store.Create(t.Context(), reference))

	r := &registrations{parts: p}
	given, err := r.givenUserKubeconfig(t.Context(), reference)
	require.NoError(t, err)
	require.Contains(t, string(given), "proxy-url: http://proxy.example.com:3128")
	require.NotContains(t, string(given), "xyzzy")
	own, _, err := r.user(t.Context(), kube.User{Cloud: domain.KeyOf(cloud), ClusterName: cluster.ClusterName()})
	require.NoError(t, err)
	require.Contains(t, string(own), "proxy-url: http://admin:xyzzy@proxy.example.com:3128")
}

// signed is a certificate (PEM) of a key (PEM), signed with the key itself.
func signed(t *testing.T, key []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(key)
	private, err := x509.ParseECPrivateKey(block.Bytes)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestHeard: what the store has of a context, and the rules of users.
func TestHeard(t *testing.T) {
	p := partial(t)
	var h service.Heard = heard{p.store, p.rules}
	app := domain.ObservedApp{ContextID: "1", App: "app", Cluster: domain.ClusterName{Provider: "p", Name: "c"}}
	require.NoError(t, p.store.PutObservation(t.Context(), &domain.Observation{ObservedApp: app, Resources: []domain.ObservedResource{
		{Group: "example.com", Version: "v1", Kind: "Database", Name: "d", JSON: []byte(`{"status":{"phase":"Up"}}`)},
	}}))
	n := 0
	for o, err := range h.Observations(t.Context(), "1", "app", nil) {
		n++
		require.NoError(t, err)
		require.Equal(t, app, o.ObservedApp)
		data, err := o.Object(0)
		require.NoError(t, err)
		require.JSONEq(t, `{"status":{"phase":"Up"}}`, string(data))
	}
	require.Equal(t, 1, n)
	for range h.Observations(t.Context(), "1", "app", nil) {
		break // whoever has enough may leave
	}

	rule := &domain.ReadinessRule{Metadata: domain.Metadata{Name: "db"}, Spec: domain.ReadinessRuleSpec{Group: "example.com", Kind: "Database", Ready: "false"}}
	require.NoError(t, p.store.Create(t.Context(), rule))
	rules, err := h.Rules(t.Context())
	require.NoError(t, err)
	require.Equal(t, readiness.State{Status: readiness.NotReady, Message: "rule db: not fulfilled"},
		rules.OfJSON(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}, []byte(`{}`)))

	require.NoError(t, p.store.Close(t.Context()))
	for _, err := range h.Observations(t.Context(), "1", "app", nil) {
		require.Error(t, err)
	}
}

func TestWorkerHealth(t *testing.T) {
	p := partial(t)
	address := freeport.Address()
	p.config.MetricsListen = address
	ctx, cancel := context.WithCancel(t.Context())
	front, err := OpenHealth(ctx, p.config, p.log)
	require.NoError(t, err)
	_, err = OpenHealth(ctx, p.config, p.log)
	require.ErrorContains(t, err, "--metrics-listen")
	get := func(path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/%s", address, path), nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, ""
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	code, _ := get("healthz")
	require.Equal(t, http.StatusOK, code, "it lives before there is anything else")
	code, text := get("readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "not ready: this process waits for its start\n", text)

	ended := make(chan error, 1)
	go func() { ended <- p.WorkerHealth(ctx, front) }()
	code, text = get("metrics")
	require.Equal(t, http.StatusOK, code, "who asks for something waits for a moment")
	require.Contains(t, text, "go_goroutines")
	code, _ = get("healthz")
	require.Equal(t, http.StatusOK, code)
	code, text = get("readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "temporal (the workflow engine is not available; try again later), work (this worker has not found out yet which build does the work of this namespace)\n", text)

	// Each asks for all figures: what comes beyond a few at a time is refused.
	end := make(chan struct{})
	finish := sync.OnceFunc(func() { close(end) })
	defer time.AfterFunc(20*time.Second, finish).Stop() // nobody waits for ever where all of them are let in
	slow := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow", Help: "slow"}, func() float64 {
		<-end
		return 1
	})
	p.metrics.(*prometheus.Registry).MustRegister(slow)
	codes := make(chan int, 2*limits.Gathers)
	for range cap(codes) {
		go func() {
			code, _ := get("metrics")
			codes <- code
		}()
	}
	for range limits.Gathers {
		require.Equal(t, http.StatusServiceUnavailable, <-codes)
	}
	finish()
	for range limits.Gathers {
		require.Equal(t, http.StatusOK, <-codes)
	}
	cancel()
	require.NoError(t, <-ended)
}

// TestAnAPIWithoutTemporalIsReady: it says what there is, and what is missing, which nobody learns from one that is taken out of service.
func TestAnAPIWithoutTemporalIsReady(t *testing.T) {
	p := partial(t)
	p.config.Listen = freeport.Address()
	ctx, cancel := context.WithCancel(t.Context())
	front, err := OpenAPI(ctx, p.config, p.log)
	require.NoError(t, err)
	served, ready := make(chan error, 1), make(chan struct{})
	go func() { served <- p.ServeAPI(ctx, front, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-served:
		t.Fatal(err)
	}
	var said struct{ Ready, Missing []string }
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+front.Address+"/readyz", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&said))
	require.Equal(t, []string{"database"}, said.Ready)
	require.True(t, slices.ContainsFunc(said.Missing, func(what string) bool { return strings.HasPrefix(what, "temporal (") }), said.Missing)
	cancel()
	require.NoError(t, <-served)
}
