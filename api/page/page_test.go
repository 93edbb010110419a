package page_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api/page"
	"github.com/drover-io/drover/internal/policy"
)

// served is the page behind a handler of the test's own.
func served(t *testing.T) (*page.Page, func(path string, headers ...string) *httptest.ResponseRecorder) {
	t.Helper()
	p, err := page.New()
	require.NoError(t, err)
	return p, func(path string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		if path == "/" {
			p.ServeIndex(w, r)
		} else if !p.ServePart(w, r) {
			w.WriteHeader(http.StatusNotFound)
		}
		return w
	}
}

var inPage = regexp.MustCompile(`(?:src|href)="(page/[^"]+)"`)

// TestAllThatThePageNamesIsThere: the page and what it loads, compressed and not, with types of their own and for good.
func TestAllThatThePageNamesIsThere(t *testing.T) {
	_, get := served(t)
	index := get("/")
	require.Equal(t, "text/html; charset=utf-8", index.Header().Get("Content-Type"))
	require.Equal(t, "no-cache", index.Header().Get("Cache-Control"))
	parts := inPage.FindAllStringSubmatch(index.Body.String(), -1)
	require.Greater(t, len(parts), 3)
	for _, part := range parts {
		plain, small := get("/"+part[1]), get("/"+part[1], "Accept-Encoding", "br, gzip;q=0.5")
		require.Equal(t, http.StatusOK, plain.Code, part[1])
		require.Contains(t, plain.Header().Get("Cache-Control"), "immutable")
		require.Equal(t, "nosniff", plain.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "gzip", small.Header().Get("Content-Encoding"))
		unpacked, err := gzip.NewReader(small.Body)
		require.NoError(t, err)
		text, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		require.Equal(t, plain.Body.String(), string(text))
		require.NotEqual(t, plain.Header().Get("ETag"), small.Header().Get("ETag"))
	}
	require.Empty(t, get("/"+parts[0][1], "Accept-Encoding", "gzip;q=0").Header().Get("Content-Encoding"))
	require.Equal(t, http.StatusNotFound, get("/page/0123456789abcdef/main.js").Code)
	require.Equal(t, http.StatusNotFound, get(strings.TrimSuffix("/"+parts[0][1], "icon.svg")).Code)
}

// TestWhatIsKnownIsNotSentAgain by its tag.
func TestWhatIsKnownIsNotSentAgain(t *testing.T) {
	_, get := served(t)
	for _, encoding := range []string{"", "gzip"} {
		tag := get("/", "Accept-Encoding", encoding).Header().Get("ETag")
		again := get("/", "Accept-Encoding", encoding, "If-None-Match", `"x", W/`+tag)
		require.Equal(t, http.StatusNotModified, again.Code)
		require.Empty(t, again.Body.String())
		require.Equal(t, http.StatusOK, get("/", "Accept-Encoding", encoding, "If-None-Match", `"x"`).Code)
	}
}

// TestThePageIsSmall: 300 KB is promised for the first look.
func TestThePageIsSmall(t *testing.T) {
	p, _ := served(t)
	t.Logf("%d bytes", p.Weight())
	require.Less(t, p.Weight(), 300_000)
}

// TestNothingInThePageBecomesMarkup: the policy forbids scripts and styles in the text, and text that becomes markup; the sources do
// not try. What each may break is seen here and not by a user.
func TestNothingInThePageBecomesMarkup(t *testing.T) {
	_, get := served(t)
	policy := get("/").Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		require.Contains(t, policy, want)
	}
	require.NotContains(t, policy, "unsafe")
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function|srcdoc|javascript:|setAttribute\('(?:style|on\w+)'|https?://(?:[^w]|w[^w])|style="|<style|<script(?:>| (?:[^t]|t[^y]))`)
	names, err := filepath.Glob("static/*")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Empty(t, forbidden.FindAllString(string(text), -1), name)
	}
}

// TestThePageIsPatient: it waits for longer than the API does, as the command does, so that the API says itself what takes too long.
func TestThePageIsPatient(t *testing.T) {
	text, err := os.ReadFile("static/api.js")
	require.NoError(t, err)
	for name, want := range map[string]time.Duration{"patience": policy.PacedWait + policy.Plain, "longest": policy.PacedWait + policy.Answer} {
		found := regexp.MustCompile(`const ` + name + ` = ([0-9_]+);`).FindSubmatch(text)
		require.NotNil(t, found, name)
		milliseconds, err := strconv.Atoi(strings.ReplaceAll(string(found[1]), "_", ""))
		require.NoError(t, err)
		require.Greater(t, time.Duration(milliseconds)*time.Millisecond, want, name)
	}
}
