package kube_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// forgets has the land's user come to the cluster through something that forgets who has which fields of a Deployment with each create and update,
// as Kubernetes does up to 1.28 where an entry is there twice.
func (l *land) forgets() {
	l.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubetest.As(l, kubetest.Kubeconfig(l), l.namespace))
	require.NoError(l, err)
	upstream, err := rest.TransportFor(config)
	require.NoError(l, err)
	target, err := url.Parse(config.Host)
	require.NoError(l, err)
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization")
			r.Out.Header.Del("Accept-Encoding")
		},
		Transport: upstream,
		ModifyResponse: func(a *http.Response) error {
			if m := a.Request.Method; m != http.MethodPost && m != http.MethodPut || a.StatusCode > http.StatusCreated || !strings.Contains(a.Request.URL.Path, "/deployments") {
				return nil
			}
			_, err := l.admin.Resource(deployments).Namespace(l.namespace).
				Patch(a.Request.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`), metav1.PatchOptions{})
			if err != nil {
				return err
			}
			data, err := io.ReadAll(a.Body)
			if err != nil {
				return err
			}
			var object unstructured.Unstructured
			if err := object.UnmarshalJSON(data); err != nil {
				return err
			}
			object.SetManagedFields(nil)
			if data, err = json.Marshal(object.Object); err != nil {
				return err
			}
			a.Body = io.NopCloser(bytes.NewReader(data))
			a.ContentLength = int64(len(data))
			a.Header.Set("Content-Length", strconv.Itoa(len(data)))
			return nil
		},
	}
	l.user = serveAll(l, http2, through.ServeHTTP).open(l, kube.Config{})
}

// entryTwice is a Deployment whose users have it created, and updated by PUT.
func entryTwice(t *testing.T, annotations, spec, pod string) []plan.Resource {
	return kubetest.Resources(t, false, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, annotations: `+annotations+`}
spec:
`+spec+`
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
`+pod+`
      containers:
      - {name: main, image: example.com/none, env: [{name: A, value: first}, {name: A, value: last}]}
`)
}

// TestReplicasStayWhereTheClusterForgets: somebody else counts the Pods once the manifest says no number of them, be it that it said one before.
func TestReplicasStayWhereTheClusterForgets(t *testing.T) {
	t.Parallel()
	l := newLand(t, "get", "create", "update", "patch")
	l.forgets()
	at := l.admin.Resource(deployments).Namespace(l.namespace)
	l.mustApply(entryTwice(t, "{}", "  replicas: 1", ""))
	_, err := at.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	for range 2 {
		l.mustApply(entryTwice(t, "{}", "  minReadySeconds: 1", ""))
		o, err := at.Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		replicas, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
		require.NoError(t, err)
		require.EqualValues(t, 5, replicas)
	}
}

// TestAnnotationsHaveTheirRoomWhereTheClusterForgets: what was sent is noted only where the cluster takes as much.
func TestAnnotationsHaveTheirRoomWhereTheClusterForgets(t *testing.T) {
	t.Parallel()
	l := newLand(t, "get", "create", "update", "patch")
	l.forgets()
	noted := func() bool {
		o, err := l.admin.Resource(deployments).Namespace(l.namespace).Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		return o.GetAnnotations()["drover.io/fields"] != ""
	}
	large := `{large: "` + strings.Repeat("x", validation.TotalAnnotationSizeLimitB-300) + `"}`
	l.mustApply(entryTwice(t, "{}", "  replicas: 0", ""))
	require.True(t, noted())
	l.mustApply(entryTwice(t, large, "  replicas: 0", ""))
	require.False(t, noted())
}

// TestWhatIsDroppedGoesWhereTheClusterForgets: what a manifest has no more goes, and what others have said stays, although no cluster says who that was.
func TestWhatIsDroppedGoesWhereTheClusterForgets(t *testing.T) {
	t.Parallel()
	of := func(t *testing.T, spec string) []plan.Resource { return entryTwice(t, "{}", "  replicas: 0", spec) }
	for name, verbs := range map[string][]string{
		"who may patch":     {"get", "create", "update", "patch"},
		"who may not patch": {"get", "create", "update"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLand(t, verbs...)
			l.forgets()
			at := l.admin.Resource(deployments).Namespace(l.namespace)
			there := func(path ...string) any {
				o, err := at.Get(t.Context(), "a", metav1.GetOptions{})
				require.NoError(t, err)
				value, _, err := unstructured.NestedFieldNoCopy(o.Object, path...)
				require.NoError(t, err)
				return value
			}
			l.mustApply(of(t, `      nodeSelector: {disk: ssd}
      tolerations: [{key: a, operator: Exists}]
      hostNetwork: true`))
			_, err := at.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"of":"others"}}}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			l.mustApply(of(t, `      hostPID: true
      nodeSelector: {zone: a}`))
			require.Equal(t, map[string]any{"zone": "a"}, there("spec", "template", "spec", "nodeSelector"))
			require.Nil(t, there("spec", "template", "spec", "tolerations"))
			require.Nil(t, there("spec", "template", "spec", "hostNetwork"))
			require.Equal(t, true, there("spec", "template", "spec", "hostPID"))
			require.Equal(t, map[string]any{"of": "others"}, there("spec", "template", "metadata", "annotations"))
			l.mustApply(of(t, ""))
			require.Nil(t, there("spec", "template", "spec", "nodeSelector"))
			require.Nil(t, there("spec", "template", "spec", "hostPID"))

			copied, err := at.Get(t.Context(), "a", metav1.GetOptions{})
			require.NoError(t, err)
			copied.SetName("copy")
			copied.SetResourceVersion("")
			_, err = at.Create(t.Context(), copied, metav1.CreateOptions{})
			require.NoError(t, err)
			deleted, _, err := kubetest.Open(t, kube.Config{}, kubetest.Kubeconfig(t)).Sweep(t.Context(), kube.Remnants{
				Deployments: []string{kubetest.DeploymentID}, Places: []plan.ResourceID{{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: l.namespace}},
			})
			require.NoError(t, err)
			require.Equal(t, []plan.ResourceID{{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: l.namespace, Name: "a"}}, deleted,
				"it is known as the instance's, and a copy of it is not")
		})
	}
}
