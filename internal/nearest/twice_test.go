package nearest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/nearest"
)

type nested struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Value  json.RawMessage   `json:"value"`
	Any    any               `json:"any"`
}

type document struct {
	Metadata *nested            `json:"metadata"`
	Items    []nested           `json:"items"`
	By       map[string]*nested `json:"by"`
}

func TestTwice(t *testing.T) {
	many := func(last string) string {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `"l%d":"",`, i)
		}
		return `{"metadata":{"labels":{` + b.String() + last + `}}}`
	}
	for body, want := range map[string][]string{
		`{"metadata":{"name":"a"},"items":[{"name":"a"},{"name":"b"}]}`:                     nil,
		`{"metadata":{"labels":{"a":"","A":""},"value":{"a":1,"A":2},"any":{"a":1,"A":2}}}`: nil, // names of others
		`{"x":{"a":1},"y":{"a":1}}`: nil,
		`{"metadata":{"name":"\"name\":","labels":{"name":"{\"name\":1,\"name\":2}"}}}`: nil, // in texts
		`{"metadata":{},"metadata":{}}`:                    {"metadata", "metadata"},
		` { "metadata" : { } , "Metadata" : { } } `:        {"metadata", "Metadata"},
		`{"metadata":{},"metadat\u0061":{}}`:               {"metadata", "metadata"},
		`{"metadata":{"name":"a","NAME":"b"}}`:             {"metadata.name", "NAME"},
		"{\"item\u017f\":[],\"items\":[]}":                 {"items", "items"}, // encoding/json takes ſ for s
		`{"items":[{},{"name":"[","name":"]"}]}`:           {"items[1].name", "name"},
		`{"by":{"x":{"name":"","Name":""}}}`:               {"by.x.name", "Name"},
		`{"by":{"x":{},"x":{}}}`:                           {"by.x", "x"},
		`{"metadata":{"value":[[{"a":1,"a":2}]]}}`:         {"metadata.value[0][0].a", "a"},
		`{"metadata":{"any":{"a":{"b":-1.5e3,"b":true}}}}`: {"metadata.any.a.b", "b"},
		`{"unknown":{"a":1,"a":2}}`:                        {"unknown.a", "a"},
		many(`"last":""`):                                  nil,
		many(`"l0":""`):                                    {"metadata.labels.l0", "l0"},
		many(`"l99":""`):                                   {"metadata.labels.l99", "l99"},
		`{"":1,"":2}`:                                      {"", ""},
	} {
		require.True(t, json.Valid([]byte(body)), body)
		path, again, found := nearest.Twice(&document{}, []byte(body))
		require.Equal(t, want != nil, found, body)
		if found {
			require.Equal(t, want, []string{path, again}, body)
		}
	}
}

// FuzzTwice: whatever JSON it is, a member is found twice when decoding keeps fewer members than there are; and nothing that is no JSON has it fail.
func FuzzTwice(f *testing.F) {
	for _, seed := range []string{``, `{`, `{"a`, `[{"a":1,"a":2}]`, `{"a":{"b":[1,"]",null]},"c":"\\"}`, `{"\u0061":1,"a":2}`, `{"name":1,"Name":2}`, `{"items":[{"name":1}]}`, `]`, "{\"\\"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, typed := nearest.Twice(&document{}, body)
		var open map[string]any
		path, _, found := nearest.Twice(&open, body)
		var decoded any
		if json.Unmarshal(body, &decoded) != nil {
			return
		}
		require.Equal(t, names(t, body) != kept(decoded), found, "%q", path)
		require.True(t, typed || !found, "what is twice anywhere is so in a document")
	})
}

// names is how many members there are in JSON, and kept how many a decoder has kept.
func names(t *testing.T, body []byte) (n int) {
	t.Helper()
	type level struct{ object, value bool }
	var in []level
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		require.NoError(t, err)
		if delim, ok := token.(json.Delim); ok && (delim == '}' || delim == ']') {
			in = in[:len(in)-1]
			continue
		}
		if top := len(in) - 1; top >= 0 && in[top].object {
			if in[top].value = !in[top].value; in[top].value {
				n++
				continue
			}
		}
		if delim, ok := token.(json.Delim); ok {
			in = append(in, level{object: delim == '{'})
		}
	}
}

func kept(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, x := range v {
			n += kept(x)
		}
	case []any:
		for _, x := range v {
			n += kept(x)
		}
	}
	return n
}

// theirs is a document of somebody else's in part.
type theirs struct {
	Metadata nested            `json:"metadata"`
	Items    []nested          `json:"items"`
	By       map[string]nested `json:"by"`
}

func (*theirs) Foreign(path string) bool { return path == "metadata.uid" }

// TestMembers: the first that are not there are found in the order of the body, as Unknown finds them in what it is decoded to.
func TestMembers(t *testing.T) {
	const body = `{"metadata":{"nam":"a","uid":"u","labels":{"x":"y"},"value":{"x":1},"any":[{"x":1}]},
		"Items":[{"name":"a"},{"Lables":{}},7,[{"x":1}]],"by":{"a.b":{"":1,"name":"n"}},"z\u00e9":[{"name":"a"}],"last":1}`
	var document any
	require.NoError(t, json.Unmarshal([]byte(body), &document))
	said := func(strays []nearest.Stray) (all []string) {
		for _, m := range strays {
			all = append(all, m.Path+m.Meant())
		}
		return all
	}
	all, _, _, twice := nearest.Members(&theirs{}, []byte(body), 100)
	require.False(t, twice)
	require.Equal(t, []string{
		`metadata.nam, did you mean "metadata.name"?`, `Items[1].Lables, did you mean "Items[1].labels"?`, "by.a.b.", "zé", "last",
	}, said(all))
	require.ElementsMatch(t, said(nearest.Unknown(&theirs{}, document)), said(all))
	for most := range all {
		some, _, _, _ := nearest.Members(&theirs{}, []byte(body), most)
		require.Equal(t, said(all[:most]), said(some))
	}
}

// TestAt finds the innermost value that a decoder had read up to a place.
func TestAt(t *testing.T) {
	const body = ` {"a": {"b\u0041": [33, {"c": "d"}, []]}, "a": 22}`
	for value, path := range map[string]string{`33`: "a.bA[0]", `"d"`: "a.bA[1].c", `22`: "a"} {
		require.Equal(t, path, nearest.At([]byte(body), int64(strings.Index(body, value)+len(value))), value)
	}
	for begins, path := range map[string]string{`{"a"`: "", `{"b`: "a", `[33`: "a.bA", `{"c`: "a.bA[1]", `[]`: "a.bA[2]"} {
		require.Equal(t, path, nearest.At([]byte(body), int64(strings.Index(body, begins)+1)), begins)
	}
	require.Empty(t, nearest.At([]byte(body), 0))
	require.Empty(t, nearest.At([]byte(body), 1000))
	require.Empty(t, nearest.At([]byte(`{"a":`), 5))
}
