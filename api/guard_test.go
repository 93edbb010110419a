package api_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/service"
)

// TestOnlyNamesOfItsOwnAreAnswered: a page whose name an attacker lets lead to this machine says that name as Host.
func TestOnlyNamesOfItsOwnAreAnswered(t *testing.T) {
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
		d.Listen, d.Hosts = "drover.internal:9015", []string{"Drover.Example.com"}
	})
	for host, want := range map[string]int{
		"127.0.0.1:9015": 200, "127.1.2.3": 200, "[::1]:9015": 200, "::1": 200, "localhost": 200, "LOCALHOST.:9015": 200,
		"drover.internal": 200, "drover.example.com:443": 200,
		"":             200, // HTTP/1.0 has none, and no browser speaks that
		"evil.example": 403, "evil.example:9015": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
		"192.0.2.1": 403, "a b": 403,
	} {
		t.Run(host, func(t *testing.T) {
			for _, path := range []string{"/v2/projects", "/openapi.json", "/docs/", "/nothing"} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				r.Host = host
				answer := httptest.NewRecorder()
				w.router.ServeHTTP(answer, r)
				if want == http.StatusForbidden {
					require.Equal(t, want, answer.Code, path)
					require.Contains(t, answer.Body.String(), "--allowed-hosts")
					continue
				}
				require.NotEqual(t, http.StatusForbidden, answer.Code, path)
			}
		})
	}
	t.Run("the address that the request came to", func(t *testing.T) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/projects", nil)
		r.Host = "192.0.2.1:9015"
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 9015}))
		answer := httptest.NewRecorder()
		w.router.ServeHTTP(answer, r)
		require.Equal(t, http.StatusOK, answer.Code)
	})
	t.Run("any, where a proxy looks at it", func(t *testing.T) {
		any := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.Hosts = []string{"*"} })
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://evil.example/v2/projects", nil)
		answer := httptest.NewRecorder()
		any.router.ServeHTTP(answer, r)
		require.Equal(t, http.StatusOK, answer.Code)
	})
	_, err := api.New(api.Deps{Origins: []string{"no origin"}})
	require.ErrorContains(t, err, "--allowed-origins")
}

// TestPagesOfOthersCannotWrite: what a browser says of the page that a request is from decides.
func TestPagesOfOthersCannotWrite(t *testing.T) {
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.Origins = []string{"https://gui.example"} })
	furnish(t, w)
	for name, c := range map[string]struct {
		header map[string]string
		status int
	}{
		"no browser":                         {nil, 201},
		"a page of ours":                     {map[string]string{"Origin": "http://127.0.0.1:9015", "Sec-Fetch-Site": "same-origin"}, 201},
		"a page of ours in an older browser": {map[string]string{"Origin": "http://127.0.0.1:9015"}, 201},
		"a page that is trusted":             {map[string]string{"Origin": "https://gui.example", "Sec-Fetch-Site": "cross-site"}, 201},
		"a foreign page":                     {map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403},
		"a foreign page in an older browser": {map[string]string{"Origin": "https://evil.example"}, 403},
		"a page on another port":             {map[string]string{"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"}, 403},
		"a page without an origin":           {map[string]string{"Origin": "null"}, 403},
		"a foreign page that hides itself":   {map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			asked := len(w.operations.asked)
			for _, request := range []call{
				{method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"` + strings.ReplaceAll(name, " ", "") + `"}}`},
				{method: "POST", url: theGroup + "/approve"},
				{method: "PUT", url: theProject, body: `{"metadata":{"name":"proj"}}`},
				{method: "DELETE", url: "/v2/projects/" + strings.ReplaceAll(name, " ", "")},
			} {
				request.header = c.header
				answer := do(t, w.router, request)
				if c.status == http.StatusForbidden {
					require.Equal(t, c.status, answer.Code, request.url)
					require.Contains(t, answer.Body.String(), "--allowed-origins")
					continue
				}
				require.Equal(t, 2, answer.Code/100, "%s %s: %s", request.method, request.url, answer.Body)
			}
			if c.status == http.StatusForbidden {
				require.Len(t, w.operations.asked, asked, "nothing was done")
			}
		})
	}
	foreign := map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
	check(t, w.router, []call{{name: "a foreign page may ask; its browser does not let it read", method: "GET", url: "/v2/projects", header: foreign, status: 200, answers: map[string]string{"Access-Control-Allow-Origin": ""}}})
}

// TestBodiesAreJSONOrForms: text/plain is what a page may send anywhere without being asked. EMCO's GUI says no type.
func TestBodiesAreJSONOrForms(t *testing.T) {
	w := newWorld(t)
	for media, want := range map[string]int{
		"application/json": 201, "application/json; charset=utf-8": 201, "Application/JSON": 201, "": 201,
		"text/plain": 415, "text/plain;charset=UTF-8": 415, "application/yaml": 201, "text/x-yaml": 201, "nonsense/": 415,
		"Application/YAML": 201, "APPLICATION/X-YAML; charset=utf-8": 201,
	} {
		t.Run(media, func(t *testing.T) {
			name := "t" + strings.Map(func(r rune) rune {
				if strings.ContainsRune("/;= -", r) {
					return -1
				}
				return r
			}, media)
			body := `{"metadata":{"name":"` + name + `"}}`
			if strings.Contains(strings.ToLower(media), "yaml") {
				body = "metadata:\n  name: " + name + "\n"
			}
			answer := do(t, w.router, call{method: "POST", url: "/v2/projects", body: body, header: map[string]string{"Content-Type": media}})
			require.Equal(t, want, answer.Code, answer.Body)
			if want == http.StatusUnsupportedMediaType {
				require.Contains(t, answer.Body.String(), "application/json")
				require.Equal(t, "application/json, application/yaml, multipart/form-data", answer.Header().Get("Accept-Post"))
				check(t, w.router, []call{{method: "GET", url: "/v2/projects/" + name, status: 404}})
			}
		})
	}
	t.Run("what curl -d says when it is told nothing", func(t *testing.T) {
		form := func(more ...string) map[string]string {
			h := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
			for i := 0; i < len(more); i += 2 {
				h[more[i]] = more[i+1]
			}
			return h
		}
		body := func(name string) string { return "\n " + `{"metadata":{"name":"` + name + `"}}` + "\n" }
		check(t, w.router, []call{
			{name: "a document", method: "POST", url: "/v2/projects", body: body("curl"), header: form(), status: 201},
			{name: "that replaces", method: "PUT", url: "/v2/projects/curl", body: body("curl"), header: form("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8"), status: 200},
			{name: "with a mistake", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":1}}`, header: form(), status: 422, contains: []string{"metadata.name"}},
			{name: "an operation, as EMCO's scripts ask for it", method: "POST", url: theGroup + "/stop", body: "{ }", header: form(), status: 202},
			{name: "a page of ours", method: "POST", url: "/v2/projects", body: body("x1"), header: form("Origin", "http://127.0.0.1:9015"), status: 415},
			{name: "a page of ours that says so", method: "POST", url: "/v2/projects", body: body("x1"), header: form("Sec-Fetch-Site", "same-origin"), status: 415},
			{name: "somebody at a browser", method: "POST", url: "/v2/projects", body: body("x1"), header: form("Sec-Fetch-Site", "none"), status: 415},
			{name: "what a form writes", method: "POST", url: theGroup + "/stop", body: "%7B%22a%22=1%7D", header: form(), status: 415, contains: []string{"JSON object"}},
			{name: "nothing", method: "POST", url: theGroup + "/stop", header: form(), body: " ", status: 415},
			{name: "a list", method: "POST", url: theGroup + "/stop", body: "[]", header: form(), status: 415},
			{name: "half an object", method: "POST", url: theGroup + "/stop", body: "{", header: form(), status: 415},
			{name: "two objects", method: "POST", url: theGroup + "/stop", body: "{}{}", header: form(), status: 415},
			{name: "too much", method: "POST", url: "/v2/projects", body: `{"a":"` + strings.Repeat("x", 2<<20) + `"}`, header: form(), status: 422, contains: []string{"File Size Exceeds"}},
			{name: "no upload", method: "POST", url: theComposite + "/apps", body: "{}", header: form(), status: 422, contains: []string{"multipart/form-data"}},
			{name: "nothing of it was done", method: "GET", url: "/v2/projects/x1", status: 404},
		})
		require.Equal(t, []string{"stop dig"}, w.operations.asked)
		w.operations.asked = nil
	})
	check(t, w.router, []call{{name: "an operation", method: "POST", url: theGroup + "/approve", body: "x", header: map[string]string{"Content-Type": "text/plain"}, status: 415}})
	require.Empty(t, w.operations.asked)
}

// TestKubeconfigsAreKept: what a cluster was registered with is given back only where that is wanted.
func TestKubeconfigsAreKept(t *testing.T) {
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.KubeconfigDownload = false })
	furnish(t, w)
	for accept, want := range map[string]int{
		"": 200, "*/*": 200, "application/json": 200, "multipart/form-data, application/json;q=0.1": 200,
		"application/octet-stream": 403, "multipart/form-data": 403, "text/html": 406,
	} {
		t.Run(accept, func(t *testing.T) {
			answer := do(t, w.router, call{method: "GET", url: theCluster, header: map[string]string{"Accept": accept}})
			require.Equal(t, want, answer.Code)
			require.NotContains(t, answer.Body.String(), "sesame")
			switch want {
			case http.StatusOK:
				require.Contains(t, answer.Body.String(), `"name":"c1"`)
			case http.StatusForbidden:
				require.Contains(t, answer.Body.String(), "--allow-kubeconfig-download")
			}
		})
	}
	check(t, w.router, []call{{name: "charts are given back", method: "GET", url: theComposite + "/apps/sink", header: map[string]string{"Accept": "application/octet-stream"}, status: 200}})
}
