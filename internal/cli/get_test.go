package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/deploy/examples"
	"github.com/drover-io/drover/internal/domain"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: sesame}}]
`

// fleet is a folder with documents of all sorts, in no order, and the files that come with them.
func (w *world) fleet() string {
	w.t.Helper()
	chart, err := examples.Chart("sink")
	require.NoError(w.t, err)
	w.file("fleet/files/edge01.kubeconfig", kubeconfig)
	w.file("fleet/files/sink.tgz", string(chart))
	w.file("fleet/group.yaml", `version: emco/v2
resourceContext: {anchor: projects/demo/composite-apps/vfw/v1/deployment-intent-groups}
metadata: {name: web, description: the web}
spec: {compositeProfile: cp, version: r1, logicalCloud: lc, overrideValues: []}
---
version: emco/v2
resourceContext: {anchor: projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web/intents}
metadata: {name: bound}
spec: {intent: {genericPlacementIntent: gpi}}
`)
	w.file("fleet/project.yaml", `version: emco/v2
resourceContext: {anchor: projects/demo/composite-apps/vfw/v1/apps}
metadata: {name: sink}
file: files/sink.tgz
---
version: emco/v2
resourceContext: {anchor: projects/demo/composite-apps/vfw/v1/composite-profiles}
metadata: {name: cp}
---
version: emco/v2
resourceContext: {anchor: projects/demo/composite-apps}
metadata: {name: vfw}
spec: {compositeAppVersion: v1}
---
version: emco/v2
resourceContext: {anchor: projects/demo/logical-clouds}
metadata: {name: lc}
spec: {level: "0"}
---
version: emco/v2
resourceContext: {anchor: projects}
metadata: {name: demo}
`)
	w.file("fleet/values.yaml", "Provider: edge\n")
	w.file("fleet/site.yaml", `version: emco/v2
resourceContext: {anchor: "cluster-providers/{{.Provider}}/clusters/edge01/labels"}
clusterLabel: small
---
version: emco/v2
resourceContext: {anchor: "cluster-providers/{{.Provider}}/clusters"}
metadata: {name: edge01}
file: files/edge01.kubeconfig
---
version: emco/v2
resourceContext: {anchor: cluster-providers}
metadata: {name: "{{.Provider}}"}
`)
	return w.env["XDG_CONFIG_HOME"] + "/fleet"
}

// TestGet: nouns are found by what people call them, names by the end of their paths, and each form prints them.
func TestGet(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const path = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	require.Equal(t, "NAME   DESCRIPTION\ndemo\n", w.done("get", "projects"))
	require.Equal(t, "CLUSTER-PROVIDER   NAME     CONNECTIVITY   REPORT   HEARD   GROUPS\n"+
		"edge               edge01   Available      auto     -       0\n", w.done("get", "cluster"))
	require.Equal(t, path+"\n", w.done("get", "dig", "-o", "name"))
	for _, args := range [][]string{
		{"group"}, {"deployment-intent-groups", "web"}, {"groups", "v1/web"}, {"dig", "-p", "demo"}, {"groups", "--in", "vfw/v1"}, {path}, {"group/web"}, {"/v2/" + path},
	} {
		require.Equal(t, path+"\n", w.done(append([]string{"get", "-o", "name"}, args...)...), "%v", args)
	}
	require.Equal(t, "Created\n", w.done("get", "group", "web", "-o", "jsonpath={.status.state}"))
	require.Equal(t, "Created\n", w.done("get", "group", "web", "-o", "jsonpath=.status.state"))
	require.Equal(t, w.done("get", "group", "web", "-o", "jsonpath={@}"), w.done("get", "group", "web", "-o", "jsonpath={.}"))
	require.Contains(t, w.done("get", "group", "web", "-o", "jsonpath=."), `"name":"web"`)
	require.Equal(t, "web\n", w.done("get", "group", "-o", "jsonpath={.items[*].metadata.name}"))
	require.Equal(t, "bound\n", w.done("get", "intents", "--in", "web", "-o", "jsonpath={.items[*].metadata.name}"))
	require.Equal(t, "PROJECT   NAME   NAMESPACE   LEVEL\ndemo      lc     default     0\n", w.done("get", "logical-clouds"))
	require.Equal(t, "COMPOSITE-APP   COMPOSITE-APP-VERSION   NAME   DESCRIPTION\nvfw             v1                      sink\n", w.done("get", "apps", "-p", "demo"))
	var one struct {
		Version         string
		ResourceContext struct{ Anchor string }
	}
	require.NoError(t, json.Unmarshal([]byte(w.done("get", "app", "sink", "-o", "json")), &one))
	require.Equal(t, "emco/v2", one.Version)
	require.Equal(t, "projects/demo/composite-apps/vfw/v1/apps", one.ResourceContext.Anchor)

	r := w.run("get", "project", "none")
	require.Equal(t, 3, r.code)
	require.Contains(t, r.err, "none")
	require.Equal(t, 3, w.run("get", "app", "none").code)
	r = w.run("get", "tenants")
	require.Zero(t, r.code)
	require.Equal(t, "There is no tenant.\n", r.err)
	require.Empty(t, w.run("get", "tenants", "-q").err)
	require.Equal(t, `{
  "items": []
}
`, w.done("get", "tenants", "-o", "json"))
	require.Contains(t, w.done("get", "operations", "-A"), "7-update   update")
	require.Contains(t, w.done("get", "operations", "7-update", "-o", "json"), `"state": "Running"`)
	require.Equal(t, 3, w.run("get", "operation", "8-update").code)

	text := w.done("describe", "group", "web")
	for _, part := range []string{"Deployment intent group web\n", "Path:  " + path, "compositeProfile: cp", "deployment-intents: bound", "state Created since"} {
		require.Contains(t, text, part)
	}
}

// TestOneNameIsOneDocument to programs: where others have made one of the same name it is refused, as it would come in another shape.
func TestOneNameIsOneDocument(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const first, second = "projects/demo/composite-apps/vfw/v1", "projects/theirs/composite-apps/vfw/v1"
	w.feed(`resourceContext: {anchor: projects}
metadata: {name: theirs}
---
resourceContext: {anchor: projects/theirs/composite-apps}
metadata: {name: vfw}
spec: {compositeAppVersion: v1}
`, "apply", "-f", "-")
	for _, form := range []string{"json", "yaml", "jsonpath={.metadata.name}"} {
		r := w.run("get", "composite-app", "vfw/v1", "-o", form)
		require.Equal(t, 2, r.code, "%s: %s", form, r.out)
		require.Empty(t, r.out)
		require.Contains(t, r.err, "\"vfw/v1\" may be any of 2:\n  "+first+"\n  "+second+"\n")
		require.NotContains(t, w.done("get", "composite-app", "vfw/v1", "-p", "demo", "-o", form), "items")
	}
	require.Equal(t, first+"\n"+second+"\n", w.done("get", "composite-app", "vfw/v1", "-o", "name"))
	require.Contains(t, w.done("get", "composite-app", "vfw/v1"), "theirs")
	require.Contains(t, w.done("get", "composite-apps", "-o", "json"), `"items"`)
	require.Contains(t, w.done("get", "composite-app", "vfw", "-A", "-o", "json"), `"items"`)
}

// TestGetWatch prints what there is, then what changes, until the user has seen enough.
func TestGetWatch(t *testing.T) {
	w := newWorld(t)
	w.done("apply", "-f", w.file("p.yaml", "resourceContext: {anchor: projects}\nmetadata: {name: first}\n"))
	ctx, cancel := context.WithCancel(t.Context())
	out := &lines{}
	out.on = map[string]func(){
		"first": func() {
			go w.run("apply", "-f", w.file("q.yaml", "resourceContext: {anchor: projects}\nmetadata: {name: second}\n"))
		},
		"second": cancel,
	}
	require.Equal(t, 130, w.start(ctx, nil, out, &bytes.Buffer{}, "get", "projects", "-w"))
	require.Equal(t, "NAME    DESCRIPTION\nfirst\nsecond\n", out.text.String())
}

// TestGetWatchOfSeveral: that one of those that are named goes says nothing of the others.
func TestGetWatchOfSeveral(t *testing.T) {
	w := newWorld(t)
	w.feed("resourceContext: {anchor: projects}\nmetadata: {name: first}\n---\nresourceContext: {anchor: projects}\nmetadata: {name: second}\n", "apply", "-f", "-")
	ctx, cancel := context.WithCancel(t.Context())
	out, said := &lines{on: map[string]func(){"second": func() { go w.run("delete", "project", "first") }}}, &lines{on: map[string]func(){"is deleted": cancel}}
	require.Equal(t, 130, w.start(ctx, nil, out, said, "get", "projects", "first", "second", "-w"))
	require.Contains(t, said.text.String(), "projects/first is deleted\n")
	require.NotContains(t, said.text.String(), "second is deleted")
}

// TestOperationsOfAProject: a project that is named holds with a cluster, too; that of the context does not.
func TestOperationsOfAProject(t *testing.T) {
	w := newWorld(t)
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("project")
		_, _ = io.WriteString(out, "{}")
	}))
	t.Cleanup(server.Close)
	w.env["DROVER_PROJECT"] = "other"
	for want, args := range map[string][]string{"demo": {"-p", "demo", "--cluster", "p+c"}, "": {"--cluster", "p+c"}, "other": nil} {
		asked = "nothing"
		w.run(append([]string{"get", "operations", "--server", server.URL}, args...)...)
		require.Equal(t, want, asked, "%v", args)
	}
}

// TestEventsInEveryForm: an event is a line of JSON, a document of YAML, or what a path finds in it.
func TestEventsInEveryForm(t *testing.T) {
	w := newWorld(t)
	const path = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(out, "id: 1\nevent: status\ndata: {\""+path+"\":{\"state\":\"Created\",\"revision\":0}}\n\n")
	}))
	t.Cleanup(server.Close)
	events := func(more ...string) string {
		return w.done(append([]string{"events", "--server", server.URL}, more...)...)
	}
	require.Regexp(t, `^\S+  `+path+`  Created\n$`, events())
	require.Regexp(t, `^\{"resource":"`+path+`","status":\{"state":"Created","revision":0\},"time":"[^"]+"\}\n$`, events("-o", "json"))
	require.Regexp(t, `^---\nresource: `+path+`\nstatus:\n  revision: 0\n  state: Created\ntime: .*\n$`, events("-o", "yaml"))
	require.Equal(t, path+" Created\n", events("-o", "jsonpath={.resource} {.status.state}"))
	r := w.run("events", "-o", "wide")
	require.Equal(t, 2, r.code, r.err)
	require.Contains(t, r.err, "-o wide is none of json, yaml and jsonpath=TEMPLATE")
}

// lines does something once a word was written.
type lines struct {
	text strings.Builder
	on   map[string]func()
}

func (l *lines) Write(p []byte) (int, error) {
	l.text.Write(p)
	for word, do := range l.on {
		if strings.Contains(l.text.String(), word) {
			delete(l.on, word)
			do()
		}
	}
	return len(p), nil
}

// TestHostileText: what a terminal would act on is not printed.
func TestHostileText(t *testing.T) {
	w := newWorld(t)
	w.done("apply", "-f", w.file("p.json", `{"resourceContext":{"anchor":"projects"},"metadata":{"name":"p","description":"a\u001b[2Jb\nc"}}`))
	require.Equal(t, "NAME   DESCRIPTION\np      a[2Jb c\n", w.done("get", "projects"))
}

// TestAdviceByCommands: what can be done is said by commands where the API says requests, and by the command as it is called.
func TestAdviceByCommands(t *testing.T) {
	w := newWorld(t)
	const group, cluster = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web", "cluster-providers/edge/clusters/edge01"
	for says, want := range map[string]string{
		"again by POST /v2/" + group + "/update; or":                                                    "again by 'drover update " + group + "'; or",
		"goes on by POST /v2/" + group + "/rollback with spec.revision \"4\"; what":                     "goes on by 'drover rollback " + group + " --to 4'; what",
		"ask for it by POST /v2/" + cluster + "/apply":                                                  "ask for it by 'drover instantiate " + cluster + "'",
		"come back: DELETE /v2/" + cluster + "?abandon=true":                                            "come back: 'drover cluster remove edge/edge01 --abandon'",
		"come back: DELETE /v2/" + cluster + "?abandon=true&labels=true":                                "come back: 'drover cluster remove edge/edge01 --abandon'",
		"mend it, or replace its kubeconfig: PUT /v2/" + cluster:                                        "mend it, or replace its kubeconfig: 'drover cluster add edge/edge01 --kubeconfig FILE'",
		"set spec.report to auto: PUT /v2/" + cluster:                                                   "set spec.report to auto: 'drover edit " + cluster + "'",
		"keeps them; POST /v2/tenants/{tenant}/release lets them go":                                    "keeps them; 'drover tenants NAME --release' lets them go",
		"GET /v2/tenants/t1/workload-rules/side/explain says why":                                       "'drover explain tenants/t1/workload-rules/side' says why",
		"give the host of the workload nodes: PUT /v2/tenants/{tenant}/hosts/{host}; it is tried again": "give the host of the workload nodes: 'drover apply -f FILE'; it is tried again",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, says+"\n") }))
		t.Cleanup(server.Close)
		require.Equal(t, want+"\n", w.done("explain", group, "--server", server.URL))
	}
}

// TestHostileErrors: what a server says of a refusal and in explanations does not reach the terminal as it is; programs get the data.
func TestHostileErrors(t *testing.T) {
	w := newWorld(t)
	hostile := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Add("Warning", "299 - \"w\\x1b[2J\u202e\"")
		if strings.HasSuffix(r.URL.Path, "/explain") {
			_, _ = io.WriteString(out, "a\x1b[31mb\x9bc\r\n\tnext\n")
			return
		}
		out.Header().Set("X-Request-Id", "r")
		out.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(out, "no\x1b]0;title\x07\u202e")
	}))
	t.Cleanup(hostile.Close)
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	require.Equal(t, "a[31mb\ufffdc\n\tnext\n", w.done("explain", group, "--server", hostile.URL))
	r := w.run("approve", group, "--server", hostile.URL)
	require.Equal(t, 1, r.code)
	require.Equal(t, "drover: no]0;title\n", r.err)

	w.feed(`{"resourceContext":{"anchor":"projects"},"metadata":{"name":"p","description":"a\u001b\u202eb"}}`, "apply", "-f", "-")
	require.Equal(t, "a\x1b\u202eb\n", w.done("get", "project", "p", "-o", "jsonpath={.metadata.description}"))
	w.terminal = true
	require.Equal(t, "ab\n", w.done("get", "project", "p", "-o", "jsonpath={.metadata.description}"))
}

// TestCompletion: names come from the server.
func TestCompletion(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	require.Contains(t, w.done("__complete", "get", ""), "deployment-intent-groups\tdeployment intent group\n")
	require.Contains(t, w.done("__complete", "get", "projects", ""), "demo\n")
	require.Contains(t, w.done("__complete", "get", "app", "--in", "vfw/v1", ""), "demo/sink\n")
	require.Contains(t, w.done("__complete", "status", ""), "demo/vfw/v1/web\n")
	w.file("k", kubeconfig)
	w.done("cluster", "add", "hill/edge07", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/k", "--label", "south", "--use-own-credentials")
	w.done("apply", "-f", w.file("more.yaml", `resourceContext: {anchor: projects/demo/composite-apps}
metadata: {name: vfw}
spec: {compositeAppVersion: v2}
---
resourceContext: {anchor: projects/demo/composite-apps/vfw/v2/composite-profiles}
metadata: {name: cp}
---
resourceContext: {anchor: projects/demo/composite-apps/vfw/v2/deployment-intent-groups}
metadata: {name: next}
spec: {compositeProfile: cp, version: r1, logicalCloud: lc, overrideValues: []}
---
resourceContext: {anchor: tenants}
metadata: {name: t1}
spec: {cluster: hill+edge07}
`))
	w.stand("projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web", domain.Instantiated, domain.ContextInstantiated, 2)
	require.Contains(t, w.done("__complete", "deploy", ".", "--clusters", ""), "hill/edge07\n")
	require.Contains(t, w.done("__complete", "deploy", ".", "--any-of", ""), "hill/label=south\n")
	require.Contains(t, w.done("__complete", "get", "operations", "--cluster", ""), "hill/edge07\n")
	for _, cluster := range []string{"edge07", "hill/edge07", "hill+edge07"} {
		require.Contains(t, w.done("get", "operations", "--cluster", cluster), "7-update   update")
	}
	require.Equal(t, 3, w.run("get", "operations", "--cluster", "edge99").code)
	require.Equal(t, "demo\n:4\n", w.done("__complete", "get", "groups", "-p", ""))
	w.env["DROVER_PROJECT"] = "another"
	require.Equal(t, "demo\n:4\n", w.done("__complete", "get", "groups", "-p", ""), "whatever project is in use")
	require.Equal(t, "projects/demo\n", w.done("get", "projects", "-o", "name"))
	delete(w.env, "DROVER_PROJECT")
	require.Equal(t, "json\nyaml\n:4\n", w.done("__complete", "status", "web", "-o", ""))
	require.Equal(t, "table\njson\nyaml\n:4\n", w.done("__complete", "audit", "-o", ""))
	require.Equal(t, "table\nwide\nname\njson\nyaml\n:4\n", w.done("__complete", "get", "groups", "-o", ""))
	require.Contains(t, w.done("__complete", "get", "operations", "--state", ""), "Running\n")
	require.Equal(t, "c\n:4\n", w.done("__complete", "cluster", "add", "x/y", "--kubeconfig", w.env["XDG_CONFIG_HOME"]+"/k", "--context", ""))
	for want, args := range map[string][]string{
		"cluster\tcluster\n":     {"terminate", ""},
		"cloud\tlogical cloud\n": {"instantiate", ""},
		"tenant\ttenant\n":       {"explain", ""},
		"t1\n":                   {"explain", "tenant", ""},
		"7-update\tupdate of ":   {"get", "operations", ""},
		"demo/vfw/v1\n":          {"get", "apps", "--in", ""},
		"projects/demo/logical-clouds/lc\ncluster-providers/edge/clusters/": {"get", "operations", "--owner", ""},
		"lc\n:4\n":              {"deploy", ".", "-p", "demo", "--cloud", ""},
		"hill\n":                {"auth", "can-i", "--provider", ""},
		"hill+edge07\n":         {"diff", "web", "--cluster", ""},
		"sink\n:4\n":            {"diff", "web", "--app", ""},
		"v2\n:4\n":              {"migrate", "web", "--version", ""},
		"next\n:4\n":            {"migrate", "v1/web", "--version", "v2", "--to", ""},
		"2\tInstantiated, ":     {"rollback", "v1/web", "--to", ""},
		"instantiate\n":         {"audit", "--verb", ""},
		"audit\taudit record\n": {"audit", "--noun", ""},
		"hill/\n:6\n":           {"cluster", "add", ""},
	} {
		require.Contains(t, w.done(append([]string{"__complete"}, args...)...), want, "%v", args)
	}
	require.NotContains(t, w.done("__complete", "approve", ""), "\tcluster", "which is not approved")
	for _, args := range [][]string{ // which nobody knows, or takes nothing
		{"deploy", ".", "--set", ""}, {"audit", "--who", ""}, {"combined", "web", "--kind", ""}, {"top", ""}, {"context", "set", "x", ""}, {"login", ""}, {"apply", ""},
	} {
		require.Equal(t, ":4\n", w.done(append([]string{"__complete"}, args...)...), "%v", args)
	}
	for _, args := range [][]string{{"apply", "-f", ""}, {"deploy", ""}, {"man", ""}, {"export", "project", "demo", "--to", ""}} {
		require.Equal(t, ":0\n", w.done(append([]string{"__complete"}, args...)...), "%v", args)
	}
	w.done("context", "set", "here", "--server", w.url)
	require.Equal(t, "here\thttp://API\n:4\n", w.done("__complete", "context", "set", ""))
	require.Equal(t, "here\thttp://API\n:4\n", w.done("__complete", "get", "groups", "--context", ""))
	w.env["DROVER_SERVER"] = "http://127.0.0.1:1"
	require.Equal(t, ":4\n", w.done("__complete", "get", "projects", ""))
}
