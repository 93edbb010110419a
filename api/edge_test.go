package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
)

func TestUnroutedRequests(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	check(t, w.router, []call{
		{method: "GET", url: "/v2/nothing", status: 404, is: "", contains: []string{"404 page not found\n"}, answers: map[string]string{"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}},
		{name: "a composite app without version", method: "GET", url: theProject + "/composite-apps/ca", status: 404, contains: []string{"404 page not found"}},
		{method: "PATCH", url: "/v2/projects", status: 405},
		{name: "the plural of network-controller-intent", method: "GET", url: theGroup + "/network-controller-intents/ovn/workload-intents/w/interfaces/if", status: 200, contains: []string{`"interface":"eth1"`}},
		{name: "a truth that is no word", method: "PUT", url: theGroup + "/network-controller-intents/ovn/workload-intents/w/interfaces/if", body: `{"metadata":{"name":"if"},"spec":{"interface":"eth1","name":"net-a","defaultGateway":true}}`, status: 201, contains: []string{`"defaultGateway":"true"`}},
		{name: "permissions have no PUT", method: "PUT", url: theCloud + "/user-permissions/p", status: 405},
		{name: "a name that is no text", method: "GET", url: "/v2/operations/%FF", status: 404, contains: []string{"is not a name"}},
		{name: "a name with a slash", method: "GET", url: "/v2/projects/a%2Fb", status: 404, contains: []string{"is not a name"}},
		{name: "a name that is escaped without need", method: "GET", url: "/v2/projects/pro%6A", status: 200, contains: []string{`"proj"`}},
		{name: "a name that leads up", method: "GET", url: "/v2/projects/..", status: 404},
		{name: "a parent that cannot be", method: "POST", url: "/v2/projects/%20/composite-apps", body: `{}`, status: 404, contains: []string{"is not a name"}},
	})
}

// TestHEAD is answered as GET is, without the body, on every path that has one; and a method that a path does not have with those that it has.
func TestHEAD(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	server := httptest.NewServer(w.router)
	t.Cleanup(server.Close)
	ask := func(method, path string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		require.NoError(t, err)
		r.Host = "localhost"
		r.Header.Set("Accept", "*/*")
		answer, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer, string(body)
	}
	for _, path := range []string{
		"/healthz", "/readyz", "/version", "/metrics", "/openapi.json", "/docs", "/docs/", "/docs/swagger-ui.css", "/login", "/login/providers", "/", "/page/none",
		"/v2/projects", theProject, "/v2/projects/none", "/v2/projects?limit=1", "/v2/none", theGroup + "/status", theGroup + "/approve", theComposite + "/apps/", "/codec/decode",
	} {
		got, _ := ask(http.MethodGet, path)
		head, body := ask(http.MethodHead, path)
		require.Equal(t, got.StatusCode, head.StatusCode, path)
		require.Equal(t, got.Header.Get("Content-Type"), head.Header.Get("Content-Type"), path)
		require.Equal(t, got.Header.Get("Allow"), head.Header.Get("Allow"), path)
		require.Empty(t, body, path)
	}
	stream, _ := ask(http.MethodHead, theGroup+"/status?watch=true") // which ends
	require.Equal(t, "text/event-stream", stream.Header.Get("Content-Type"))
	for path, allowed := range map[string]string{"/healthz": "OPTIONS, GET, HEAD", "/v2/projects": "OPTIONS, GET, HEAD, POST", theGroup + "/approve": "OPTIONS, POST"} {
		refused, body := ask(http.MethodPatch, path)
		require.Equal(t, http.StatusMethodNotAllowed, refused.StatusCode)
		require.Equal(t, allowed, refused.Header.Get("Allow"))
		require.Equal(t, "PATCH is not possible here; what is: "+strings.TrimPrefix(allowed, "OPTIONS, ")+"\n", body)
		options, _ := ask(http.MethodOptions, path)
		require.Equal(t, http.StatusNoContent, options.StatusCode)
		require.Equal(t, allowed, options.Header.Get("Allow"))
	}
}

func TestBodies(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	apps, long := theComposite+"/apps", strings.Repeat("x", 2<<20)
	check(t, w.router, []call{
		{
			name: "unknown members are accepted and named", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"u","labels":{"a":"b"}},"status":1}`, status: 201,
			answers: map[string]string{"Warning": `299 - "unknown field \"metadata.labels\""`},
		},
		{
			name: "unknown members deep in lists", method: "POST", url: thePlacement + "/app-intents", status: 201,
			body:    `{"metadata":{"name":"deep"},"spec":{"app":"sink","intent":{"allOf":[{"clusterProvider":"p1","clusterLabel":"edge","selector":1}]}}}`,
			answers: map[string]string{"Warning": `299 - "unknown field \"spec.intent.allOf[0].selector\""`},
		},
		{
			name: "as far as headers go", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"wide"},"` + strings.Repeat("é", 100_000) + `":1}`, status: 201,
			answers: map[string]string{"Warning": `299 - "unknown field \"` + strings.Repeat(`\u00e9`, 120) + `..."`},
		},
		{name: "keys of maps are not members", method: "POST", url: theGroup + "/intents", body: `{"metadata":{"name":"maps"},"spec":{"intent":{"genericPlacementIntent":"name"}}}`, status: 201, answers: map[string]string{"Warning": ""}},
		{name: "names match whatever their case", method: "POST", url: "/v2/projects", body: `{"MetaData":{"NAME":"case","userdata1":"u"}}`, status: 201, contains: []string{`"userData1":"u"`}, answers: map[string]string{"Warning": ""}},
		{name: "a list", method: "POST", url: "/v2/projects", body: `[]`, status: 422, contains: []string{"body: cannot be array, must be object"}},
		{name: "what an editor begins a file with", method: "POST", url: "/v2/projects", body: "\ufeff{\"metadata\":{\"name\":\"marked\"}}", status: 201, contains: []string{`"name":"marked"`}},
		{name: "two documents", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"a"}}{}`, status: 422, contains: []string{"Invalid JSON"}},
		{name: "a brace too many", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"brace"}} } }`, status: 201, is: `{"metadata":{"name":"brace","description":"","userData1":"","userData2":""}}`},
		{name: "a brace too many and a mistake", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":1}}}`, status: 422, contains: []string{"metadata.name: cannot be number"}},
		{name: "a bracket too many", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"bracket"}}]`, status: 422, contains: []string{"Invalid JSON"}},
		{name: "and what is behind it", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"brace"}} ]{"metadata":{"name":"other"}}`, status: 422, contains: []string{"Invalid JSON"}},
		{name: "blank", method: "POST", url: "/v2/projects", body: " \n", status: 400, contains: []string{"Empty body"}},
		{name: "too large", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"` + long + `"}}`, status: 422, contains: []string{"File Size Exceeds 1048576 bytes"}},
		{name: "every problem at once", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"-","description":"` + strings.Repeat("d", 1025) + `"}}`, status: 400, contains: []string{"metadata.name: Does not match", "metadata.description: String length must be less than or equal to 1024"}},

		{name: "an upload that is no form", method: "POST", url: apps, body: `{}`, status: 422, contains: []string{"request Content-Type isn't multipart/form-data"}},
		{name: "no file", method: "POST", url: apps, body: "--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{\"metadata\":{\"name\":\"nofile\"}}\r\n--b--\r\n", header: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}, status: 422, contains: []string{"Unable to process file: the part \"file\" with the chart, a .tgz, is missing"}},
		{name: "no document", method: "POST", url: apps, body: "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--\r\n", header: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}, status: 400, contains: []string{"Empty body: the part \"metadata\" is missing"}},
		{name: "two documents in a form", method: "POST", url: apps, body: twice("metadata", `{"metadata":{"name":"twice"}}`), header: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}, status: 422, contains: []string{`the part "metadata" is there several times`}},
		{name: "two charts in a form", method: "POST", url: apps, body: twice("file", "x"), header: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}, status: 422, contains: []string{`the part "file" is there several times`}},
		{name: "a form that is packed", method: "POST", url: apps, body: "x", header: map[string]string{"Content-Type": "multipart/form-data; boundary=b", "Content-Encoding": "gzip"}, status: 415, contains: []string{`Content-Encoding is "gzip"`}},
		{name: "a document that is packed", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"packed"}}`, header: map[string]string{"Content-Type": "application/json", "Content-Encoding": "br"}, status: 415, contains: []string{`Content-Encoding is "br"`}},
		{name: "one that says that it is not", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"plain"}}`, header: map[string]string{"Content-Type": "application/json", "Content-Encoding": "identity"}, status: 201},
		{name: "a form that is cut off", method: "POST", url: apps, body: "--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{", header: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}, status: 422, contains: []string{`the form ends in the part "metadata"`}},
		{name: "a file that is too large", method: "POST", url: apps, body: `{"metadata":{"name":"large"}}`, file: []byte(long), status: 422, contains: []string{"File Size Exceeds"}},
		{name: "a chart that is no archive", method: "POST", url: apps, body: `{"metadata":{"name":"bad"}}`, file: []byte("chart"), status: 422, contains: []string{"Error in file format"}},
		{name: "a chart of another name", method: "POST", url: apps, body: `{"metadata":{"name":"other"}}`, file: chartOf(t, "sink"), status: 400, contains: []string{"there is no other/Chart.yaml"}},
		{name: "none of them is there", method: "GET", url: apps, status: 200, lacks: []string{"nofile", "large", "bad", "other"}},
		{name: "a profile without manifest", method: "POST", url: theProfile + "/profiles", body: `{"metadata":{"name":"bad"},"spec":{"app":"sink"}}`, file: tgz(t, "values.yaml", ""), status: 400, contains: []string{"manifest.yaml"}},
		{name: "a second profile of an app", method: "POST", url: theProfile + "/profiles", body: `{"metadata":{"name":"second"},"spec":{"app":"sink"}}`, file: profileOf(t), status: 409, contains: []string{"App already has an AppProfile", `"sinkp"`}},
		{name: "an empty kubeconfig", method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"c9"}}`, file: []byte{}, status: 422, contains: []string{"the kubeconfig is empty"}},
		{name: "a kubeconfig that runs a program", method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"c9"}}`, file: []byte(strings.Replace(kubeconfig, "token: sesame", "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}", 1)), status: 400, contains: []string{".exec", "program"}},
		{
			name: "a cluster that is reached by GitOps", method: "POST", url: theProvider + "/clusters", body: "--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{\"metadata\":{\"name\":\"git\"},\"spec\":{\"gitOps\":{\"gitOpsType\":\"fluxcd\"}}}\r\n--b--\r\n",
			header: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}, status: 400, contains: []string{"spec.gitOps.gitOpsType", `"fluxcd" is not supported`, "kubeconfig"},
		},
		{name: "a cluster that is reached by GitOps, with a kubeconfig", method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"git"},"spec":{"gitOps":{"gitOpsType":"azureArcV2"}}}`, file: []byte(kubeconfig), status: 400, contains: []string{"spec.gitOps.gitOpsType"}},
		{name: "a cluster with an object of GitOps", method: "POST", url: theProvider + "/clusters", body: `{"metadata":{"name":"git"},"spec":{"gitOps":{"gitOpsReferenceObject":"o"}}}`, file: []byte(kubeconfig), status: 400, contains: []string{"spec.gitOps.gitOpsReferenceObject"}},
		{name: "none of those is there", method: "GET", url: theProvider + "/clusters", status: 200, lacks: []string{`"git"`, `"c9"`}},
	})
}

// twice is a form that has a part twice.
func twice(name, data string) string {
	return part(name, data) + part(name, data) + "--b--\r\n"
}

// part is one of a form.
func part(name, data string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"f\"\r\n\r\n" + data + "\r\n"
}

// TestDocumentsWithoutTheirFile: a PUT that leaves the file as it is takes what any other one takes.
func TestDocumentsWithoutTheirFile(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	document := func(description string) string {
		return `{"metadata":{"name":"c1","description":"` + description + `"}}`
	}
	typed := func(media string) map[string]string { return map[string]string{"Content-Type": media} }
	check(t, w.router, []call{
		{name: "JSON", method: "PUT", url: theCluster, body: document("json"), status: 200, contains: []string{`"description":"json"`}},
		{name: "YAML", method: "PUT", url: theCluster, body: "metadata: {name: c1, description: yaml}\n", header: typed("text/yaml"), status: 200, contains: []string{`"description":"yaml"`}},
		{name: "what curl says", method: "PUT", url: theCluster, body: document("curl"), header: typed("application/x-www-form-urlencoded"), status: 200, contains: []string{`"description":"curl"`}},
		{name: "that with a byte order mark", method: "PUT", url: theCluster, body: "\ufeff" + document(`\ud83d\ude00`), header: typed("application/x-www-form-urlencoded"), status: 200, contains: []string{`"description":"😀"`}},
		{name: "YAML of which curl says so", method: "PUT", url: theCluster, body: "metadata: {name: c1, description: manifest}\n", header: typed("application/x-www-form-urlencoded"), status: 200, contains: []string{`"description":"manifest"`}},
		{name: "what a form writes", method: "PUT", url: theCluster, body: "a=b", header: typed("application/x-www-form-urlencoded"), status: 415},
		{name: "too much", method: "PUT", url: theCluster, body: document(strings.Repeat("x", 2<<20)), header: typed("application/x-www-form-urlencoded"), status: 422, contains: []string{"File Size Exceeds"}},
		{name: "of no type", method: "PUT", url: theCluster, body: document("none"), header: typed(""), status: 422, contains: []string{"request Content-Type isn't multipart/form-data, or application/json without the file"}},
		{name: "where the file must come", method: "PUT", url: theComposite + "/apps/sink", body: `{"metadata":{"name":"sink"}}`, status: 422, contains: []string{"request Content-Type isn't multipart/form-data"}, lacks: []string{"without the file"}},
		{name: "where nothing is stored", method: "POST", url: theProvider + "/clusters", body: document("post"), header: typed("application/yaml"), status: 422, contains: []string{"request Content-Type isn't multipart/form-data"}, lacks: []string{"without the file"}},
		{name: "the file is there still", method: "GET", url: theCluster, header: map[string]string{"Accept": "application/octet-stream"}, status: 200, is: "", contains: []string{"sesame"}},
	})
}

// TestDatesInYAML are texts, as JSON has no dates: what somebody has written is what is stored.
func TestDatesInYAML(t *testing.T) {
	w := newWorld(t)
	yaml := map[string]string{"Content-Type": "application/yaml"}
	check(t, w.router, []call{
		{name: "a date", method: "POST", url: "/v2/projects", body: "metadata: {name: d1, userData1: 2024-01-15, userData2: 2001-12-14t21:59:43.10-05:00}", header: yaml, status: 201,
			is: `{"metadata":{"name":"d1","description":"","userData1":"2024-01-15","userData2":"2001-12-14t21:59:43.10-05:00"}}`},
		{name: "a number is one, as in JSON", method: "POST", url: "/v2/projects", body: "metadata: {name: d2, userData1: 2024}", header: yaml, status: 422, contains: []string{"metadata.userData1: cannot be number, must be string"}},
		{name: "a member that is there twice", method: "POST", url: "/v2/projects", body: "metadata: {name: d3}\nmetadata: {name: d4}", header: yaml, status: 422, contains: []string{"already defined"}},
	})
}

// TestConditionsOfWrites: a condition that is not looked at is one that holds, to who has sent it.
func TestConditionsOfWrites(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	when := func(name string, value string) map[string]string { return map[string]string{name: value} }
	body := func(name, description string) string {
		return `{"metadata":{"name":"` + name + `","description":"` + description + `"}}`
	}
	check(t, w.router, []call{
		{name: "one version", method: "PUT", url: theProject, body: body("proj", "no"), header: when("If-Match", `"deadbeef"`), status: 412, contains: []string{"If-Match", "deadbeef", "no entity tags"}},
		{name: "one version, to delete", method: "DELETE", url: theProject, header: when("If-Match", `"deadbeef"`), status: 412},
		{name: "one version, to create", method: "POST", url: "/v2/projects", body: body("new", ""), header: when("If-Match", `W/"1"`), status: 412},
		{name: "one version of what is read", method: "GET", url: theProject, header: when("If-Match", `"deadbeef"`), status: 200},
		{name: "nothing was written", method: "GET", url: theProject, status: 200, lacks: []string{`"description":"no"`}},
		{name: "if it is there", method: "PUT", url: theProject, body: body("proj", "there"), header: when("If-Match", "*"), status: 200, contains: []string{`"description":"there"`}},
		{name: "if it is there, which it is not", method: "PUT", url: "/v2/projects/new", body: body("new", ""), header: when("If-Match", "*"), status: 412, contains: []string{`there is no project "new"`}},
		{name: "if it is not there", method: "PUT", url: "/v2/projects/new", body: body("new", "first"), header: when("If-None-Match", "*"), status: 200, contains: []string{`"description":"first"`}},
		{name: "if it is not there, which it is", method: "PUT", url: "/v2/projects/new", body: body("new", "second"), header: when("If-None-Match", "*"), status: 412, contains: []string{`the project "new" is there already`}},
		{name: "the first one stays", method: "GET", url: "/v2/projects/new", status: 200, contains: []string{`"description":"first"`}},
		{name: "if it is not there, in quotes", method: "PUT", url: "/v2/projects/new", body: body("new", "second"), header: when("If-None-Match", `"*"`), status: 412, contains: []string{`If-None-Match is "*", a tag`, "send * without quotes"}},
		{name: "no version of that tag is there", method: "PUT", url: "/v2/projects/new", body: body("new", "third"), header: when("If-None-Match", `"deadbeef"`), status: 200, contains: []string{`"description":"third"`}},
	})
}

// TestPartsThatNobodyKnows: a file in a part of another name would be missed when its app runs without it, or the old credentials go on.
func TestPartsThatNobodyKnows(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	form := map[string]string{"Content-Type": "multipart/form-data; boundary=b"}
	profile := part("metadata", `{"metadata":{"name":"sinkp"},"spec":{"app":"sink"}}`) + part("files", string(profileOf(t))) + "--b--\r\n"
	cluster := part("metadata", `{"metadata":{"name":"c1"}}`) + part("kubeconfig", kubeconfig) + part("kubeconfig", kubeconfig) + "--b--\r\n"
	const parts = `; the parts of this form are \"metadata\" and \"file\""`
	check(t, w.router, []call{
		{name: "files where one is meant", method: "PUT", url: theProfile + "/profiles/sinkp", body: profile, header: form, status: 201, answers: map[string]string{"Warning": `299 - "unknown part \"files\"` + parts}},
		{name: "a word of one's own", method: "PUT", url: theCluster, body: cluster, header: form, status: 200, answers: map[string]string{"Warning": `299 - "unknown part \"kubeconfig\"` + parts}},
		{name: "ignored", method: "PUT", url: theCluster + "?fieldValidation=Ignore", body: cluster, header: form, status: 200, answers: map[string]string{"Warning": ""}},
		{name: "refused", method: "PUT", url: theCluster + "?fieldValidation=Strict", body: cluster, header: form, status: 400, contains: []string{`kubeconfig: unknown part; the parts of this form are "metadata" and "file"`}},
		{name: "refused, and nothing is there", method: "POST", url: theProvider + "/clusters?fieldValidation=Strict", body: strings.Replace(cluster, "c1", "c7", 1), header: form, status: 400},
		{name: "what is right", method: "PUT", url: theCluster + "?fieldValidation=Strict", body: part("metadata", `{"metadata":{"name":"c1"}}`) + part("file", kubeconfig) + "--b--\r\n", header: form, status: 200, answers: map[string]string{"Warning": ""}},
		{method: "GET", url: theProvider + "/clusters/c7", status: 404},
	})
}

// TestKeyValuesUpToTheBound: so many pairs take some tenths of a second, and what is more than a body may be is refused before
// it is decoded.
func TestKeyValuesUpToTheBound(t *testing.T) {
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.MaxBody = 0 })
	furnish(t, w)
	pairs := func(name string, n int) string {
		var b strings.Builder
		b.WriteString(`{"metadata":{"name":"` + name + `"},"spec":{"kv":[{"first":"1"}`)
		for i := range n {
			fmt.Fprintf(&b, `,{"k%06d":"value"}`, i)
		}
		b.WriteString(`]}}`)
		return b.String()
	}
	check(t, w.router, []call{
		{name: "300,000", method: "POST", url: theCluster + "/kv-pairs", body: pairs("many", 300_000), status: 201},
		{name: "are there", method: "GET", url: theCluster + "/kv-pairs/many?key=k299999", status: 200, is: `{"value":"value"}`},
		{name: "too many", method: "POST", url: theCluster + "/kv-pairs", body: pairs("more", 450_000), status: 422, contains: []string{"8388608 bytes"}},
		{name: "in their place", method: "PUT", url: theCluster + "/kv-pairs/many", body: pairs("many", 450_000), status: 422, contains: []string{"8388608 bytes"}},
		{name: "none of them is there", method: "GET", url: theCluster + "/kv-pairs/more", status: 404},
	})
}

func TestAccept(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	app, documentForm := theComposite+"/apps/sink", `{"metadata":{"name":"sink","description":"","userData1":"","userData2":""}}`
	for name, c := range map[string]struct{ accept, want string }{
		"none":                         {"", "application/json"},
		"anything":                     {"*/*", "application/json"},
		"a browser":                    {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json"},
		"a list":                       {"application/json, text/plain, */*", "application/json"},
		"json":                         {"application/json", "application/json"},
		"any application":              {"application/*", "application/json"},
		"the file":                     {"application/octet-stream", "application/octet-stream"},
		"the file rather":              {"application/json;q=0.5, application/octet-stream", "application/octet-stream"},
		"both":                         {"multipart/form-data", "multipart/form-data"},
		"neither":                      {"text/html", ""},
		"refused by weight":            {"application/json;q=0", ""},
		"what cannot be read, skipped": {"(), application/octet-stream", "application/octet-stream"},
	} {
		t.Run(name, func(t *testing.T) {
			header := map[string]string{}
			if c.accept != "" {
				header["Accept"] = c.accept
			}
			answer := do(t, w.router, call{method: "GET", url: app, header: header})
			if c.want == "" {
				require.Equal(t, http.StatusNotAcceptable, answer.Code)
				require.Contains(t, answer.Body.String(), "set Accept:")
				return
			}
			require.Equal(t, http.StatusOK, answer.Code)
			got, parameters, err := mime.ParseMediaType(answer.Header().Get("Content-Type"))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			switch got {
			case "application/json":
				require.JSONEq(t, documentForm, answer.Body.String())
			case "application/octet-stream":
				require.Equal(t, chartOf(t, "sink"), answer.Body.Bytes())
			default:
				form, err := multipart.NewReader(answer.Body, parameters["boundary"]).ReadForm(1 << 20)
				require.NoError(t, err)
				require.JSONEq(t, documentForm, form.Value["metadata"][0])
				require.Equal(t, "fileContent", form.File["file"][0].Filename)
			}
		})
	}
	t.Run("the file of a profile has no name", func(t *testing.T) {
		for _, url := range []string{theProfile + "/profiles/sinkp", theProfile + "/profiles?app=sink"} {
			answer := do(t, w.router, call{method: "GET", url: url, header: map[string]string{"Accept": "multipart/form-data"}})
			require.Equal(t, http.StatusOK, answer.Code)
			_, parameters, err := mime.ParseMediaType(answer.Header().Get("Content-Type"))
			require.NoError(t, err)
			form, err := multipart.NewReader(answer.Body, parameters["boundary"]).ReadForm(1 << 20)
			require.NoError(t, err)
			require.Empty(t, form.File)
			require.Equal(t, string(profileOf(t)), form.Value["file"][0])
		}
	})
	t.Run("a cluster gives its kubeconfig back", func(t *testing.T) {
		answer := do(t, w.router, call{method: "GET", url: theCluster, header: map[string]string{"Accept": "application/octet-stream"}})
		require.Equal(t, kubeconfig, answer.Body.String())
	})
	t.Run("but never in JSON or in the log", func(t *testing.T) {
		for _, url := range []string{theCluster, theProvider + "/clusters", theProvider + "/clusters?withLabels=true"} {
			require.NotContains(t, do(t, w.router, call{method: "GET", url: url}).Body.String(), "sesame")
		}
		require.NotContains(t, w.log.String(), "sesame")
	})
}

func TestQueries(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	clusters, intents, appIntents := theProvider+"/clusters", theGroup+"/intents", thePlacement+"/app-intents"
	check(t, w.router, []call{
		{method: "POST", url: clusters, body: `{"metadata":{"name":"c2"}}`, file: []byte(kubeconfig), status: 201},
		{method: "GET", url: clusters + "?label=edge", status: 200, is: `["c1"]`},
		{method: "GET", url: clusters + "?label=none", status: 200, is: `[]`},
		{method: "GET", url: clusters + "?withLabels=true", status: 200, is: `[
			{"metadata":{"name":"c1","description":"","userData1":"","userData2":""},"labels":[{"clusterLabel":"edge"}]},
			{"metadata":{"name":"c2","description":"","userData1":"","userData2":""},"labels":[]}]`},
		{method: "GET", url: clusters + "?withLabels=false", status: 200, contains: []string{`"gitOps"`}},
		{method: "GET", url: clusters + "?withLabels=maybe", status: 400, contains: []string{"withLabels"}},
		{method: "GET", url: "/v2/cluster-providers/none/clusters?label=edge", status: 404, contains: []string{`"none"`}},
		{method: "GET", url: theCluster + "/kv-pairs/kv?key=c.d", status: 200, is: `{"value":"$e"}`},
		{method: "GET", url: theCluster + "/kv-pairs/kv?key=none", status: 404, contains: []string{"Cluster KV pair key value not found"}},
		{method: "GET", url: theProfile + "/profiles?app=sink", status: 200, contains: []string{`"name":"sinkp"`}, lacks: []string{"["}},
		{method: "GET", url: theProfile + "/profiles?app=none", status: 404, contains: []string{"AppProfile not found"}},
		{name: "the file of an app's profile", method: "GET", url: theProfile + "/profiles?app=sink", header: map[string]string{"Accept": "application/octet-stream"}, status: 200, contains: []string{string(profileOf(t))}},
		{method: "GET", url: intents, status: 200, is: `{"intent":[{"genericPlacementIntent":"gpi"}]}`},
		{method: "GET", url: intents + "/intent", status: 200, contains: []string{`"spec":{"intent":{"genericPlacementIntent":"gpi"}}`}},
		{method: "GET", url: intents + "/?intent=intent", status: 200, is: `{"intent":{"genericPlacementIntent":"gpi"}}`},
		{method: "GET", url: intents + "/?intent=none", status: 404},
		{name: "without the slash", method: "GET", url: intents + "?intent=intent", status: 200, is: `{"intent":{"genericPlacementIntent":"gpi"}}`},
		{method: "GET", url: appIntents + "/?app=sink&app-name=sink", status: 200, is: `{"app":"sink","intent":{"allOf":[{"clusterProvider":"p1","cluster":"c1"}]}}`},
		{method: "GET", url: appIntents + "/?app=sink", status: 400, contains: []string{"Missing appName in GET request"}},
		{name: "without the slash", method: "GET", url: appIntents + "?app=sink&app-name=sink", status: 200, is: `{"app":"sink","intent":{"allOf":[{"clusterProvider":"p1","cluster":"c1"}]}}`},
		{method: "GET", url: appIntents + "?app-name=sink", status: 400, contains: []string{"app must be given too"}},
		{method: "GET", url: appIntents, status: 200, is: `[
			{"metadata":{"name":"ai"},"spec":{"app":"sink","intent":{"allOf":[{"clusterProvider":"p1","cluster":"c1"}]}}}]`},
		{method: "GET", url: clusters + "?label=edge&withLabels=true", status: 400, contains: []string{"use one of them"}},
		{method: "GET", url: clusters + "?label=edge&withLabels=false", status: 200, is: `["c1"]`},
		{method: "GET", url: clusters + "?withLabels=maybe", status: 400, contains: []string{`Invalid query withLabels: "maybe"; use true or false`}},
		{method: "GET", url: clusters + "?view=full&withLabels=true", status: 400, contains: []string{"use one of them"}},
		{method: "GET", url: clusters + "?view=full&label=edge", status: 400, contains: []string{"use one of them"}},
		{method: "GET", url: appIntents + "/?app=none&app-name=none", status: 404, contains: []string{"AppIntent not found"}},
	})
}

// emcoctl's requests (reference 6.4): what it sends, and how.
func TestEmcoctlRequests(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	jsonBoth := map[string]string{"Content-Type": "application/json", "Accept": "application/json"}
	check(t, w.router, []call{
		{name: "apply", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"emco","description":"d"}}`, header: jsonBoth, status: 201},
		{name: "apply a label", method: "POST", url: theCluster + "/labels", body: `{"metadata":{"name":""},"clusterLabel":"west"}`, header: jsonBoth, status: 201, is: `{"clusterLabel":"west"}`},
		{name: "apply a placement intent with a spec", method: "POST", url: theGroup + "/generic-placement-intents", body: `{"metadata":{"name":"g2"},"spec":{"logicalCloud":"lc"}}`, header: jsonBoth, status: 201},
		{name: "update a composite app", method: "PUT", url: theComposite, body: `{"metadata":{"name":"ca"},"spec":{"compositeAppVersion":"v1"}}`, header: jsonBoth, status: 201},
		{name: "update a label", method: "PUT", url: theCluster + "/labels/west", body: `{"metadata":{"name":""},"clusterLabel":"west"}`, header: jsonBoth, status: 201},
		{name: "get an app", method: "GET", url: theComposite + "/apps/sink", header: map[string]string{"Accept": "application/json"}, status: 200},
		{name: "get without Accept", method: "GET", url: theGroup, status: 200},
		{name: "an error, printed as it is", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"emco"}}`, header: jsonBoth, status: 409, contains: []string{"already exists"}, answers: map[string]string{"Content-Type": "application/problem+json"}},
		{name: "delete of an instantiate", method: "POST", url: theGroup + "/terminate", header: jsonBoth, status: 202},
		{name: "delete", method: "DELETE", url: "/v2/projects/emco", status: 204},
	})
}

func TestErrorsByKind(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		text   string
	}{
		"invalid":          {fail.New(fail.Invalid, "m"), 400, "m\n"},
		"malformed":        {fail.New(fail.Malformed, "m"), 422, "m\n"},
		"unauthorized":     {fail.New(fail.Unauthorized, "m"), 401, "m\n"},
		"forbidden":        {fail.New(fail.Forbidden, "m"), 403, "m\n"},
		"not found":        {fail.New(fail.NotFound, "m"), 404, "m\n"},
		"conflict":         {fail.New(fail.Conflict, "m"), 409, "m\n"},
		"precondition":     {fail.New(fail.Precondition, "m"), 412, "m\n"},
		"exhausted":        {fail.New(fail.Exhausted, "m"), 429, "m\n"},
		"aborted":          {fail.New(fail.Aborted, "m"), 409, "m\n"},
		"unavailable":      {&fail.Error{Kind: fail.Unavailable, Message: "m", RetryAfter: 1500 * time.Millisecond}, 503, "m\n"},
		"timeout":          {fail.New(fail.Timeout, "m"), 504, "m\n"},
		"internal, known":  {fail.New(fail.Internal, "m"), 500, "m\n"},
		"wrapped":          {fmt.Errorf("read: %w", fail.Wrap(errors.New("secret"), fail.NotFound, "m")), 404, "m\n"},
		"unknown":          {errors.New("secret"), 500, "The server encountered an internal error and was unable to complete your request.\n"},
		"deadline":         {fmt.Errorf("read: %w", context.DeadlineExceeded), 504, "POST " + theGroup + "/approve took too long; look whether it was done before you try again\n"},
		"the client left":  {fmt.Errorf("read: %w", context.Canceled), 499, "the client closed the request\n"},
		"fields are named": {&fail.Error{Kind: fail.Invalid, Message: "m:", Fields: []fail.Field{{Path: "a", Message: "b"}}}, 400, "m:\na: b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.operations.err = c.err
			request := call{method: "POST", url: theGroup + "/approve", header: map[string]string{"Accept": "text/plain", "X-Request-Id": "r1"}}
			answer := do(t, w.router, request)
			require.Equal(t, c.status, answer.Code)
			require.Equal(t, c.text, answer.Body.String())
			require.Equal(t, "nosniff", answer.Header().Get("X-Content-Type-Options"))
			if fail.RetryAfterOf(c.err) > 0 {
				require.Equal(t, "2", answer.Header().Get("Retry-After"))
			}

			request.header["Accept"] = "application/problem+json, application/json"
			answer = do(t, w.router, request)
			require.Equal(t, "application/problem+json", answer.Header().Get("Content-Type"))
			var p fail.Problem
			require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &p))
			require.Equal(t, c.status, p.Status)
			require.Equal(t, strings.TrimSuffix(c.text, "\n"), p.Detail)
			require.Equal(t, fail.FieldsOf(c.err), p.Errors)
			require.Equal(t, answer.Header().Get("X-Request-Id"), p.RequestID)
			require.Regexp(t, "^[A-Z2-7]{26}$", p.RequestID, "nobody has it look like another one's")
			require.NotEmpty(t, p.Title)
		})
	}
}

func TestAPanicIsAnInternalError(t *testing.T) {
	w := newWorld(t)
	w.operations.panics = true
	check(t, w.router, []call{{method: "POST", url: theGroup + "/stop", status: 500, contains: []string{"internal error"}, lacks: []string{"defect"}}})
	require.Contains(t, w.log.String(), "defect")
	require.Contains(t, w.log.String(), "status=500")
}

// TestWhatDoesNotAnswerIsNoDefect: the log has it as a warning, so that what is an error there is one.
func TestWhatDoesNotAnswerIsNoDefect(t *testing.T) {
	for kind, level := range map[fail.Kind]string{fail.Unavailable: "WARN", fail.Timeout: "WARN", fail.Internal: "ERROR"} {
		w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) {
			d.first = append(d.first, func(context.Context, *door.Request, door.Next) error { return fail.New(kind, "no") })
		})
		require.GreaterOrEqual(t, do(t, w.router, call{method: "GET", url: "/v2/projects"}).Code, 500, kind)
		require.Contains(t, w.log.String(), "level="+level+` msg="request failed"`, kind)
	}
}

func TestHealth(t *testing.T) {
	w := newWorld(t)
	check(t, w.router, []call{
		{method: "GET", url: "/healthz", status: 200, contains: []string{"ok"}},
		{name: "ready", method: "GET", url: "/readyz", status: 200, lacks: []string{"missing"}},
	})
	w = newWorld(t) // one that nobody has asked
	w.ready["store"] = w.store.Ping
	w.beside["temporal"] = func(ctx context.Context) error {
		<-ctx.Done()
		return fail.Wrap(ctx.Err(), fail.Timeout, "it does not answer")
	}
	asked := time.Now()
	check(t, w.router, []call{{
		name: "ready without what few need", method: "GET", url: "/readyz", status: 200, contains: []string{`"missing":["temporal (it does not answer)"]`, `"ready":["store"]`},
	}})
	require.Less(t, time.Since(asked), policy.Ready, "a probe has a second where nothing else is said")
	w = newWorld(t) // one that nobody has asked
	w.ready["store"] = w.store.Ping
	w.ready["temporal"] = func(context.Context) error { return errors.New("refused") }
	w.ready["agent"] = func(context.Context) error { return errors.New("refused") }
	check(t, w.router, []call{{name: "not ready", method: "GET", url: "/readyz", status: 503, contains: []string{"not ready: agent, temporal\n"}}})
	require.NotContains(t, w.log.String(), "request failed", "anybody may ask as often as he likes")
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	do(t, w.router, call{method: "GET", url: "/v2/projects/none"})
	do(t, w.router, call{method: "GET", url: "/v2/nothing"})
	do(t, w.router, call{method: "BREW", url: "/v2/projects"})
	check(t, w.router, []call{{method: "GET", url: "/metrics", status: 200, contains: []string{
		`drover_http_request_duration_seconds_count{code="404",method="GET",route="/v2/projects/:project"} 1`,
		`drover_http_request_duration_seconds_count{code="404",method="GET",route="unknown"} 1`,
		`code="405",method="other"`,
	}}})
}

// TestMetricsAreGatheredAFewAtATime: each request for them asks for all figures. What comes beyond is refused as everything else is.
func TestMetricsAreGatheredAFewAtATime(t *testing.T) {
	registry, end := prometheus.NewRegistry(), make(chan struct{})
	finish := sync.OnceFunc(func() { close(end) })
	defer time.AfterFunc(30*time.Second, finish).Stop() // nobody waits for ever where all of them are let in
	var gathering atomic.Int32
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow", Help: "slow"}, func() float64 {
		gathering.Add(1)
		<-end
		return 1
	}))
	w := newWorldWith(t, func(_ *world, d *deps, _ *service.Instances) { d.Metrics = registry })
	const asked = 2 * limits.Gathers
	answers := make(chan *httptest.ResponseRecorder, asked)
	for range asked {
		go func() {
			answers <- do(t, w.router, call{method: "GET", url: "/metrics", header: map[string]string{"Accept": "application/json"}})
		}()
	}
	for range asked - limits.Gathers/2 { // while nobody is asked who they are all are one caller
		answer := <-answers
		require.Equal(t, http.StatusServiceUnavailable, answer.Code)
		require.Equal(t, fail.ProblemJSON, answer.Header().Get("Content-Type"))
		require.NotEmpty(t, answer.Header().Get("Retry-After"))
		require.Equal(t, "true", answer.Header().Get("Drover-Undone"))
		require.Contains(t, answer.Body.String(), "too many requests are at work at the moment")
	}
	require.EqualValues(t, limits.Gathers/2, gathering.Load())
	finish()
	for range limits.Gathers / 2 {
		answer := <-answers
		require.Equal(t, http.StatusOK, answer.Code)
		require.Contains(t, answer.Body.String(), "slow 1")
	}
}

func TestServeDrains(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	arrived, finish := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-finish
		_, _ = io.WriteString(w, "done")
	})
	served, answered := make(chan error, 1), make(chan string, 1)
	go func() { served <- api.Serve(ctx, listener, handler, slog.New(slog.DiscardHandler), time.Minute) }()
	go func() {
		answer, err := http.Get("http://" + listener.Addr().String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		answered <- string(body)
	}()
	<-arrived
	stop()
	close(finish)
	require.Equal(t, "done", <-answered)
	require.NoError(t, <-served)
}
