package monitor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/monitor"
	"github.com/drover-io/drover/internal/plan"
)

func TestMain(m *testing.M) {
	monitor.SetLog(slog.New(slog.DiscardHandler))
	os.Exit(kubetest.Main(m))
}

const (
	deadline = kubetest.Deadline
	tick     = kubetest.Tick
)

var (
	bundles     = schema.GroupVersionResource{Group: bundle.Group, Version: bundle.Version, Resource: bundle.Resource}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	accounts    = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	leases      = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// world is a namespace of the cluster and a deployment in it.
type world struct {
	testing.TB
	client    dynamic.Interface
	config    *rest.Config
	namespace string
	app, id   string // of the context "4711"
}

const contextID = "4711"

// newWorld makes a namespace, and with the definition of the ResourceBundleState unless a test removes that.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := newBareWorld(t)
	kubetest.Define(t, w.client, crd.ResourceBundleStates().Manifest)
	return w
}

func newBareWorld(t testing.TB) *world {
	t.Helper()
	return worldOf(t, kubetest.Kubeconfig(t))
}

// worldOf makes a namespace in a cluster.
func worldOf(t testing.TB, kubeconfig []byte) *world {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	w := &world{TB: t, client: kubetest.Dynamic(t, kubeconfig), config: config, namespace: kubetest.Name("monitor")}
	w.app = kubetest.Name("app")
	w.id = plan.DeploymentID(contextID, w.app)
	kubetest.MakeNamespace(t, w.client, w.namespace)
	return w
}

// agent starts an agent, which ends with the test or when stop is called.
func (w *world) agent(change func(*monitor.Config)) (stop func()) {
	w.Helper()
	cancel, ended := w.run(change)
	stop = sync.OnceFunc(func() {
		cancel()
		// On a machine that is loaded it may take longer to end than it waits for. It ends then as if it were killed, and with the test.
		if err := <-ended; err != nil && !strings.Contains(err.Error(), "within grace period") {
			w.Errorf("the agent ends with %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}

// run starts an agent. ended has its error.
func (w *world) run(change func(*monitor.Config)) (cancel context.CancelFunc, ended <-chan error) {
	w.Helper()
	c := monitor.Config{
		Cluster: w.config, Interval: 100 * time.Millisecond, MaxSize: bundle.MaxSize, Discover: true,
		Log: slog.New(slog.NewTextHandler(&testLog{tb: w.TB}, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(w.Context())
	over := make(chan error, 1)
	go func() { over <- monitor.Run(ctx, c) }()
	return cancel, over
}

// testLog shows the log of a test that failed.
type testLog struct{ tb testing.TB }

func (l *testLog) Write(p []byte) (int, error) {
	l.tb.Log(string(bytes.TrimSpace(p)))
	return len(p), nil
}

// bundleState makes the ResourceBundleState as a control plane does.
func (w *world) bundleState() {
	w.Helper()
	r := bundle.New(w.app, contextID, w.namespace)
	var o unstructured.Unstructured
	require.NoError(w, o.UnmarshalJSON(r.Manifest))
	_, err := w.client.Resource(bundles).Namespace(w.namespace).Apply(w.Context(), r.Name, &o, metav1.ApplyOptions{FieldManager: "drover"})
	require.NoError(w, err)
}

// parts reads the ResourceBundleStates of the deployment, sorted by name.
func (w *world) parts() []*bundle.Part {
	w.Helper()
	list, err := w.client.Resource(bundles).List(w.Context(), metav1.ListOptions{LabelSelector: plan.DeploymentLabel + "=" + w.id})
	require.NoError(w, err)
	parts := make([]*bundle.Part, 0, len(list.Items))
	for _, item := range list.Items {
		data, err := item.MarshalJSON()
		require.NoError(w, err)
		require.Less(w, len(data), 1536<<10, "no object is larger than etcd takes")
		p, err := bundle.Decode(data)
		require.NoError(w, err)
		parts = append(parts, p)
	}
	return parts
}

// read reads the deployment's bundle; the zero one when there is none.
func (w *world) read() bundle.Bundle {
	w.Helper()
	joined := bundle.Join(w.parts())
	if len(joined) == 0 {
		return bundle.Bundle{}
	}
	require.Len(w, joined, 1)
	return joined[0]
}

// await waits until the bundle is filled, whole, and as the condition says.
func (w *world) await(reason string, ok func(bundle.Bundle) bool) bundle.Bundle {
	w.Helper()
	var last bundle.Bundle
	require.Eventually(w, func() bool {
		last = w.read()
		return last.Complete && ok(last)
	}, deadline, tick, reason)
	return last
}

// names are the objects of the kind.
func names(b bundle.Bundle, kind string) []string {
	var found []string
	for _, o := range b.Objects {
		if o.Kind == kind {
			found = append(found, o.Name)
		}
	}
	return found
}

func has(kind string, want ...string) func(bundle.Bundle) bool {
	return func(b bundle.Bundle) bool { return strings.Join(names(b, kind), " ") == strings.Join(want, " ") }
}

// create makes an object of JSON, with the label.
func (w *world) create(resource schema.GroupVersionResource, manifest string) *unstructured.Unstructured {
	w.Helper()
	made, err := w.client.Resource(resource).Namespace(w.namespace).Create(w.Context(), w.stamped(manifest), metav1.CreateOptions{})
	require.NoError(w, err)
	return made
}

// stamped is the object with the label, as a control plane applies it.
func (w *world) stamped(manifest string) *unstructured.Unstructured {
	stamped, err := plan.Stamp([]byte(manifest), w.namespace, map[string]string{plan.DeploymentLabel: w.id})
	require.NoError(w, err)
	var o unstructured.Unstructured
	require.NoError(w, o.UnmarshalJSON(stamped))
	return &o
}

func (w *world) configMap(name string) {
	w.Helper()
	w.create(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"},"data":{"key":"a value that nobody needs"}}`)
}

func (w *world) delete(resource schema.GroupVersionResource, name string) {
	w.Helper()
	now := int64(0)
	require.NoError(w, w.client.Resource(resource).Namespace(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// patch changes an object, or its status.
func (w *world) patch(resource schema.GroupVersionResource, name string, change any, subresources ...string) {
	w.Helper()
	data, err := json.Marshal(change)
	require.NoError(w, err)
	_, err = w.client.Resource(resource).Namespace(w.namespace).Patch(w.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	require.NoError(w, err)
}

// awaitAccount waits until the namespace can have pods.
func (w *world) awaitAccount() {
	w.Helper()
	require.Eventually(w, func() bool {
		_, err := w.client.Resource(accounts).Namespace(w.namespace).Get(w.Context(), "default", metav1.GetOptions{})
		return err == nil
	}, deadline, tick)
}
