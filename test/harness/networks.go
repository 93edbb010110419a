package harness

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/deploy/crd"
)

// networks are what network intents become.
var networks = []schema.GroupVersionResource{
	{Group: "k8s.plugin.opnfv.org", Version: "v1alpha1", Resource: "networks"},
	{Group: "k8s.plugin.opnfv.org", Version: "v1alpha1", Resource: "providernetworks"},
	{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"},
}

// DefineNetworks installs the definitions of networks, which stay, and waits until the cluster serves them.
func (c *Cluster) DefineNetworks(t testing.TB) {
	t.Helper()
	client := c.dynamic(t)
	for _, d := range crd.Networks() {
		_, err := client.Resource(definitions).Patch(t.Context(), d.Name, types.ApplyPatchType, d.Manifest, metav1.PatchOptions{FieldManager: "test"})
		require.NoError(t, err)
	}
	for _, gvr := range networks {
		c.awaitServed(t, gvr)
	}
}

// awaitServed waits until the cluster serves a kind that was defined a moment ago.
func (c *Cluster) awaitServed(t testing.TB, gvr schema.GroupVersionResource) {
	t.Helper()
	client := c.dynamic(t)
	Until(t.Context(), t, "served: "+gvr.String(), func() bool {
		_, err := client.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
		return err == nil
	})
}

// Networks are the networks in the cluster that belong to a context, as "resource/name", sorted.
func (c *Cluster) Networks(t testing.TB, contextID string) []string {
	t.Helper()
	found := []string{}
	for _, gvr := range networks {
		list, err := c.dynamic(t).Resource(gvr).Namespace(metav1.NamespaceDefault).List(t.Context(),
			metav1.ListOptions{LabelSelector: "emco/deployment-id=" + contextID + "-network-intents"})
		require.NoError(t, err)
		for _, o := range list.Items {
			found = append(found, gvr.Resource+"/"+o.GetName())
		}
	}
	slices.Sort(found)
	return found
}
