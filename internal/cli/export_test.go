package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestExportStaysInItsFolder: names that a server makes up lead nowhere else, what is there is not written over, and nobody else reads
// what was written.
func TestExportStaysInItsFolder(t *testing.T) {
	w := newWorld(t)
	where, list := "", ""
	hostile := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		answer := "[]"
		switch strings.TrimPrefix(r.URL.Path, "/v2/") {
		case "projects/p":
			answer = `{"metadata":{"name":"p"}}`
		case where:
			answer = list
		}
		_, _ = io.WriteString(out, answer)
	}))
	t.Cleanup(hostile.Close)
	for where, list = range map[string]string{
		"projects/p/composite-apps": `[{"metadata":{"name":"../../../x"},"spec":{"compositeAppVersion":"v1"}}]`,
		"projects/p/logical-clouds": `[{"metadata":{"name":".."}}]`,
	} {
		r := w.run("export", "project", "p", "--to", t.TempDir(), "--server", hostile.URL)
		require.Equal(t, 1, r.code, r.err)
		require.Contains(t, r.err, "which is the path of no")
	}

	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	out := filepath.Join(t.TempDir(), "out")
	w.done("export", "project", "demo", "--to", out)
	info, err := os.Stat(filepath.Join(out, "documents.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	r := w.run("export", "project", "demo", "--to", out)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "out/documents.yaml is there already, and is not written over: take it away, or choose another folder")
	outside := filepath.Join(t.TempDir(), "outside")
	linked := t.TempDir()
	require.NoError(t, os.Mkdir(outside, 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(linked, "files")))
	require.Equal(t, 2, w.run("export", "project", "demo", "--to", linked).code)
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestAnExportIsWhole, or nothing of it is there: what has failed half-way leaves nothing that applies, and does not bar the next run.
func TestAnExportIsWhole(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	api, err := url.Parse(w.url)
	require.NoError(t, err)
	through := httputil.NewSingleHostReverseProxy(api)
	fails := true
	between := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if fails && strings.HasSuffix(r.URL.Path, "/deployment-intent-groups") { // after the apps with their charts
			refuse(out, "no", http.StatusInternalServerError)
			return
		}
		through.ServeHTTP(out, r)
	}))
	t.Cleanup(between.Close)
	export := func(to string) int {
		return w.run("export", "project", "demo", "--to", to, "--server", between.URL).code
	}
	above, mine := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(mine, "notes"), nil, 0o600))
	for _, to := range []string{filepath.Join(above, "new"), mine} {
		fails = true
		require.Equal(t, 1, export(to))
		if to == mine {
			left, err := os.ReadDir(mine)
			require.NoError(t, err)
			require.Len(t, left, 1, "what was there before is")
		} else {
			require.NoDirExists(t, to)
		}
		fails = false
		require.Zero(t, export(to))
		require.FileExists(t, filepath.Join(to, "documents.yaml"))
		require.NoFileExists(t, filepath.Join(to, "documents.yaml.part"))
		require.DirExists(t, filepath.Join(to, "files"))
	}
}

// TestExportOfAPrivateKey: what stands for it is never stored in its place. The API that has the key keeps it, and another one refuses the document.
func TestExportOfAPrivateKey(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const in = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web/traffic-group-intents"
	const key = in + "/traffic/inbound-intents/server"
	w.done("apply", "-f", w.file("traffic.yaml", `{resourceContext: {anchor: `+in+`}, metadata: {name: traffic}}
---
resourceContext: {anchor: `+in+`/traffic/inbound-intents}
metadata: {name: server}
spec:
  {app: sink, appLabel: app=sink, serviceName: sink, port: 80, protocol: TCP, externalSupport: true, serviceMesh: istio, management: {sidecarProxy: "yes", tlsType: SIMPLE},
  external: {externalCerts: {serviceCertificate: Yw==, servicePrivateKey: a2V5}}}
`))
	stored := func() domain.Sealed {
		t.Helper()
		o, err := w.db.Get(t.Context(), domain.InboundServerIntents, key)
		require.NoError(t, err)
		return o.(*domain.InboundServerIntent).PrivateKey
	}
	sealed := stored()
	require.NotEmpty(t, sealed.Data)

	out := filepath.Join(t.TempDir(), "out")
	r := w.run("export", "project", "demo", "--to", out)
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "Warning: the private key of "+key+" is not given away")
	file := filepath.Join(out, "documents.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "servicePrivateKey: '********'\n")
	require.NotContains(t, string(text), "a2V5")

	require.Contains(t, w.done("apply", "-f", out), key+" unchanged\n")
	require.Equal(t, sealed, stored())
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "port: 80\n", "port: 81\n", 1)), 0o600))
	require.Contains(t, w.done("apply", "-f", out), key+" configured\n")
	require.Equal(t, sealed, stored())

	r = other.run("apply", "-f", out)
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, key+": Invalid Input: spec.external.externalCerts.servicePrivateKey: ******** stands for the key that is stored, and none is")
	require.Equal(t, 3, other.run("get", "inbound-intent", key).code)
}

// TestExportOfFilesOfOneName: each is in the export, under the name that it had. Of one whose name no file can have the name is another, which is said.
func TestExportOfFilesOfOneName(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const in = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web/generic-k8s-intents"
	const key = in + "/i/resources/r/customizations/c"
	for name, text := range map[string]string{"a/2": "spec: {replicas: 1}\n", "b/p": "spec: {paused: true}\n", "c/p": "metadata: {labels: {a: b}}\n"} {
		w.file("patches/"+name, text)
	}
	file := w.file("patches/c.yaml", `resourceContext: {anchor: `+in+`}
metadata: {name: i}
---
resourceContext: {anchor: `+in+`/i/resources}
metadata: {name: r}
spec: {app: sink, newObject: "false", resourceGVK: {apiVersion: apps/v1, kind: Deployment, name: m}}
---
resourceContext: {anchor: `+in+`/i/resources/r/customizations}
metadata: {name: c}
spec: {patchType: merge, clusterSpecific: "false", clusterInfo: {scope: label, clusterProvider: edge, clusterLabel: small, mode: allow}}
files: [a/2, b/p, c/p]
`)
	w.done("apply", "-f", file)
	out := filepath.Join(t.TempDir(), "out")
	w.done("export", "project", "demo", "--to", out)
	text, err := os.ReadFile(filepath.Join(out, "files", key, "3", "p"))
	require.NoError(t, err)
	require.Equal(t, "metadata: {labels: {a: b}}\n", string(text))
	require.Contains(t, w.done("apply", "-f", out), key+" unchanged\n")

	o, err := w.db.Get(t.Context(), domain.Customizations, key)
	require.NoError(t, err)
	files := o.(*domain.Customization).Files
	files[0].Name, files[1].Name = "..", strings.Repeat("n", 300)
	require.NoError(t, w.db.Replace(t.Context(), o))
	out = filepath.Join(t.TempDir(), "out")
	r := w.run("export", "project", "demo", "--to", out)
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, `Warning: a file of `+key+` has a name that no file can have here, and is called file1: ".."`)
	for _, name := range []string{"file1", "file2", "p"} {
		require.FileExists(t, filepath.Join(out, "files", key, name))
	}
}
