package api_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sends makes a request with a form: its parts by name, files as "files name".
func sends(t *testing.T, h http.Handler, method, url string, parts ...[2]string) *httptest.ResponseRecorder {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		name, file, isFile := strings.Cut(p[0], " ")
		var part io.Writer
		var err error
		if isFile {
			part, err = w.CreateFormFile(name, file)
		} else {
			part, err = w.CreateFormField(name)
		}
		require.NoError(t, err)
		_, err = part.Write([]byte(p[1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	r := httptest.NewRequestWithContext(t.Context(), method, url, &b)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Host = "127.0.0.1:9015"
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer
}

// parts are those of a form that was answered, as "name file: content".
func parts(t *testing.T, h http.Handler, url string) (all []string) {
	t.Helper()
	answer := do(t, h, call{method: "GET", url: url, header: map[string]string{"Accept": "multipart/form-data"}})
	require.Equal(t, 200, answer.Code, answer.Body)
	_, parameters, err := mime.ParseMediaType(answer.Header().Get("Content-Type"))
	require.NoError(t, err)
	r := multipart.NewReader(answer.Body, parameters["boundary"])
	for {
		part, err := r.NextPart()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return all
		}
		data, err := io.ReadAll(part)
		require.NoError(t, err)
		text := string(data)
		if strings.HasPrefix(text, "{\"metadata") {
			text = "document"
		}
		all = append(all, part.FormName()+" "+part.FileName()+": "+text)
	}
}

// Files come and go as EMCO's gac has them, and stay where a PUT brings none.
func TestFilesOfGenericResources(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	const template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n"
	resource := func(kind string) [2]string { return [2]string{"metadata", resourceBody("r", "true", kind)} }
	put := func(parts ...[2]string) *httptest.ResponseRecorder {
		return sends(t, w.router, "PUT", theGenericResource, parts...)
	}

	require.Equal(t, 200, put(resource("configmap"), [2]string{"file template.yaml", template}).Code)
	require.Equal(t, []string{"resource : document", "file resourceTemplate: " + template}, parts(t, w.router, theGenericResource))
	require.Equal(t, 200, put(resource("ConfigMap")).Code, "it stays")
	answer := put(resource("ConfigMap"), [2]string{"file template.yaml", ""})
	require.Equal(t, 200, answer.Code, answer.Body)
	require.Equal(t, []string{`299 - "file of the template is empty, and is left out; what is stored stays"`}, answer.Header().Values("Warning"))
	check(t, w.router, []call{
		{name: "the template", method: "GET", url: theGenericResource, header: map[string]string{"Accept": "application/octet-stream"}, status: 200, contains: []string{template}},
		{name: "the document", method: "GET", url: theGenericResource, status: 200, contains: []string{`"kind":"ConfigMap"`}, lacks: []string{"template"}},
	})
	for name, c := range map[string]struct {
		file, says string
	}{
		"another kind":    {strings.Replace(template, "ConfigMap", "Secret", 1), `spec.resourceGVK.kind: "ConfigMap" is not that of the template, "Secret"`},
		"another name":    {strings.Replace(template, "cm", "x", 1), `spec.resourceGVK.name: "cm" is not that of the template, "x"`},
		"two documents":   {template + "---\n" + template, "failed to validate the resource template file: it has more than one document"},
		"no object":       {"- a", "failed to validate the resource template file: it is not an object"},
		"no YAML":         {"a: [", "failed to validate the resource template file: it cannot be read as YAML"},
		"without a name":  {"{apiVersion: v1, kind: ConfigMap}", "the object has no metadata.name"},
		"with no content": {"---\n# nothing\n", "there is no object in it"},
	} {
		answer := put(resource("ConfigMap"), [2]string{"file x", c.file})
		require.Equal(t, 400, answer.Code, "%s: %s", name, answer.Body)
		require.Contains(t, answer.Body.String(), c.says, name)
	}
	answer = put(resource("Secret"))
	require.Equal(t, 400, answer.Code, "the template that stays is of another kind: %s", answer.Body)
	answer = sends(t, w.router, "POST", theGenericIntent+"/resources", [2]string{"metadata", resourceBody("none", "true", "Pod")}, [2]string{"file x", ""})
	require.Equal(t, 422, answer.Code)
	require.Contains(t, answer.Body.String(), "the provided file field name is not present in the request or not a file field")

	customization := theGenericResource + "/customizations/c"
	document := [2]string{"metadata", customizationBody("c", "")}
	answer = sends(t, w.router, "PUT", customization, document, [2]string{"files b.yaml", "two"}, [2]string{"files a.yaml", "one"}, [2]string{"files empty", ""}, [2]string{"file x", "no"})
	require.Equal(t, 200, answer.Code, "EMCO does not read the part file either: %s", answer.Body)
	require.Equal(t, []string{
		`299 - "unknown part \"file\"; the parts of this form are \"metadata\" and \"files\""`, `299 - "file empty is empty, and is left out"`,
	}, answer.Header().Values("Warning"))
	answer = sends(t, w.router, "PUT", customization+"?fieldValidation=Strict", document, [2]string{"file x", "no"})
	require.Equal(t, 400, answer.Code, answer.Body)
	want := []string{"customization : document", "files b.yaml: two", "files a.yaml: one"}
	require.Equal(t, want, parts(t, w.router, customization))
	require.Equal(t, 200, sends(t, w.router, "PUT", customization, document).Code)
	answer = sends(t, w.router, "PUT", customization, document, [2]string{"files a.yaml", ""})
	require.Equal(t, 200, answer.Code, answer.Body)
	require.Equal(t, []string{`299 - "file a.yaml is empty, and is left out; what is stored stays"`}, answer.Header().Values("Warning"))
	require.Equal(t, want, parts(t, w.router, customization), "they stay")
	check(t, w.router, []call{{method: "GET", url: customization, header: map[string]string{"Accept": "application/octet-stream"}, status: 200, contains: []string{"twoone"}}})
	require.Equal(t, 200, sends(t, w.router, "PUT", customization, document, [2]string{"files c", "three"}).Code)
	require.Equal(t, []string{"customization : document", "file c: three"}, parts(t, w.router, customization))
	answer = sends(t, w.router, "PUT", customization, document, [2]string{"files c", "3"}, [2]string{"files c", "4"})
	require.Equal(t, 400, answer.Code)
	require.Contains(t, answer.Body.String(), "two files of the name c")
	merge := customizationBody("c", `,"patchType":"merge","configMapOptions":{"dataKeyOptions":[{"fileName":"c","keyName":"c","mergePatch":"true"}]}`)
	answer = sends(t, w.router, "PUT", customization, [2]string{"metadata", merge}, [2]string{"files c", "data: {a: b}"}, [2]string{"files c", "data: {c: d}"})
	require.Equal(t, 200, answer.Code, "each of two merge patches is applied, as in EMCO: %s", answer.Body)
	require.Equal(t, []string{"customization : document", "files c: data: {a: b}", "files c: data: {c: d}"}, parts(t, w.router, customization))
	answer = sends(t, w.router, "PUT", customization, document)
	require.Equal(t, 400, answer.Code, "the files that stay would be data")
	require.Contains(t, answer.Body.String(), "two files of the name c")
	require.Equal(t, 200, sends(t, w.router, "PUT", customization, document, [2]string{"files c", "three"}).Code)
	for _, name := range []string{"..", ".", strings.Repeat("f", 254)} {
		answer = sends(t, w.router, "PUT", customization, document, [2]string{"files " + name, "3"})
		require.Equal(t, 400, answer.Code, answer.Body)
		require.Contains(t, answer.Body.String(), name[:1])
		require.Contains(t, answer.Body.String(), "the name is none for a file")
	}
	answer = sends(t, w.router, "PUT", customization, document, [2]string{"files", "3"})
	require.Equal(t, 422, answer.Code)

	both := strings.NewReplacer(`"clusterSpecific":"false"`, `"clusterSpecific":"true"`, `"scope":"label"`, `"scope":"name"`, `"cluster":""`, `"cluster":"c1"`).Replace(document[1])
	answer = sends(t, w.router, "PUT", customization, [2]string{"metadata", both})
	require.Equal(t, 200, answer.Code, answer.Body)
	require.Equal(t, []string{`299 - "spec.clusterInfo.clusterLabel: nothing is done with \"edge\", since scope is name"`}, answer.Header().Values("Warning"))
}

// Of an object that is there the file is not used: EMCO's client sends one all the same. It must be an object, as in EMCO.
func TestTemplatesThatAreNotUsed(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	document := [2]string{"metadata", resourceBody("r", "false", "ConfigMap")}
	require.Equal(t, 200, sends(t, w.router, "PUT", theGenericResource, document, [2]string{"file x", "{apiVersion: v1, kind: Secret, metadata: {name: other}}"}).Code)
	answer := sends(t, w.router, "PUT", theGenericResource, document, [2]string{"file x", "nothing"})
	require.Equal(t, 400, answer.Code, "%s", answer.Body)
	answer = sends(t, w.router, "PUT", theGenericResource, [2]string{"metadata", resourceBody("r", "true", "ConfigMap")})
	require.Equal(t, 400, answer.Code, "now the one that is stored would be used: %s", answer.Body)
}

// Files that are to be merge patches are looked at when they are sent, those that stay too.
func TestFilesThatAreNoPatches(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	const workload = theGenericIntent + "/resources/workload"
	require.Equal(t, 201, sends(t, w.router, "PUT", workload, [2]string{"metadata", resourceBody("workload", "false", "StatefulSet")}).Code)
	at := workload + "/customizations/c"
	plain, merge := [2]string{"metadata", customizationBody("c", "")}, [2]string{"metadata", customizationBody("c", `,"patchType":"merge"`)}
	answer := sends(t, w.router, "PUT", at, merge, [2]string{"files p.yaml", "spec: {a: b}"}, [2]string{"files q.yaml", "- 1"})
	require.Equal(t, 400, answer.Code)
	require.Contains(t, answer.Body.String(), "file q.yaml: as a merge patch it is not an object")
	require.Equal(t, 404, do(t, w.router, call{method: "GET", url: at}).Code, "nothing is stored")
	require.Equal(t, 201, sends(t, w.router, "PUT", at, merge, [2]string{"files p.yaml", "spec: {a: b}"}).Code)
	require.Equal(t, 200, sends(t, w.router, "PUT", at, plain, [2]string{"files dummy", "not used"}).Code)
	answer = sends(t, w.router, "PUT", at, merge)
	require.Equal(t, 400, answer.Code)
	require.Contains(t, answer.Body.String(), "file dummy: as a merge patch")
	data := theGenericResource + "/customizations/c"
	require.Equal(t, 200, sends(t, w.router, "PUT", data, merge, [2]string{"files a", "no patch, but data"}).Code)
}
