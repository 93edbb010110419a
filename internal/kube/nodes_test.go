package kube_test

import (
	"context"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
)

// TestNodes reads the nodes of a real API server, on which no kubelet runs.
func TestNodes(t *testing.T) {
	t.Parallel()
	ctx, kubeconfig := t.Context(), kubetest.Kubeconfig(t)
	access, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(access)
	require.NoError(t, err)
	quantities := func(of ...string) corev1.ResourceList {
		all := corev1.ResourceList{}
		for i := 0; i < len(of); i += 2 {
			all[corev1.ResourceName(of[i])] = resource.MustParse(of[i+1])
		}
		return all
	}
	name, shut, down, ns := kubetest.Name("node"), kubetest.Name("shut"), kubetest.Name("down"), kubetest.Name("pods")
	ready := map[string]corev1.ConditionStatus{name: corev1.ConditionTrue, shut: corev1.ConditionTrue, down: corev1.ConditionUnknown}
	hard, soft := corev1.Taint{Key: "gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}
	for _, n := range []string{name, shut, down} {
		_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"feature.node.kubernetes.io/intel_qat": "true"}},
			Spec:       corev1.NodeSpec{Unschedulable: n == shut, Taints: []corev1.Taint{hard, soft}},
			Status: corev1.NodeStatus{
				Allocatable: quantities("cpu", "8", "memory", "16Gi", "intel.com/qat", "2"),
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: ready[n]}},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.CoreV1().Nodes().Delete(context.Background(), n, metav1.DeleteOptions{}) })
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err != nil {
		require.Contains(t, err.Error(), "already exists") // somebody's controller was quicker
	}
	asks := func(list corev1.ResourceList) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: list}
	}
	for pod, of := range map[string]string{"own": "1-web", "own-too": "1-web", "gone": "1-old", "other": "2-web", "ended": "2-web"} {
		p, err := client.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: pod, Labels: map[string]string{"emco/deployment-id": of}},
			Spec: corev1.PodSpec{
				NodeName:       name,
				InitContainers: []corev1.Container{{Name: "first", Image: "x", Resources: asks(quantities("cpu", "3"))}},
				Containers: []corev1.Container{
					{Name: "a", Image: "x", Resources: asks(quantities("cpu", "1500m", "memory", "1Gi"))},
					{Name: "b", Image: "x", Resources: asks(quantities("cpu", "500m"))},
				},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		if pod == "ended" {
			p.Status.Phase = corev1.PodSucceeded
			_, err = client.CoreV1().Pods(ns).UpdateStatus(ctx, p, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	}
	clusters, err := kube.NewClusters(kube.Config{}, func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
		return kubeconfig, "1", nil
	})
	require.NoError(t, err)
	t.Cleanup(clusters.Close)
	c, err := clusters.Get(ctx, domain.ClusterName{Provider: "p", Name: "c"})
	require.NoError(t, err)
	nodes, err := c.Nodes(ctx, true, kube.LeftOut{
		Of: func(labels map[string]string) string {
			if of := labels["emco/deployment-id"]; of != "2-web" {
				return of
			}
			return ""
		},
		Most: map[string]map[string]*big.Rat{"1-web": {"cpu": new(big.Rat).SetInt64(4)}},
	})
	require.NoError(t, err)
	found := 0
	for _, n := range nodes {
		if n.Name == shut || n.Name == down {
			found++
			require.Equal(t, map[string]string{shut: kube.Cordoned, down: kube.NotReady}[n.Name], n.Closed)
		}
		if n.Name != name {
			continue
		}
		require.Contains(t, n.Taints, domain.Taint{Key: "gpu", Value: "true", Effect: "NoSchedule"}) // with those of controllers
		require.NotContains(t, n.Taints, domain.Taint{Key: "soft", Effect: "PreferNoSchedule"})
		found++
		require.Equal(t, "true", n.Labels["feature.node.kubernetes.io/intel_qat"])
		require.Equal(t, map[string]string{"cpu": "3", "memory": "13958643712", "intel.com/qat": "2"}, plain(n.Free))
	}
	require.Equal(t, 3, found)
}

func plain(of map[string]*big.Rat) map[string]string {
	all := map[string]string{}
	for name, r := range of {
		all[name] = r.RatString()
	}
	return all
}
