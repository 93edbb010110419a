package tenantagent_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	chart "github.com/drover-io/drover/deploy/helm/tenant-agent"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/tenantagent"
)

// resourceOf are the resources of the kinds in the chart.
var resourceOf = map[string]string{
	"ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Role": "roles",
	"RoleBinding": "rolebindings", "ConfigMap": "configmaps", "Deployment": "deployments",
}

// install applies the chart to the cluster, and gives the agent's access to it: by a token of its account.
func (w *world) install(o chart.Options) *rest.Config {
	w.Helper()
	manifests, err := chart.Manifests(o)
	require.NoError(w, err)
	client := kubetest.Dynamic(w, kubetest.Kubeconfig(w))
	for _, m := range manifests {
		if m.Kind == "CustomResourceDefinition" {
			kubetest.Define(w, client, m.Manifest)
			continue
		}
		o := &unstructured.Unstructured{}
		require.NoError(w, o.UnmarshalJSON(m.Manifest))
		resource := client.Resource(o.GroupVersionKind().GroupVersion().WithResource(resourceOf[m.Kind]))
		objects := resource.Namespace(m.Namespace)
		_, err := objects.Apply(w.Context(), m.Name, o, metav1.ApplyOptions{FieldManager: "test", Force: true})
		require.NoError(w, err, "%s %s", m.Kind, m.Name)
		if m.Namespace == "" {
			w.Cleanup(func() { _ = resource.Delete(context.WithoutCancel(w.Context()), m.Name, metav1.DeleteOptions{}) })
		}
	}
	token, err := w.kube.CoreV1().ServiceAccounts(o.Namespace).CreateToken(w.Context(), "drover-tenant-agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(w, err)
	account := rest.AnonymousClientConfig(w.config)
	account.BearerToken = token.Status.Token
	return account
}

// TestTheChartHasTheRightsThatTheAgentNeeds: with them alone it does all that it does.
func TestTheChartHasTheRightsThatTheAgentNeeds(t *testing.T) {
	w := newBareRuleWorld(t)
	w.pod(w.namespace, "a")
	account := w.install(chart.Options{Namespace: w.namespace, Tenant: "tenant1", Server: "api.example.com:9017", Namespaces: []string{w.namespace}})
	stop := w.agent(func(c *tenantagent.Config) {
		c.Cluster, c.ConfigMap, c.Server.Address, c.Rules = account, "drover-tenant-agent", w.address, true
	})
	w.put("one", spec("nginx:1"))
	w.await("one", func(s said) bool { return s.Synced && s.Pods == 1 })
	require.Eventually(t, func() bool {
		all, err := w.store.Workloads(t.Context(), "tenant1")
		return err == nil && slices.ContainsFunc(all, func(one *domain.Workload) bool { return one.ResourceName == "a" })
	}, deadline, tick, "the Pods of the agent's own Deployment may be there, too")
	w.delete("one")
	w.gone("one")
	stop()
	lease, err := w.kube.CoordinationV1().Leases(w.namespace).Get(t.Context(), "drover-tenant-agent", metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, *lease.Spec.HolderIdentity, "the Lease is given back")
}

func TestTheChartSaysWhatTheAgentReads(t *testing.T) {
	for name, o := range map[string]chart.Options{
		"certificate": {Namespace: "agents", Tenant: "t", Server: "a:1"},
		"token":       {Namespace: "agents", Tenant: "t", Server: "a:1", Token: true},
	} {
		manifests, err := chart.Manifests(o)
		require.NoError(t, err)
		for _, m := range manifests {
			require.Equal(t, m.Kind == "CustomResourceDefinition", m.Keep, m.Kind)
			switch m.Kind {
			case "Deployment":
				d := &appsv1.Deployment{}
				decode(t, m, d)
				pod := d.Spec.Template.Spec
				env := map[string]string{}
				for _, e := range pod.Containers[0].Env {
					env[e.Name] = e.Value
				}
				require.Equal(t, name == "token", env["DROVER_TOKEN_FILE"] == "/etc/drover/token", "%v", env)
				require.Equal(t, name == "certificate", env["DROVER_CLIENT_CERT"] == "/etc/drover/tls.crt", "%v", env)
				require.Equal(t, "t", env["DROVER_TENANT"])
				require.Equal(t, "a:1", env["DROVER_SERVER"])
				require.True(t, *pod.SecurityContext.RunAsNonRoot)
				require.False(t, *pod.Containers[0].SecurityContext.AllowPrivilegeEscalation)
			case "ConfigMap":
				c := corev1.ConfigMap{}
				decode(t, m, &c)
				require.Equal(t, "namespaces: []", c.Data["config"])
			}
		}
	}
	_, err := chart.Manifests(chart.Options{Namespace: "agents", Server: "a:1"})
	require.ErrorContains(t, err, "tenant is required")
}

// TestNamespacesOfTheChartAreNames, be they such as look like numbers, which --set takes for numbers.
func TestNamespacesOfTheChartAreNames(t *testing.T) {
	manifests, err := chart.Manifests(chart.Options{Namespace: "agents", Tenant: "1", Server: "a:1", Namespaces: []string{"123", "shop", "20260701"}})
	require.NoError(t, err)
	said := corev1.ConfigMap{}
	for _, m := range manifests {
		if m.Kind == "ConfigMap" {
			decode(t, m, &said)
		}
	}
	names, err := tenantagent.NamespacesOf(&said)
	require.NoError(t, err)
	require.Equal(t, []string{"123", "20260701", "shop"}, names)
}

func decode(t *testing.T, m plan.Resource, into any) {
	t.Helper()
	var o unstructured.Unstructured
	require.NoError(t, o.UnmarshalJSON(m.Manifest))
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into))
}
