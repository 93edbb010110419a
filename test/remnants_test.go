package test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/test/harness"
)

// TestDeletedIsGone has an object wait for a finalizer: the terminate goes on and says so, a stop ends that and says what is
// left, and the next terminate goes on with it. What is there again after the end, as a worker that was frozen might send it,
// is seen by the watch of the cluster, and removed; what belongs to a live instance is not.
func TestDeletedIsGone(t *testing.T) {
	t.Parallel()
	ctx, s, c := within(t), harness.SharedStack(t), harness.NewCluster(t, harness.ClusterNames[0])
	app := func() client.App {
		return client.App{Name: "settings", Chart: harness.Chart(t, "settings", harness.ConfigMaps("settings", 2))}
	}
	on := []domain.ClusterName{register(ctx, t, s, c, "agentless")}
	live, d := s.On(ctx, on, app()), s.On(ctx, on, app())
	do(ctx, t, live, "approve", "instantiate")
	do(ctx, t, d, "approve", "instantiate")
	lives := s.Await(ctx, live, "Instantiated").States.ContextID()
	id := s.Await(ctx, d, "Instantiated").States.ContextID()

	configMaps := c.Dynamic(t).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	list, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: plan.DeploymentLabel + "=" + plan.DeploymentID(id, "settings")})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	held := list.Items[0]
	finalizers := func(patch string) {
		_, err := configMaps.Namespace(held.GetNamespace()).Patch(ctx, held.GetName(), types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":`+patch+`}}`), metav1.PatchOptions{FieldManager: "test"})
		require.NoError(t, err)
	}
	finalizers(`["example.com/held"]`)

	do(ctx, t, d, "terminate")
	x, text := explains(ctx, t, s, d, explain.Waiting, func(x *explain.Explanation) bool { return strings.Contains(x.Summary, "finalizer example.com/held") })
	require.Contains(t, text, "waits until ConfigMap "+held.GetName()+" is gone: being deleted since ")
	require.Equal(t, "Terminating", string(x.Status))
	got, err := d.Status(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 1, "Pending": 1}, got.Deployed)

	do(ctx, t, d, "stop")
	got = s.Await(ctx, d, "TerminateFailed")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 1, "Failed": 1}, got.Deployed)
	_, text = explanation(ctx, t, s, d)
	require.Contains(t, text, "waits for finalizer example.com/held")

	finalizers("null")
	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	require.Empty(t, c.Labelled(t, id))

	// The other deployment keeps the cluster watched.
	back := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"name": held.GetName(), "labels": map[string]any{plan.DeploymentLabel: plan.DeploymentID(id, "settings")},
		},
	}}
	_, err = configMaps.Namespace(held.GetNamespace()).Create(ctx, back, metav1.CreateOptions{FieldManager: "drover"})
	require.NoError(t, err)
	harness.Until(ctx, t, "removed", func() bool { return len(c.Labelled(t, id)) == 0 })
	require.Len(t, c.Labelled(t, lives), 2)

	// What no record tells of is waited for as what was applied is.
	back.SetLabels(map[string]string{plan.DeploymentLabel: plan.DeploymentID(lives, "settings")})
	back.SetName("unknown")
	back.SetFinalizers([]string{"example.com/held"})
	held = *back
	_, err = configMaps.Namespace(list.Items[0].GetNamespace()).Create(ctx, back, metav1.CreateOptions{FieldManager: "drover"})
	require.NoError(t, err)
	held.SetNamespace(list.Items[0].GetNamespace())
	do(ctx, t, live, "terminate")
	x, text = explains(ctx, t, s, live, explain.Waiting, func(x *explain.Explanation) bool { return strings.Contains(x.Summary, "finalizer example.com/held") })
	require.Contains(t, text, "ConfigMap unknown on "+on[0].Provider+"+"+on[0].Name+": being deleted since ")
	require.Equal(t, "Terminating", string(x.Status))
	finalizers("null")
	s.Await(ctx, live, "Terminated")
	require.Empty(t, c.Labelled(t, lives))
}
