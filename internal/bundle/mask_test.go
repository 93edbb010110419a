package bundle_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/bundle"
)

// hunter2 is the digest of the word within the project.
const hunter2 = "hmac-sha256:7b23f598de20e351df63f34dff6c3d3a188ddcb77de2725749ffbad8a40a6908"

const within = "project/p"

func TestMask(t *testing.T) {
	t.Parallel()
	const copied = "kubectl.kubernetes.io/last-applied-configuration"
	m := bundle.NewMasker([]byte("key of the installation"))
	cases := map[string]struct{ manifest, want string }{
		"data and stringData of the same value have the same digest": {
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"p":"aHVudGVyMg=="},"stringData":{"q":"hunter2"},"type":"Opaque"}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"p":"` + hunter2 + `"},"stringData":{"q":"` + hunter2 + `"},"type":"Opaque"}`,
		},
		"annotations, and a copy of the whole object": {
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"` + copied + `":"hunter2","other":"hunter2"},"labels":{"a":"b"}}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"` + copied + `":"` + hunter2 + `","other":"` + hunter2 + `"},"labels":{"a":"b"}}}`,
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
			`{"apiVersion":"v1","kind":"Secret","data":"` + hunter2 + `","stringData":{"n":"hmac-sha256:651d3c548f4ee1f13ed682fd222e2529564dc3585528db119724d349ed1dc44d","p":"hmac-sha256:7081fc6bd1a24868ea484ff9249a23a83380baf10318bb3e05c42aac4dff4794"}}`,
		},
		"no Secret of the core": {
			`{"apiVersion":"example.com/v1","kind":"Secret","data":{"p":"hunter2"}}`,
			`{"apiVersion":"example.com/v1","kind":"Secret","data":{"p":"hunter2"}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.JSONEq(t, c.want, string(m.Mask(within, json.RawMessage(c.manifest))))
		})
	}
	large := json.RawMessage(`{"kind":"ConfigMap","data":{"a":"` + strings.Repeat("b", 100) + `"}}`)
	require.Equal(t, large, m.Mask(within, large))
	require.Equal(t, json.RawMessage(nil), m.Mask(within, nil))
}

// TestDigestsOfOthers: who does not have the key, or deploys elsewhere, makes other digests of the same value.
func TestDigestsOfOthers(t *testing.T) {
	t.Parallel()
	const secret = `{"apiVersion":"v1","kind":"Secret","stringData":{"p":"hunter2"}}`
	digests := map[string]bool{}
	for _, m := range []bundle.Masker{bundle.NewMasker([]byte("a")), bundle.NewMasker([]byte("b")), {}} {
		for _, within := range []string{"projects/p", "projects/q"} {
			masked := string(m.Mask(within, json.RawMessage(secret)))
			require.NotContains(t, masked, "hunter2")
			digests[masked] = true
		}
	}
	require.Len(t, digests, 5, "without a key there is none")
	require.Contains(t, digests, `{"apiVersion":"v1","kind":"Secret","stringData":{"p":"masked"}}`)
}
