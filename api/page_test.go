package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePage: it is at / for those that take HTML; for others nothing is there, and what is not there below it is not found as anywhere.
func TestThePage(t *testing.T) {
	w := newWorld(t)
	for accept, code := range map[string]int{
		"": 200, "*/*": 200, "text/html,application/xhtml+xml;q=0.9": 200, "application/json": 404, "text/html;q=0": 404,
	} {
		answer := do(t, w.router, call{method: http.MethodGet, url: "/", header: map[string]string{"Accept": accept}})
		require.Equal(t, code, answer.Code, "%s: %s", accept, answer.Body)
		require.Contains(t, answer.Header().Values("Vary"), "Accept")
	}
	json := do(t, w.router, call{method: http.MethodGet, url: "/", header: map[string]string{"Accept": "application/json"}})
	require.Equal(t, "application/problem+json", json.Header().Get("Content-Type"))
	page := do(t, w.router, call{method: http.MethodGet, url: "/", header: map[string]string{"Accept": "text/html"}})
	require.Contains(t, page.Body.String(), "<title>Drover</title>")
	require.NotEmpty(t, page.Header().Get("Content-Security-Policy"))
	for _, path := range []string{"/page/", "/page/x/main.js", "/groups", "/v2"} {
		require.Equal(t, http.StatusNotFound, do(t, w.router, call{method: http.MethodGet, url: path, header: map[string]string{"Accept": "text/html"}}).Code, path)
	}
	require.Equal(t, http.StatusMethodNotAllowed, do(t, w.router, call{method: http.MethodPost, url: "/"}).Code)
}
