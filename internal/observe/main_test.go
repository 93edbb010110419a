package observe_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/observe"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

const (
	deadline = kubetest.Deadline
	tick     = kubetest.Tick
)

var (
	bundles     = schema.GroupVersionResource{Group: bundle.Group, Version: bundle.Version, Resource: bundle.Resource}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	leases      = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

var cluster = domain.ClusterName{Provider: "provider", Name: "cluster"}

const owner = "owner"

// world is a namespace of the real cluster, a real database, and a context of its own.
type world struct {
	testing.TB
	client     dynamic.Interface
	store      *store.Store
	kubeconfig []byte // of the watcher
	namespace  string
	contextID  string
	lease      string // the agent's, of what is filled
	unheard    []bundle.Unheard
	watcher    *observe.Watcher // that was begun last

	mu       sync.Mutex
	puts     []domain.Observation
	refusals int    // Puts that fail from now on, as the store does not answer
	bad      string // the app that is not stored
	contacts []domain.Watch
}

func newWorld(t testing.TB) *world {
	t.Helper()
	kubeconfig := kubetest.Kubeconfig(t)
	w := &world{TB: t, client: kubetest.Dynamic(t, kubeconfig), kubeconfig: kubeconfig}
	w.namespace = kubetest.Name("observe")
	w.contextID = kubetest.Name("c")[2:]
	kubetest.MakeNamespace(t, w.client, w.namespace)
	t.Cleanup(func() { // watchers see all namespaces, and one takes its time to go
		err := w.client.Resource(bundles).Namespace(w.namespace).
			DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{}, metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	})
	s := storetest.Open(t, store.Config{})
	w.store = s
	w.define()
	return w
}

func (w *world) define() {
	w.Helper()
	kubetest.Define(w, w.client, crd.ResourceBundleStates().Manifest)
}

func (w *world) undefine() {
	w.Helper()
	kubetest.Undefine(w, w.client, bundles)
}

// Put, Delete and Contact are the watcher's sink: the store, and notes of what was called.
func (w *world) Put(ctx context.Context, o *domain.Observation) (bool, error) {
	w.mu.Lock()
	w.puts = append(w.puts, *o)
	refused, bad := w.refusals > 0, w.bad == o.App
	if refused {
		w.refusals--
	}
	w.mu.Unlock()
	switch {
	case refused:
		return false, fail.New(fail.Unavailable, "the store does not answer")
	case bad:
		return false, errors.New("the record is damaged")
	}
	return true, w.store.PutObservation(ctx, o)
}

func (w *world) Delete(ctx context.Context, app domain.ObservedApp) error {
	return w.store.DeleteObservation(ctx, app, domain.Turn{})
}

func (w *world) Contact(ctx context.Context, c domain.Watch) error {
	w.mu.Lock()
	w.contacts = append(w.contacts, c)
	w.mu.Unlock()
	return w.store.PutWatch(ctx, owner, &c)
}

func (w *world) putsOf(app string) []domain.Observation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.puts), func(o domain.Observation) bool { return o.App != app || o.ContextID != w.contextID })
}

// said are the contacts so far.
func (w *world) said() []domain.Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.contacts)
}

// awaitContact waits until the last contact is as wanted.
func (w *world) awaitContact(connected bool, reason string) {
	w.Helper()
	require.Eventually(w, func() bool {
		said := w.said()
		return len(said) > 0 && said[len(said)-1].Connected == connected && said[len(said)-1].Reason == reason
	}, deadline, tick, "%v", reason)
}

// watch starts a watcher of the world's cluster, which ends with the test or when stop is called.
func (w *world) watch(report domain.Report, change func(*observe.Config)) (stop func()) {
	w.Helper()
	clusters, err := kube.NewClusters(kubetest.Patient(kube.Config{}), func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
		return w.kubeconfig, "digest", nil
	})
	require.NoError(w, err)
	config := observe.Config{
		Cluster: cluster, Report: report, Clusters: clusters, Sink: w,
		RetryFirst: 20 * time.Millisecond, RetryMost: 200 * time.Millisecond, Interval: 200 * time.Millisecond,
	}
	if change != nil {
		change(&config)
	}
	watcher, err := observe.New(config)
	require.NoError(w, err)
	w.watcher = watcher
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(w, <-ended, context.Canceled)
		clusters.Close()
	})
	w.Cleanup(stop)
	return stop
}

// observed is what the store has of an app, with JSON; nil for nothing.
func (w *world) observed(app string) *domain.Observation {
	w.Helper()
	for o, err := range w.store.Observations(w.Context(), w.contextID, app, nil) {
		require.NoError(w, err)
		o.Resources = slices.Clone(o.Resources) // they are shared
		for i := range o.Resources {
			o.Resources[i].JSON, err = o.Object(i)
			require.NoError(w, err)
		}
		return &o.Observation
	}
	return nil
}

// await waits until the store has of an app what is wanted.
func (w *world) await(app string, wanted func(*domain.Observation) bool) *domain.Observation {
	w.Helper()
	var o *domain.Observation
	ended := time.Now().Add(deadline)
	for o = w.observed(app); !wanted(o); o = w.observed(app) {
		if time.Now().After(ended) {
			require.FailNow(w, "not what is wanted", "%s has %+v", app, o)
		}
		<-time.After(tick)
	}
	return o
}

func there(o *domain.Observation) bool { return o != nil }
func gone(o *domain.Observation) bool  { return o == nil }

// has wants a number of resources.
func has(n int) func(*domain.Observation) bool {
	return func(o *domain.Observation) bool { return o != nil && len(o.Resources) == n }
}

// resource finds one by kind and name.
func resource(o *domain.Observation, kind, name string) *domain.ObservedResource {
	for i := range o.Resources {
		if r := &o.Resources[i]; r.Kind == kind && r.Name == name {
			return r
		}
	}
	return nil
}

// makeBundle makes an app's ResourceBundleState as an instantiation does.
func (w *world) makeBundle(app string) {
	w.Helper()
	var o unstructured.Unstructured
	r := bundle.New(app, w.contextID, w.namespace)
	require.NoError(w, o.UnmarshalJSON(r.Manifest))
	_, err := w.client.Resource(bundles).Namespace(w.namespace).Create(w.Context(), &o, metav1.CreateOptions{})
	require.NoError(w, err)
}

// fill writes the status as an agent does; with a small size in several parts.
func (w *world) fill(app string, size int, objects ...*bundle.Object) {
	w.Helper()
	statuses, err := bundle.Split(bundle.Head{Kinds: []schema.GroupKind{{Kind: "ConfigMap"}}, Lease: w.lease, Unheard: w.unheard}, objects, size, bundle.Summarise)
	require.NoError(w, err)
	name := bundle.Name(app, w.contextID)
	client := w.client.Resource(bundles).Namespace(w.namespace)
	first, err := client.Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	for i, status := range statuses {
		if i > 0 {
			var part unstructured.Unstructured
			require.NoError(w, part.UnmarshalJSON(bundle.NewPart(bundle.Owner{
				Namespace: w.namespace, Name: name, UID: string(first.GetUID()), DeploymentID: plan.DeploymentID(w.contextID, app),
			}, i+1)))
			_, err := client.Apply(w.Context(), part.GetName(), &part, metav1.ApplyOptions{FieldManager: "agent"})
			require.NoError(w, err)
		}
		patch, err := json.Marshal(map[string]json.RawMessage{"status": status})
		require.NoError(w, err)
		_, err = client.Patch(w.Context(), bundle.PartName(name, i+1), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		require.NoError(w, err)
	}
}

// object is one of a report, with as many bytes.
func object(t testing.TB, name string, bytes int) *bundle.Object {
	t.Helper()
	text := make([]byte, bytes)
	for i := range text {
		text[i] = byte('a' + i%23)
	}
	o, err := bundle.Observe(plan.ResourceID{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: name}, map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "ns"}, "spec": map[string]any{"text": string(text)},
	})
	require.NoError(t, err)
	return o
}

// proxy stands between a watcher and its cluster.
type proxy struct {
	net.Listener
	target string

	mu    sync.Mutex
	state proxyState
	conns map[net.Conn]bool
	thaw  chan struct{} // closed unless frozen
	made  int
}

type proxyState int

const (
	passing proxyState = iota
	cut                // connections are refused
)

// behindProxy puts a proxy before the world's cluster.
func (w *world) behindProxy() *proxy {
	w.Helper()
	config, err := clientcmd.Load(w.kubeconfig)
	require.NoError(w, err)
	c := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	target, err := url.Parse(c.Server)
	require.NoError(w, err)
	listener, err := new(net.ListenConfig).Listen(w.Context(), "tcp", "127.0.0.1:0")
	require.NoError(w, err)
	p := &proxy{Listener: listener, target: target.Host, conns: map[net.Conn]bool{}, thaw: make(chan struct{})}
	close(p.thaw)
	c.Server = "https://" + listener.Addr().String()
	w.kubeconfig, err = clientcmd.Write(*config)
	require.NoError(w, err)
	go p.serve()
	w.Cleanup(func() {
		p.unfreeze()
		p.Close()
		p.setState(cut)
	})
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		go p.pass(in)
	}
}

func (p *proxy) pass(in net.Conn) {
	out, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
	if err != nil || !p.admit(in, out) {
		in.Close()
		if err == nil {
			out.Close()
		}
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(out, in) })
	both.Go(func() { p.copy(in, out) })
	both.Wait()
}

func (p *proxy) admit(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == cut {
		return false
	}
	p.made++
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		thaw := p.thaw
		p.mu.Unlock()
		<-thaw
		if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
			return
		}
	}
}

// setState changes what happens to connections; cut closes them.
func (p *proxy) setState(s proxyState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	if s == cut {
		p.drop()
	}
}

// drop closes the connections that there are. The lock is held.
func (p *proxy) drop() {
	for c := range p.conns {
		c.Close()
	}
	p.conns = map[net.Conn]bool{}
}

// breakAll closes connections, and takes new ones.
func (p *proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// freeze lets nothing through any more, as a host that was switched off.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thaw = make(chan struct{})
}

func (p *proxy) unfreeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thaw:
	default:
		close(p.thaw)
	}
}
