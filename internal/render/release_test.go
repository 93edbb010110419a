package render

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a chart does with each revision, or with upgrades alone, it does not do here, and is warned of where a template has asked: not of what people
// alone read, nor of what has the name elsewhere. The value is what it was.
func TestSameReleases(t *testing.T) {
	t.Parallel()
	const (
		revision = "the chart asks for .Release.Revision, which is 1 with each update: name no Job by it, which an update cannot change, but by a checksum, or make it a hook"
		upgrade  = "the chart asks for .Release.IsUpgrade, which is false with each update: what the chart has for upgrades alone is left out"
	)
	for text, c := range map[string]struct {
		is   string
		want []string
	}{
		`{{ .Release.Revision }}`:                                                    {"1", []string{revision}},
		`{{ $.Release.Revision | add 1 | toString }}`:                                {"2", []string{revision}},
		`{{ printf "%T-%d" .Release.Revision .Release.Revision }}`:                   {"int-1", []string{revision}},
		`{{ if .Release.IsUpgrade }}a{{ else }}b{{ end }}`:                           {"b", []string{upgrade}},
		`{{ and (not $.Release.IsUpgrade) (eq .Release.Revision 1) }}`:               {"true", []string{revision, upgrade}},
		`{{ include "named" . }}`:                                                    {"web-1", []string{revision}},
		`{{ tpl .Values.named . }}`:                                                  {"1", []string{revision}},
		`{{ if .Values.on }}{{ .Release.Revision }}{{ end }}`:                        {"", nil},
		`{{ .Release.Name }}{{ .Release.IsInstall }}`:                                {"r1true", nil},
		`{{ .Values.Revision }}{{ .Values.of.IsUpgrade }}`:                           {"ab", nil},
		`{{ with dict "Release" (dict) }}{{ .Release.Revision }}{{ end }}`:           {"", []string{revision}},
		`{{ with $r := .Release }}{{ range list $r.Name }}{{ . }}{{ end }}{{ end }}`: {"r1", nil},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			bundle, err := Render(Input{App: "web", Release: "r1", Namespace: "default", Chart: pack(t, map[string]string{
				"web/Chart.yaml":           chartYAML,
				"web/values.yaml":          "on: false\nRevision: a\nof: {IsUpgrade: b}\nnamed: '{{ .Release.Revision }}'\n",
				"web/templates/_named.tpl": `{{ define "named" }}web-{{ .Release.Revision }}{{ end }}`,
				"web/templates/NOTES.txt":  "{{ if .Release.IsUpgrade }}{{ .Release.Revision }}{{ end }}{{ .Release.Revision }}",
				"web/templates/a.yaml":     "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {is: '" + text + "'}}",
			})})
			require.NoError(t, err)
			require.Contains(t, string(bundle.Resources[0].Manifest), `"is":"`+c.is+`"`)
			require.Equal(t, c.want, bundle.Warnings)
		})
	}
}
