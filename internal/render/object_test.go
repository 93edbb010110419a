package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	kjson "sigs.k8s.io/json"
)

func TestObjects(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		text    string
		want    []string // manifests
		wantErr string
	}{
		"nothing":                   {text: " \n\n"},
		"comments only":             {text: "# a\n---\n# b\n---\n---\n"},
		"documents in their order":  {text: doc("a") + "---\n" + doc("b") + "---  \n" + doc("c"), want: []string{manifest("a"), manifest("b"), manifest("c")}},
		"more than nine of them":    {reason: "their keys sort as numbers", text: docs(12), want: manifests(12)},
		"a separator in a text":     {text: doc("a") + "data:\n  k: |\n    x\n    ---\n    z\n", want: []string{`{"apiVersion":"v1","data":{"k":"x\n---\nz\n"},"kind":"ConfigMap","metadata":{"name":"a"}}`}},
		"sorted keys, compact":      {text: "{kind: ConfigMap,   metadata: {name: a}, apiVersion: v1}", want: []string{manifest("a")}},
		"big numbers to the digit":  {text: doc("a") + "size: 9223372036854775807\n", want: []string{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"size":9223372036854775807}`}},
		"windows line ends":         {text: "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: a\r\n---\r\n" + doc("b"), want: []string{manifest("a"), manifest("b")}},
		"items that say it all":     {text: "apiVersion: v1\nkind: List\nitems: [" + manifest("a") + "]", want: []string{manifest("a")}},
		"items of a typed list":     {text: "apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}]", want: []string{manifest("a")}},
		"null among the items":      {text: "apiVersion: v1\nkind: List\nitems: [null]"},
		"a list without items":      {reason: "kubectl prints such", text: "apiVersion: v1\nkind: List\nitems: []"},
		"a name that is a number":   {text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 12}", wantErr: "f.yaml: ConfigMap: metadata.name is not a string: 12"},
		"a namespace of its own":    {text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: [b]}", wantErr: `f.yaml: ConfigMap a: metadata.namespace is not a string: ["b"]`},
		"annotations as a list":     {text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: [b]}", wantErr: "f.yaml: ConfigMap a: metadata.annotations is not an object"},
		"an annotation as a truth":  {text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x, annotations: {b: yes}}", wantErr: "f.yaml: ConfigMap x/a: metadata.annotations: b is not a string: true (quote it)"},
		"metadata as a text":        {text: "apiVersion: v1\nkind: ConfigMap\nmetadata: a", wantErr: "f.yaml: ConfigMap: metadata is not an object"},
		"no metadata":               {text: "apiVersion: v1\nkind: ConfigMap", wantErr: "f.yaml: ConfigMap: metadata.name is missing"},
		"name in another case":      {reason: "Kubernetes would not see it", text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {Name: a}", wantErr: "metadata.name is missing"},
		"no kind":                   {text: "apiVersion: v1\nmetadata: {name: a}", wantErr: "f.yaml: an object has no kind"},
		"no apiVersion":             {text: "kind: ConfigMap\nmetadata: {name: a}", wantErr: "f.yaml: ConfigMap: apiVersion is missing"},
		"neither":                   {text: "a: b", wantErr: "f.yaml: an object has no apiVersion and no kind"},
		"an apiVersion of a number": {text: "apiVersion: 1\nkind: ConfigMap", wantErr: "f.yaml: apiVersion is not a string: 1"},
		"a kind of a list":          {text: "apiVersion: v1\nkind: []", wantErr: "f.yaml: kind is not a string: []"},
		"an apiVersion in parts":    {text: "apiVersion: a/b/c\nkind: X\nmetadata: {name: a}", wantErr: `f.yaml: X: apiVersion "a/b/c" is not <group>/<version>`},
		"an item without a type":    {text: "apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]", wantErr: "f.yaml: an object has no apiVersion and no kind"},
		"a text":                    {text: "hello", wantErr: "f.yaml: a document is not a Kubernetes object"},
		"broken YAML":               {text: doc("a") + "---\na: [b", wantErr: "f.yaml: yaml: line 1: did not find expected"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := objects("f.yaml", c.text)
			if c.wantErr != "" {
				require.ErrorContains(t, err, c.wantErr, c.reason)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, o := range found {
				got = append(got, string(o.manifest))
			}
			require.Empty(t, cmp.Diff(c.want, got), c.reason)
		})
	}
}

// Whatever a template renders, what comes out can be applied: a JSON object that says what it is.
func FuzzObjects(f *testing.F) {
	f.Add(doc("a") + "---\n" + doc("b"))
	f.Add("apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}, null]")
	f.Add("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: [a]}]")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := objects("f.yaml", text)
		if err != nil {
			return
		}
		for _, o := range found {
			var got struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Metadata   struct {
					Name string `json:"name"`
				} `json:"metadata"`
			}
			require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts(o.manifest, &got), "%s", o.manifest) // as an API server reads it
			require.NotEmpty(t, o.Kind)
			if o.fault != nil {
				continue // it is never applied
			}
			require.NotEmpty(t, o.Name)
			require.NotEmpty(t, o.Version)
		}
	})
}

func doc(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
}

func manifest(name string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`
}

func docs(n int) string {
	var all string
	for i := range n {
		all += "---\n" + doc(string(rune('a'+i)))
	}
	return all
}

func manifests(n int) []string {
	var all []string
	for i := range n {
		all = append(all, manifest(string(rune('a'+i))))
	}
	return all
}
