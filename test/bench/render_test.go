package bench

import (
	"context"
	"log/slog"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/render"
)

// rendering compares rendering the vFW app's charts in processes of their own with rendering them in this one.
func rendering(ctx context.Context, t *trial) {
	p, err := render.NewProcesses(render.Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer p.Close()
	var inputs []render.Input
	for _, app := range examples.Apps {
		in := render.Input{App: app, Release: "fw0", Namespace: "default"}
		in.Chart, err = examples.Chart(app)
		require.NoError(t, err)
		in.Profile, err = examples.Profile(app)
		require.NoError(t, err)
		inputs = append(inputs, in)
	}
	round := func(render func(render.Input) (*plan.Bundle, error)) time.Duration {
		began := time.Now()
		for _, in := range inputs {
			_, err := render(in)
			require.NoError(t, err)
		}
		return time.Since(began)
	}
	inProcesses := func(in render.Input) (*plan.Bundle, error) { return p.Render(ctx, in) }
	round(inProcesses) // starts them
	const rounds = 200
	var apart, here []time.Duration
	t.finally(func() []figure {
		return []figure{
			measured("render_vfw_ms", "vFW: rendering its charts, in processes of their own", apart),
			ratio("render_over_inprocess", "vFW: rendering its charts in processes of their own over rendering them in the same process", apart, here,
				"≤ 1.5", func(r float64) bool { return r <= 1.5 }),
		}
	})
	for range rounds {
		apart, here = append(apart, round(inProcesses)), append(here, round(render.Render))
	}
}
