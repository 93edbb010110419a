package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/plan"
)

func TestFootprint(t *testing.T) {
	of := func(namespace string, ids ...plan.ResourceID) plan.Footprint {
		return plan.FootprintOf(&plan.Plan{Namespace: namespace, Apps: []plan.App{{Resources: ids}}})
	}
	a := plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "a"}
	b := plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: "b"}
	require.True(t, of("x", a, b).Meets(of("x", b)))
	require.False(t, of("x", a).Meets(of("x", b)), "another name")
	require.False(t, of("x", a).Meets(of("y", a)), "another namespace")
	placed, newer := a, a
	placed.Namespace, newer.Version = "x", "v2"
	require.True(t, of("y", placed).Meets(of("x", a)), "the namespace is said or is the cloud's")
	require.True(t, of("x", newer).Meets(of("x", a)), "versions name the same resource")
	role := plan.ResourceID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "a"}
	require.True(t, of("x", role).Meets(of("y", role)), "it has no namespace")
	require.False(t, of("x").Meets(of("x", a)))
}
