package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/stored"
)

// A worker plans logical clouds with the standard of its configuration.
func TestWorkersPlanCloudsWithTheirStandard(t *testing.T) {
	p, ctx := partial(t), t.Context()
	in := func(parent domain.Key) domain.Identity { return domain.Identity{Parent: parent} }
	named := func(name string) domain.Metadata { return domain.Metadata{Name: name} }
	cloud := &domain.LogicalCloud{
		Identity: in("projects/p"), Metadata: named("lc"), History: domain.NewHistory(time.Now()),
		Spec: domain.LogicalCloudSpec{Level: domain.LevelStandard, Namespace: "ns", User: domain.CloudUser{UserName: "u"}},
	}
	key := domain.KeyOf(cloud)
	create(t, p.store, cloud)
	create(t, p.store, &domain.ClusterReference{Identity: in(key), Metadata: named("ref"), Spec: domain.ClusterReferenceSpec{ClusterProvider: "cp", Cluster: "c"}})
	create(t, p.store, &domain.UserPermission{Identity: in(key), Metadata: named("own"), Spec: domain.UserPermissionSpec{Namespace: "ns"}})
	for id, least := range map[string]string{"1": "", "2": "restricted"} {
		p.config.CloudPodSecurity = least
		prepared, err := p.control(nil).Prepare(ctx, domain.Scope{Owner: key, ContextID: id, Operation: domain.OpInstantiate})
		require.NoError(t, err)
		bundle, err := stored.JSON[plan.Bundle](ctx, p.store, planned(t, p, prepared).Apps[0].Bundle)
		require.NoError(t, err)
		require.Equal(t, "Namespace", bundle.Resources[0].Kind)
		if least == "" {
			require.NotContains(t, string(bundle.Resources[0].Manifest), "pod-security")
			continue
		}
		require.Contains(t, string(bundle.Resources[0].Manifest), `"pod-security.kubernetes.io/enforce":"restricted"`)
	}
}
