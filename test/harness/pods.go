package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// podsAtOnce is how many Pods are made at a time.
const podsAtOnce = 16

// PodName is the name of a Pod of RunPods, by its number from 0.
func PodName(i int) string { return fmt.Sprintf("pod-%05d", i) }

// RunPods makes n Pods with a label, key=value, of which each is a kilobyte or more, in the namespace default. Nothing
// runs them: they have the status of Pods that run and are ready. They go when the test ends.
func (c *Cluster) RunPods(ctx context.Context, t testing.TB, label string, n int) {
	t.Helper()
	key, value, _ := strings.Cut(label, "=")
	kube := c.Client(t)
	t.Cleanup(func() { c.RemovePods(t, label) })
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(podsAtOnce)
	for i := range n {
		g.Go(func() error {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: PodName(i), Labels: map[string]string{key: value}},
				Spec: corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{
					Name: "c", Image: "example.com/c", Env: []corev1.EnvVar{{Name: "LONG", Value: strings.Repeat("padding ", 100)}},
				}}},
			}
			if _, err := kube.CoreV1().Pods(metav1.NamespaceDefault).Create(gctx, pod, metav1.CreateOptions{}); err != nil {
				return err
			}
			return setReady(gctx, kube, pod.Name, corev1.ConditionTrue)
		})
	}
	require.NoError(t, g.Wait())
}

// FailPod makes a Pod of RunPods one that is not ready.
func (c *Cluster) FailPod(ctx context.Context, t testing.TB, name string) {
	t.Helper()
	require.NoError(t, setReady(ctx, c.Client(t), name, corev1.ConditionFalse))
}

func setReady(ctx context.Context, kube kubernetes.Interface, pod string, is corev1.ConditionStatus) error {
	change, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: is}},
	}})
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, pod, types.MergePatchType, change, metav1.PatchOptions{}, "status")
	return err
}

// removeTime is as long as an API server takes for one request: for deleting thousands a busy one needs more.
const removeTime = time.Minute

// RemovePods deletes the Pods with a label without grace, and asks for it again until none is left.
func (c *Cluster) RemovePods(t testing.TB, label string) {
	t.Helper()
	pods := c.Client(t).CoreV1().Pods(metav1.NamespaceDefault)
	labelled := metav1.ListOptions{LabelSelector: label}
	Until(context.Background(), t, "gone: the Pods with "+label, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), removeTime)
		defer cancel()
		if err := pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), labelled); err != nil {
			t.Logf("remove Pods: %v", err)
			return false
		}
		left, err := pods.List(ctx, labelled)
		return err == nil && len(left.Items) == 0
	})
}
