package render

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
)

const chartYAML = "{apiVersion: v2, name: web, version: 1.0.0}"

func TestCheckChart(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		files   map[string]string
		raw     []byte
		wantErr string
		kind    fail.Kind // of the error; Invalid unless it says something else
	}{
		"a chart that needs values passes": {
			reason: "they come with the profile or the deployment intent group",
			files: map[string]string{
				"web/Chart.yaml":         chartYAML,
				"web/values.schema.json": `{"required": ["name"]}`,
				"web/templates/a.yaml":   `{{ required "name?" .Values.name }}{{ .Values.a.b.c }}{{ template "elsewhere" }}`,
			},
		},
		"other directories do not matter": {
			files: map[string]string{"web/Chart.yaml": chartYAML, "sink/Chart.yaml": "{", "README": ""},
		},
		"a byte order mark does not matter": {
			files: map[string]string{"web/Chart.yaml": "\ufeff" + chartYAML},
		},
		"a packed dependency is unpacked": {
			files: map[string]string{
				"web/Chart.yaml":          "{apiVersion: v2, name: web, version: 1.0.0, dependencies: [{name: db, version: 1.0.0}]}",
				"web/charts/db-1.0.0.tgz": string(pack(t, map[string]string{"db/Chart.yaml": "{apiVersion: v2, name: db, version: 1.0.0}"})),
			},
		},
		"a packed dependency of a packed dependency": {
			files: map[string]string{
				"web/Chart.yaml":          chartYAML,
				"web/charts/db-1.0.0.tgz": packed(t, 3),
			},
		},
		"packed dependencies without end": {
			reason: "an archive can be made to contain itself",
			files: map[string]string{
				"web/Chart.yaml":       chartYAML,
				"web/charts/again.tgz": packed(t, 10),
			},
			wantErr: "dependencies are packed more than 8 levels deep",
		},
		"a packed dependency that is no archive": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/charts/db.tgz": "hello"},
			wantErr: "app web: chart: charts/db.tgz: Error in file format", kind: fail.Malformed,
		},
		"a dependency that is there twice": {
			files: map[string]string{
				"web/Chart.yaml": chartYAML, "web/charts/db/Chart.yaml": chartYAML,
				"web/charts/db.tgz": string(pack(t, map[string]string{"db/Chart.yaml": chartYAML})),
			},
			wantErr: "app web: chart: charts/db.tgz: charts/db/Chart.yaml is in the archive too",
		},
		"not an archive": {raw: []byte("hello"), wantErr: "Error in file format", kind: fail.Malformed},
		"an empty archive": {
			files: map[string]string{}, wantErr: "app web: chart: Error in file format: the archive is empty", kind: fail.Malformed,
		},
		"the chart at the root": {
			files:   map[string]string{"Chart.yaml": chartYAML},
			wantErr: "app web: chart: there is no web/Chart.yaml in the archive",
		},
		"a Chart.yaml without a version": {
			files:   map[string]string{"web/Chart.yaml": "{apiVersion: v2, name: web}"},
			wantErr: "app web: chart: validation: chart.metadata.version is required",
		},
		"a Chart.yaml that is no YAML": {
			files:   map[string]string{"web/Chart.yaml": "name: [web"},
			wantErr: "app web: chart: cannot load Chart.yaml: yaml: line",
		},
		"values that are no YAML": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/values.yaml": "a: [b"},
			wantErr: "app web: chart: cannot load values.yaml: yaml: line",
		},
		"a library": {
			files:   map[string]string{"web/Chart.yaml": "{apiVersion: v2, name: web, version: 1.0.0, type: library}"},
			wantErr: "app web: chart web is of type library",
		},
		"a dependency that is missing": {
			files:   map[string]string{"web/Chart.yaml": "{apiVersion: v2, name: web, version: 1.0.0, dependencies: [{name: db, version: 1.0.0}]}"},
			wantErr: "missing in charts/: db",
		},
		"a dependency that cannot be loaded": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/charts/db/Chart.yaml": "name: db"},
			wantErr: "app web: chart: error unpacking subchart db in web: validation: chart.metadata.version is required",
		},
		"a template with a syntax error": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/templates/a.yaml": "\n{{ end }}"},
			wantErr: "app web: web/templates/a.yaml:2: unexpected {{end}}",
		},
		"a function that nobody knows": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/templates/a.yaml": `{{ env "HOME" }}`},
			wantErr: `app web: web/templates/a.yaml:1: function "env" not defined`,
		},
		"a dependency's template with a syntax error": {
			files: map[string]string{
				"web/Chart.yaml":                     chartYAML,
				"web/charts/db/Chart.yaml":           "{apiVersion: v2, name: db, version: 1.0.0}",
				"web/charts/db/templates/a.yaml":     "{{ if }}",
				"web/charts/db/templates/nested/.gi": "",
			},
			wantErr: "app web: web/charts/db/templates/a.yaml:1: missing value for if",
		},
		"a template with a syntax error of a dependency that one of two names does not switch off": {
			files: map[string]string{
				"web/Chart.yaml":                 "{apiVersion: v2, name: web, version: 1.0.0, dependencies: [{name: db, version: 1.0.0, condition: a.b}, {name: db, version: 1.0.0, alias: c}]}",
				"web/charts/db/Chart.yaml":       "{apiVersion: v2, name: db, version: 1.0.0}",
				"web/charts/db/templates/a.yaml": "{{ if }}",
			},
			wantErr: "app web: web/charts/db/templates/a.yaml:1: missing value for if",
		},
		"a CRD that is no object": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/crds/a.yaml": "- a"},
			wantErr: "app web: web/crds/a.yaml: a document is not a Kubernetes object",
		},
		"an object of crds that says it is a test": {
			reason: "there are no hooks in crds, so that it would be applied",
			files: map[string]string{
				"web/Chart.yaml": chartYAML, "web/crds/a.yaml": "{apiVersion: v1, kind: Pod, metadata: {generateName: a, annotations: {helm.sh/hook: test}}}",
			},
			wantErr: "app web: web/crds/a.yaml: Pod: metadata.generateName is not possible: give it a name",
		},
		"a schema that is no JSON": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/values.schema.json": "{"},
			wantErr: "app web: web/values.schema.json: ",
		},
		"a schema that makes no sense": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/values.schema.json": `{"type": "text"}`},
			wantErr: "app web: web/values.schema.json: ",
		},
		"a schema from another file": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/values.schema.json": `{"properties": {"a": {"$ref": "common.json#/$defs/a"}}}`, "web/common.json": "{}"},
			wantErr: "app web: web/values.schema.json: $ref or $schema \"common.json\" is not fetched, nothing outside of the file is: copy it into $defs, or leave the schema out of the chart",
		},
		"a dependency's schema from the network": {
			reason: "a check must not make requests for its caller",
			files: map[string]string{
				"web/Chart.yaml":                   chartYAML,
				"web/charts/db/Chart.yaml":         "{apiVersion: v2, name: db, version: 1.0.0}",
				"web/charts/db/values.schema.json": `{"$ref": "http://127.0.0.1:1/schema.json"}`,
			},
			wantErr: "app web: web/charts/db/values.schema.json: $ref or $schema \"http://127.0.0.1:1/schema.json\" is not fetched, nothing outside of the file is",
		},
		"a .helmignore with a pattern that cannot be": {
			files:   map[string]string{"web/Chart.yaml": chartYAML, "web/.helmignore": "a[\n"},
			wantErr: "app web: web/.helmignore: syntax error in pattern",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.raw == nil {
				c.raw = pack(t, c.files)
			}
			requireText(t, CheckChart("web", c.raw), c.kind, c.wantErr, c.reason)
		})
	}
}

func TestCheckProfile(t *testing.T) {
	t.Parallel()
	const nothing = "profile: manifest.yaml names neither type.values nor type.configresource: the profile changes nothing"
	cases := map[string]struct {
		reason  string
		files   map[string]string
		raw     []byte
		wantErr string
		kind    fail.Kind
		warns   []string
	}{
		"values only": {
			files: map[string]string{"manifest.yaml": "type: {values: a.yaml}", "a.yaml": "replicas: 2"},
		},
		"empty values": {
			files: map[string]string{"manifest.yaml": "type: {values: ./a.yaml}", "a.yaml": "---\n"},
		},
		"nothing at all": {
			reason: "a profile that changes nothing is one too",
			files:  map[string]string{"manifest.yaml": ""}, warns: []string{nothing},
		},
		"a resource for a chart that is not known yet": {
			files: map[string]string{
				"manifest.yaml": "type: {configresource: [{filepath: dir/a.yaml, chartpath: web/templates/a.yaml}]}", "dir/a.yaml": "",
			},
		},
		"members that there are not": {
			files: map[string]string{"manifest.yaml": "{version: v1, kind: x, type: {value: a.yaml, Values: a.yaml, configresource: [{filepath: a.yaml, chartpath: web/a, chartPath2: b}]}}", "a.yaml": ""},
			warns: []string{
				`profile: manifest.yaml: unknown field "kind"`, `profile: manifest.yaml: unknown field "type.configresource[0].chartPath2", did you mean "type.configresource[0].chartpath"?`,
				`profile: manifest.yaml: unknown field "type.value", did you mean "type.values"?`,
			},
		},
		"a member that is misspelt, and nothing else": {
			files: map[string]string{"manifest.yaml": "type: {value: a.yaml}", "a.yaml": ""},
			warns: []string{`profile: manifest.yaml: unknown field "type.value", did you mean "type.values"?`, nothing},
		},
		"two resources for one place": {
			files: map[string]string{
				"manifest.yaml": "type: {configresource: [{filepath: a.yaml, chartpath: web/a.yaml}, {filepath: b.yaml, chartpath: ./web/a.yaml}]}", "a.yaml": "", "b.yaml": "",
			},
			wantErr: `profile: manifest.yaml: two files of type.configresource are for chartpath "web/a.yaml"`,
		},
		"no bytes":       {raw: []byte{}, wantErr: "profile: the archive is empty"},
		"not an archive": {raw: []byte("hello"), wantErr: "Error in file format", kind: fail.Malformed},
		"no manifest": {
			files:   map[string]string{"profile/manifest.yaml": ""},
			wantErr: "profile: there is no manifest.yaml at the root of the archive",
		},
		"a manifest that is no YAML": {
			files: map[string]string{"manifest.yaml": "a: [b"}, wantErr: "profile: manifest.yaml: yaml: line",
		},
		"a manifest of another shape": {
			files: map[string]string{"manifest.yaml": "type: values.yaml"}, wantErr: "profile: manifest.yaml: ",
		},
		"values that are missing": {
			files:   map[string]string{"manifest.yaml": "type: {values: a.yaml}"},
			wantErr: `profile: manifest.yaml: type.values: "a.yaml" is not in the archive`,
		},
		"values that are a list": {
			files:   map[string]string{"manifest.yaml": "type: {values: a.yaml}", "a.yaml": "- a"},
			wantErr: "profile: a.yaml: ",
		},
		"a resource that is missing": {
			files:   map[string]string{"manifest.yaml": "type: {configresource: [{filepath: b.yaml, chartpath: web/b.yaml}]}"},
			wantErr: `profile: manifest.yaml: type.configresource[0].filepath: "b.yaml" is not in the archive`,
		},
		"a resource without a place": {
			files:   map[string]string{"manifest.yaml": "type: {configresource: [{filepath: b.yaml}]}", "b.yaml": ""},
			wantErr: `type.configresource[0].chartpath: "" is not a path inside the chart archive`,
		},
		"a resource at an absolute path": {
			files:   map[string]string{"manifest.yaml": "type: {configresource: [{filepath: b.yaml, chartpath: /etc/b.yaml}]}", "b.yaml": ""},
			wantErr: `type.configresource[0].chartpath: "/etc/b.yaml" is not a path inside the chart archive`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.raw == nil {
				c.raw = pack(t, c.files)
			}
			warnings, err := CheckProfile(c.raw)
			requireText(t, err, c.kind, c.wantErr, c.reason)
			require.Equal(t, c.warns, warnings)
		})
	}
}

// What the check cannot see without the chart is found when both come together.
func TestRenderRefusesAProfileForAnotherChart(t *testing.T) {
	t.Parallel()
	profile := map[string]string{
		"manifest.yaml": "type: {configresource: [{filepath: a.yaml, chartpath: sink/templates/a.yaml}]}", "a.yaml": "",
	}
	_, err := CheckProfile(pack(t, profile))
	require.NoError(t, err)
	_, err = Render(Input{
		App: "web", Release: "r1", Chart: pack(t, map[string]string{"web/Chart.yaml": chartYAML}), Profile: pack(t, profile),
	})
	requireText(t, err, fail.Invalid, `app web: profile: chartpath "sink/templates/a.yaml" is not in the chart's directory "web"`, "")
}

// What a terminate leaves in a cluster is what the look after it spares: definitions, and what is annotated.
func TestOnlyDefinitionsOfCRDsAreKept(t *testing.T) {
	t.Parallel()
	bundle, err := Render(Input{App: "web", Release: "r1", Namespace: "default", Chart: pack(t, map[string]string{
		"web/Chart.yaml": chartYAML,
		"web/crds/a.yaml": `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: crd}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: annotated, annotations: {helm.sh/resource-policy: keep}}}`,
	})})
	require.NoError(t, err)
	keep := map[string]bool{}
	for _, r := range bundle.Resources {
		keep[r.Name] = r.Keep
	}
	require.Equal(t, map[string]bool{"crd": true, "plain": false, "annotated": true}, keep)
}

// A profile that was stored before its check knew of it is rendered: the last file for a place counts, as it did.
func TestRenderTakesTwoFilesForOnePlace(t *testing.T) {
	t.Parallel()
	profile := pack(t, map[string]string{
		"manifest.yaml": "type: {configresource: [{filepath: a, chartpath: web/templates/cm.yaml}, {filepath: b, chartpath: web/templates/cm.yaml}]}",
		"a":             "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "b": "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}",
	})
	bundle, err := Render(Input{App: "web", Release: "r1", Chart: pack(t, map[string]string{"web/Chart.yaml": chartYAML}), Profile: profile})
	require.NoError(t, err)
	require.Len(t, bundle.Resources, 1)
	require.Equal(t, "b", bundle.Resources[0].Name)
}

// The loader's maps are random; bundles are stored by digest and must not be.
func TestRenderIsRepeatable(t *testing.T) {
	t.Parallel()
	files := map[string]string{"web/Chart.yaml": chartYAML}
	for _, dependency := range []string{"a", "b", "c", "d"} {
		maps.Copy(files, map[string]string{
			"web/charts/" + dependency + "/Chart.yaml":       "{apiVersion: v2, name: " + dependency + ", version: 1.0.0}",
			"web/charts/" + dependency + "/crds/a.yaml":      "{apiVersion: example.com/v1, kind: Crd, metadata: {name: same, namespace: " + dependency + "}}",
			"web/charts/" + dependency + "/templates/a.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: " + dependency + "}}",
		})
	}
	in := Input{App: "web", Release: "r1", Namespace: "default", Chart: pack(t, files)}
	first, err := Render(in)
	require.NoError(t, err)
	require.Len(t, first.Resources, 8)
	for range 20 {
		again, err := Render(in)
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
}

// Whoever writes a chart is told for which Kubernetes it is rendered.
func TestTheVersionIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/how-to/profiles.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "Kubernetes "+strings.TrimPrefix(kubeVersion.Version, "v"))
}

// requireText checks the error's kind and how its text goes; none is wanted when want is "".
func requireText(t *testing.T, err error, kind fail.Kind, want, reason string) {
	t.Helper()
	if want == "" {
		require.NoError(t, err, reason)
		return
	}
	if kind == "" {
		kind = fail.Invalid
	}
	require.True(t, fail.Is(err, kind), "got %v", err)
	require.Contains(t, fail.TextOf(err), want, reason)
}

// packed is an archive of a chart that has, packed, another as its dependency, and so on.
func packed(t *testing.T, levels int) string {
	t.Helper()
	files := map[string]string{"db/Chart.yaml": "{apiVersion: v2, name: db, version: 1.0.0}"}
	if levels > 1 {
		files["db/charts/db.tgz"] = packed(t, levels-1)
	}
	return string(pack(t, files))
}
