package render

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/examples"
)

func BenchmarkRender(b *testing.B) {
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
	for name, in := range inputs {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Render(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
