package harness

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/deploy/crd"
	"github.com/drover-io/drover/internal/kubetest"
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
	for _, d := range crd.Networks() {
		kubetest.Define(t, c.Dynamic(t), d.Manifest)
	}
}

// Networks are the networks in the cluster that belong to a context, as "resource/name", sorted.
func (c *Cluster) Networks(t testing.TB, contextID string) []string {
	t.Helper()
	found := []string{}
	for _, gvr := range networks {
		list, err := c.Dynamic(t).Resource(gvr).Namespace(metav1.NamespaceDefault).List(t.Context(),
			metav1.ListOptions{LabelSelector: "emco/deployment-id=" + contextID + "-network-intents"})
		require.NoError(t, err)
		for _, o := range list.Items {
			found = append(found, gvr.Resource+"/"+o.GetName())
		}
	}
	slices.Sort(found)
	return found
}
