package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// TestApplyOfWhatIsThereChangesNothing, though the file leaves out what the API fills in: an approved group stays so.
func TestApplyOfWhatIsThereChangesNothing(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	w.stand(group, domain.Approved, domain.ContextNone, 0)
	document := w.done("get", "group", "web", "-o", "yaml")
	var lean []string
	for _, line := range strings.Split(document, "\n") {
		if !strings.Contains(line, "overrideValues") {
			lean = append(lean, line)
		}
	}
	require.NotEqual(t, document, strings.Join(lean, "\n"))
	require.Equal(t, group+" unchanged\n", w.feed(strings.Join(lean, "\n"), "apply", "-f", "-").out)
	o, err := w.db.Get(t.Context(), domain.DeploymentIntentGroups, group)
	require.NoError(t, err)
	require.Equal(t, domain.Approved, o.(*domain.DeploymentIntentGroup).History.State())
}

// TestTheLaterOfTwoDocumentsStays, whatever was there before.
func TestTheLaterOfTwoDocumentsStays(t *testing.T) {
	w := newWorld(t)
	const two = "resourceContext: {anchor: projects}\nmetadata: {name: p, description: one}\n---\nresourceContext: {anchor: projects}\nmetadata: {name: p, description: two}\n"
	for range 3 {
		r := w.feed(two, "apply", "-f", "-")
		require.Zero(t, r.code, r.err)
		require.Equal(t, "two\n", w.done("get", "project", "p", "-o", "jsonpath={.metadata.description}"))
	}
}

// TestFilesThatAreNoPaths are refused: a document without its file would be another one.
func TestFilesThatAreNoPaths(t *testing.T) {
	w := newWorld(t)
	for members, says := range map[string]string{
		"file: [a.tgz]": "file is to be one path", "file: 7": "file is to be one path", `file: ""`: "file is empty",
		"files: a.yaml": "files are to be a list of paths", "files: [1]": "files are to be paths", `files: [""]`: "files are to be paths",
	} {
		r := w.feed("resourceContext: {anchor: projects}\nmetadata: {name: p}\n"+members+"\n", "apply", "-f", "-")
		require.Equal(t, 2, r.code, members)
		require.Contains(t, r.err, says, members)
	}
	require.Equal(t, 3, w.run("get", "project", "p").code)
}

// TestAReapplyOfAFileIsKnown: a warning said that it is left out, and it was carried out.
func TestAReapplyOfAFileIsKnown(t *testing.T) {
	w := newWorld(t)
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	w.done("deploy", w.chart(), "--name", "web", "--clusters", "edge01")
	r := w.feed("resourceContext: {anchor: projects/default/composite-apps/web/v1/deployment-intent-groups/web/update}\nspec: {reapply: true}\n", "apply", "-f", "-", "--validate", "strict")
	require.Zero(t, r.code, r.err)
	require.NotContains(t, r.err, "reapply")
}

// TestDeleteStopsWhereATerminateDoes: what a group that is in clusters is made of stays.
func TestDeleteStopsWhereATerminateDoes(t *testing.T) {
	w := newWorld(t)
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		w.stand(s.Owner, domain.Instantiated, domain.ContextInstantiated, 1)
		return 1, nil, nil
	}
	w.done("deploy", w.chart(), "--name", "web", "--clusters", "edge01")
	const app = "projects/default/composite-apps/web/v1"
	w.stand(app+"/deployment-intent-groups/web", domain.Terminated, domain.ContextTerminating, 1)
	documents := fmt.Sprintf("resourceContext: {anchor: %s/deployment-intent-groups}\nmetadata: {name: web}\n---\nresourceContext: {anchor: %s/deployment-intent-groups/web/intents}\nmetadata: {name: web}\n", app, app)
	names := w.done("get", "intents", "-o", "name", "-A")
	r := w.feed(documents, "delete", "-f", "-", "--terminate", "--timeout", "1ms")
	require.Equal(t, 6, r.code, r.err)
	require.NotContains(t, r.out, "deleted")
	require.Equal(t, names, w.done("get", "intents", "-o", "name", "-A"))

	// What is below it was changed meanwhile, and the terminate has failed: it is asked for again, as there is something in clusters.
	asked := 0
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		require.Equal(t, domain.OpTerminate, s.Operation)
		asked++
		return 0, nil, fail.New(fail.Conflict, "not yet")
	}
	w.stand(app+"/deployment-intent-groups/web", domain.Created, domain.ContextTerminateFailed, 0)
	require.NotZero(t, w.feed(documents, "delete", "-f", "-", "--terminate").code)
	require.Equal(t, 1, asked)
	require.Equal(t, names, w.done("get", "intents", "-o", "name", "-A"))
}

// TestAPageIsNoAnswer: a proxy that wants a login says 200, and one that cannot reach the API may say that there is nothing. Nothing was done, and
// nothing is said to be gone.
func TestAPageIsNoAnswer(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	api, err := url.Parse(w.url)
	require.NoError(t, err)
	through := httputil.NewSingleHostReverseProxy(api)
	var code, answers int
	var kind, page string
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if answers--; answers >= 0 {
			through.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("Content-Type", kind)
		rw.WriteHeader(code)
		fmt.Fprint(rw, page)
	}))
	t.Cleanup(proxy.Close)
	file := w.file("go.yaml", "resourceContext: {anchor: "+group+"/instantiate}\n")
	for _, code = range []int{http.StatusOK, http.StatusForbidden, http.StatusNotFound, http.StatusBadGateway} {
		kind, page = "text/html; charset=utf-8", "<html>log in</html>"
		if code == http.StatusNotFound { // as Traefik says it
			kind, page = "text/plain; charset=utf-8", "404 page not found\nand more"
		}
		for _, args := range [][]string{
			{"delete", "project", "demo"}, {"delete", "project", "demo", "--ignore-not-found"}, {"delete", "-f", file, "--terminate"}, {"delete", "-f", folder + "/project.yaml"},
			{"get", "projects"}, {"terminate", group, "--wait"}, {"stop", "web", "-p", "p"}, {"events"}, {"wait", group, "--for=terminated"}, {"apply", "-f", folder + "/project.yaml"},
		} {
			answers = 0
			r := w.run(append(args, "--server", proxy.URL)...)
			require.Equal(t, 5, r.code, "%d %v: %s%s", code, args, r.out, r.err)
			require.Contains(t, r.err, "what answers is not the API")
			require.Contains(t, r.err, proxy.URL)
			require.NotContains(t, r.err, "log in")
			require.NotContains(t, r.err, "and more")
			if code == http.StatusNotFound {
				require.Contains(t, r.err, "404 with text/plain; charset=utf-8 (404 page not found)")
			}
		}
	}
	code, answers = http.StatusRequestEntityTooLarge, 0
	large := w.run("apply", "-f", folder+"/project.yaml", "--server", proxy.URL)
	require.Equal(t, 1, large.code, "a proxy refuses one request, and is on the way to the API: %s%s", large.out, large.err)
	require.Contains(t, large.err, "something before the API does not let it through: Request Entity Too Large")
	w.stand(group, domain.Terminated, domain.ContextTerminating, 1)
	code, answers = http.StatusNotFound, 1
	r := w.run("wait", group, "--for=terminated", "--timeout", "1500ms", "--server", proxy.URL)
	require.Equal(t, 6, r.code, "it is not gone, and asked for again: %s%s", r.out, r.err)
	require.Contains(t, r.err, "what answers is not the API")
	require.Equal(t, "demo\n", w.done("get", "projects", "-o", "jsonpath={.items[*].metadata.name}"))

	secured := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secured.Close)

	r = w.run("get", "projects", "--server", strings.Replace(secured.URL, "https", "http", 1))
	require.Equal(t, 5, r.code, r.err)
	require.Contains(t, r.err, "Client sent an HTTP request to an HTTPS server", "which says what is to be done")
}

// TestTheAPIsAnswersAreKnown: whatever it refuses has the id by which the client tells it from a proxy, or is a problem.
func TestTheAPIsAnswersAreKnown(t *testing.T) {
	w := newWorldWith(t, knows)
	for _, asked := range []string{
		"GET /nowhere", "GET /v2/nowhere", "PATCH /v2/projects", "GET /v2/projects", "GET /v2/projects/", "DELETE /v2/projects/", "POST /v2/projects", "PUT /v2/projects/p",
		"GET /login", "GET /login/callback", "POST /logout", "POST /codec/decode", "GET /metrics", "GET /assets/none.js", "GET /docs/none", "OPTIONS /v2/projects", "POST /readyz",
	} {
		for _, accept := range []string{"", "application/json", "text/html"} {
			for _, host := range []string{"", "other.example"} {
				method, path, _ := strings.Cut(asked, " ")
				r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader("x"))
				require.NoError(t, err)
				r.Header.Set("Accept", accept)
				r.Header.Set("Content-Type", "image/png")
				r.Host = host
				answer, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				problem := strings.HasPrefix(answer.Header.Get("Content-Type"), fail.ProblemJSON)
				require.True(t, problem || answer.Header.Get("X-Request-Id") != "", "%s as %q of %q: %s", asked, accept, host, answer.Status)
			}
		}
	}
}

// TestNumbersInExpressions are numbers.
func TestNumbersInExpressions(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	require.Equal(t, "web\n", w.done("get", "groups", "-A", "-o", `jsonpath={.items[?(@.status.revision<1)].metadata.name}`))
	require.Equal(t, 2, w.run("diff", "web", "--to=-1").code)
}

// TestATokenIsTakenAway by an empty flag.
func TestATokenIsTakenAway(t *testing.T) {
	w := newWorld(t)
	file := w.file("token", "good")
	kept := func() string {
		data, err := os.ReadFile(filepath.Join(w.env["XDG_CONFIG_HOME"], "drover", "config.yaml"))
		require.NoError(t, err)
		return string(data)
	}
	for _, flag := range []string{"--token", "--token-file"} {
		w.done("context", "set", "c", "--server", "http://127.0.0.1:1", "--token-file", file)
		require.Contains(t, kept(), file)
		w.done("context", "set", "c", flag, "")
		require.NotContains(t, kept(), file)
	}
}

// TestATokenFromAPipe comes once.
func TestATokenFromAPipe(t *testing.T) {
	w := newWorldWith(t, knows)
	r, pipe, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = pipe.WriteString("good\n")
	require.NoError(t, err)
	require.NoError(t, pipe.Close())
	require.Equal(t, "alice\n", w.done("auth", "whoami", "-o", "jsonpath={.name}", "--token-file", fmt.Sprintf("/dev/fd/%d", r.Fd())))
}

// TestWhatCannotBeReplacedIsCompared: it is called unchanged where it is as the file says, also where that says less, or that something is empty.
func TestWhatCannotBeReplacedIsCompared(t *testing.T) {
	w := newWorld(t)
	w.feed(`resourceContext: {anchor: projects}
metadata: {name: demo}
---
resourceContext: {anchor: projects/demo/logical-clouds}
metadata: {name: lc}
spec: {namespace: ns, level: "1", user: {userName: u}}
---
resourceContext: {anchor: service-accounts}
metadata: {name: ci}
`, "apply", "-f", "-")
	const cloud = "projects/demo/logical-clouds/lc"
	for _, one := range []struct {
		anchor, first string
		same, other   []string
	}{
		{
			cloud + "/cluster-quotas", "metadata: {name: q}\nspec: {limits.cpu: '4', limits.memory: 1Gi}",
			[]string{"metadata: {name: q}\nspec: {limits.memory: 1Gi, limits.cpu: '4'}"},
			[]string{"metadata: {name: q}\nspec: {limits.cpu: '4'}", "metadata: {name: q}\nspec: {limits.cpu: '4', limits.memory: 2Gi}"},
		},
		{
			cloud + "/user-permissions", "metadata: {name: p, description: d}\nspec: {namespace: ns, apiGroups: [''], resources: [pods], verbs: [get]}",
			[]string{"metadata: {name: p}\nspec: {namespace: ns, apiGroups: [''], resources: [pods], verbs: [get]}"},
			[]string{
				"metadata: {name: p}\nspec: {namespace: '', apiGroups: [''], resources: [pods], verbs: [get]}",
				"metadata: {name: p, description: ''}\nspec: {namespace: ns, apiGroups: [''], resources: [pods], verbs: [get]}",
				"metadata: {name: p}\nspec: {namespace: ns, apiGroups: [''], resources: [pods], verbs: []}",
			},
		},
		{
			"service-accounts/ci/tokens", "metadata: {name: t}\nspec: {expiresAfter: 720h}",
			[]string{"metadata: {name: t}", "metadata: {name: t}\nspec: {expiresAfter: 720h0m}"},
			[]string{"metadata: {name: t}\nspec: {expiresAfter: 24h}"},
		},
	} {
		apply := func(document string) result { // of which a dry run says the same
			document = "resourceContext: {anchor: " + one.anchor + "}\n" + document + "\n"
			dry := w.feed(document, "apply", "-f", "-", "--dry-run")
			r := w.feed(document, "apply", "-f", "-")
			if r.out != "" && !strings.Contains(r.out, "; its token") {
				require.Equal(t, strings.TrimSuffix(r.out, "\n")+" (dry run)\n", dry.out, document)
			}
			require.Equal(t, r.err, dry.err, document)
			require.Equal(t, r.code, dry.code, document)
			return r
		}
		require.Zero(t, apply(one.first).code)
		for _, same := range append(one.same, one.first) {
			r := apply(same)
			require.Zero(t, r.code, "%s: %s", same, r.err)
			require.Contains(t, r.out, " unchanged\n", same)
		}
		for _, other := range one.other {
			r := apply(other)
			require.Equal(t, 1, r.code, "%s: %s", other, r.out)
			require.Contains(t, r.err, "cannot be changed: delete it, and apply again", other)
		}
	}
}

// TestAnAppIsChangedWithoutItsChart, which stays.
func TestAnAppIsChangedWithoutItsChart(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const app = "projects/demo/composite-apps/vfw/v1/apps/sink"
	document := "resourceContext: {anchor: projects/demo/composite-apps/vfw/v1/apps}\nmetadata: {name: sink, description: old}\n"
	require.Equal(t, app+" configured\n", w.feed(document, "apply", "-f", "-").out)
	require.Equal(t, app+" unchanged\n", w.feed(document, "apply", "-f", "-").out)
	w.env["EDITOR"] = "sed -i s/old/new/"
	require.Equal(t, app+" configured\n", w.done("edit", "app", "sink"))
	w.env["EDITOR"] = "echo 'file: /nowhere/sink.tgz' >>"
	r := w.run("edit", "app", "sink")
	require.Equal(t, 2, r.code, r.out+r.err)
	_, kept, _ := strings.Cut(strings.TrimSpace(r.err), "what you wrote is in ")
	require.FileExists(t, kept, "a chart that is named is not left out without a word")
	require.Equal(t, "new\n", w.done("get", "app", "sink", "-o", "jsonpath={.metadata.description}"))
	require.Equal(t, app+" unchanged\n", w.feed(strings.Replace(document, "old", "new", 1)+"file: "+folder+"/files/sink.tgz\n", "apply", "--allow-outside", "-f", "-").out)
}

// TestTimeThatIsOverForAllOfMany is told from what has failed.
func TestTimeThatIsOverForAllOfMany(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const web = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	w.stand(web, domain.Instantiated, domain.ContextInstantiating, 1)
	group := "resourceContext: {anchor: " + web + "/instantiate}\n"
	r := w.feed(group, "apply", "-f", "-", "--wait", "--timeout", "1ms")
	require.Equal(t, 6, r.code, r.out+r.err)
	r = w.feed(group+"---\nresourceContext: {anchor: projects/none/composite-apps}\nmetadata: {name: a}\nspec: {compositeAppVersion: v1}\n", "apply", "-f", "-", "--wait", "--timeout", "1ms")
	require.Equal(t, 1, r.code, r.err)

	for _, name := range []string{"a", "b"} {
		w.feed("resourceContext: {anchor: projects/demo/composite-apps/vfw/v1/deployment-intent-groups}\nmetadata: {name: "+name+"}\n"+
			"spec: {compositeProfile: cp, version: r1, logicalCloud: lc}\n", "apply", "-f", "-")
		w.stand(domain.Key("projects/demo/composite-apps/vfw/v1/deployment-intent-groups/"+name), domain.Terminated, domain.ContextTerminating, 1)
	}
	r = w.run("delete", "group", "a", "b", "--terminate", "--timeout", "1ms")
	require.Equal(t, 6, r.code, r.err)
	w.engine.does = func(domain.Scope) (int, []string, error) { return 0, nil, fail.New(fail.Conflict, "not yet") }
	r = w.run("delete", "group", "a", "web", "--terminate", "--timeout", "1ms")
	require.Equal(t, 1, r.code, r.err)
}

// TestAnEmptyFileIsNotKept, and its document is the same the next time.
func TestAnEmptyFileIsNotKept(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	w.file("c/full", "x")
	w.file("c/empty", "")
	file := w.file("c/c.yaml", `resourceContext: {anchor: `+group+`/generic-k8s-intents}
metadata: {name: i}
---
resourceContext: {anchor: `+group+`/generic-k8s-intents/i/resources}
metadata: {name: r}
spec: {app: sink, newObject: "true", resourceGVK: {apiVersion: v1, kind: ConfigMap, name: m}}
---
resourceContext: {anchor: `+group+`/generic-k8s-intents/i/resources/r/customizations}
metadata: {name: c}
spec: {clusterSpecific: "false", clusterInfo: {scope: label, clusterProvider: edge, clusterLabel: small, mode: allow}}
files: [full, empty]
`)
	require.Contains(t, w.done("apply", "-f", file), "/customizations/c created\n")
	require.Contains(t, w.done("apply", "-f", file), "/customizations/c unchanged\n")
}
