package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a chart has looked for in its cluster is warned of: not what people alone read, nor what another warning names, nor the chart's own objects where
// these are the same each time.
func TestUnfound(t *testing.T) {
	t.Parallel()
	const own = "\n---\n{apiVersion: v1, kind: Secret, metadata: {name: own}, stringData: {a: %s}}\n"
	var many, first []string
	for i := range 12 {
		many = append(many, fmt.Sprintf(`{{ lookup "v1" "Secret" "n" "s%02d" }}`, i))
		if i < maxWarnings {
			first = append(first, fmt.Sprintf("Secret s%02d in n", i))
		}
	}
	for text, want := range map[string]string{
		`{{ lookup "v1" "Secret" "n" "a" }}{{ lookup "v1" "Secret" "n" "a" }}`:              "Secret a in n",
		`{{ lookup "v1" "Node" "" "" }}{{ lookup "v1" "Namespace" "" .Release.Namespace }}`: "Namespace default, Node",
		`{{ if not (lookup "v1" "Secret" "n" "").items }}{{ end }}`:                         "Secret of n",
		`{{ tpl .Values.looks . }}`:                                                       "ConfigMap c in n",
		`{{ if .Values.on }}{{ lookup "v1" "Secret" "n" "a" }}{{ end }}`:                  "",
		`{{ lookup "v1" "Secret" .Release.Namespace "own" }}` + fmt.Sprintf(own, "given"): "",
		strings.Join(many, ""):                                                            strings.Join(first, ", ") + ", 2 more",
	} {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) {
			t.Parallel()
			warnings := rendered(t, text)
			if want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Equal(t, []string{"the chart looks in clusters for " + want + ", and is told that there is none, whatever they have: give what it looks for as a value"}, warnings)
		})
	}
	t.Run("what updates change", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, []string{"updates change Secret own, in which the chart has something random, or the time: give it as a value"},
			rendered(t, `{{ lookup "v1" "Secret" .Release.Namespace "own" }}`+fmt.Sprintf(own, "{{ randAlphaNum 12 }}")))
	})
	t.Run("a name without an end", func(t *testing.T) {
		t.Parallel()
		require.Less(t, len(rendered(t, `{{ lookup "v1" "Secret" "n" (repeat 100000 "ü") }}`)[0]), 500)
	})
}

// rendered are the warnings of a chart with the text in a template.
func rendered(t *testing.T, text string) []string {
	t.Helper()
	bundle, err := Render(Input{App: "web", Release: "r1", Namespace: "default", Chart: pack(t, map[string]string{
		"web/Chart.yaml":          chartYAML,
		"web/values.yaml":         "on: false\nlooks: '{{ lookup \"v1\" \"ConfigMap\" \"n\" \"c\" }}'\n",
		"web/templates/NOTES.txt": `{{ lookup "v1" "Secret" "n" "notes" }}`,
		"web/templates/a.yaml":    "{apiVersion: v1, kind: ConfigMap, metadata: {name: steady}}\n#" + text,
	})})
	require.NoError(t, err)
	return bundle.Warnings
}
