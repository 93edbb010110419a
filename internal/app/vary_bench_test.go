package app

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// BenchmarkPrepare plans an instantiate on 1,000 clusters with intents, and without them in between: those that it has read
// what is known of the clusters for, varied the app for two kinds of them, and stored what differs. vary_over_render is the
// quotient of the medians.
func BenchmarkPrepare(b *testing.B) {
	type side struct {
		worker *activities.Control
		owner  domain.Key
		took   []time.Duration
	}
	var sides []*side
	for _, intents := range []bool{true, false} {
		p, d := with(b, partial(b)), varied(1000)
		if !intents {
			delete(d.intent.Spec.Intent, "ovnaction")
		}
		d.group.History.Append(domain.Approved, "", 0, time.Now())
		d.store(b, p.store)
		sides = append(sides, &side{worker: &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts}, owner: domain.KeyOf(d.group)})
	}
	for b.Loop() {
		for _, s := range sides {
			began := time.Now()
			prepared, err := s.worker.Prepare(b.Context(), domain.Scope{Owner: s.owner, ContextID: "2", Operation: domain.OpInstantiate})
			s.took = append(s.took, time.Since(began))
			require.NoError(b, err)
			require.Empty(b, prepared.Warnings)
		}
	}
	median := func(s *side) float64 {
		slices.Sort(s.took)
		return float64(s.took[len(s.took)/2])
	}
	b.ReportMetric(median(sides[0])/median(sides[1]), "vary_over_render")
}
