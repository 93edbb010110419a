package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	helmengine "helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/fail"
)

var update = flag.Bool("update", false, "rewrite the results in testdata")

// A case in testdata is input.yaml, the chart's archive below chart/, the profile's below profile/, and the
// result: want.yaml with the bundle, and want.warnings with its warnings if there are any, or want.error with the message. The names of failing cases begin with
// "error-", so that nobody has to read them to know: Helm's engine does not survive one of them.
type goldenCase struct {
	archive *txtar.Archive
	input   Input
	want    string
	warns   string
}

func TestRenderGolden(t *testing.T) {
	t.Parallel()
	p := processes(t, 0) // for what Helm warns of
	for name, file := range goldenFiles(t, "*") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := readGolden(t, file)
			bundle, err := p.Render(t.Context(), c.input)
			var section, got, warned string
			if err != nil {
				require.Equal(t, fail.Invalid, fail.KindOf(err), "%v", err)
				section, got = "want.error", fail.TextOf(err)+"\n"
			} else {
				text, err := yaml.Marshal(bundle)
				require.NoError(t, err)
				section, got = "want.yaml", string(text)
				for _, warning := range bundle.Warnings {
					warned += warning + "\n"
				}
			}
			if *update {
				c.write(t, file, section, got, warned)
				return
			}
			require.Equal(t, strings.HasPrefix(name, "error-"), err != nil, "%v", err)
			require.Empty(t, cmp.Diff(c.want, got))
			require.Empty(t, cmp.Diff(c.warns, warned))
		})
	}
}

// TestSchemaErrorsAreTheSameAtEachTry: to who compares them a text that differs is another error.
func TestSchemaErrorsAreTheSameAtEachTry(t *testing.T) {
	t.Parallel()
	p := processes(t, 0)
	for _, file := range goldenFiles(t, "error-schema-order") {
		c := readGolden(t, file)
		for range 40 {
			_, err := p.Render(t.Context(), c.input)
			require.Equal(t, c.want, fail.TextOf(err)+"\n")
		}
	}
}

// What an upload's check accepts may still fail to render with its values; what it refuses must not render.
func TestChecksAcceptWhatRenders(t *testing.T) {
	t.Parallel()
	for name, file := range goldenFiles(t, "[^e]*") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := readGolden(t, file)
			require.NoError(t, CheckChart(c.input.App, c.input.Chart))
			if c.input.Profile != nil {
				warnings, err := CheckProfile(c.input.Profile)
				require.NoError(t, err)
				require.Empty(t, warnings)
			}
		})
	}
}

// The engine is ours, the language is Helm's.
func TestEngineWritesWhatHelmsWrites(t *testing.T) {
	t.Parallel()
	for name, file := range goldenFiles(t, "[^e]*") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := readGolden(t, file)
			render := func(run func(input Input) (map[string]string, error)) map[string]string {
				files, err := run(c.input)
				require.NoError(t, err)
				return files
			}
			want := render(func(in Input) (map[string]string, error) {
				ch, scope := scopeOf(t, in)
				return helmengine.Engine{}.Render(ch, scope)
			})
			got := render(func(in Input) (map[string]string, error) {
				ch, scope := scopeOf(t, in)
				e := engine{ctx: t.Context(), limits: DefaultLimits}
				return e.render(ch, scope)
			})
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

// goldenFiles gives the files of the cases whose names match, by name.
func goldenFiles(t *testing.T, pattern string) map[string]string {
	t.Helper()
	matches, err := filepath.Glob("testdata/" + pattern + ".txtar")
	require.NoError(t, err)
	require.NotEmpty(t, matches)
	files := map[string]string{}
	for _, file := range matches {
		files[strings.TrimSuffix(filepath.Base(file), ".txtar")] = file
	}
	return files
}

func readGolden(t *testing.T, file string) goldenCase {
	t.Helper()
	a, err := txtar.ParseFile(file)
	require.NoError(t, err)
	c := goldenCase{archive: a}
	chartFiles, profileFiles := map[string]string{}, map[string]string{}
	var input struct {
		App            string            `json:"app"`
		Example        bool              `json:"example"` // take chart and profile of the examples' app
		Release        string            `json:"release"`
		Namespace      string            `json:"namespace"`
		OverrideValues map[string]string `json:"overrideValues"`
	}
	for _, f := range a.Files {
		data := string(f.Data)
		switch name, below, _ := strings.Cut(f.Name, "/"); name {
		case "input.yaml":
			require.NoError(t, yaml.UnmarshalStrict(f.Data, &input))
		case "want.yaml", "want.error":
			c.want = data
		case "want.warnings":
			c.warns = data
		case "chart":
			chartFiles[below] = data
		case "profile":
			profileFiles[below] = data
		default:
			require.Failf(t, "unknown section", "%s: %s", file, f.Name)
		}
	}
	c.input = Input{
		App: input.App, Release: input.Release, Namespace: input.Namespace, OverrideValues: input.OverrideValues,
	}
	if input.Example {
		c.input.Chart, err = examples.Chart(input.App)
		require.NoError(t, err)
		c.input.Profile, err = examples.Profile(input.App)
		require.NoError(t, err)
		return c
	}
	c.input.Chart = pack(t, chartFiles)
	if len(profileFiles) > 0 {
		c.input.Profile = pack(t, profileFiles)
	}
	return c
}

// write replaces the result of the case.
func (c goldenCase) write(t *testing.T, file, section, text, warned string) {
	t.Helper()
	files := slices.DeleteFunc(c.archive.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "want.") })
	c.archive.Files = append(files, txtar.File{Name: section, Data: []byte(text)})
	if warned != "" {
		c.archive.Files = append(c.archive.Files, txtar.File{Name: "want.warnings", Data: []byte(warned)})
	}
	require.NoError(t, os.WriteFile(file, txtar.Format(c.archive), 0o600))
}

func scopeOf(t *testing.T, in Input) (*chart.Chart, common.Values) {
	t.Helper()
	p, err := readProfile(in.Profile)
	require.NoError(t, err)
	ch, err := loadChart(in.App, in.Chart, p.resources)
	require.NoError(t, err)
	for _, key := range slices.Sorted(maps.Keys(in.OverrideValues)) {
		require.NoError(t, set(p.values, key, in.OverrideValues[key]))
	}
	scope, _, err := prepare(t.Context(), ch, p.values, in.Release, in.Namespace)
	require.NoError(t, err)
	return ch, scope
}

// pack makes a tgz of files.
func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var data bytes.Buffer
	zipped := gzip.NewWriter(&data)
	w := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}))
		_, err := w.Write([]byte(files[name]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, zipped.Close())
	return data.Bytes()
}
