package harness

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tgz packs files.
func Tgz(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(files[name]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

// Chart packs a chart of the templates.
func Chart(t testing.TB, app string, templates map[string]string) []byte {
	t.Helper()
	files := map[string]string{app + "/Chart.yaml": "apiVersion: v2\nname: " + app + "\nversion: 0.1.0\n", app + "/values.yaml": "{}\n"}
	for name, text := range templates {
		files[app+"/templates/"+name] = text
	}
	return Tgz(t, files)
}

// Profile packs a profile without values of its own.
func Profile(t testing.TB) []byte {
	t.Helper()
	return Tgz(t, map[string]string{
		"manifest.yaml":        "version: v1\ntype:\n  values: override_values.yaml\n",
		"override_values.yaml": "{}\n",
	})
}

// ConfigMaps is a template of n ConfigMaps named after the release.
func ConfigMaps(app string, n int) map[string]string {
	return map[string]string{"configmaps.yaml": fmt.Sprintf(
		"{{- range $i, $e := until %d }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ $.Release.Name }}-%s-{{ printf \"%%03d\" $i }}\ndata:\n  index: {{ $i | quote }}\n{{- end }}\n", n, app)}
}

// Web is a template of a Deployment and a Service named after the release.
func Web(app string) map[string]string {
	return map[string]string{"web.yaml": fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-%[1]s
spec:
  replicas: 1
  selector: {matchLabels: {app: {{ .Release.Name }}-%[1]s}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}-%[1]s}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}-%[1]s
spec:
  selector: {app: {{ .Release.Name }}-%[1]s}
  ports: [{port: 80}]
`, app)}
}
