package render

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
)

// Templates that Helm's engine would run for ever, or until the process dies.
func TestTemplatesAreStopped(t *testing.T) {
	t.Parallel()
	quick := Limits{Time: 100 * time.Millisecond}
	const (
		tooLong = "app web: the chart takes longer to render than 100ms"
		tooDeep = "templates include each other without end"
	)
	cases := map[string]struct {
		template string
		limits   Limits
		want     string
	}{
		"a loop that writes nothing": {
			template: `{{ range 1000000000000 }}{{ end }}`, limits: quick, want: tooLong,
		},
		"a loop in a branch of a loop": {
			template: `{{ range 1000000000000 }}{{ if true }}{{ with 1 }}{{ range 10 }}{{ end }}{{ end }}{{ end }}{{ end }}`,
			limits:   quick, want: tooLong,
		},
		"a loop in an else": {
			template: `{{ if false }}{{ else }}{{ range list }}{{ else }}{{ range 1000000000000 }}{{ end }}{{ end }}{{ end }}`,
			limits:   quick, want: tooLong,
		},
		"a loop in text given to tpl": {
			template: `{{ tpl "{{ range 1000000000000 }}{{ end }}" . }}`, limits: quick, want: tooLong,
		},
		"templates that call each other twice": {
			template: `{{ define "a" }}{{ if lt . 60 }}{{ template "a" (add1 .) }}{{ template "a" (add1 .) }}{{ end }}{{ end }}{{ template "a" 0 }}`,
			limits:   quick, want: tooLong,
		},
		"output beyond the limit": {
			template: `{{ range 1000 }}0123456789{{ end }}`, limits: Limits{Output: 5000},
			want: "app web: the templates write more text than 5000 bytes",
		},
		"output beyond the limit inside of an include": {
			template: `{{ define "a" }}{{ range 1000 }}0123456789{{ end }}{{ end }}{{ include "a" . | len }}`,
			limits:   Limits{Output: 5000}, want: "app web: the templates write more text than 5000 bytes",
		},
		"tpl of itself":            {template: `{{ $t := "{{ tpl .t . }}" }}{{ tpl $t (dict "t" $t) }}`, want: tooDeep},
		"include of itself":        {template: `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`, want: tooDeep},
		"include of each other":    {template: `{{ define "a" }}{{ include "b" . }}{{ end }}{{ define "b" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`, want: tooDeep},
		"include and tpl by turns": {template: `{{ define "a" }}{{ tpl "{{ include \"a\" . }}" . }}{{ end }}{{ include "a" . }}`, want: tooDeep},
		"template of itself":       {template: `{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`, want: tooDeep},
		"template of itself, nested": {
			template: `{{ define "a" }}` + strings.Repeat("{{ if true }}", 30) + `{{ template "a" . }}` +
				strings.Repeat("{{ end }}", 30) + `{{ end }}{{ template "a" . }}`,
			want: tooDeep,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Render(Input{App: "web", Release: "r1", Namespace: "default", Limits: c.limits, Chart: pack(t, map[string]string{
				"web/Chart.yaml":          "{apiVersion: v2, name: web, version: 1.0.0}",
				"web/templates/loop.yaml": c.template,
			})})
			require.True(t, fail.Is(err, fail.Invalid), "got %v", err)
			require.Contains(t, fail.TextOf(err), c.want)
		})
	}
}

func TestTotalOutputIsLimited(t *testing.T) {
	t.Parallel()
	_, err := Render(Input{App: "web", Release: "r1", Namespace: "default", Limits: Limits{Output: 100}, Chart: pack(t, map[string]string{
		"web/Chart.yaml":       "{apiVersion: v2, name: web, version: 1.0.0}",
		"web/templates/a.yaml": "# " + strings.Repeat("a", 60),
		"web/templates/b.yaml": "# " + strings.Repeat("b", 60),
	})})
	require.EqualError(t, err, "app web: the templates write more text than 100 bytes")
}

// Deep is not endless: charts walk trees of values with include.
func TestDeepIncludesAreRendered(t *testing.T) {
	t.Parallel()
	bundle, err := Render(Input{App: "web", Release: "r1", Namespace: "default", Chart: pack(t, map[string]string{
		"web/Chart.yaml": "{apiVersion: v2, name: web, version: 1.0.0}",
		"web/templates/a.yaml": `{{ define "count" }}{{ if gt (int .) 0 }}{{ include "count" (sub . 1) }}{{ else }}done{{ end }}{{ end -}}
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ include "count" 300 }}}}`,
	})})
	require.NoError(t, err)
	require.Equal(t, "done", bundle.Resources[0].Name)
}

func TestGuarded(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason   string
		limits   Limits
		f        func(context.Context, Limits) (int, error)
		wantKind fail.Kind
		wantText string
	}{
		"a panic is an error of the chart": {
			reason:   "the libraries below were not written for charts of strangers",
			f:        func(context.Context, Limits) (int, error) { panic("index out of range") },
			wantKind: fail.Invalid, wantText: "app web: the chart cannot be processed: index out of range",
		},
		"what takes too long is told": {
			limits: Limits{Time: time.Millisecond},
			f: func(ctx context.Context, _ Limits) (int, error) {
				<-ctx.Done()
				return 0, context.Cause(ctx)
			},
			wantKind: fail.Invalid, wantText: "app web: the chart takes longer to render than 1ms",
		},
		"a plain error is the chart's": {
			f:        func(context.Context, Limits) (int, error) { return 0, errors.New("no chart \n") },
			wantKind: fail.Invalid, wantText: "app web: no chart",
		},
		"a classified error keeps its kind": {
			f:        func(context.Context, Limits) (int, error) { return 0, fail.New(fail.Malformed, "no tgz") },
			wantKind: fail.Malformed, wantText: "app web: no tgz",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := guarded(t.Context(), "web", c.limits, c.f)
			require.Equal(t, c.wantKind, fail.KindOf(err), c.reason)
			require.Equal(t, c.wantText, fail.TextOf(err), c.reason)
		})
	}
}
