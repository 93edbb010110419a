package monitor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	chart "github.com/drover-io/drover/deploy/helm/monitor"
	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/monitor"
)

// emcoKinds are those that the agent of EMCO tells of, and those that its clients ask for.
var emcoKinds = []string{
	"ConfigMap", "Pod", "Service", "Secret", "Namespace", "ResourceQuota", "PersistentVolumeClaim", "ServiceAccount",
	"DaemonSet.apps", "Deployment.apps", "StatefulSet.apps", "Job.batch", "CronJob.batch",
	"CertificateSigningRequest.certificates.k8s.io", "Ingress.networking.k8s.io", "NetworkPolicy.networking.k8s.io",
	"HorizontalPodAutoscaler.autoscaling", "PodDisruptionBudget.policy",
	"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io",
	"Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io",
}

func TestRightsOfTheChartSuffice(t *testing.T) {
	for name, discover := range map[string]bool{"with discovery": true, "without discovery": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.awaitAccount()
			w.install(chart.Options{Namespace: w.namespace, Image: "example.com/drover:1", NoDiscovery: !discover})
			agent := rest.CopyConfig(w.config)
			agent.Impersonate.UserName = "system:serviceaccount:" + w.namespace + ":drover-monitor"
			w.awaitRights(agent, discover)
			w.bundleState()
			w.create(secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`)
			w.createPods(100)
			w.agent(func(c *monitor.Config) {
				c.Discover, c.MaxSize, c.Namespace, c.Cluster = discover, bundle.MinSize, w.namespace, agent
			})
			b := w.await("everything is told", func(b bundle.Bundle) bool { return len(b.Objects) == 101 })
			for _, name := range emcoKinds {
				require.Contains(t, b.Kinds, schema.ParseGroupKind(name))
			}
			require.Equal(t, discover, len(b.Kinds) > len(emcoKinds), "%v", b.Kinds)
			require.Greater(t, len(w.parts()), 1, "it may make further parts")

			w.deletePods()
			require.Eventually(t, func() bool { return len(w.parts()) == 1 }, deadline, tick, "it may delete them")
			require.Eventually(t, func() bool {
				_, err := w.client.Resource(leases).Namespace(w.namespace).Get(t.Context(), bundle.LeaseName, metav1.GetOptions{})
				return err == nil
			}, deadline, tick, "it may renew its lease")
		})
	}
}

// awaitRights waits until the cluster knows what the agent may: it is told of rights a moment after they are stored.
func (w *world) awaitRights(agent *rest.Config, everything bool) {
	w.Helper()
	client, err := dynamic.NewForConfig(agent)
	require.NoError(w, err)
	require.Eventually(w, func() bool {
		_, pods := client.Resource(pods).List(w.Context(), metav1.ListOptions{Limit: 1})
		_, leases := client.Resource(leases).List(w.Context(), metav1.ListOptions{Limit: 1})
		return pods == nil && (leases == nil) == everything
	}, deadline, tick)
}

// install applies the chart as a control plane does. The cluster's own parts of it go with the test.
func (w *world) install(o chart.Options) {
	w.Helper()
	manifests, err := chart.Manifests(o)
	require.NoError(w, err)
	for _, r := range manifests {
		var object unstructured.Unstructured
		require.NoError(w, object.UnmarshalJSON(r.Manifest))
		resource := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: plural[r.Kind]}
		require.NotEmpty(w, resource.Resource, r.Kind)
		_, err := w.client.Resource(resource).Namespace(r.Namespace).Apply(w.Context(), r.Name, &object, metav1.ApplyOptions{FieldManager: "test", Force: true})
		require.NoError(w, err, "%s %s", r.Kind, r.Name)
	}
	w.Cleanup(func() {
		for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
			resource := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: plural[kind]}
			if err := w.client.Resource(resource).Delete(context.WithoutCancel(w.Context()), "drover-monitor", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				require.NoError(w, err)
			}
		}
	})
}

// plural are the resources of the chart's kinds.
var plural = map[string]string{
	"CustomResourceDefinition": "customresourcedefinitions", "Namespace": "namespaces", "ServiceAccount": "serviceaccounts",
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings",
	"ConfigMap": "configmaps", "Deployment": "deployments",
}
