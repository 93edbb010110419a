package test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// TestAGroupLeavesAClusterThatIsGone, as docs/how-to/connect-a-cluster.md says: what it has on others stays. An empty cluster stands in for the one that does not
// come back, so that what is to be deleted there is found to be gone.
func TestAGroupLeavesAClusterThatIsGone(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	clusters := twoClusters(t)
	gone, stays := register(ctx, t, s, clusters[0], domain.ReportNone), register(ctx, t, s, clusters[1], domain.ReportNone)
	d := s.On(ctx, []domain.ClusterName{gone, stays}, client.App{Name: "web", Chart: says(t, "web", "one=1")})
	do(ctx, t, d, domain.OpApprove, domain.OpInstantiate)
	s.Await(ctx, d, "Instantiated")
	put := func(kubeconfig []byte) {
		t.Helper()
		parent, name := domain.Cut(domain.ClustersNoun, gone.Key())
		_, err := d.API.Put(ctx, &domain.Cluster{
			Identity: domain.Identity{Parent: parent}, Metadata: domain.Metadata{Name: name}, Spec: domain.ClusterSpec{Report: domain.ReportNone},
		}, kubeconfig)
		require.NoError(t, err)
	}
	has := func(c *harness.Cluster) (names []string) {
		t.Helper()
		all, err := c.Client(t).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		for i := range all.Items {
			if strings.HasPrefix(all.Items[i].Name, d.Release) {
				names = append(names, all.Items[i].Name)
			}
		}
		return names
	}
	put([]byte(unreachable))
	_, err := d.API.Put(ctx, d.PlacementOf("web", harness.All(stays)), nil)
	require.NoError(t, err)
	do(ctx, t, d, domain.OpUpdate)
	harness.Until(ctx, t, "the update waits for the cluster", func() bool {
		x, err := d.API.Explain(ctx, d.Key())
		require.NoError(t, err)
		return strings.Contains(x.Summary, "update goes on") && len(x.Reasons) > 0
	})

	for _, name := range has(clusters[0]) { // it is the empty cluster, too
		require.NoError(t, clusters[0].Client(t).CoreV1().ConfigMaps("default").Delete(ctx, name, metav1.DeleteOptions{}))
	}
	put(clusters[0].Kubeconfig(t))
	s.Await(ctx, d, "Instantiated")
	require.NotEmpty(t, has(clusters[1]), "what it has elsewhere stays")
	do(ctx, t, d, domain.OpTerminate)
	s.Await(ctx, d, "Terminated")
}
