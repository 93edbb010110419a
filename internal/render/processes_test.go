package render

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// processes have little memory, so that it is soon taken.
func processes(t testing.TB, limit time.Duration) *Processes {
	t.Helper()
	p, err := NewProcesses(Options{Size: 2, Memory: 256 << 20, Time: limit, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// A process of its own makes no difference to what is rendered, or refused.
func TestProcessesRenderTheSame(t *testing.T) {
	t.Parallel()
	p := processes(t, 0)
	for name, file := range goldenFiles(t, "*") {
		t.Run(name, func(t *testing.T) {
			c := readGolden(t, file)
			if name == "functions" {
				t.Skip("has random values")
			}
			want, wantErr := Render(c.input)
			got, err := p.Render(t.Context(), c.input)
			require.Equal(t, wantErr == nil, err == nil, "%v", err)
			if err != nil {
				require.Equal(t, fail.KindOf(wantErr), fail.KindOf(err))
				require.Equal(t, fail.TextOf(wantErr), fail.TextOf(err))
			}
			require.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreFields(plan.Bundle{}, "Warnings"))) // of which Helm's can be heard there alone
			requireSame(t, CheckChart(c.input.App, c.input.Chart), p.CheckChart(t.Context(), c.input.App, c.input.Chart))
			_, wantErr = CheckProfile(c.input.Profile)
			_, err = p.CheckProfile(t.Context(), c.input.Profile)
			requireSame(t, wantErr, err)
		})
	}
}

// What a profile says in vain comes out of the process that has looked at it.
func TestWarningsOfProfiles(t *testing.T) {
	t.Parallel()
	warnings, err := processes(t, 0).CheckProfile(t.Context(), pack(t, map[string]string{"manifest.yaml": "type: {value: a.yaml}"}))
	require.NoError(t, err)
	require.Len(t, warnings, 2)
}

func requireSame(t *testing.T, want, got error) {
	t.Helper()
	require.Equal(t, want == nil, got == nil, "%v", got)
	if want != nil {
		require.Equal(t, fail.TextOf(want), fail.TextOf(got))
	}
}

// A chart that waits, or is rendered, is held by whoever has it rendered, and not once more on its way to a process.
func TestChartsAreNotCopied(t *testing.T) {
	p := processes(t, 0)
	chart := make([]byte, 32<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := p.CheckChart(t.Context(), "web", chart)
	runtime.ReadMemStats(&after)
	requireText(t, err, fail.Malformed, "app web: chart: Error in file format: the file is not gzipped", "")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(chart)/2))
}

// Charts that end the process that renders them are refused, with the name of the file and the limit.
func TestChartsThatKill(t *testing.T) {
	t.Parallel()
	p := processes(t, 10*time.Minute) // a list is longer than the memory only after a while, where others use the processors, too
	for name, c := range map[string]struct {
		files   map[string]string
		profile map[string]string
		limit   time.Duration // of time
		want    string
	}{
		"a value that contains itself, printed": {
			files: map[string]string{"web/templates/a.yaml": `{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}`},
			want:  "app web: web/templates/a.yaml: rendering it takes more than 64 MiB of stack: something contains or calls itself",
		},
		"a list without end": {
			files: map[string]string{"web/templates/a.yaml": `{{ until 10000000000 | len }}`},
			want:  "app web: web/templates/a.yaml: rendering it takes more than 256 MiB of memory",
		},
		"a text without end": {
			files: map[string]string{"web/templates/b.yaml": `{{ repeat 20000000000 "x" | len }}`},
			want:  "app web: web/templates/b.yaml: rendering it takes more than 256 MiB of memory",
		},
		"a profile with a file that kills": {
			files: map[string]string{"web/templates/a.yaml": ""},
			profile: map[string]string{
				"manifest.yaml": "type: {configresource: [{filepath: c.yaml, chartpath: web/templates/c.yaml}]}",
				"c.yaml":        `{{ repeat 20000000000 "x" | len }}`,
			},
			want: "app web: web/templates/c.yaml: rendering it takes more than 256 MiB of memory",
		},
		"a schema that asks the same thing a billion times": {
			files: map[string]string{"web/values.yaml": "a: 1", "web/values.schema.json": doubling(30)},
			limit: time.Second,
			// "longer than 1s", or "more than 1s of processor time", of which two threads have enough in half the time.
			want: "app web: web/values.schema.json: checking the values against it takes ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := p
			if c.limit != 0 {
				p = processes(t, c.limit)
			}
			in := Input{App: "web", Release: "r1", Namespace: "default"}
			c.files["web/Chart.yaml"] = chartYAML
			in.Chart = pack(t, c.files)
			if c.profile != nil {
				in.Profile = pack(t, c.profile)
			}
			_, err := p.Render(t.Context(), in)
			requireText(t, err, fail.Invalid, c.want, "")
			in.Chart = pack(t, map[string]string{"web/Chart.yaml": chartYAML})
			in.Profile = nil
			_, err = p.Render(t.Context(), in)
			require.NoError(t, err, "the next one is rendered")
		})
	}
}

// doubling is a schema that refers twice to another one, which refers twice to another one, and so on.
func doubling(times int) string {
	text := `{"$ref": "#/$defs/0", "$defs": {`
	for n := range times {
		text += fmt.Sprintf(`"%d": {"allOf": [{"$ref": "#/$defs/%d"}, {"$ref": "#/$defs/%d"}]}, `, n, n+1, n+1)
	}
	return text + fmt.Sprintf(`"%d": {"type": "object"}}}`, times)
}

// What is nested too deep is refused before a parser meets it: at upload, and where a template makes templates.
func TestNesting(t *testing.T) {
	t.Parallel()
	nested := func(begin, end string, n int) string { return strings.Repeat(begin, n) + strings.Repeat(end, n) }
	for name, c := range map[string]struct {
		template string
		deep     bool
	}{
		"blocks":                       {nested("{{if 1}}", "{{end}}", 11_000), true},
		"blocks with trimmed spaces":   {nested("{{- \t if 1 -}}", "{{- end -}}", 300), true},
		"blocks that nobody ends":      {strings.Repeat("{{with 1}}", 300), true},
		"else after else":              {"{{if 1}}" + strings.Repeat("{{else if 1}}", 300) + "{{end}}", true},
		"parentheses":                  {"{{" + nested("(", ")", 300) + "}}", true},
		"a few":                        {nested("{{range list}}", "{{end}}", 150), false},
		"one after the other":          {strings.Repeat("{{if 1}}{{else if 2}}{{else}}{{end}}", 1000), false},
		"in comments":                  {strings.Repeat("{{/* {{if 1}} */}}", 300), false},
		"in text":                      {strings.Repeat("{{ `{{if 1}} ((` }}{{ \"{{if 1}} \\\" ((\" }}{{ '(' }}", 300), false},
		"a variable that begins alike": {"{{$iffy := 1}}" + strings.Repeat("{{ $iffy }}", 300), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckChart("web", pack(t, map[string]string{"web/Chart.yaml": chartYAML, "web/templates/a.yaml": "\n" + c.template}))
			if !c.deep {
				require.NoError(t, err)
				return
			}
			requireText(t, err, fail.Invalid, "app web: web/templates/a.yaml:2: blocks or parentheses are nested more than 200 levels deep", "")
		})
	}
	_, err := Render(Input{App: "web", Release: "r1", Chart: pack(t, map[string]string{
		"web/Chart.yaml":       chartYAML,
		"web/templates/a.yaml": `{{ tpl (print (repeat 11000 "{{if 1}}") (repeat 11000 "{{end}}")) . }}`,
	})})
	requireText(t, err, fail.Invalid, "text given to tpl:1: blocks or parentheses are nested more than 200 levels deep", "")
	require.ErrorContains(t, checkTemplate("web/templates/a.yaml", strings.Repeat("x", limits.Parsed+1)), "web/templates/a.yaml: 8388609 bytes are more than")
}

// A chart that takes all of its time, however often it is asked for, leaves a process for all others.
func TestSlowChartsHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	p := processes(t, time.Minute)
	const slow = 20
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	chart := func(template string) Input {
		return Input{App: "web", Release: "r1", Chart: pack(t, map[string]string{"web/Chart.yaml": chartYAML, "web/templates/a.yaml": template})}
	}
	in := chart(`{{ range until 10000 }}{{ range until 10000 }}{{ range until 10000 }}{{ end }}{{ end }}{{ end }}`)
	ended := make(chan error, slow)
	for range slow {
		go func() {
			_, err := p.Render(ctx, in)
			ended <- err
		}()
	}
	require.Eventually(t, func() bool {
		p.turns.mu.Lock()
		defer p.turns.mu.Unlock()
		for _, turn := range p.turns.of {
			return turn.users == slow && len(turn.places) == 1
		}
		return false
	}, time.Minute, time.Millisecond)
	for range 3 {
		_, err := p.Render(t.Context(), chart(""))
		require.NoError(t, err)
	}
	require.Empty(t, ended, "they were rendered while the slow ones were")
	cancel()
	for range slow {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	require.Empty(t, p.turns.of)
}

// Whoever does not wait any more is not told that the chart is bad.
func TestCancelledRendering(t *testing.T) {
	t.Parallel()
	p := processes(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Render(ctx, Input{App: "web", Release: "r1", Chart: pack(t, map[string]string{"web/Chart.yaml": chartYAML})})
	require.ErrorIs(t, err, context.Canceled)
	p.Close()
	_, err = p.CheckProfile(t.Context(), pack(t, map[string]string{"manifest.yaml": ""}))
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.Equal(t, "there is no process to render charts in; try again later", fail.TextOf(err))
	_, err = p.Render(t.Context(), Input{App: "web", Release: "r1", Chart: pack(t, map[string]string{"web/Chart.yaml": chartYAML})})
	require.Equal(t, "app web: there is no process to render charts in; try again later", fail.TextOf(err))
}
