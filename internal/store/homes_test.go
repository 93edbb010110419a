package store_test

import (
	"testing"
	"time"

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

// TestAHomeIsDeletedAsItWasRead: who is late to delete one deletes none that is in use again.
func TestAHomeIsDeletedAsItWasRead(t *testing.T) {
	s := storetest.Open(t, store.Config{})
	began := time.UnixMilli(1e12).UTC()
	for name, c := range map[string]struct {
		read, now domain.Home
		goes      bool
	}{
		"nothing is said":       {goes: true},
		"as it was":             {read: domain.Home{Began: began, Leaving: true}, now: domain.Home{Began: began, Leaving: true}, goes: true},
		"it is needed again":    {read: domain.Home{Began: began, Leaving: true}, now: domain.Home{Began: began}},
		"somebody leaves it":    {read: domain.Home{Began: began}, now: domain.Home{Began: began, Leaving: true}},
		"it has begun since":    {read: domain.Home{Began: began}, now: domain.Home{Began: began.Add(time.Millisecond)}},
		"it has begun at all":   {now: domain.Home{Began: began}},
		"it is an earlier kind": {read: domain.Home{Began: began}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, h := range []*domain.Home{&c.read, &c.now} {
				h.Tenant, h.ContextID, h.Namespace = "t", "1", "tenant-t"
				h.Cluster = domain.ClusterName{Provider: "p", Name: "c"}
			}
			require.NoError(t, s.PutHome(t.Context(), c.now))
			for range 2 {
				require.NoError(t, s.DeleteHome(t.Context(), c.read))
				got, err := s.Homes(t.Context(), "t")
				require.NoError(t, err)
				require.Equal(t, c.goes, len(got) == 0)
			}
			require.NoError(t, s.DeleteHome(t.Context(), c.now))
		})
	}
}

// TestHomesAreAsTheyAreStored, whoever has read them before: what one process has written the other one sees.
func TestHomesAreAsTheyAreStored(t *testing.T) {
	shared := storetest.Config(t)
	one, other := storetest.Open(t, shared), storetest.Open(t, shared)
	h := domain.Home{Tenant: "t", ContextID: "1", Cluster: domain.ClusterName{Provider: "p", Name: "c"}, Namespace: "tenant-t"}
	see := func(want ...domain.Home) {
		t.Helper()
		for range 2 { // the second time it is known
			for _, s := range []*store.Store{one, other} {
				got, err := s.Homes(t.Context(), "t")
				require.NoError(t, err)
				require.Equal(t, append([]domain.Home{}, want...), got)
				if len(got) > 0 {
					got[0].Leaving = !got[0].Leaving // that is the caller's
				}
			}
		}
	}
	see()
	require.NoError(t, one.PutHome(t.Context(), h))
	see(h)
	h.Leaving = true
	require.NoError(t, other.PutHome(t.Context(), h))
	see(h)
	require.NoError(t, one.DeleteHome(t.Context(), h))
	see()
}
