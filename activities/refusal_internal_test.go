package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// TestWhatHelpsAgainstACollision: another logical cloud has another namespace, but what Istio's gateway needs is in one of its own.
func TestWhatHelpsAgainstACollision(t *testing.T) {
	const mine, other domain.Key = "projects/p/composite-apps/c/v1/deployment-intent-groups/a", "projects/p/composite-apps/c/v1/deployment-intent-groups/b"
	c := plan.Collision{
		App: "web", OtherApp: "web", Resource: plan.ResourceID{Group: "apps", Version: "v1", Kind: "Deployment", Name: "web"}, Cluster: domain.ClusterName{Provider: "p", Name: "c1"},
	}
	require.ErrorContains(t, refusalOf(c, mine, other), "use another name, release name (spec.version) or logical cloud")
	c.Resource = plan.ResourceID{Group: "networking.istio.io", Version: "v1beta1", Kind: "Gateway", Namespace: "istio-system", Name: "web-svc-gateway"}
	err := refusalOf(c, mine, other)
	require.ErrorContains(t, err, "use another name of the Service")
	require.NotContains(t, err.Error(), "or logical cloud")
}
