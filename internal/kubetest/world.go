package kubetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/plan"
)

// DeploymentID is that of every job of the suite that does not say another.
const DeploymentID = "4711-suite"

// Resources of the API that tests look at.
var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	claims     = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// Open makes a client of the cluster, with Patient's deadlines.
func Open(t testing.TB, config kube.Config, kubeconfig []byte) *kube.Cluster {
	t.Helper()
	clusters, err := kube.NewClusters(Patient(config), func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
		return kubeconfig, "digest", nil
	})
	require.NoError(t, err)
	t.Cleanup(clusters.Close)
	c, err := clusters.Get(t.Context(), domain.ClusterName{Provider: "test", Name: "test"})
	require.NoError(t, err)
	return c
}

// Dynamic is a client-go client without limits of its own.
func Dynamic(t testing.TB, kubeconfig []byte) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	d, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return d
}

// Resource makes a resource of a manifest in JSON.
func Resource(t testing.TB, stage int, manifest []byte) plan.Resource {
	t.Helper()
	var o metav1.PartialObjectMetadata
	require.NoError(t, json.Unmarshal(manifest, &o))
	gvk := o.GroupVersionKind()
	return plan.Resource{
		ResourceID: plan.ResourceID{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: o.Namespace, Name: o.Name},
		Stage:      stage,
		Manifest:   manifest,
	}
}

// Resources makes resources of a stream of YAML manifests, each in a stage of its own if staged.
func Resources(t testing.TB, staged bool, manifests string) []plan.Resource {
	t.Helper()
	var list []plan.Resource
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(manifests)), 4096)
	for {
		var manifest json.RawMessage
		err := decoder.Decode(&manifest)
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		stage := 0
		if staged {
			stage = len(list)
		}
		list = append(list, Resource(t, stage, manifest))
	}
}

// Watcher is told of marks by a job.
type Watcher struct {
	mu    sync.Mutex
	Marks domain.Marks
	Notes map[int]string
	Told  []Event
	// Dropped are the fields that the cluster does not know, by resource.
	Dropped map[int][]string
	// Shared are the managers that have fields, too, by resource.
	Shared map[int][]string
	// Unpatchable are the kinds that were created instead of applied, in order, each as often as it was told.
	Unpatchable []string
}

// Event is one call of OnMark.
type Event struct {
	Index int
	Mark  domain.Mark
}

// Watch makes a watcher of a job on resources with the marks.
func Watch(marks domain.Marks) *Watcher {
	return &Watcher{Marks: append(domain.Marks(nil), marks...), Notes: map[int]string{}, Dropped: map[int][]string{}, Shared: map[int][]string{}}
}

// OnDropped is the job's.
func (w *Watcher) OnDropped(i int, fields []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Dropped[i] = fields
}

// OnShared is the job's.
func (w *Watcher) OnShared(i int, managers []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Shared[i] = managers
}

// OnUnpatchable is the job's.
func (w *Watcher) OnUnpatchable(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Unpatchable = append(w.Unpatchable, resource)
}

// OnMark is the job's.
func (w *Watcher) OnMark(i int, m domain.Mark, note string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Marks[i] = m
	w.Told = append(w.Told, Event{i, m})
	if note != "" {
		w.Notes[i] = note
	}
}

// world is a namespace of a cluster, and what a test does there.
type world struct {
	testing.TB
	cluster   *kube.Cluster
	dynamic   dynamic.Interface
	name      string // unique
	namespace string
	// kubeconfig is the administrator's.
	kubeconfig []byte
}

// Deadline bounds every wait of tests with clusters; only a defect or a very busy machine reaches it. Tick is how often a
// condition is looked at.
const (
	Deadline = 2 * time.Minute
	Tick     = 50 * time.Millisecond
)

// Patient is the configuration with deadlines that a busy machine does not come to, where it has none.
func Patient(c kube.Config) kube.Config {
	for _, d := range []*time.Duration{&c.Dial, &c.Handshake, &c.Request, &c.StageWait} {
		*d = cmp.Or(*d, Deadline)
	}
	return c
}

func newWorld(t testing.TB, kubeconfig []byte) *world {
	t.Helper()
	w := &world{TB: t, cluster: Open(t, kube.Config{}, kubeconfig), dynamic: Dynamic(t, kubeconfig), name: Name("suite"), kubeconfig: kubeconfig}
	w.namespace = w.name
	MakeNamespace(t, w.dynamic, w.namespace)
	return w
}

// MakeNamespace makes a namespace that goes with the test.
func MakeNamespace(t testing.TB, client dynamic.Interface, name string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("Namespace")
	o.SetName(name)
	_, err := client.Resource(namespaces).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		// Nothing waits for it, and a test may have deleted it.
		_ = client.Resource(namespaces).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	})
}

func (w *world) job(resources []plan.Resource, marks domain.Marks) (kube.Job, *Watcher) {
	watcher := Watch(marks)
	return kube.Job{
		Resources: resources, Marks: marks, Namespace: w.namespace, DeploymentID: DeploymentID, OnMark: watcher.OnMark,
		OnDropped: watcher.OnDropped, OnShared: watcher.OnShared, OnUnpatchable: watcher.OnUnpatchable,
	}, watcher
}

// apply applies all and returns what the watcher saw.
func (w *world) apply(resources []plan.Resource) (kube.Outcome, *Watcher) {
	j, watcher := w.job(resources, domain.NewMarks(len(resources), domain.MarkPending))
	return w.cluster.Apply(w.Context(), j), watcher
}

// mustApply applies what has to succeed.
func (w *world) mustApply(resources []plan.Resource) *Watcher {
	w.Helper()
	outcome, watcher := w.apply(resources)
	require.NoError(w, outcome.Retry)
	require.Equal(w, domain.NewMarks(len(resources), domain.MarkApplied), watcher.Marks, "notes: %v", watcher.Notes)
	return watcher
}

func (w *world) delete(resources []plan.Resource) (kube.Outcome, *Watcher) {
	j, watcher := w.job(resources, domain.NewMarks(len(resources), domain.MarkDoomed))
	return w.cluster.Delete(w.Context(), j), watcher
}

// configMap is a resource.
func (w *world) configMap(stage int, name string) plan.Resource {
	w.Helper()
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"key": "value"},
	})
	require.NoError(w, err)
	return Resource(w, stage, manifest)
}

// find gets a ConfigMap of the namespace, nil when there is none.
func (w *world) find(name string) *unstructured.Unstructured {
	w.Helper()
	return w.findIn(configMaps, w.namespace, name)
}

func (w *world) findIn(resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	w.Helper()
	var o *unstructured.Unstructured
	var err error
	if namespace == "" {
		o, err = w.dynamic.Resource(resource).Get(w.Context(), name, metav1.GetOptions{})
	} else {
		o, err = w.dynamic.Resource(resource).Namespace(namespace).Get(w.Context(), name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w, err)
	return o
}

// merge changes a ConfigMap of the namespace.
func (w *world) merge(name, patch string) {
	w.Helper()
	_, err := w.dynamic.Resource(configMaps).Namespace(w.namespace).
		Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w, err)
}

// stageRecorder is a BeforeStage that notes the stages, and that nothing of one was sent before it.
func stageRecorder(w *world, stages *[][]int, watcher *Watcher) func(context.Context, []int) error {
	return func(_ context.Context, indices []int) error {
		*stages = append(*stages, indices)
		watcher.mu.Lock()
		defer watcher.mu.Unlock()
		for _, e := range watcher.Told {
			require.NotContains(w, indices, e.Index)
		}
		return nil
	}
}

// As is the kubeconfig of a user who has what rights somebody has granted.
func As(t testing.TB, kubeconfig []byte, user string) []byte {
	t.Helper()
	return edit(t, kubeconfig, func(u *clientcmdapi.AuthInfo) { u.Impersonate = user })
}

// withToken is the kubeconfig with other credentials.
func withToken(t testing.TB, kubeconfig []byte, token string) []byte {
	return edit(t, kubeconfig, func(u *clientcmdapi.AuthInfo) { *u = clientcmdapi.AuthInfo{Token: token} })
}

func edit(t testing.TB, kubeconfig []byte, change func(*clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	config, err := clientcmd.Load(kubeconfig)
	require.NoError(t, err)
	change(config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo])
	edited, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return edited
}
