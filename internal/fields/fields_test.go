package fields_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/fields"
	"github.com/drover-io/drover/internal/plan"
)

// The messages are those of API servers; internal/kubetest has the real ones said.
func TestPathsInMessages(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		of      func(string) []string
		message string
		want    []string
	}{
		"strict decoding names all of them": {
			of:      fields.Named,
			message: `DaemonSet in version "v1" cannot be handled as a DaemonSet: strict decoding error: unknown field "spec.replicas", unknown field "spec.template.spec.containers[0].comand"`,
			want:    []string{"spec.replicas", "spec.template.spec.containers[0].comand"},
		},
		"a name with quotes": {
			of: fields.Named, message: `strict decoding error: unknown field "spec.a\"b"`, want: []string{`spec.a"b`},
		},
		"another fault": {
			of: fields.Named, message: `strict decoding error: duplicate field "spec"`, want: nil,
		},
		"server-side apply names one": {
			of:      fields.Undeclared,
			message: "failed to create typed patch object (ns/collectd; apps/v1, Kind=DaemonSet): .spec.replicas: field not declared in schema",
			want:    []string{"spec.replicas"},
		},
		"server-side apply of Kubernetes 1.22 names one": {
			reason:  "it does not say of which object",
			of:      fields.Undeclared,
			message: "failed to create typed patch object: .spec.replicas: field not declared in schema",
			want:    []string{"spec.replicas"},
		},
		"what is refused names none": {
			of: fields.Undeclared, message: "failed to create typed patch object (ns/a; v1, Kind=Service): field not declared in schema", want: nil,
		},
		"server-side apply of Kubernetes 1.22 names several": {
			of: fields.Undeclared,
			message: "failed to create typed patch object: errors:\n" +
				"  .spec.a: field not declared in schema\n" +
				"  .sepc: field not declared in schema",
			want: []string{"spec.a", "sepc"},
		},
		"server-side apply names several": {
			of: fields.Undeclared,
			message: "failed to create typed patch object (ns/a; v1, Kind=Service): errors:\n" +
				"  .spec.ports[port=80,protocol=\"TCP\"].nme: field not declared in schema\n" +
				"  .spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]\n" +
				"  .sepc: field not declared in schema",
			want: []string{`spec.ports[port=80,protocol="TCP"].nme`, "sepc"},
		},
		"a wrong type is another fault": {
			of:      fields.Undeclared,
			message: "failed to create typed patch object (ns/a; v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:5}",
			want:    nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(c.want, c.of(c.message)), c.reason)
		})
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	const manifest = `{"spec":{"a.b":1,"a":{"b":2},"n":12345678901234567890,"list":[{"name":"x","bad":1},{"name":"y]","bad":2,"port":80}]}}`
	cases := map[string]struct {
		reason string
		paths  []string
		want   string
		gone   []string
	}{
		"a member":              {paths: []string{"spec.n"}, want: `{"spec":{"a.b":1,"a":{"b":2},"list":[{"name":"x","bad":1},{"name":"y]","bad":2,"port":80}]}}`, gone: []string{"spec.n"}},
		"an element by index":   {paths: []string{"spec.list[1].bad"}, want: `{"spec":{"a":{"b":2},"a.b":1,"list":[{"bad":1,"name":"x"},{"name":"y]","port":80}],"n":12345678901234567890}}`, gone: []string{"spec.list[1].bad"}},
		"an element by its key": {paths: []string{`spec.list[name="y]"].bad`}, want: `{"spec":{"a":{"b":2},"a.b":1,"list":[{"bad":1,"name":"x"},{"name":"y]","port":80}],"n":12345678901234567890}}`, gone: []string{"spec.list[1].bad"}},
		"an element by keys of which one has its default": {
			paths: []string{`spec.list[port=80,protocol="TCP"].bad`}, gone: []string{"spec.list[0].bad", "spec.list[1].bad"},
			want: `{"spec":{"a":{"b":2},"a.b":1,"list":[{"name":"x"},{"name":"y]","port":80}],"n":12345678901234567890}}`,
		},
		"a name with a dot": {
			reason: "the longest name is meant", paths: []string{"spec.a.b"}, gone: []string{"spec.a.b"},
			want: `{"spec":{"a":{"b":2},"list":[{"name":"x","bad":1},{"name":"y]","bad":2,"port":80}],"n":12345678901234567890}}`,
		},
		"what is not there": {paths: []string{"spec.c", "spec.list[7].bad", "spec.n.m", "spec.list.bad", "spec.list[", "spec.list[name=", ""}, want: manifest},
		"twice":             {paths: []string{"spec.list", "spec.list"}, want: `{"spec":{"a":{"b":2},"a.b":1,"n":12345678901234567890}}`, gone: []string{"spec.list"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rest, gone, err := fields.Without([]byte(manifest), c.paths)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(rest), c.reason)
			require.Empty(t, cmp.Diff(c.gone, gone))
		})
	}
	_, _, err := fields.Without([]byte("[]"), []string{"a"})
	require.Error(t, err)
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              labels: {type: object, additionalProperties: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: object}}}
              inner: {type: object, x-kubernetes-embedded-resource: true}
              parts: {type: array, items: {type: object, properties: {name: {type: string}}}}
`

func TestUnknown(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, manifest string
		want             []string
	}{
		"a DaemonSet with replicas": {
			reason: "EMCO's collectd",
			manifest: `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: collectd, lables: {a: b}}
spec:
  replicas: 1
  template: {spec: {containers: [{name: main, image: a}, {name: b, comand: [a]}]}}
`,
			want: []string{"metadata.lables", "spec.replicas", "spec.template.spec.containers[1].comand"},
		},
		"all as it should be": {
			manifest: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {a.b/c: d}}, data: {any.name: a}}",
		},
		"a wrong type is the cluster's to refuse": {
			manifest: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: 1}}",
		},
		"a kind that nobody knows": {
			manifest: "{apiVersion: example.com/v2, kind: Widget, metadata: {name: a}, spec: {any: 1}}",
		},
		"a kind that the bundle defines": {
			manifest: `
apiVersion: example.com/v1
kind: Widget
metadata: {name: a, anything: 1}
status: {of: any}
spec:
  size: 3
  siez: 4
  labels: {a: b}
  free: {any: {thing: 1}, known: {but: not this}}
  inner: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {}}
  parts: [{name: a}, {nme: a}]
`,
			want: []string{"spec.free.known.but", "spec.inner.data", "spec.parts[1].nme", "spec.siez", "status"},
		},
	}
	crd := resource(t, definition)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := resource(t, c.manifest)
			require.Empty(t, cmp.Diff(c.want, fields.KnownTo([]plan.Resource{crd, r}).Unknown(&r)), c.reason)
		})
	}
}

// resource is one of a manifest in YAML, with its kind.
func resource(t *testing.T, manifest string) plan.Resource {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	require.NoError(t, err)
	var is struct{ APIVersion, Kind string }
	require.NoError(t, yaml.Unmarshal(data, &is))
	r := plan.Resource{ResourceID: plan.ResourceID{Kind: is.Kind}, Manifest: data}
	r.Group, r.Version = split(is.APIVersion)
	return r
}

func split(apiVersion string) (group, version string) {
	for i := range apiVersion {
		if apiVersion[i] == '/' {
			return apiVersion[:i], apiVersion[i+1:]
		}
	}
	return "", apiVersion
}

func TestMissing(t *testing.T) {
	t.Parallel()
	const sent = `{"apiVersion":"v1","kind":"A","metadata":{"name":"a","anything":1},"status":{"a":1},
		"spec":{"a":1,"b":{"c":1,"d":1},"none":null,"zero":0,"list":[{"a":1},{"b":1}],"longer":[{"a":1}]}}`
	const made = `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},
		"spec":{"a":2,"b":{"d":1},"e":1,"list":[{"a":1},{}],"longer":[{},{}]}}`
	require.Equal(t, []string{"spec.b.c", "spec.list[1].b"}, fields.Missing([]byte(sent), []byte(made)))
	require.Nil(t, fields.Missing([]byte(made), []byte(made)))
	require.Nil(t, fields.Missing([]byte(made), []byte("[]")))
}
