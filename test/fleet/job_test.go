package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/test/fleet"
)

var jobs = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

func TestJobsEndAsTheySay(t *testing.T) {
	t.Parallel()
	a := newAPI(t, fleet.Config{})
	job := func(name, ends string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "batch/v1", "kind": "Job",
			"metadata": map[string]any{"name": name, "annotations": map[string]any{fleet.JobEnds: ends}},
		}}
	}
	for name, ends := range map[string]string{"done": "Complete 0s", "broken": "Failed 20ms", "endless": ""} {
		_, err := a.of(jobs).Create(t.Context(), job(name, ends), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	condition := func(name string) string {
		o, err := a.of(jobs).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		require.NoError(t, err)
		if len(conditions) == 0 {
			return ""
		}
		return conditions[0].(map[string]any)["type"].(string)
	}
	for name, want := range map[string]string{"done": "Complete", "broken": "Failed"} {
		require.Eventually(t, func() bool { return condition(name) != "" }, deadline, time.Millisecond, name)
		require.Equal(t, want, condition(name))
	}
	require.Empty(t, condition("endless"))

	for _, wrong := range []string{"Complete", "Done 1s", "Complete soon"} {
		_, err := a.of(jobs).Create(t.Context(), job("wrong", wrong), metav1.CreateOptions{})
		require.True(t, apierrors.IsBadRequest(err), "%s: %v", wrong, err)
	}
}
