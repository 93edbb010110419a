package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestCredentialsThatExpireAreMeasured: 14 days before, and from then on.
func TestCredentialsThatExpireAreMeasured(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cluster := func(name string, left time.Duration) *domain.Cluster {
		c := &domain.Cluster{Identity: domain.Identity{Parent: "cluster-providers/p"}, Metadata: domain.Metadata{Name: name}}
		if left != 0 {
			c.Expires = now.Add(left)
		}
		return c
	}
	all := []domain.Object{cluster("never", 0), cluster("later", 15*24*time.Hour), cluster("soon", time.Hour), cluster("gone", -time.Hour)}
	var away error
	e := &expiring{now: func() time.Time { return now }, list: func(context.Context) ([]domain.Object, error) { return all, away }}
	r := prometheus.NewRegistry()
	r.MustRegister(e)
	seconds := func() map[string]float64 {
		families, err := r.Gather()
		require.NoError(t, err)
		found := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				found[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		return found
	}
	require.Equal(t, map[string]float64{"gone": -3600, "soon": 3600}, seconds())
	away = errors.New("the store is away")
	now = now.Add(2 * time.Minute)
	require.Len(t, seconds(), 2, "what was read last")
	away, all = nil, nil
	require.Empty(t, seconds())
}
