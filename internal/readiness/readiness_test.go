package readiness_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/readiness"
)

// TestEveryKind judges the objects of testdata: the first line of a file says the status and how the
// message begins, its name the kind and the situation.
func TestEveryKind(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			gvk, object, want := read(t, path)
			before := unstructured.Unstructured{Object: object}
			before = *before.DeepCopy()
			got := readiness.Of(gvk, object)
			require.Equal(t, want.Status, got.Status, "%s", got.Message)
			require.True(t, strings.HasPrefix(got.Message, want.Message), "%q", got.Message)
			require.Equal(t, got.Status == readiness.Ready, got.Message == "", "what is not ready says why")
			require.Empty(t, cmp.Diff(before.Object, object), "the object is not changed")

			bare := maps.Clone(object)
			delete(bare, "apiVersion")
			delete(bare, "kind")
			require.Equal(t, got, readiness.Of(gvk, bare), "the object need not name its kind")
			require.NotContains(t, bare, "kind")
			var none *readiness.Rules
			require.Equal(t, got, none.Of(gvk, object))
		})
	}
}

func read(t *testing.T, path string) (schema.GroupVersionKind, map[string]any, readiness.State) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	head, _, _ := strings.Cut(string(data), "\n")
	head, ok := strings.CutPrefix(head, "# want: ")
	require.True(t, ok)
	status, message, _ := strings.Cut(head, " ")
	asJSON, err := yaml.YAMLToJSON(data)
	require.NoError(t, err)
	object, err := readiness.Decode(asJSON)
	require.NoError(t, err)
	u := unstructured.Unstructured{Object: object}
	return u.GroupVersionKind(), object, readiness.State{Status: readiness.Status(status), Message: message}
}

func TestWhatIsNotThereIsNotPresent(t *testing.T) {
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for _, data := range []string{"", "null"} {
		object, err := readiness.Decode(json.RawMessage(data))
		require.NoError(t, err)
		require.Equal(t, readiness.State{Status: readiness.NotPresent}, readiness.Of(gvk, object))
	}
	_, err := readiness.Decode(json.RawMessage(`{"kind":`))
	require.Error(t, err)
	_, err = readiness.Decode(json.RawMessage(`[]`))
	require.Error(t, err)
	var none *readiness.Rules
	require.Equal(t, readiness.NotReady, none.OfJSON(gvk, json.RawMessage(`{"kind":`)).Status)
	require.Equal(t, readiness.NotPresent, none.OfJSON(gvk, nil).Status)
}

// FuzzOf: a member cluster may send anything.
func FuzzOf(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		f.Fatal("no seeds")
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		asJSON, err := yaml.YAMLToJSON(data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(asJSON))
	}
	rules := readiness.Compile(readiness.Rule{
		Name: "r", Group: "example.com", Kind: "Database", Ready: `object.status.conditions.all(c, c.status == "True")`,
		Message: `string(object.status.conditions[0].message)`,
	})
	f.Fuzz(func(t *testing.T, data string) {
		object, err := readiness.Decode(json.RawMessage(data))
		if err != nil {
			return
		}
		u := unstructured.Unstructured{Object: object}
		gvk := u.GroupVersionKind()
		for _, s := range []readiness.State{readiness.Of(gvk, object), rules.Of(gvk, object)} {
			if (s.Status == readiness.NotPresent) != (object == nil) || (s.Status == readiness.Ready && s.Message != "") {
				t.Fatalf("%+v", s)
			}
		}
	})
}
