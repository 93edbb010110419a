package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
)

// differing measures how long it takes to say what an update of a group on 2,000 clusters would change: one resource that says something
// else on all, which is one item; and one of which each cluster has a value of its own, which is an item for each.
func differing(ctx context.Context, t *trial) {
	t.Helper()
	const clusters, resources, rounds = 2000, 10, 5
	f := simulate(ctx, t, clusters, clusters)
	f.ownValues(ctx, t)
	same, own := f.group(t, "same", firstLabel(clusters), 1, resources), f.group(t, "own", firstLabel(clusters), 1, resources)
	for _, d := range []*client.Deployment{same, own} {
		require.NoError(t, d.API.Run(ctx, d.GroupSteps(), nil))
		require.NoError(t, d.Do(ctx, "approve"))
		f.operateOn(ctx, t, d, domain.OpInstantiate, clusters, resources)
		if d == own {
			require.NoError(t, d.API.Run(ctx, f.customized(d, firstLabel(clusters)), nil))
		} else {
			app := d.Apps[0].Name
			templates := harness.ConfigMaps(app, resources)
			for name := range templates { // which is one file: its last object has a member more
				templates[name] += "  more: one\n"
			}
			_, err := d.API.Put(ctx, d.AppOf(app), harness.Chart(t, app, templates))
			require.NoError(t, err)
		}
		before := f.API.ResidentMiB(t)
		f.API.ForgetPeak(t)
		var first, whole []time.Duration
		var kib []float64
		for range rounds {
			begun := time.Now()
			answer := f.Send(ctx, http.MethodGet, f.At(d.Key())+"/diff", nil, "")
			require.Equal(t, http.StatusOK, answer.Code, "%s", answer.Body)
			kib = append(kib, float64(len(answer.Body))/1024)
			first = append(first, time.Since(begun))
		}
		begun := time.Now()
		all, err := d.API.Diff(ctx, d.Key(), nil)
		require.NoError(t, err)
		whole = append(whole, time.Since(begun))
		items := len(all.Items)
		require.Equal(t, clusters, all.Changes.Change)
		require.Equal(t, map[bool]int{true: clusters, false: 1}[d == own], items)
		what := fmt.Sprintf("diff of an update of %d resources on %d clusters, %d items", resources, clusters, items)
		key := "diff_" + d.Group
		t.add(
			measured(key+"_ms", what+": the first page", first),
			measured(key+"_all_ms", what+": all pages", whole),
			values(key+"_kib", what+": the first page", "KiB", kib),
			values(key+"_peak_mib", what+": memory of the API at its peak, over that before", "MiB", []float64{f.API.PeakMiB(t) - before}),
		)
	}
}
