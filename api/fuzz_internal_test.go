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
		_ = isManifest(data, err)
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

// FuzzAccept: whatever a client says that it accepts, it gets one of what there is or nothing; a range that cannot be read changes nothing, and no
// weight is more than what has none.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"", "*/*", "text/html;q=0.9, application/json", "application/*;q=0", "text/html;q=1e9,application/json", "text/html;q=NaN", "text/html;q=0x1p9", `text/html;x="a,application/json"`, ",,;", "a/b;q=-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		offer, ok := negotiate([]string{accept}, fileOffers)
		if ok {
			require.Contains(t, fileOffers, offer)
		} else {
			require.Empty(t, offer)
		}
		again, known := negotiate([]string{accept, "no range; q=1; ="}, fileOffers)
		require.Equal(t, offer, again)
		require.Equal(t, ok, known)
		first, ok := negotiate([]string{fileOffers[1], accept}, fileOffers)
		require.True(t, ok)
		require.Equal(t, fileOffers[1], first, "nothing that comes later is liked better")
	})
}

// FuzzCookies: whatever cookies come, a session is one that is there once under our name, and counts for pages of ours alone.
func FuzzCookies(f *testing.F) {
	for _, seed := range []string{"drover-session=a", "drover-session=a; drover-session=b", `drover-session="a b"`, "__Host-drover-session=a; drover-session=b", "drover-session", ";=;", "Drover-Session=a"} {
		f.Add(seed, "")
		f.Add(seed, "cross-site")
	}
	f.Fuzz(func(t *testing.T, cookies, site string) {
		for _, secure := range []bool{false, true} {
			l := &Login{Logins: noLogins{}, Secure: secure}
			r := &http.Request{Header: http.Header{"Cookie": {cookies}, "Sec-Fetch-Site": {site}}}
			secret := l.session(r)
			if secret == "" {
				continue
			}
			require.Contains(t, []string{"", "same-origin", "none"}, site)
			require.Contains(t, cookies, l.cookieName(sessionCookie)+"=")
			require.Contains(t, cookies, secret)
			twice := &http.Request{Header: http.Header{"Cookie": {cookies + "; " + l.cookieName(sessionCookie) + "=another"}}}
			require.Empty(t, l.session(twice), "another server of this host has set one")
		}
	})
}

// noLogins is that there are logins.
type noLogins struct{ Logins }
