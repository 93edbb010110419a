package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Whatever a client sends, decode answers with a document or with the client's mistake.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `{"metadata":null}`, `{"metadata":{"name":1}}`, `{"spec":{"intent":{"allOf":[{"anyOf":[{"x":1}]},7]}}}`, `{"SPEC":{"App":"a"}}`, `{"":{"":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, n := range domain.Nouns {
			unknown, err := decode(body, n.New(), maxWarnings)
			if err != nil {
				require.True(t, fail.Is(err, fail.Malformed) || fail.Is(err, fail.Invalid), "%v", err)
				require.NotEmpty(t, fail.TextOf(err))
			}
			require.LessOrEqual(t, len(unknown), maxWarnings)
		}
	})
}

// TestHalvesOfCharacters: JSON can write what is no text, and a decoder puts something else into its place.
func TestHalvesOfCharacters(t *testing.T) {
	for body, path := range map[string]string{
		`{"metadata":{"name":"x","description":"\ud800"}}`:                            "metadata.description",
		`{"metadata":{"name":"x","description":"a\uDC00b"}}`:                          "metadata.description",
		`{"metadata":{"name":"x","description":"\ude00\ud83d"}}`:                      "metadata.description",
		`{"metadata":{"name":"x","description":"\ud83d\ud83d\ude00"}}`:                "metadata.description",
		`{"metadata":{"name":"x","description":"\\\ud800"}}`:                          "metadata.description",
		`{"metadata":{"name":"x"},"list":[{"a":1,"a":2},{"b":["\udfff"]}]}`:           "list[1].b[0]",
		`{"metadata":{"name":"x","\udbff":""}}`:                                       "metadata",
		`{"\udbff":""}`:                                                               "body",
		`{"metadata":{"name":"x","description":"\ud83d\ude00 \\ud800 \u00e9"}}`:       "",
		`{"metadata":{"name":"x","description":"\uD83D\uDE00","userData1":"\ufffd"}}`: "",
	} {
		_, err := decode([]byte(body), domain.Projects.New(), maxWarnings)
		if path == "" {
			require.NoError(t, err, body)
			continue
		}
		require.True(t, fail.Is(err, fail.Malformed), "%s: %v", body, err)
		require.Len(t, fail.FieldsOf(err), 1, body)
		require.Equal(t, path, fail.FieldsOf(err)[0].Path, body)
	}
}

// TestWhereATypeIsWrong is said by the path that the body has, with elements of lists and members of maps, and without what only Go has.
func TestWhereATypeIsWrong(t *testing.T) {
	for _, of := range []struct {
		noun       *domain.Noun
		body, says string
	}{
		{domain.Projects, `[]`, "body: cannot be array, must be object"},
		{domain.Projects, `"text"`, "body: cannot be string, must be object"},
		{domain.Projects, `{"metadata":{"name":1}}`, "metadata.name: cannot be number, must be string"},
		{domain.Projects, ` { "MetaData" : [ { "name" : "x" } ] , "other" : 1 }`, "MetaData: cannot be array, must be object"},
		{domain.AppIntents, `{"metadata":{"name":"a"},"spec":{"intent":{"allOf":[{"clusterProvider":"p"},{"clusterProvider":"p","cluster":7}]}}}`, "spec.intent.allOf[1].cluster: cannot be number, must be string"},
		{domain.AppIntents, `{"spec":{"intent":{"allOf":{}}}}`, "spec.intent.allOf: cannot be object, must be array"},
		{domain.AppIntents, `{"spec":{"intent":{"anyOf":[{}, 7]}}}`, "spec.intent.anyOf[1]: cannot be number, must be object"},
		{domain.AppIntents, `{"spec":{"intent":{"allOf":[{"anyOf":[{},{"clusterLabel":true}]}]}}}`, "spec.intent.allOf[0].anyOf[1].clusterLabel: cannot be bool, must be string"},
		{domain.ProviderNetworks, `{"spec":{"cniType":[]}}`, "spec.cniType: cannot be array, must be string"},
		{domain.OperatorRules, `{"metadata":{"name":"r"},"spec":7}`, "spec: cannot be number, must be object"},
		{domain.DeploymentIntents, `{"spec":{"intent":{"a":"b","ovn":{"c":1}}}}`, "spec.intent.ovn: cannot be object, must be string"},
		{domain.InterfaceIntents, `{"metadata":{"name":"if"},"spec":{"defaultGateway":7}}`, "spec.defaultGateway: cannot be number, must be string"},
	} {
		_, err := decode([]byte(of.body), of.noun.New(), maxWarnings)
		require.True(t, fail.Is(err, fail.Malformed), "%s: %v", of.body, err)
		require.Equal(t, "Invalid JSON:\n"+of.says, fail.TextOf(err), of.body)
	}
}

// What a noun writes, it knows when it reads it: nothing of an answer may be named as unknown.
func TestNoMemberOfAnAnswerIsUnknown(t *testing.T) {
	for _, n := range domain.Nouns {
		t.Run(n.Kind, func(t *testing.T) {
			o := n.New()
			populate(t, reflect.ValueOf(o).Elem())
			body, err := json.Marshal(o)
			require.NoError(t, err)
			back := n.New()
			unknown, err := decode(body, back, maxWarnings)
			require.NoError(t, err)
			require.Empty(t, unknown)
			again, err := json.Marshal(back)
			require.NoError(t, err)
			require.JSONEq(t, string(body), string(again))
		})
	}
}

// populate gives every exported member that can be sent a value that is not zero.
func populate(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				populate(t, v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		populate(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		populate(t, key)
		populate(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint('1') // of a template, too: its one byte is JSON
	default:
		t.Fatalf("a member of kind %s: say how to fill it", v.Kind())
	}
}

// BenchmarkDecode is what a large body costs that is taken.
func BenchmarkDecode(b *testing.B) {
	var customization bytes.Buffer
	customization.WriteString(`{"metadata":{"name":"c"},"spec":{"clusterSpecific":"false","patchType":"json","patchJson":[`)
	for i := range 20_000 {
		if i > 0 {
			customization.WriteByte(',')
		}
		fmt.Fprintf(&customization, `{"op":"replace","path":"/spec/x%d","value":{"name":"n%d","image":"i","ports":[1,2,3]}}`, i, i)
	}
	customization.WriteString(`]}}`)
	body := customization.Bytes()
	for name, read := range map[string]func() error{
		"decode":                func() error { _, err := decode(body, domain.Customizations.New(), maxWarnings); return err },
		"of which, found twice": func() error { _, err := once(domain.Customizations.New(), body, maxWarnings); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestWhereJSONIsWrong is told by line and byte, whatever the body begins with.
func TestWhereJSONIsWrong(t *testing.T) {
	for body, says := range map[string]string{
		`{"a":NaN}`: "line 1, byte 6: invalid character 'N' looking for beginning of value",
		"\n {\n  \"metadata\": {\n    'name': 1}}": "line 4, byte 5: invalid character '\\'' looking for beginning of object key string",
		"{\"a\":\n": "line 1, byte 5: unexpected end of JSON input",
	} {
		_, err := decode([]byte(body), domain.Projects.New(), maxWarnings)
		require.Equal(t, "Invalid JSON: "+says, fail.TextOf(err))
	}
}

// TestFormsThatAreNotWhole: wherever a form ends before its last boundary, something of it may be missing.
func TestFormsThatAreNotWhole(t *testing.T) {
	for _, line := range []string{"\r\n", "\n"} {
		lines := func(all ...string) string { return strings.Join(all, line) }
		whole := lines("--b", `Content-Disposition: form-data; name="metadata"`, "", "{}", "--b", `Content-Disposition: form-data; name="file"; filename="f"`, "Content-Type: text/plain", "", "data", "--b--")
		read := func(body string, media ...string) (sentForm, string) {
			r := httptest.NewRequest(http.MethodPost, "/", iotest.OneByteReader(strings.NewReader(body)))
			r.Header.Set("Content-Type", cmp.Or(strings.Join(media, ""), "multipart/form-data; boundary=b"))
			f, err := form(r)
			if err == nil {
				return f, ""
			}
			require.True(t, fail.Is(err, fail.Malformed), "%q: %v", body, err)
			return f, fail.TextOf(err)
		}
		for _, end := range []string{"", line, " \t" + line, line + "what follows" + line} {
			f, wrong := read(whole + end)
			require.Empty(t, wrong)
			require.Equal(t, "{}", string(f.metadata))
			require.Equal(t, "data", string(f.file))
		}
		for n := 1; n < len(whole); n++ {
			_, wrong := read(whole[:n])
			require.Regexp(t, `^the form (ends (in|behind) the part "(metadata|file)", and without its last boundary: it is not whole|has no part: .*|cannot be read .*)$`, wrong, whole[:n])
		}
		for body, says := range map[string]string{
			"":                          "",
			"--b--":                     "",
			"text":                      "the form has no part: the boundary that its Content-Type names does not come",
			strings.Repeat("x", 10_000): "the form has no part: the boundary that its Content-Type names does not come",
			lines("--b", "no header", "", "x", "--b--"):                                                                                    "the form cannot be read at its beginning",
			lines("--b", `Content-Disposition: form-data; name="metadata"`, "", "{}", "--b more", "", "x", "--b--"):                        `the form cannot be read behind the part "metadata"`,
			lines("--b", `Content-Disposition: form-data; name="file"`, "Content-Transfer-Encoding: base64", "", "eA==", "--b--"):          `the part "file" has the Content-Transfer-Encoding "base64", and is read as it is; send it without`,
			lines("--b", `Content-Disposition: form-data; name="file"`, "Content-Transfer-Encoding: Quoted-Printable", "", "=3D", "--b--"): "",
		} {
			_, wrong := read(body)
			require.Equal(t, says, wrong, body)
		}
		for media, says := range map[string]string{
			"multipart/form-data":              `the Content-Type "multipart/form-data" has no boundary, which separates the parts of the form`,
			`multipart/form-data; boundary=""`: `the Content-Type "multipart/form-data; boundary=\"\"" has no boundary, which separates the parts of the form`,
			"multipart/form-data; boundary=c":  "the form has no part: the boundary that its Content-Type names does not come",
			"application/json":                 "request Content-Type isn't multipart/form-data",
		} {
			_, wrong := read(whole, media)
			require.Equal(t, says, wrong, media)
		}
	}
}
