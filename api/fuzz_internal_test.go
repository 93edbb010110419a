package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// FuzzYAML: whatever is sent as YAML becomes JSON, or is the sender's mistake.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		"", "a: 1", "---\na: 1\n---\nb: 2\n", "a: &a [*a]", "a: &a {b: c}\nd: *a\n<<: *a\n", "? [a]\n: b", "a: !!binary x", "a: 2026-11-23", "a: .inf", "a: 1\na: 2", "\t", "%TAG ! x\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		data, err := fromYAML(body)
		if err != nil {
			require.True(t, fail.Is(err, fail.Malformed), "%v", err)
			return
		}
		require.True(t, data == nil || json.Valid(data))
		_ = isManifest(body)
	})
}

// FuzzForm: whatever is sent as a form has a document that is not too large, or is the sender's mistake.
func FuzzForm(f *testing.F) {
	part := func(disposition, data string) string {
		return "--b\r\nContent-Disposition: " + disposition + "\r\n\r\n" + data + "\r\n"
	}
	f.Add("multipart/form-data; boundary=b", []byte(part(`form-data; name="metadata"`, `{}`)+part(`form-data; name="file"; filename="a.tgz"`, "x")+"--b--\r\n"))
	f.Add("multipart/form-data; boundary=b", []byte(part(`form-data; name="files"; filename="../a"`, "x")+part(`form-data; name="files"`, "")+"--b"))
	f.Add("multipart/form-data", []byte("--"))
	f.Add("multipart/mixed; boundary=\"", []byte{})
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/", bytes.NewReader(body))
		require.NoError(t, err)
		r.Header["Content-Type"] = []string{contentType}
		sent, err := form(r)
		if err != nil {
			require.True(t, fail.Is(err, fail.Malformed), "%v", err)
			return
		}
		require.LessOrEqual(t, len(sent.metadata), limits.JSON)
		require.LessOrEqual(t, len(sent.files), maxFiles)
	})
}
