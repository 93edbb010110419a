package harness

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/kubetest"
)

// agentNamespace is where agents have their Lease.
const agentNamespace = "drover-monitor"

// resourceBundleStates are what agents write.
var resourceBundleStates = schema.GroupVersionResource{Group: "k8splugin.io", Version: "v1alpha1", Resource: "resourcebundlestates"}

// DefineReports installs the CustomResourceDefinition of reports, until the test ends.
func (c *Cluster) DefineReports(t testing.TB) {
	t.Helper()
	c.UninstallAgent(t)
	kubetest.Define(t, c.Dynamic(t), crd.ResourceBundleStates().Manifest)
}

// UninstallAgent deletes, when the test ends, the definition of reports and the agent that the control plane installed.
func (c *Cluster) UninstallAgent(t testing.TB) {
	t.Helper()
	client, kube := c.Dynamic(t), c.Client(t)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = kube.AppsV1().Deployments(agentNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		kubetest.Undefine(t, client, resourceBundleStates) // the next test may define them
	})
}

// HasAgent says whether an agent is installed.
func (c *Cluster) HasAgent(t testing.TB) bool {
	t.Helper()
	list, err := c.Client(t).AppsV1().Deployments(agentNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return len(list.Items) > 0
}

// Reports are the ResourceBundleStates in the cluster by name; none where they are not defined.
func (c *Cluster) Reports(t testing.TB) map[string]unstructured.Unstructured {
	t.Helper()
	list, err := c.Dynamic(t).Resource(resourceBundleStates).List(t.Context(), metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	found := map[string]unstructured.Unstructured{}
	for _, o := range list.Items {
		found[o.GetName()] = o
	}
	return found
}

// StartAgent starts the cluster's agent, past the proxy, with more arguments.
func (c *Cluster) StartAgent(t testing.TB, args ...string) *Process {
	t.Helper()
	return StartAgent(t, "drover", c.Name, Kubeconfig(t, c.Name), args...)
}

// StartAgent starts a program of build/bin as the agent of a cluster. It dies with the test.
func StartAgent(t testing.TB, program, cluster string, kubeconfig []byte, args ...string) *Process {
	t.Helper()
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(agentNamespace)
	_, err := kubetest.Dynamic(t, kubeconfig).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).
		Create(t.Context(), namespace, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, kubeconfig, 0o600))
	// An agent has nobody to tell on its standard output that it is there.
	return Start(t, "agent of "+cluster, "ready", nil, "/bin/sh",
		append([]string{"-c", `echo ready; exec "$0" "$@"`, built.Binary(t, program), "monitor", "--kubeconfig", file, "--namespace", agentNamespace, "--metrics-listen", freeport.Address()}, args...)...)
}
