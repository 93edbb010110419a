package render

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/plan"
)

// BenchmarkRender renders in this process and in one of its own. The target is 1.5 times as long for the vFW app.
func BenchmarkRender(b *testing.B) {
	p, err := NewProcesses(Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	defer p.Close()
	sink, err := examples.Chart("sink")
	require.NoError(b, err)
	profile, err := examples.Profile("sink")
	require.NoError(b, err)
	inputs := map[string]Input{
		"vfw sink": {App: "sink", Chart: sink, Profile: profile, Release: "fw0", Namespace: "default"},
	}
	for _, n := range []int{500, 10_000} {
		inputs[fmt.Sprintf("%d resources", n)] = Input{
			App: "many", Release: "r1", Namespace: "default",
			Chart: pack(b, map[string]string{
				"many/Chart.yaml": "{apiVersion: v2, name: many, version: 1.0.0}",
				"many/templates/all.yaml": fmt.Sprintf(`{{ range $i := until %d }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.Release.Name }}-{{ $i }}
  labels: {app: many, index: {{ $i | quote }}}
data:
  text: {{ randAlphaNum 100 }}
{{ end }}`, n),
			}),
		}
	}
	ways := map[string]func(Input) (*plan.Bundle, error){
		"in process": Render,
		"processes":  func(in Input) (*plan.Bundle, error) { return p.Render(b.Context(), in) },
	}
	for name, in := range inputs {
		for way, render := range ways {
			b.Run(name+"/"+way, func(b *testing.B) {
				for b.Loop() {
					if _, err := render(in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
