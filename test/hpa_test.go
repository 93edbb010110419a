package test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/test/harness"
)

const (
	// hardwareGroup is the group of the example hpa.
	hardwareGroup = "projects/testhpa/composite-apps/hpa-composite-app/v1/deployment-intent-groups/hpa_deployment_intent_group"
	// qat is the label of nodes that it asks for, and reserved the taint which keeps other tests' pods from them.
	qat, reserved = "feature.node.kubernetes.io/intel_qat", "drover.io/test-hpa"
)

// ownNode makes a node with a label in a cluster, until the test ends, and waits until it takes pods.
func ownNode(ctx context.Context, t *testing.T, c *harness.Cluster, label, cpu string) (name string) {
	t.Helper()
	name = kubetest.Name("hpa")
	nodes := c.Client(t).CoreV1().Nodes()
	has := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	_, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: reserved, Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = nodes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	harness.Until(ctx, t, "a node that takes pods", func() bool {
		n, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(n.Spec.Taints) != 1 {
			return false
		}
		for _, is := range n.Status.Conditions {
			if is.Type == corev1.NodeReady && is.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
	return name
}

// allocatable changes how much cpu a node can allocate.
func allocatable(ctx context.Context, t *testing.T, c *harness.Cluster, node, cpu string) {
	t.Helper()
	change := fmt.Sprintf(`{"status":{"capacity":{"cpu":%q},"allocatable":{"cpu":%q}}}`, cpu, cpu)
	_, err := c.Client(t).CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(change), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// TestHardwareChoosesClusters deploys the example hpa where nodes have what it asks for, and keeps it there.
func TestHardwareChoosesClusters(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	first, second := s.Register(ctx, clusters[0].Name, clusters[0].Kubeconfig(t)), s.Register(ctx, clusters[1].Name, clusters[1].Kubeconfig(t))
	nodes := [2]string{ownNode(ctx, t, clusters[0], qat, "2"), ownNode(ctx, t, clusters[1], qat, "2")}
	chart, err := examples.HardwareChart()
	require.NoError(t, err)
	profile, err := examples.HardwareProfile()
	require.NoError(t, err)
	d := s.On(ctx, []domain.ClusterName{first, second}, client.App{
		Name: examples.HardwareApp, Chart: chart, Profile: profile,
		Intent:    domain.Placement{AnyOf: []domain.Clusters{harness.One(first), harness.One(second)}},
		Overrides: map[string]string{"tolerations[0].key": reserved, "tolerations[0].operator": "Exists"},
	})
	api := s.Client.API()
	const bound = "hpa-placement-intent-1"
	_, err = api.Put(ctx, &domain.DeploymentIntent{
		Identity: domain.Identity{Parent: d.Key()}, Metadata: domain.Metadata{Name: "intent"}, Spec: domain.DeploymentIntentSpec{Intent: map[string]string{
			domain.PlacementIntentKey: d.PlacementKey().Name(), "hpa-placement-controller-1": bound, "hpa-action-controller-1": bound,
		}},
	}, nil)
	require.NoError(t, err)
	name := d.Release + "-http-client"
	require.Equal(t, 4, postExample(ctx, t, s, "hpa/emcoctl/4-hpa.yaml", hardwareGroup, d.Key(), "r1-http-client", name))

	// It fits nowhere, and that is said of each cluster.
	full := func(c domain.ClusterName) string {
		return fmt.Sprintf("%s: 1 node with the label %s=true, none with 4 free cpu", c, qat)
	}
	err = d.Do(ctx, domain.OpApprove)
	require.Equal(t, 422, code(t, err), "%v", err)
	require.Contains(t, err.Error(), full(first))
	require.Contains(t, err.Error(), full(second))

	allocatable(ctx, t, clusters[1], nodes[1], "12")
	do(ctx, t, d, domain.OpApprove, domain.OpInstantiate)
	s.Await(ctx, d, "Instantiated")
	// runs compares what the Deployment asks for in the second cluster; there is none in the first.
	runs := func(cpu string) {
		t.Helper()
		_, err := clusters[0].Client(t).AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		is, err := clusters[1].Client(t).AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		require.NoError(t, err)
		require.EqualValues(t, 2, *is.Spec.Replicas)
		require.Equal(t, map[string]string{qat: "true"}, is.Spec.Template.Spec.NodeSelector)
		resources, err := json.Marshal(is.Spec.Template.Spec.Containers[0].Resources)
		require.NoError(t, err)
		require.JSONEq(t, fmt.Sprintf(`{"requests":{"cpu":%q},"limits":{"cpu":%q}}`, cpu, cpu), string(resources))
		harness.Until(ctx, t, "two pods on the node that was chosen, with "+cpu, func() bool {
			pods, err := clusters[1].Client(t).CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "release=" + d.Release})
			n := 0
			for i := range pods.Items {
				p := &pods.Items[i]
				if p.Spec.NodeName == nodes[1] && p.Status.Phase == corev1.PodRunning && p.Spec.Containers[0].Resources.Requests.Cpu().String() == cpu {
					n++
				}
			}
			return err == nil && n == 2
		})
	}
	runs("4")
	why, err := api.Explain(ctx, d.Key())
	require.NoError(t, err)
	said := strings.Join(why.Effects, "\n")
	require.Contains(t, said, fmt.Sprintf("http-client on %s, and not on %s", second, full(first)))
	require.Contains(t, said, "requests cpu=4 of container http-client by hpa intent "+bound)

	// There is room in the first cluster as well now, and it stays where it is: its own pods take no room from it.
	allocatable(ctx, t, clusters[0], nodes[0], "32")
	consumer := d.Key().Child("hpa-intents", bound, "hpa-resource-consumers", "hpa-placement-consumer-1")
	need := func(name string, of domain.HPAResourceName) {
		t.Helper()
		_, err := api.Put(ctx, &domain.HPAResource{
			Identity: domain.Identity{Parent: consumer}, Metadata: domain.Metadata{Name: name},
			Spec: domain.HPAResourceSpec{Allocatable: new(of.Key == ""), Resource: of},
		}, nil)
		require.NoError(t, err)
	}
	need("hpa-placement-allocatable-resource-1", domain.HPAResourceName{Name: "cpu", Requests: "3", Limits: "3"})
	do(ctx, t, d, domain.OpUpdate)
	s.Await(ctx, d, "Instantiated")
	runs("3")

	// No node has what is asked for next: nothing is done.
	need("hpa-placement-nonallocatable-resource-1", domain.HPAResourceName{Key: qat, Value: new("both")})
	err = d.Do(ctx, domain.OpUpdate)
	require.Equal(t, 422, code(t, err), "%v", err)
	for _, c := range []domain.ClusterName{first, second} {
		require.Contains(t, err.Error(), c.String()+": ")
	}
	require.Contains(t, err.Error(), "none with the label "+qat+"=both")
	runs("3")

	do(ctx, t, d, domain.OpTerminate)
	s.Await(ctx, d, "Terminated")
	_, err = clusters[1].Client(t).AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}
