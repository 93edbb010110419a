package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// TestWhatIsMadeLaterActsLater though the process that makes it is behind, and another one made it than what it comes after.
func TestWhatIsMadeLaterActsLater(t *testing.T) {
	db := storetest.Open(t, store.Config{})
	at := func(d time.Duration) *service.Service {
		return service.New(service.Deps{Store: db, Instances: &allKnowing{}, Now: func() time.Time { return time.Now().Add(d) }})
	}
	one, ahead, behind := at(0), at(10*time.Second), at(-10*time.Second)
	for _, o := range []domain.Object{project("proj"), compositeApp("ca"), app("sink"), profiles("cp"), cloud("lc"), group("dig")} {
		require.NoError(t, one.Create(t.Context(), o), domain.KeyOf(o))
	}
	dig := domain.KeyOf(group("dig"))
	var last time.Time
	for i, s := range []*service.Service{ahead, behind, behind, one, ahead, behind, one} {
		name := string(rune('z' - i)) // by name they would be the other way round
		o := &domain.DeploymentIntent{Metadata: domain.Metadata{Name: name}, Identity: domain.Identity{Parent: dig}}
		o.Spec.Intent = map[string]string{domain.PlacementIntentKey: name}
		require.NoError(t, s.Create(t.Context(), &domain.PlacementIntent{Metadata: domain.Metadata{Name: name}, Identity: domain.Identity{Parent: dig}}))
		require.NoError(t, s.Create(t.Context(), o))
		stored, err := db.Get(t.Context(), domain.DeploymentIntents, domain.KeyOf(o))
		require.NoError(t, err)
		require.True(t, stored.Base().Made.After(last), "%s: %s, after %s", name, stored.Base().Made, last)
		last = stored.Base().Made
	}
	require.Less(t, time.Until(last), 11*time.Second)
	require.NoError(t, behind.Create(t.Context(), compositeApp("cb")))
	other, err := db.Get(t.Context(), domain.CompositeApps, domain.KeyOf(compositeApp("cb")))
	require.NoError(t, err)
	require.True(t, other.Base().Made.Before(time.Now()), "those act in no order")
}
