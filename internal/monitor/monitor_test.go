package monitor_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/idle"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/monitor"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/tenantcert"
)

func TestFindsWhatIsThere(t *testing.T) {
	w := newWorld(t)
	w.configMap("a")
	w.create(deployments, deployment("web", 2))
	w.bundleState()
	w.agent(nil)
	b := w.await("pods of a deployment are found", func(b bundle.Bundle) bool { return len(names(b, "Pod")) == 2 })
	require.Equal(t, []string{"a"}, names(b, "ConfigMap"))
	require.Equal(t, []string{"web"}, names(b, "Deployment"))
	require.Empty(t, names(b, "ReplicaSet"), "what controllers make for themselves is left out")
	require.False(t, b.Ready, "there are no nodes for the pods")
	require.Contains(t, b.Kinds, schema.GroupKind{Kind: "Pod"})
	require.Contains(t, b.Kinds, schema.GroupKind{Group: "apps", Kind: "Deployment"})
	for _, o := range b.Objects {
		require.NotContains(t, string(o.JSON), "managedFields")
		require.NotContains(t, string(o.JSON), "a value that nobody needs")
		require.Contains(t, string(o.JSON), `"name":"`+o.Name+`"`)
	}
}

func deployment(name string, replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q},"spec":{"replicas":%d,
		"selector":{"matchLabels":{"app":%q}},"template":{"metadata":{"labels":{"app":%q}},
		"spec":{"containers":[{"name":"c","image":"example.com/c"}]}}}}`, name, replicas, name, name)
}

func TestKeepsUpWithChanges(t *testing.T) {
	w := newWorld(t)
	w.bundleState()
	w.agent(nil)
	w.await("it is filled though there is nothing", has("ConfigMap"))
	w.configMap("a")
	w.configMap("b")
	w.await("both are there", has("ConfigMap", "a", "b"))
	w.delete(configMaps, "a")
	w.await("what is deleted goes", has("ConfigMap", "b"))
	require.True(t, w.await("a ConfigMap is ready when it is there", has("ConfigMap", "b")).Ready)

	w.patch(configMaps, "b", map[string]any{"metadata": map[string]any{"labels": map[string]any{plan.DeploymentLabel: "1-other"}}})
	b := w.await("what gets another label goes", has("ConfigMap"))
	require.False(t, b.Ready, "nothing is not ready")
}

func TestReachesOtherNamespaces(t *testing.T) {
	w := newWorld(t)
	elsewhere := *w
	elsewhere.namespace = w.namespace + "-2"
	kubetest.MakeNamespace(t, w.client, elsewhere.namespace)
	w.bundleState()
	elsewhere.configMap("far")
	w.create(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"},"rules":[]}`)
	w.agent(nil)
	b := w.await("namespaces do not matter", has("ConfigMap", "far"))
	require.Equal(t, []string{"r"}, names(b, "Role"))
}

func TestSecretsStayInTheCluster(t *testing.T) {
	w := newWorld(t)
	w.bundleState()
	w.create(secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{
		"kubectl.kubernetes.io/last-applied-configuration":"{\"stringData\":{\"p\":\"hunter2\"}}","copy":"hunter2"}},
		"stringData":{"password":"hunter2"}}`)
	w.agent(nil)
	w.await("the secret is there", has("Secret", "s"))
	list, err := w.client.Resource(bundles).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	data, err := list.MarshalJSON()
	require.NoError(t, err)
	require.NotContains(t, string(data), "hunter2")
	require.NotContains(t, string(data), "aHVudGVyM") // the same in base64
}

func TestWritesFirstChangeAtOnceAndThenOneAnInterval(t *testing.T) {
	w := newWorld(t)
	w.bundleState()
	const interval = time.Second
	var counted counter
	w.agent(func(c *monitor.Config) { c.Interval, c.Cluster = interval, counted.of(w) })
	w.await("it is filled", has("ConfigMap"))
	var all []string
	more := func() {
		all = append(all, fmt.Sprintf("c-%03d", len(all)))
		w.configMap(all[len(all)-1])
	}
	before, start, clock := counted.rest(t, interval), time.Now(), idle.Start(t)
	more()
	w.await("a first change is written", has("ConfigMap", all...))
	first, wall := clock.Read()
	clock.Stop()
	require.Less(t, first, interval, "a change after a rest does not wait; it took %s", wall)

	for range 100 {
		more()
	}
	w.await("the burst is there", has("ConfigMap", all...))
	took := time.Since(start)
	written := counted.rest(t, interval) - before
	require.LessOrEqual(t, written, int64(took/interval)+1, "writes in %s", took)
	require.GreaterOrEqual(t, written, int64(2))
}

// counter counts the statuses that an agent writes of one deployment.
type counter struct {
	id   string
	sent atomic.Int64
}

// of is a way to the cluster that counts.
func (c *counter) of(w *world) *rest.Config {
	c.id = w.app
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/status") && strings.Contains(r.URL.Path, c.id) {
				c.sent.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// rest waits until nothing has been written for two intervals, and returns how often it was.
func (c *counter) rest(t *testing.T, interval time.Duration) int64 {
	t.Helper()
	last, since := c.sent.Load(), time.Now()
	require.Eventually(t, func() bool {
		if now := c.sent.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 2*interval
	}, deadline, tick)
	return last
}

func TestFillsOneThatIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.configMap("a")
	w.bundleState()
	w.agent(nil)
	w.await("it is filled", has("ConfigMap", "a"))
	name := bundle.Name(w.app, contextID)
	w.delete(bundles, name)
	w.bundleState()
	w.await("it is filled again", has("ConfigMap", "a"))
}

// TestPutsRightWhatOthersWrite: an agent that was late, or somebody by hand, has put something in place of what it says.
func TestPutsRightWhatOthersWrite(t *testing.T) {
	w := newWorld(t)
	w.configMap("a")
	w.bundleState()
	w.agent(nil)
	w.await("it is filled", has("ConfigMap", "a"))
	for range 2 {
		w.patch(bundles, bundle.Name(w.app, contextID), map[string]any{"status": map[string]any{"resourceStatuses": []any{}, "resourceCount": 0}}, "status")
		w.await("it is as it was", has("ConfigMap", "a"))
	}
}

func TestFindsItByLabelWhateverItsName(t *testing.T) {
	w := newWorld(t)
	w.configMap("a")
	w.create(bundles, `{"apiVersion":"k8splugin.io/v1alpha1","kind":"ResourceBundleState","metadata":{"name":"anything"},
		"spec":{"selector":{"matchLabels":{"emco/deployment-id":"`+w.id+`"}}}}`)
	w.agent(nil)
	b := w.await("it is filled", has("ConfigMap", "a"))
	require.Equal(t, "anything", b.Name)
}

func TestCarriesOnAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.configMap("a")
	w.configMap("b")
	w.bundleState()
	stop := w.agent(nil)
	w.await("it is filled", has("ConfigMap", "a", "b"))
	stop()
	w.delete(configMaps, "a")
	w.configMap("c")
	w.agent(nil)
	w.await("what happened meanwhile is seen", has("ConfigMap", "b", "c"))
}

func TestFindsNewKinds(t *testing.T) {
	w := newWorld(t)
	w.bundleState()
	w.agent(nil)
	w.await("it is filled", has("ConfigMap"))
	widget := w.defineWidget()
	w.create(widget, `{"apiVersion":"test.drover.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":9007199254740993}}`)
	b := w.await("a kind that came later is found", has("Widget", "w"))
	require.Contains(t, b.Kinds, widgetKind)
	require.Contains(t, string(b.Objects[0].JSON), "9007199254740993", "numbers are kept to the digit")

	kubetest.Undefine(t, w.client, widget)
	b = w.await("with its kind it goes", has("Widget"))
	require.Eventually(t, func() bool { return !slices.Contains(w.read().Kinds, widgetKind) }, deadline, tick)
	require.Empty(t, b.Objects)
}

var widgetKind = schema.GroupKind{Group: "test.drover.io", Kind: "Widget"}

func (w *world) defineWidget() schema.GroupVersionResource {
	w.Helper()
	widget := kubetest.Define(w, w.client, []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.test.drover.io"},
		"spec":{"group":"test.drover.io","scope":"Namespaced","names":{"kind":"Widget","plural":"widgets"},"versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`))
	w.Cleanup(func() { kubetest.Undefine(w, w.client, widget) })
	return widget
}

func TestWatchesConfiguredKindsWithoutDiscovery(t *testing.T) {
	w := newWorld(t)
	widget := w.defineWidget()
	w.bundleState()
	w.configMap("a")
	w.create(widget, `{"apiVersion":"test.drover.io/v1","kind":"Widget","metadata":{"name":"w"}}`)
	file := filepath.Join(t.TempDir(), "kinds.json")
	require.NoError(t, os.WriteFile(file, []byte(`[]`), 0o600))
	stop := w.agent(func(c *monitor.Config) { c.Discover, c.KindsFile = false, file })
	b := w.await("known kinds are watched", has("ConfigMap", "a"))
	require.Empty(t, names(b, "Widget"))
	require.NotContains(t, b.Kinds, widgetKind, "nothing is said of a kind that is not watched")
	stop()
	require.NoError(t, os.WriteFile(file, []byte(`[{"Group":"test.drover.io","Version":"v1","Kind":"Widget","Resource":"widgets"}]`), 0o600))
	w.agent(func(c *monitor.Config) { c.Discover, c.KindsFile = false, file })
	w.await("configured kinds are watched", has("Widget", "w"))
}

// TestReadsConfiguredKindsAgain: a ConfigMap that is mounted changes under the agent. It is read with every look at the
// kinds, of which a new definition causes one.
func TestReadsConfiguredKindsAgain(t *testing.T) {
	w := newWorld(t)
	w.bundleState()
	w.configMap("a")
	file := filepath.Join(t.TempDir(), "kinds.json")
	require.NoError(t, os.WriteFile(file, []byte(`[]`), 0o600))
	w.agent(func(c *monitor.Config) { c.Discover, c.KindsFile = false, file })
	w.await("known kinds are watched", has("ConfigMap", "a"))
	require.NoError(t, os.WriteFile(file, []byte(`[{"Group":"test.drover.io","Kind":"Widget"}]`), 0o600))
	widget := w.defineWidget()
	w.create(widget, `{"apiVersion":"test.drover.io/v1","kind":"Widget","metadata":{"name":"w"}}`)
	w.await("the kind that was added is watched", has("Widget", "w"))
}

func TestWaitsForTheDefinition(t *testing.T) {
	w := newBareWorld(t)
	kubetest.Undefine(t, w.client, bundles)
	w.configMap("a")
	folder, address := t.TempDir(), freeport.Address()
	require.NoError(t, tenantcert.Make(folder))
	files := config.ServerTLS{Cert: filepath.Join(folder, "server.crt"), Key: filepath.Join(folder, "server.key")}
	secured, err := files.Config(slog.New(slog.DiscardHandler), "http/1.1")
	require.NoError(t, err)
	w.agent(func(c *monitor.Config) { c.Listen, c.TLS = address, secured })
	require.Eventually(t, func() bool { return status(w, "https://"+address+"/healthz") == http.StatusOK }, deadline, tick)
	require.Equal(t, http.StatusServiceUnavailable, status(w, "https://"+address+"/readyz"))
	kubetest.Define(t, w.client, crd.ResourceBundleStates().Manifest)
	w.bundleState()
	w.await("it is filled when its kind is there", has("ConfigMap", "a"))
	// It may be filled a moment before the list of all of them is known to be read.
	require.Eventually(t, func() bool { return status(w, "https://"+address+"/readyz") == http.StatusOK }, deadline, tick)
	require.Equal(t, http.StatusOK, status(w, "https://"+address+"/metrics"))
}

// status is that of an answer, whatever the certificate is; 0 for none.
func status(w *world, url string) int {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, url, nil)
	require.NoError(w, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

func TestRenewsItsLease(t *testing.T) {
	w := newWorld(t)
	w.agent(func(c *monitor.Config) { c.Namespace = w.namespace })
	require.Eventually(t, func() bool {
		lease, err := w.client.Resource(leases).Namespace(w.namespace).Get(t.Context(), bundle.LeaseName, metav1.GetOptions{})
		return err == nil && lease.Object["spec"].(map[string]any)["renewTime"] != nil
	}, deadline, tick)
}

// refuser refuses requests of an agent, and counts how often it renews its Lease.
type refuser struct {
	which            atomic.Pointer[func(path, body string) bool] // nil for none
	refused, renewed atomic.Int64
}

func (r *refuser) refuse(which func(path, body string) bool) { r.which.Store(&which) }

func (r *refuser) let() { r.which.Store(nil) }

// of is a way to the cluster.
func (r *refuser) of(w *world) *rest.Config {
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(q *http.Request) (*http.Response, error) {
			if strings.Contains(q.URL.Path, "/leases/") {
				r.renewed.Add(1)
			}
			var body []byte
			if q.Body != nil {
				var err error
				if body, err = io.ReadAll(q.Body); err != nil {
					return nil, err
				}
				q = q.Clone(q.Context())
				q.Body = io.NopCloser(bytes.NewReader(body))
			}
			if which := r.which.Load(); which != nil && (*which)(q.URL.Path, string(body)) {
				r.refused.Add(1)
				const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"a webhook refuses it","reason":"Forbidden","code":403}`
				return &http.Response{
					Status: "403 Forbidden", StatusCode: http.StatusForbidden, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: q,
					Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)),
				}, nil
			}
			return next.RoundTrip(q)
		})
	})
	return config
}

// awaitRefused waits until so many more are refused.
func (r *refuser) awaitRefused(t *testing.T, more int64) {
	t.Helper()
	want := r.refused.Load() + more
	require.Eventually(t, func() bool { return r.refused.Load() >= want }, deadline, tick)
}

// TestRenewsNoLeaseBeforeItKnowsWhatThereIs: the control plane takes for true what is reported as long as the Lease is renewed.
func TestRenewsNoLeaseBeforeItKnowsWhatThereIs(t *testing.T) {
	w := newWorld(t)
	address := freeport.Address()
	var r refuser
	r.refuse(func(path, _ string) bool { return strings.Contains(path, "selfsubjectaccessreviews") })
	w.agent(func(c *monitor.Config) { c.Namespace, c.Cluster, c.Listen = w.namespace, r.of(w), address })
	r.awaitRefused(t, 3)
	require.Zero(t, r.renewed.Load())
	require.Equal(t, http.StatusServiceUnavailable, status(w, "http://"+address+"/readyz"))
	r.let()
	require.Eventually(t, func() bool { return r.renewed.Load() > 0 }, deadline, tick)
	require.Equal(t, http.StatusOK, status(w, "http://"+address+"/readyz"))
}

// TestRenewsNoLeaseForWhatItCannotWrite: neither for what an agent before it has written, nor for what it has written itself.
func TestRenewsNoLeaseForWhatItCannotWrite(t *testing.T) {
	monitor.SetPatience(t, 400*time.Millisecond)
	w := newWorld(t)
	w.bundleState()
	w.configMap("a")
	stop := w.agent(nil)
	w.await("it is filled", has("ConfigMap", "a"))
	stop()
	w.delete(configMaps, "a")
	address := freeport.Address()
	ready := func() int { return status(w, "http://"+address+"/readyz") }
	var r refuser
	statuses := func(path, _ string) bool { return strings.Contains(path, w.app) && strings.HasSuffix(path, "/status") }
	r.refuse(statuses)
	w.agent(func(c *monitor.Config) { c.Namespace, c.Cluster, c.Listen = w.namespace, r.of(w), address })
	r.awaitRefused(t, 4) // the last one is to say that it cannot be written
	require.Zero(t, r.renewed.Load())
	require.Equal(t, http.StatusServiceUnavailable, ready())
	r.let()
	w.await("what is gone goes", has("ConfigMap"))
	require.Eventually(t, func() bool { return r.renewed.Load() > 1 && ready() == http.StatusOK }, deadline, tick)

	r.refuse(statuses)
	w.configMap("b")
	require.Eventually(t, func() bool { return ready() == http.StatusServiceUnavailable }, deadline, tick)
	r.awaitRefused(t, 1) // a renewal may have been under way
	before := r.renewed.Load()
	r.awaitRefused(t, 1)
	require.Equal(t, before, r.renewed.Load())

	r.refuse(func(path, body string) bool {
		return statuses(path, body) && !strings.Contains(body, "a webhook refuses it")
	})
	require.Eventually(t, func() bool { return w.read().Error != "" }, deadline, tick)
	before = r.renewed.Load()
	require.Eventually(t, func() bool { return r.renewed.Load() > before+1 && ready() == http.StatusOK }, deadline, tick, "it says itself that it is old")
	r.let()
	w.await("it can be written again", has("ConfigMap", "b"))
}

func TestRefusesASettingThatCannotWork(t *testing.T) {
	c := monitor.Config{Cluster: &rest.Config{}, Interval: time.Second, MaxSize: bundle.MinSize - 1}
	require.True(t, fail.Is(monitor.Run(t.Context(), c), fail.Invalid))
	c.MaxSize, c.KindsFile = bundle.MinSize, filepath.Join(t.TempDir(), "none")
	require.True(t, fail.Is(monitor.Run(t.Context(), c), fail.Invalid))
}
