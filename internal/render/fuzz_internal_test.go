package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
)

// tarred is an archive with files, of names and contents in turn.
func tarred(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o600, Size: int64(len(files[i+1]))}))
		_, err := w.Write([]byte(files[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

// theirs requires that an error is the sender's.
func theirs(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		require.True(t, fail.Is(err, fail.Invalid) || fail.Is(err, fail.Malformed), "%v", err)
		require.NotContains(t, err.Error(), "runtime error", "it was a panic")
	}
}

// FuzzChart: whatever the files of a chart have, it is taken, or refused as the sender's mistake.
func FuzzChart(f *testing.F) {
	const chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
	f.Add(chart, "a: 1\n", "{{ .Values.a }}", `{"type": "object"}`, "*.txt\n")
	f.Add(chart+"dependencies: [{name: x, version: '*', repository: '', alias: y, condition: a.b}]\n", "", `{{ define "x" }}{{ include "x" . }}{{ end }}`, `{"$ref": "#"}`, "!")
	f.Add("apiVersion: v1\nname: ../web\ntype: library\nkubeVersion: '>= 1'\n", "a: &a [*a]", "{{ range $i := until 3 }}---\n{{ end }}", `{"$ref": "file:///etc/passwd"}`, "**\n")
	f.Fuzz(func(t *testing.T, chart, values, template, schema, ignore string) {
		theirs(t, CheckChart("web", tarred(t, "web/Chart.yaml", chart, "web/values.yaml", values, "web/templates/a.yaml", template,
			"web/crds/c.yaml", values, "web/values.schema.json", schema, "web/.helmignore", ignore)))
	})
}

// FuzzProfile: the same of a profile.
func FuzzProfile(f *testing.F) {
	f.Add("version: v1\ntype:\n  values: v.yaml\n  configresource:\n  - filepath: r.yaml\n    chartpath: web/templates/r.yaml\n", "a: 1\n", "r.yaml")
	f.Add("type: {values: ../../etc/passwd, configresource: [{filepath: /r, chartpath: ../x}]}", "- a", "../r")
	f.Add("a: &a [*a, *a]", "<<: {a: 1}", "")
	f.Fuzz(func(t *testing.T, manifest, values, name string) {
		if len(name) > 100 || name == "" || strings.HasSuffix(name, "/") || strings.ContainsRune(name, 0) {
			return // as tar has them
		}
		_, err := CheckProfile(tarred(t, "manifest.yaml", manifest, "v.yaml", values, "x/"+name, values))
		theirs(t, err)
	})
}
