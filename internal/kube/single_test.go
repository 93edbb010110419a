package kube_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// single is a ConfigMap in a namespace of its own.
type single struct {
	cluster *kube.Cluster
	objects dynamic.ResourceInterface
	id      plan.ResourceID
}

const ours = "4711-rule"

func newSingle(t *testing.T) *single {
	t.Helper()
	kubeconfig := kubetest.Kubeconfig(t)
	client, namespace := kubetest.Dynamic(t, kubeconfig), kubetest.Name("single")
	kubetest.MakeNamespace(t, client, namespace)
	return &single{
		cluster: kubetest.Open(t, kube.Config{}, kubeconfig),
		objects: client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace),
		id:      plan.ResourceID{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "single"},
	}
}

func (s *single) manifest(t *testing.T, deployment string, annotations map[string]string) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"namespace": s.id.Namespace, "name": s.id.Name, "annotations": annotations, "labels": map[string]any{plan.DeploymentLabel: deployment},
		},
	})
	require.NoError(t, err)
	return data
}

func TestASingleObject(t *testing.T) {
	s, ctx := newSingle(t), t.Context()
	found, err := s.cluster.Find(ctx, s.id)
	require.NoError(t, err)
	require.Nil(t, found)

	uid, err := s.cluster.Create(ctx, s.id, s.manifest(t, ours, map[string]string{"a": "1", "b": "2"}))
	require.NoError(t, err)
	_, err = s.cluster.Create(ctx, s.id, s.manifest(t, ours, nil))
	require.True(t, fail.Is(err, fail.Conflict), "%v", err)
	require.True(t, kube.IsAnswer(err))

	_, err = s.objects.Patch(ctx, s.id.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"theirs":"3"}}}`), metav1.PatchOptions{FieldManager: "kubectl"})
	require.NoError(t, err)
	found, err = s.cluster.Find(ctx, s.id)
	require.NoError(t, err)
	require.Equal(t, uid, found.UID)
	require.Equal(t, ours, found.Deployment)
	require.ElementsMatch(t, []string{"a", "b"}, found.Ours, "what others have set is theirs")

	four := "4"
	require.NoError(t, s.cluster.Annotate(ctx, s.id, uid, map[string]*string{"a": &four, "b": nil}))
	found, err = s.cluster.Find(ctx, s.id)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "4", "theirs": "3"}, found.Annotations)
	require.Equal(t, uid, found.UID, "it is changed in place")

	waits, err := s.cluster.Remove(ctx, s.id, ours)
	require.NoError(t, err)
	require.Empty(t, waits)
	_, err = s.objects.Get(ctx, s.id.Name, metav1.GetOptions{})
	require.Error(t, err, "it is gone")
	require.Error(t, s.cluster.Annotate(ctx, s.id, uid, map[string]*string{"a": &four}), "and a patch makes none")
	found, err = s.cluster.Find(ctx, s.id)
	require.NoError(t, err)
	require.Nil(t, found)
}

func TestASingleObjectOfSomebodyElse(t *testing.T) {
	s, ctx := newSingle(t), t.Context()
	uid, err := s.cluster.Create(ctx, s.id, s.manifest(t, "4712-theirs", nil))
	require.NoError(t, err)
	waits, err := s.cluster.Remove(ctx, s.id, ours)
	require.NoError(t, err)
	require.Empty(t, waits)
	found, err := s.cluster.Find(ctx, s.id)
	require.NoError(t, err)
	require.Equal(t, uid, found.UID, "what carries another label is left alone")

	one := "1"
	err = s.cluster.Annotate(ctx, s.id, "another", map[string]*string{"a": &one})
	require.True(t, fail.Is(err, fail.Unavailable), "another object has the name: %v", err)
	found, err = s.cluster.Find(ctx, s.id)
	require.NoError(t, err)
	require.Empty(t, found.Annotations)
}

func TestASingleObjectThatOutlivesItsDeletion(t *testing.T) {
	s, ctx := newSingle(t), t.Context()
	_, err := s.cluster.Create(ctx, s.id, s.manifest(t, ours, nil))
	require.NoError(t, err)
	finalizers := func(list string) {
		_, err := s.objects.Patch(ctx, s.id.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	finalizers(`["drover.io/held"]`)
	for range 2 {
		waits, err := s.cluster.Remove(ctx, s.id, ours)
		require.NoError(t, err)
		require.Contains(t, waits, "drover.io/held")
	}
	found, err := s.cluster.Find(ctx, s.id)
	require.NoError(t, err)
	require.True(t, found.Ending)
	finalizers(`[]`)
	waits, err := s.cluster.Remove(ctx, s.id, ours)
	require.NoError(t, err)
	require.Empty(t, waits)
}

func TestASingleObjectWithoutItsNamespace(t *testing.T) {
	s := newSingle(t)
	s.id.Namespace = kubetest.Name("absent")
	_, err := s.cluster.Create(t.Context(), s.id, s.manifest(t, ours, nil))
	require.ErrorIs(t, err, kube.ErrNoNamespace)
}
