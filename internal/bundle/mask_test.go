package bundle_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/bundle"
)

// hunter2 is the digest of the word.
const hunter2 = "sha256:f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7"

func TestMask(t *testing.T) {
	t.Parallel()
	const copied = "kubectl.kubernetes.io/last-applied-configuration"
	cases := map[string]struct{ manifest, want string }{
		"data and stringData of the same value have the same digest": {
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"p":"aHVudGVyMg=="},"stringData":{"q":"hunter2"},"type":"Opaque"}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"p":"` + hunter2 + `"},"stringData":{"q":"` + hunter2 + `"},"type":"Opaque"}`,
		},
		"a copy of the whole object": {
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"` + copied + `":"hunter2","other":"stays"}}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"` + copied + `":"` + hunter2 + `","other":"stays"}}}`,
		},
		"in a list": {
			`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","data":{"p":"aHVudGVyMg=="}},{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}]}`,
			`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","data":{"p":"` + hunter2 + `"}},{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}]}`,
		},
		"in a list that says it for its items": {
			`{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"a"},"data":{"p":"aHVudGVyMg=="}}]}`,
			`{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"a"},"data":{"p":"` + hunter2 + `"}}]}`,
		},
		"in another object, whose copy has it too": {
			`{"kind":"Object","metadata":{"annotations":{"` + copied + `":"hunter2"}},"spec":{"manifest":{"apiVersion":"v1","kind":"Secret","stringData":{"p":"hunter2"}}}}`,
			`{"kind":"Object","metadata":{"annotations":{"` + copied + `":"` + hunter2 + `"}},"spec":{"manifest":{"apiVersion":"v1","kind":"Secret","stringData":{"p":"` + hunter2 + `"}}}}`,
		},
		"values that are wrong": {
			`{"apiVersion":"v1","kind":"Secret","data":"hunter2","stringData":{"n":5,"p":null}}`,
			`{"apiVersion":"v1","kind":"Secret","data":"` + hunter2 + `","stringData":{"n":"sha256:ef2d127de37b942baad06145e54b0c619a1f22327b2ebbcfbec78f5564afe39d","p":"sha256:74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"}}`,
		},
		"no Secret of the core": {
			`{"apiVersion":"example.com/v1","kind":"Secret","data":{"p":"hunter2"}}`,
			`{"apiVersion":"example.com/v1","kind":"Secret","data":{"p":"hunter2"}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.JSONEq(t, c.want, string(bundle.Mask(json.RawMessage(c.manifest))))
		})
	}
	large := json.RawMessage(`{"kind":"ConfigMap","data":{"a":"` + strings.Repeat("b", 100) + `"}}`)
	require.Equal(t, large, bundle.Mask(large))
	require.Equal(t, json.RawMessage(nil), bundle.Mask(nil))
}
