package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestHomes: a tenant's are those of all that had its name.
func TestHomes(t *testing.T) {
	s := storetest.Open(t, store.Config{})
	home := func(tenant, contextID string) domain.Home {
		h := domain.Home{Tenant: tenant, ContextID: contextID, Cluster: domain.ClusterName{Provider: "p", Name: "c"}, Namespace: "tenant-" + tenant}
		require.NoError(t, s.PutHome(t.Context(), h))
		return h
	}
	first, again, other := home("one", "1"), home("one", "2"), home("two", "3")
	for tenant, want := range map[string][]domain.Home{"": {first, again, other}, "one": {first, again}, "two": {other}, "three": {}} {
		got, err := s.Homes(t.Context(), tenant)
		require.NoError(t, err)
		require.Equal(t, want, got, tenant)
	}
	got, err := s.HomesOf(t.Context(), "2")
	require.NoError(t, err)
	require.Equal(t, []domain.Home{again}, got)
	require.NoError(t, s.DeleteHome(t.Context(), again))
	got, err = s.Homes(t.Context(), "one")
	require.NoError(t, err)
	require.Equal(t, []domain.Home{first}, got)
}
