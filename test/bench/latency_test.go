package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

// latencies measures what a caller waits for with the vFW app on two clusters: the POST of instantiate,
// and the status.
func latencies(ctx context.Context, t *trial) {
	t.Helper()
	s := harness.NewStack(t)
	var clusters []domain.ClusterName
	for _, name := range harness.ClusterNames {
		clusters = append(clusters, s.Register(ctx, name, harness.Kubeconfig(t, name)))
	}
	var apps []client.App
	for _, name := range examples.Apps {
		chart, err := examples.Chart(name)
		require.NoError(t, err)
		profile, err := examples.Profile(name)
		require.NoError(t, err)
		apps = append(apps, client.App{Name: name, Chart: chart, Profile: profile})
	}
	d := s.On(ctx, clusters, apps...)
	require.NoError(t, d.Do(ctx, "approve"))
	var accepted, whole, summary, all []time.Duration
	t.finally(func() []figure {
		return []figure{
			measured("instantiate_vfw_accepted_ms", "vFW (3 apps, 2 clusters): POST instantiate until its answer", accepted),
			measured("instantiate_vfw_ms", "vFW: POST instantiate to Instantiated", whole),
			measured("status_summary_vfw_ms", "vFW: GET status, summary", summary),
			measured("status_all_vfw_ms", "vFW: GET status, all", all),
		}
	})
	for round := range t.rounds(ctx, 21, 8) {
		begun := time.Now()
		require.NoError(t, d.Do(ctx, "instantiate"))
		answered := time.Since(begun)
		got, err := d.Wait(ctx, calm, func(g *status.Document) bool { return g.Status != "Instantiating" })
		require.NoError(t, err)
		require.Equal(t, map[domain.ResourceState]int{"Applied": 12}, got.Deployed)
		if round > 0 {
			accepted, whole = append(accepted, answered), append(whole, time.Since(begun))
			for range 10 {
				summary = append(summary, ask(ctx, t, s, d, "output=summary"))
				all = append(all, ask(ctx, t, s, d, "output=all"))
			}
		}
		require.NoError(t, d.Do(ctx, "terminate"))
		got, err = d.Wait(ctx, 20*time.Millisecond, func(g *status.Document) bool { return g.Status != "Terminating" })
		require.NoError(t, err)
		require.Equal(t, map[domain.ResourceState]int{"Deleted": 12}, got.Deployed)
	}
}

func ask(ctx context.Context, t testing.TB, s *harness.Stack, d *client.Deployment, query string) time.Duration {
	t.Helper()
	begun := time.Now()
	_, err := s.Read(ctx, client.At(d.Key())+"/status?"+query, nil)
	require.NoError(t, err)
	return time.Since(begun)
}
