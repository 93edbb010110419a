package api_test

import (
	"strings"
	"testing"
)

func TestWrongPathsAndMethods(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	json := map[string]string{"Accept": "application/json"}
	problem := map[string]string{"Content-Type": "application/problem+json"}
	check(t, w.router, []call{
		{name: "a letter too few", method: "GET", url: "/v2/project", header: json, status: 404, answers: problem, contains: []string{`"status":404`, "404 page not found", "/v2/projects"}},
		{name: "no version", method: "GET", url: theProject + "/composite-apps/ca", status: 404, contains: []string{"404 page not found\n", "/v2/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}"}},
		{name: "no base", method: "GET", url: "/projects/proj/logical-clouds", status: 404, contains: []string{"/v2/projects/{project}/logical-clouds"}},
		{name: "another operation", method: "POST", url: theGroup + "/instantiat", status: 404, contains: []string{"/instantiate"}},
		{name: "nothing like it", method: "GET", url: "/favicon.ico", status: 404, lacks: []string{"nearest"}},
		{name: "endless", method: "GET", url: "/v2/" + strings.Repeat("a/", 4000), status: 404, lacks: []string{"nearest"}},

		{name: "a method that is not there", method: "PATCH", url: "/v2/projects", header: json, status: 405, contains: []string{"PATCH", "GET, HEAD, POST", `"title":"Method Not Allowed"`}, answers: map[string]string{"Allow": "OPTIONS, GET, HEAD, POST", "Content-Type": "application/problem+json"}},
		{name: "a method that is not there, as text", method: "DELETE", url: "/v2/projects", status: 405, contains: []string{"DELETE is not possible here"}, answers: map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		{name: "an operation is a POST", method: "GET", url: theGroup + "/instantiate", status: 405, answers: map[string]string{"Allow": "OPTIONS, POST"}},

		{name: "errors as JSON", method: "GET", url: "/v2/projects/none", header: json, status: 404, answers: problem, contains: []string{`"kind":"NotFound"`}},
		{name: "errors as text by wildcard", method: "GET", url: "/v2/projects/none", header: map[string]string{"Accept": "*/*"}, status: 404, answers: map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		{name: "errors as text where that is liked better", method: "GET", url: "/v2/projects/none", header: map[string]string{"Accept": "text/plain, application/json"}, status: 404, answers: map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		{name: "names in words", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"a b"}}`, status: 400, contains: []string{"metadata.name: Does not match pattern", "letters and digits"}},
	})
}

// TestFieldValidation is as Kubernetes has it: Warn when nothing is said.
func TestFieldValidation(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	body := func(name string) string { return `{"metadata":{"name":"` + name + `","descriptin":"d"},"sepc":{}}` }
	const first = `299 - "unknown field \"metadata.descriptin\", did you mean \"metadata.description\"?"`
	check(t, w.router, []call{
		{name: "by default", method: "POST", url: "/v2/projects", body: body("fv1"), status: 201, answers: map[string]string{"Warning": first}},
		{name: "warn", method: "POST", url: "/v2/projects?fieldValidation=Warn", body: body("fv2"), status: 201, answers: map[string]string{"Warning": first}},
		{name: "ignore", method: "POST", url: "/v2/projects?fieldValidation=Ignore", body: body("fv3"), status: 201, answers: map[string]string{"Warning": ""}},
		{name: "strict", method: "POST", url: "/v2/projects?fieldValidation=Strict", body: body("fv4"), status: 400, contains: []string{`metadata.descriptin: unknown field, did you mean "metadata.description"?`, "sepc: unknown field"}},
		{name: "strict stores nothing", method: "GET", url: "/v2/projects/fv4", status: 404},
		{name: "strict, of a PUT", method: "PUT", url: theProject + "?fieldValidation=Strict", body: body("proj"), status: 400},
		{name: "strict, of a form", method: "POST", url: theComposite + "/apps?fieldValidation=Strict", body: `{"metadata":{"name":"a","x":1}}`, file: chartOf(t, "a"), status: 400, contains: []string{"metadata.x: unknown field"}},
		{name: "strict, of an operation", method: "POST", url: theGroup + "/rollback?fieldValidation=Strict", body: `{"spec":{"revison":"1"}}`, status: 400, contains: []string{`did you mean "spec.revision"?`}},
		{name: "strict, of what is right", method: "POST", url: "/v2/projects?fieldValidation=Strict", body: `{"metadata":{"name":"fv5"}}`, status: 201, answers: map[string]string{"Warning": ""}},
		{name: "another word", method: "POST", url: "/v2/projects?fieldValidation=strict", body: body("fv6"), status: 400, contains: []string{"Strict, Warn or Ignore"}},
		{name: "a name of EMCO 20.12", method: "POST", url: theProject + "/composite-apps?fieldValidation=Strict", body: `{"metadata":{"name":"old"},"spec":{"composite-app-version":"v1"}}`, status: 400, contains: []string{`did you mean "spec.compositeAppVersion"?`}},
		{name: "a name of EMCO 20.12 for what may be missing", method: "POST", url: theProject + "/logical-clouds", body: `{"metadata":{"name":"old"},"spec":{"namespace":"ns","user":{"user-name":"u"}}}`, status: 201,
			answers: map[string]string{"Warning": `299 - "unknown field \"spec.user.user-name\", did you mean \"spec.user.userName\"?"`}},
	})
}

// TestMembersThatAreThereTwice: a reader takes the first, the last or both; whoever looked at the body before us may have taken another one.
func TestMembersThatAreThereTwice(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	yaml := map[string]string{"Content-Type": "application/yaml"}
	check(t, w.router, []call{
		{name: "a member", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"tw1"},"metadata":{"name":"tw2"}}`, status: 400, contains: []string{"metadata: is there twice"}},
		{name: "in another case", method: "POST", url: "/v2/projects", body: `{"metadata":{"name":"tw1","Name":"tw2"}}`, status: 400, contains: []string{`metadata.name: is there twice, once as \"Name\"`}, header: map[string]string{"Accept": "application/json"}},
		{name: "in another case, in YAML", method: "POST", url: "/v2/projects", body: "metadata: {name: tw1}\nMetadata: {name: tw2}\n", header: yaml, status: 400, contains: []string{"metadata: is there twice"}},
		{name: "of one that nobody knows, ignored", method: "POST", url: "/v2/projects?fieldValidation=Ignore", body: `{"metadata":{"name":"tw1"},"x":{"a":1,"a":2}}`, status: 400, contains: []string{"x.a: is there twice"}},
		{name: "of a PUT", method: "PUT", url: theProject, body: `{"metadata":{"name":"proj"},"metadata":{"name":"proj"}}`, status: 400},
		{name: "in a form", method: "POST", url: theComposite + "/apps", body: `{"metadata":{"name":"tw1"},"metadata":{"name":"tw2"}}`, file: chartOf(t, "a"), status: 400, contains: []string{"metadata: is there twice"}},
		{name: "of an operation", method: "POST", url: theGroup + "/rollback", body: `{"spec":{"revision":"1","revision":"2"}}`, status: 400, contains: []string{"spec.revision: is there twice"}},
		{name: "what is no text", method: "POST", url: "/v2/projects", body: "{\"metadata\":{\"name\":\"tw1\",\"description\":\"\xff\"}}", status: 422, contains: []string{"not UTF-8"}},
		{name: "none of them is stored", method: "GET", url: "/v2/projects/tw1", status: 404},
		{name: "nor of them", method: "GET", url: "/v2/projects/tw2", status: 404},
		{name: "another case alone is EMCO's", method: "POST", url: "/v2/projects", body: `{"MetaData":{"Name":"tw1"}}`, status: 201},
	})
}

func TestALabelOfNobodyIsSaid(t *testing.T) {
	w := newWorld(t)
	furnish(t, w)
	intents := thePlacement + "/app-intents"
	body := func(name, label string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"p1","clusterLabel":"` + label + `"}],"anyOf":[{"clusterProvider":"p1","cluster":"c1"}]}}}`
	}
	check(t, w.router, []call{
		{name: "a label that a cluster carries", method: "POST", url: intents, body: body("one", "edge"), status: 201, answers: map[string]string{"Warning": ""}},
		{name: "a label of none", method: "POST", url: intents, body: body("two", "egde"), status: 201, answers: map[string]string{"Warning": `299 - "spec.intent.allOf[0].clusterLabel: no cluster of provider \"p1\" carries the label \"egde\" now"`}},
		{name: "a label of none, replaced", method: "PUT", url: intents + "/one", body: body("one", "none"), status: 200, answers: map[string]string{"Warning": `299 - "spec.intent.allOf[0].clusterLabel: no cluster of provider \"p1\" carries the label \"none\" now"`}},
		{name: "a provider of none", method: "POST", url: intents, body: `{"metadata":{"name":"three"},"spec":{"app":"web","intent":{"anyOf":[{"clusterProvider":"px","clusterLabel":"edge"}]}}}`, status: 201, answers: map[string]string{"Warning": `299 - "spec.intent.anyOf[0].clusterLabel: no cluster of provider \"px\" carries the label \"edge\" now"`}},
	})
}
