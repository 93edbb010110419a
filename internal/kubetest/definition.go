package kubetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// definitions are the CustomResourceDefinitions.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Define applies a CustomResourceDefinition, which may be on its way out, waits until it is served, and returns what it
// defines in its first version.
func Define(t testing.TB, client dynamic.Interface, manifest []byte) schema.GroupVersionResource {
	t.Helper()
	var o unstructured.Unstructured
	require.NoError(t, o.UnmarshalJSON(manifest))
	group, _, err := unstructured.NestedString(o.Object, "spec", "group")
	require.NoError(t, err)
	plural, _, err := unstructured.NestedString(o.Object, "spec", "names", "plural")
	require.NoError(t, err)
	versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
	require.NoError(t, err)
	defined := schema.GroupVersionResource{Group: group, Version: versions[0].(map[string]any)["name"].(string), Resource: plural}
	require.Eventually(t, func() bool {
		_, err := client.Resource(definitions).Apply(t.Context(), o.GetName(), &o, metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err == nil && served(t.Context(), client, defined) == nil
	}, Deadline, Tick)
	return defined
}

// Undefine deletes what Define has made, if it is there, and waits until it is served no more. Cleanups may call it.
func Undefine(t testing.TB, client dynamic.Interface, defined schema.GroupVersionResource) {
	t.Helper()
	ctx, name := context.WithoutCancel(t.Context()), defined.GroupResource().String()
	require.Eventually(t, func() bool {
		err := client.Resource(definitions).Delete(ctx, name, metav1.DeleteOptions{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(served(ctx, client, defined))
	}, Deadline, Tick)
}

func served(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource) error {
	_, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	return err
}
