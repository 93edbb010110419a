package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestOwnNamespaces: each namespace that Drover has in clusters is told from those of others.
func TestOwnNamespaces(t *testing.T) {
	for _, own := range []string{domain.AccountNamespace, domain.AgentNamespace, domain.OperatorNamespace, "drover-system"} {
		require.True(t, domain.IsOwnNamespace(own), own)
	}
	for _, other := range []string{"", "default", "drovers", "my-drover", "tenant-a"} {
		require.False(t, domain.IsOwnNamespace(other), other)
	}
	tenant := &domain.Tenant{Metadata: domain.Metadata{Name: "shop"}}
	key, ok := domain.TenantOf(tenant.Namespace())
	require.True(t, ok)
	require.Equal(t, domain.KeyOf(tenant), key)
	for _, other := range []string{"shop", "tenant-", "tenant", "tenant--a"} {
		_, ok := domain.TenantOf(other)
		require.False(t, ok, other)
	}
}
