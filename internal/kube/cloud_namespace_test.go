package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/logicalcloud"
	"github.com/drover-io/drover/internal/plan"
)

// A cluster that enforces nothing by itself takes no privileged Pod in the namespace of a logical cloud that does, whatever the cloud's labels say.
func TestNamespacesOfCloudsEnforceStandards(t *testing.T) {
	t.Parallel()
	kubeconfig := kubetest.Kubeconfig(t)
	admin, cluster := kubetest.Dynamic(t, kubeconfig), kubetest.Open(t, kube.Config{}, kubeconfig)
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for least, taken := range map[domain.PodSecurity]bool{"": true, domain.PodBaseline: false} {
		t.Run("least "+string(least), func(t *testing.T) {
			cloud := logicalcloud.Cloud{LogicalCloud: &domain.LogicalCloud{Metadata: domain.Metadata{Name: "lc"}}, PodSecurity: least}
			cloud.Spec.Namespace = kubetest.Name("cloud")
			cloud.Spec.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
			bundle, err := logicalcloud.Render(cloud)
			require.NoError(t, err)
			resources := []plan.Resource{bundle.Resources[0]}
			require.Equal(t, "Namespace", resources[0].Kind)
			work, watcher := job(resources, domain.MarkPending)
			require.NoError(t, cluster.Apply(t.Context(), work).Retry)
			require.Equal(t, domain.NewMarks(1, domain.MarkApplied), watcher.Marks, "notes: %v", watcher.Notes)
			create := func(name string, privileged bool) error {
				_, err := admin.Resource(pods).Namespace(cloud.Spec.Namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name},
					"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i", "securityContext": map[string]any{"privileged": privileged}}}},
				}}, metav1.CreateOptions{})
				return err
			}
			require.NoError(t, create("plain", false))
			err = create("privileged", true)
			if taken {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, `violates PodSecurity "baseline`)
		})
	}
}
