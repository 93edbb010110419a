package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An app needs no profile archive and a group no override values: empty ones are the default.
func TestDefaults(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	form := map[string]string{"Content-Type": "multipart/form-data; boundary=b"}
	bare := "--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{\"metadata\":{\"name\":\"bare\"},\"spec\":{\"app\":\"plain\"}}\r\n--b--\r\n"
	profile, octets := theProfile+"/profiles/bare", map[string]string{"Accept": "application/octet-stream"}
	check(t, w.router, []call{
		{name: "an app", method: "POST", url: theComposite + "/apps", body: `{"metadata":{"name":"plain"}}`, file: chartOf(t, "plain"), status: 201},
		{name: "a profile without an archive", method: "POST", url: theProfile + "/profiles", header: form, body: bare, status: 201},
		{name: "it has an empty one", method: "GET", url: profile, header: octets, status: 200},
		{name: "an archive for it", method: "PUT", url: profile, body: `{"metadata":{"name":"bare"},"spec":{"app":"plain"}}`, file: profileOf(t), status: 201},
		{name: "a form without one", method: "PUT", url: profile, header: form, body: bare, status: 201},
		{name: "a document alone", method: "PUT", url: profile, body: `{"metadata":{"name":"bare","description":"new"},"spec":{"app":"plain"}}`, status: 201, contains: []string{"new"}},
		{
			name: "a group without override values", method: "POST", url: theComposite + "/deployment-intent-groups", status: 201,
			body: `{"metadata":{"name":"bare"},"spec":{"compositeProfile":"cp","version":"r2","logicalCloud":"lc"}}`, contains: []string{`"overrideValues":[]`},
		},
	})
	answer := do(t, w.router, call{method: "GET", url: profile, header: octets})
	require.Equal(t, profileOf(t), answer.Body.Bytes(), "the archive stays when a profile comes without one")
}
