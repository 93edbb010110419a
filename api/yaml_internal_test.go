package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// allocated is how many MiB of memory something has asked for.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

// TestYAMLOfManyPartsIsNotParsed: parsers would make a hundred times its size of it.
func TestYAMLOfManyPartsIsNotParsed(t *testing.T) {
	for _, part := range []string{"-\n", "#\n", "- - ", ",", "[", "a:\n", "---\n", "? "} {
		body := []byte(strings.Repeat(part, limits.JSON/len(part)))
		require.Less(t, allocated(func() {
			_, err := fromYAML(body)
			require.Equal(t, fail.Malformed, fail.KindOf(err))
			require.Equal(t, http.StatusUnprocessableEntity, statuses[fail.KindOf(err)])
			require.Contains(t, fail.TextOf(err), "Invalid YAML: it has too many parts", part)
			require.Contains(t, fail.TextOf(err), "send it as JSON")
		}), uint64(2), part)
		body = body[:limits.YAMLMarks*len(part)]
		took := allocated(func() { _, _ = fromYAML(body) })
		t.Logf("%q: %d MiB", part, took)
		require.Less(t, took, uint64(250), part)
	}
	members := func(n int) []byte {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "a%d: 1\n", i)
		}
		return []byte(b.String())
	}
	_, err := fromYAML(members(limits.YAMLKeys + 1))
	require.ErrorContains(t, err, "line 1: an object has more than 2000 members; send it as JSON")
	_, err = fromYAML(members(limits.YAMLKeys))
	require.NoError(t, err)
	_, err = fromYAML([]byte(strings.Repeat("a:\n", 1_000)))
	require.ErrorContains(t, err, `mapping key "a" already defined at line 1`)
	data, err := fromYAML([]byte("data: |\n" + strings.Repeat("  a long line of a text - with-dashes\n", 90_000)))
	require.NoError(t, err)
	require.Greater(t, len(data), 3_000_000)
}

// TestYAMLIsParsedOnce for a request, however often its body is asked for.
func TestYAMLIsParsedOnce(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set(echo.HeaderContentType, mimeYAML)
	c := echo.New().NewContext(r, nil)
	c.Set(contextBody, []byte("list:\n"+strings.Repeat("- a\n", 50_000)))
	_, err := bodyOf(c)
	require.NoError(t, err)
	require.Zero(t, allocated(func() {
		data, err := bodyOf(c)
		require.NoError(t, err)
		require.Contains(t, string(data[:20]), `{"list":["a",`)
	}))
}

// TestYAMLThatJSONCannotSay is refused by its line, and not in words of Go.
func TestYAMLThatJSONCannotSay(t *testing.T) {
	for body, says := range map[string]string{
		"metadata:\n  name: a\n  1: x": "line 3: a member is called 1, which is no text (!!int); put it in quotes",
		"metadata:\n  true: x":         "line 2: a member is called true, which is no text (!!bool); put it in quotes",
		"a:\n- b\n- null: z":           "line 3: a member is called null, which is no text (!!null); put it in quotes",
		"~: z":                         "line 1: a member is called ~, which is no text (!!null); put it in quotes",
		"1.5: x":                       "line 1: a member is called 1.5, which is no text (!!float); put it in quotes",
		"a: &n 7\nb:\n  *n : x":        "line 3: a member is called 7, which is no text (!!int); put it in quotes",
		"a: 1\n? [b]\n: c":             "line 2: a member is called by a list or an object, and not by a text",
		"a: 1\nb:\n- .nan":             "line 3: .nan is no number that JSON has; put it in quotes where it is a text",
		"a: -.Inf":                     "line 1: -.Inf is no number that JSON has; put it in quotes where it is a text",
		"a: 1\n---\nb: {2: c}":         "line 3: a member is called 2, which is no text (!!int); put it in quotes",
		"metadata: {name: a}\nspec: &s {}\nx: {*s : y}": "line 3: a member is called by a list or an object, and not by a text",
	} {
		_, err := fromYAML([]byte(body))
		require.True(t, fail.Is(err, fail.Malformed), "%s: %v", body, err)
		require.Equal(t, "Invalid YAML: "+says, fail.TextOf(err), body)
	}
	for body, is := range map[string]string{
		"a: {'1': x, \"true\": y, on: z, 2026-11-30: d}": `{"a":{"1":"x","2026-11-30":"d","on":"z","true":"y"}}`,
		"a: &a {b: 1}\nc:\n  <<: *a\n  d: '.nan'":        `{"a":{"b":1},"c":{"b":1,"d":".nan"}}`,
		"a: 1e3\nb: ~": `{"a":1000,"b":null}`,
	} {
		data, err := fromYAML([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, is, string(data), body)
	}
}
