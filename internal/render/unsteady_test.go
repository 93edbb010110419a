package render

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What each update changes, as it is random, is warned of: also in a value, in the sum of something random, and in a hook.
func TestUnsteady(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"web/Chart.yaml":  chartYAML,
		"web/values.yaml": `password: '{{ randAlphaNum 12 }}'`,
		"web/templates/secret.yaml": `{{- $_ := set .Values "made" (tpl .Values.password .) }}
{apiVersion: v1, kind: Secret, metadata: {name: web}, stringData: {password: {{ .Values.made | quote }}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: sum}, data: {sum: "{{ .Values.made | sha256sum }}"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: steady}}
---
{apiVersion: v1, kind: Pod, metadata: {name: hook, labels: {a: {{ uuidv4 | quote }}}, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}}
---
{apiVersion: v1, kind: Secret, metadata: {name: once, annotations: {helm.sh/hook: pre-install}}, stringData: {a: {{ uuidv4 | quote }}}}
`,
	}
	in := Input{App: "web", Release: "r1", Namespace: "default", Chart: pack(t, files)}
	bundle, err := Render(in)
	require.NoError(t, err)
	require.Equal(t, []string{
		"updates change Secret web, ConfigMap sum, Pod hook, in which the chart has something random, or the time: give it as a value",
	}, bundle.Warnings)

	in.OverrideValues = map[string]string{"password": "known"}
	files["web/templates/secret.yaml"] = `{{- $_ := set .Values "made" (tpl .Values.password .) }}
{apiVersion: v1, kind: Secret, metadata: {name: web}, stringData: {password: {{ .Values.made | quote }}}}`
	in.Chart = pack(t, files)
	bundle, err = Render(in)
	require.NoError(t, err)
	require.Empty(t, bundle.Warnings)
}

// So is what goes by the clock, of which the two renderings are at the same second: no update is.
func TestUnsteadyByTheClock(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`now`:                                  true,
		`now | unixEpoch`:                      true,
		`now | date "2006"`:                    true,
		`now | date "Jan"`:                     true,
		`now | htmlDate`:                       true,
		`now | date "15"`:                      true,
		`now | date "04"`:                      true,
		`now.Year`:                             true,
		`ago 1700000000`:                       true,
		`toDate "2006" "2020" | ago`:           true,
		`durationRound (toDate "2006" "2020")`: true,
		`durationRound "2h"`:                   false,
		`date "2006" ""`:                       true,
		`date "2006" .Values.number`:           true,
		`dateInZone "2006" nil "UTC"`:          true,
		`htmlDateInZone "" "UTC"`:              true,
		`date "2006" (int64 .Values.number)`:   false,
		`htmlDate 1700000000`:                  false,
		`ago ""`:                               false,
		`toDate "2006" "2020" | unixEpoch`:     false,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			bundle, err := Render(Input{App: "web", Release: "r1", Namespace: "default", Chart: pack(t, map[string]string{
				"web/Chart.yaml":       chartYAML,
				"web/values.yaml":      "number: 1700000000\n",
				"web/templates/a.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {at: {{ " + text + " | toString | quote }}}}",
			})})
			require.NoError(t, err)
			require.Equal(t, want, len(bundle.Warnings) > 0, "%s: %s", bundle.Resources[0].Manifest, bundle.Warnings)
		})
	}
}

// A second rendering is for a warning alone: one that takes long is not made.
func TestUnsteadyWithinBounds(t *testing.T) {
	t.Parallel()
	in := Input{
		App: "web", Release: "r1",
		Chart: pack(t, map[string]string{"web/Chart.yaml": chartYAML, "web/templates/a.yaml": `{apiVersion: v1, kind: Secret, metadata: {name: {{ uuidv4 }}}}`}),
	}
	begun := time.Now()
	bundle, e, err := renderOnce(t.Context(), DefaultLimits, in, 0)
	require.NoError(t, err)
	require.True(t, e.varies)
	require.Len(t, unsteady(t.Context(), DefaultLimits, in, begun, bundle), 1)
	require.Empty(t, unsteady(t.Context(), DefaultLimits, in, begun.Add(-DefaultLimits.Time/quick), bundle))
}
