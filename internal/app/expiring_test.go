package app

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/measure"
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
	asked := 0
	e := &expiring{now: func() time.Time { return now }, list: func(context.Context) ([]domain.Object, error) { asked++; return all, away }}
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
	require.Len(t, seconds(), 2)
	require.Equal(t, 2, asked, "a store that is away is asked once a minute, too")
	now = now.Add(expiringKept)
	require.Empty(t, seconds(), "nobody knows for how long what was read is true")
	away = &domain.Unreadable{IDs: []string{"cluster-providers/p/clusters/damaged"}, Cause: errors.New("damaged")}
	now = now.Add(expiringEvery)
	require.Len(t, seconds(), 2, "one that cannot be read says nothing of the others")
	away, now = nil, now.Add(expiringEvery)
	for i := range measure.MostClusters {
		all = append(all, cluster(fmt.Sprint("week", i), 7*24*time.Hour+time.Duration(i)*time.Second))
	}
	most := seconds()
	require.Len(t, most, measure.MostClusters)
	require.Contains(t, most, "gone")
	require.NotContains(t, most, fmt.Sprint("week", measure.MostClusters-1), "those that expire first are told")
	all, now = nil, now.Add(expiringEvery)
	require.Empty(t, seconds())
}
