package bench

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

// updates measures what makes of one instance another, of the scale app on 100 clusters: without a difference; with
// one resource of one app that says something else everywhere; with one that goes for another one; and with a cluster
// that an app leaves.
func updates(ctx context.Context, t *trial) {
	t.Helper()
	const rounds = 5
	clusters := sizedDown(100, 20)
	f := simulate(ctx, t, clusters, clusters, clusters-1)
	d := f.deployment(ctx, t, "updated", firstLabel(clusters), scaleApps, scaleResources)
	first := f.operate(ctx, t, d, "instantiate", clusters).took
	all := scaleApps * scaleResources * clusters
	f.chart(ctx, t, d, "one", "0")
	f.change(ctx, t, d, all+clusters)

	var none, one, pruned, left []time.Duration
	what := fmt.Sprintf("update of %d apps × %d clusters × %d resources", scaleApps, clusters, scaleResources)
	t.finally(func() []figure {
		return []figure{
			measured("update_instantiate_ms", what+": the instantiate before", []time.Duration{first}),
			measured("update_none_ms", what+": nothing differs", none),
			measured("update_one_ms", what+": one resource of one app says something else", one),
			measured("update_pruned_ms", what+": one resource of one app goes, and another one comes", pruned),
			measured("update_left_ms", what+": one app leaves one cluster", left),
		}
	})
	for i := range t.rounds(ctx, rounds, 2) {
		none = append(none, f.change(ctx, t, d, all+clusters))
		f.chart(ctx, t, d, "one", fmt.Sprint(i+1))
		one = append(one, f.change(ctx, t, d, all+clusters))
		f.chart(ctx, t, d, "other", "0")
		pruned = append(pruned, f.change(ctx, t, d, all+clusters))
		f.place(ctx, t, d, clusters-1)
		left = append(left, f.change(ctx, t, d, all+clusters-scaleResources-1))
		f.place(ctx, t, d, clusters)
		f.chart(ctx, t, d, "one", fmt.Sprint(i+1))
		f.change(ctx, t, d, all+clusters)
	}
}

// chart gives the first app one resource more than the others have.
func (f *simulated) chart(ctx context.Context, t testing.TB, d *client.Deployment, name, says string) {
	t.Helper()
	app := d.Apps[0].Name
	templates := maps.Clone(harness.ConfigMaps(app, scaleResources))
	templates["more.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-%s'}\ndata: {says: '%s'}\n", name, says)
	_, err := d.API.Put(ctx, d.AppOf(app), harness.Chart(t, app, templates))
	require.NoError(t, err)
}

// place puts the first app onto the first n clusters.
func (f *simulated) place(ctx context.Context, t testing.TB, d *client.Deployment, n int) {
	t.Helper()
	_, err := d.API.Put(ctx, d.PlacementOf(d.Apps[0].Name, f.labelled(firstLabel(n))), nil)
	require.NoError(t, err)
}

// change updates, and returns how long it took until so many resources were applied and no others there.
func (f *simulated) change(ctx context.Context, t testing.TB, d *client.Deployment, applied int) time.Duration {
	t.Helper()
	begun := time.Now()
	require.NoError(t, d.Do(ctx, "update"))
	got, err := d.Wait(ctx, calm*4, func(s *status.Document) bool { return s.Status != "Instantiating" })
	took := time.Since(begun)
	require.NoError(t, err)
	require.Equal(t, domain.ContextInstantiated, got.Status)
	require.Equal(t, map[domain.ResourceState]int{"Applied": applied}, got.Deployed)
	require.Equal(t, applied, f.fleet.Count(t, "emco/deployment-id"))
	return took
}
