package kubetest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

var (
	clusterRoles        = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	clusterRoleBindings = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
	accessReviews       = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}
)

// Grant gives a user a ClusterRole, by its manifest, until the test ends, and returns when it holds. May says what the user may do.
func Grant(t testing.TB, admin dynamic.Interface, user string, manifest []byte) (may func(verb, group, resource, subresource string) bool) {
	t.Helper()
	data, err := yaml.YAMLToJSON(manifest)
	require.NoError(t, err)
	role := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(data, &role.Object))
	_, err = admin.Resource(clusterRoles).Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": role.GetName()},
		"roleRef":  map[string]any{"apiGroup": clusterRoles.Group, "kind": "ClusterRole", "name": role.GetName()},
		"subjects": []any{map[string]any{"apiGroup": clusterRoles.Group, "kind": "User", "name": user}},
	}}
	_, err = admin.Resource(clusterRoleBindings).Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, r := range []schema.GroupVersionResource{clusterRoleBindings, clusterRoles} {
			err := admin.Resource(r).Delete(context.WithoutCancel(t.Context()), role.GetName(), metav1.DeleteOptions{})
			if !apierrors.IsNotFound(err) {
				require.NoError(t, err)
			}
		}
	})
	may = func(verb, group, resource, subresource string) bool {
		t.Helper()
		review, err := admin.Resource(accessReviews).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": map[string]any{"user": user, "resourceAttributes": map[string]any{
				"namespace": "default", "verb": verb, "group": group, "resource": resource, "subresource": subresource,
			}},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		allowed, _, _ := unstructured.NestedBool(review.Object, "status", "allowed")
		return allowed
	}
	require.Eventually(t, func() bool { return may("get", "", "configmaps", "") }, Deadline, Tick)
	return may
}
