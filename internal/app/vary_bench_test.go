package app

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// BenchmarkPrepare plans instantiates on 1,000 clusters: without intents, with those that make two kinds of them, and with a value
// that each cluster has for itself. They take turns, so that a busy machine is busy for all; vary_over_render is what the medians
// are of that without intents.
func BenchmarkPrepare(b *testing.B) {
	const clusters = 1000
	p := partial(b)
	type side struct {
		name   string
		parts  *Parts
		worker *activities.Control
		group  *domain.DeploymentIntentGroup
		took   []time.Duration
	}
	var sides []*side
	for name, describe := range map[string]func(p *Parts) *description{
		"render": func(*Parts) *description {
			d := varied(clusters)
			d.withoutNetworks()
			return d
		},
		"two":  func(*Parts) *description { return varied(clusters) },
		"each": func(p *Parts) *description { return customized(b, p.store, clusters) },
	} {
		p := with(b, p)
		d := describe(p)
		d.chart["web/templates/deployment.yaml"] = strings.Replace(d.chart["web/templates/deployment.yaml"],
			"spec: {", "spec: {minReadySeconds: {{ .Values.n }}, ", 1)
		d.group.History.Append(domain.Approved, "", 0, time.Now())
		d.store(b, p.store)
		sides = append(sides, &side{name: name, parts: p, worker: &activities.Control{Store: p.store, Now: time.Now, Charts: p.charts}, group: d.group})
	}
	for n := 0; b.Loop(); n++ {
		for _, s := range sides {
			s.group.Spec.OverrideValues = []domain.OverrideValues{{App: "web", Values: map[string]string{"n": strconv.Itoa(n)}}} // so that nothing of it is stored yet
			require.NoError(b, s.parts.store.Replace(b.Context(), s.group))
			began := time.Now()
			prepared, err := s.worker.Prepare(b.Context(), domain.Scope{Owner: domain.KeyOf(s.group), ContextID: "2", Operation: domain.OpInstantiate})
			s.took = append(s.took, time.Since(began))
			require.NoError(b, err)
			require.Empty(b, prepared.Warnings)
		}
	}
	median := map[string]float64{}
	for _, s := range sides {
		slices.Sort(s.took)
		median[s.name] = float64(s.took[len(s.took)/2])
	}
	b.ReportMetric(median["two"]/median["render"], "vary_over_render")
	b.ReportMetric(median["each"]/median["render"], "each_over_render")
}
