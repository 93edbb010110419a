package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestApplyLooksWhereAnOperationStands: an instantiate that was accepted before is unchanged only once it has come to its end; one that
// goes on is waited for, and one that has failed fails.
func TestApplyLooksWhereAnOperationStands(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	const what = group + "/instantiate "
	file := w.file("go.yaml", "resourceContext: {anchor: "+group+"/instantiate}\n")

	w.stand(group, domain.Instantiated, domain.ContextInstantiating, 1)
	require.Equal(t, what+"goes on\n", w.done("apply", "-f", file))
	r := w.run("apply", "-f", file, "--wait", "--timeout", "1ms")
	require.Equal(t, 6, r.code, r.out)
	require.Contains(t, r.err, "after 1ms, and goes on")

	w.stand(group, domain.Instantiated, domain.ContextInstantiateFailed, 1)
	r = w.run("apply", "-f", file, "--wait")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "it was asked for before and has failed")

	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	require.Equal(t, what+"unchanged\n", w.done("apply", "-f", file, "--wait"))
	for _, changes := range []string{
		"{anchor: " + group + "/intents}\nmetadata: {name: bound}\nspec: {intent: {genericPlacementIntent: other}}",
		"{anchor: projects/demo/composite-apps/vfw/v1/composite-profiles}\nmetadata: {name: other}",
	} {
		r = w.feed("resourceContext: "+changes+"\n---\nresourceContext: {anchor: "+group+"/instantiate}\n", "apply", "-q", "-f", "-")
		require.Contains(t, r.err, "has changed; 'drover update", r.out)
	}
}

// TestWhatATerminateLeaves is named to who waits for it, and only then.
func TestWhatATerminateLeaves(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	w.stand(group, domain.Terminated, domain.ContextTerminated, 1)
	w.leaves(group, domain.MarkDeleted, domain.MarkKept, domain.MarkKept)
	require.Equal(t, "Terminated\n  web  1 of 3 Deleted on 1 cluster, 2 are meant to stay\n"+
		"everything is as wished: nothing is left in clusters but 2 resources on 1 cluster that are meant to stay: ConfigMap/web-1, ConfigMap/web-2\n",
		w.done("wait", "v1/web", "--for", "terminated"))
	o, err := w.db.Get(t.Context(), domain.OwnerNoun(group), group)
	require.NoError(t, err)
	remnants := func(what string) {
		require.NoError(t, w.db.UpdateInstance(t.Context(), o.(domain.Owner).Track().ContextID(), func(i *domain.Instance) error {
			i.Remnants = what
			return nil
		}))
	}
	remnants("p+edge01: ConfigMap/web-0")
	require.NotContains(t, w.done("wait", "v1/web", "--for", "terminated"), "not as wished", "it has ended as it was to")
	remnants("")
	w.leaves(group, domain.MarkDeleted)
	require.Equal(t, "Terminated\n  web  1 of 1 Deleted on 1 cluster\n", w.done("wait", "v1/web", "--for", "terminated"))
}

// cancels ends a context once a text is written.
type cancels struct {
	text   bytes.Buffer
	at     string
	cancel func()
}

func (c *cancels) Write(b []byte) (int, error) {
	n, err := c.text.Write(b)
	if strings.Contains(c.text.String(), c.at) {
		c.cancel()
	}
	return n, err
}

// TestWhoHasWaitedLongEnough by an interrupt ends the command, and is told that the operation goes on.
func TestWhoHasWaitedLongEnough(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	w.stand(group, domain.Instantiated, domain.ContextInstantiating, 1)
	file := w.file("go.yaml", "resourceContext: {anchor: "+group+"/instantiate}\n")
	for _, args := range [][]string{{"apply", "-f", file, "--wait"}, {"wait", "v1/web"}, {"wait", "v1/web", "--timeout", "0"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var said bytes.Buffer
		code := w.start(ctx, strings.NewReader(""), &cancels{at: "Instantiating", cancel: cancel}, &said, args...)
		require.Equal(t, 130, code, "%v: %s", args, said.String())
		require.Contains(t, said.String(), "The operation goes on: drover status "+group+"\n", "%v", args)
	}
	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	r := w.run("wait", "v1/web", "--for", "deployed", "--timeout", "0")
	require.Zero(t, r.code, "as long as it takes: %s%s", r.out, r.err)
}

// TestAnInterruptEndsWhatIsRead of a pipe that never ends, as of a terminal at which nobody types.
func TestAnInterruptEndsWhatIsRead(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{
		{"login", w.url}, {"get", "projects", "--token-file", "-"}, {"context", "set", "x", "--server", w.url, "--token-file", "-"},
		{"apply", "-f", "-"}, {"delete", "-f", "-"},
	} {
		in, never := io.Pipe()
		t.Cleanup(func() { require.NoError(t, never.Close()) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		var said bytes.Buffer
		go func() { ended <- w.start(ctx, in, io.Discard, &said, args...) }()
		go func() {
			_, _ = io.WriteString(never, "#") // once it is read more is waited for
			cancel()
		}()
		select {
		case code := <-ended:
			require.Equal(t, 130, code, "%v: %s", args, said.String())
			require.Contains(t, said.String(), "drover: interrupted\n", "%v", args)
		case <-time.After(time.Minute):
			t.Fatal(args, "goes on to read")
		}
	}
}

// TestWhatIsRefusedForNowIsAskedForAgain, when the API says, and a fault of the API's own ends no wait; where something else ends one it is said that
// the operation goes on, and where an apply ends what was not tried.
func TestWhatIsRefusedForNowIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	w.engine.does = func(domain.Scope) (int, []string, error) {
		w.stand(group, domain.Instantiated, domain.ContextInstantiated, 2)
		return 2, nil, nil
	}
	api, err := url.Parse(w.url)
	require.NoError(t, err)
	through := httputil.NewSingleHostReverseProxy(api)
	var asked []string
	answers, undone := func(string) int { return 0 }, false
	between := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		code := answers(asked[len(asked)-1])
		if code == 0 {
			through.ServeHTTP(out, r)
			return
		}
		if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
			out.Header().Set("Retry-After", "1")
		}
		if undone {
			out.Header().Set("Drover-Undone", "true")
		}
		refuse(out, "not now", code)
	}))
	t.Cleanup(between.Close)
	run := func(args ...string) result { return w.run(append(args, "--server", between.URL)...) }

	third := func(string) int { // each third request comes too soon
		if len(asked)%3 == 0 {
			return http.StatusTooManyRequests
		}
		return 0
	}
	const three = `resourceContext: {anchor: projects}
metadata: {name: demo}
---
resourceContext: {anchor: projects/demo/composite-apps}
metadata: {name: vfw}
spec: {compositeAppVersion: v1}
---
resourceContext: {anchor: projects/demo/composite-apps/vfw/v1/composite-profiles}
metadata: {name: cp}
`
	documents := w.file("all.yaml", three)
	answers = third
	for _, args := range [][]string{{"apply", "-f", documents}, {"export", "project", "demo", "--to", t.TempDir()}} {
		asked = nil
		r := run(args...)
		require.Zero(t, r.code, "%v: %s%s", args, r.out, r.err)
		require.Equal(t, 1, strings.Count(r.err, "not now; it is asked again\n"), "%v, once: %s", args, r.err)
	}
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	asked = nil
	r := run("update", group, "--wait")
	require.Zero(t, r.code, "%s%s", r.out, r.err)
	require.Contains(t, r.err, "not now; it is asked again\n")

	// What may have begun is not asked for twice.
	answers = func(what string) int {
		if strings.HasPrefix(what, "POST") {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	asked = nil
	r = run("update", group, "--wait")
	require.Equal(t, 5, r.code, "%s%s", r.out, r.err)
	require.Equal(t, 1, strings.Count(strings.Join(asked, "\n"), "POST"))

	// Where the API says that nothing was done it is.
	undone = true
	answers = func(what string) int {
		if strings.HasPrefix(what, "POST") && strings.Count(strings.Join(asked, "\n"), "POST") == 1 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	asked = nil
	r = run("update", group)
	require.Zero(t, r.code, "%s%s", r.out, r.err)
	require.Equal(t, 2, strings.Count(strings.Join(asked, "\n"), "POST"), "%s", asked)
	undone = false

	status, begun := http.StatusInternalServerError, 0
	answers = func(what string) int {
		switch {
		case strings.HasPrefix(what, "POST"):
			begun = len(asked)
		case begun > 0 && len(asked) == begun+1:
			return status
		}
		return 0
	}
	asked, begun = nil, 0
	r = run("update", group, "--wait")
	require.Zero(t, r.code, "%s%s", r.out, r.err)
	require.Contains(t, r.err, "; it is asked again\n")
	status = http.StatusForbidden
	asked, begun = nil, 0
	r = run("update", group, "--wait")
	require.Equal(t, 4, r.code, "%s%s", r.out, r.err)
	require.Contains(t, r.err, "The operation goes on: drover status "+group+"\n")

	answers = func(what string) int {
		if what == "POST /v2/projects/new/composite-apps" {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	r = w.feed(strings.ReplaceAll(three, "demo", "new"), "apply", "-f", "-", "--server", between.URL)
	require.Equal(t, 5, r.code, "%s%s", r.out, r.err)
	require.Contains(t, r.err, "projects/new/composite-apps/vfw/v1: it ends here; 1 document after it not tried\n")
}

// TestALookThatHangsIsNotLongWaitedFor: the look after one that was swallowed comes soon, so that the end of an operation is seen in time.
func TestALookThatHangsIsNotLongWaitedFor(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	w.stand(group, domain.Instantiated, domain.ContextInstantiating, 1)
	api, err := url.Parse(w.url)
	require.NoError(t, err)
	through := httputil.NewSingleHostReverseProxy(api)
	looks := 0
	between := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/status") {
			if looks++; looks == 2 {
				<-time.After(1500 * time.Millisecond)
				w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
				out.WriteHeader(http.StatusBadGateway)
				return
			}
		}
		through.ServeHTTP(out, r)
	}))
	t.Cleanup(between.Close)
	r := w.run("wait", "v1/web", "--for", "deployed", "--timeout", "10s", "--server", between.URL)
	require.Zero(t, r.code, "%s%s", r.out, r.err)
	require.Equal(t, 3, looks)
}

// TestWhatIsReadyWhenItIsGone: who waits for something to be ready is told when another one has terminated or stopped it, or it has failed; without a bound it
// is waited as long as it takes.
func TestWhatIsReadyWhenItIsGone(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const group = "projects/demo/composite-apps/vfw/v1/deployment-intent-groups/web"
	api, err := url.Parse(w.url)
	require.NoError(t, err)
	through := httputil.NewSingleHostReverseProxy(api)
	looks, becomes := 0, func() {}
	ready := false
	between := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("status") != "ready" {
			through.ServeHTTP(out, r)
			return
		}
		if looks++; looks == 2 {
			becomes()
		}
		if ready {
			_, _ = io.WriteString(out, `{"name":"web","states":{"actions":[{"state":"Instantiated"}]},"deployedStatus":"Instantiated","readyStatus":"Ready"}`)
			return
		}
		through.ServeHTTP(out, r)
	}))
	t.Cleanup(between.Close)
	wait := func(more ...string) result {
		looks = 0
		return w.run(append([]string{"wait", "v1/web", "--for", "ready", "--server", between.URL}, more...)...)
	}
	for why, to := range map[string]struct {
		state  domain.State
		status domain.ContextStatus
	}{
		"it is Terminated":         {domain.Terminated, domain.ContextTerminated},
		"it was stopped":           {domain.InstantiateStopped, domain.ContextInstantiated},
		"it could not be deployed": {domain.Instantiated, domain.ContextInstantiateFailed},
	} {
		w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
		w.leaves(group, domain.MarkApplied)
		becomes = func() { w.stand(group, to.state, to.status, 1) }
		r := wait("--timeout", "30s")
		require.Equal(t, 1, r.code, "%s: %s%s", why, r.out, r.err)
		require.Contains(t, r.err, group+": "+why+"\n")
	}
	w.stand(group, domain.Instantiated, domain.ContextInstantiated, 1)
	w.leaves(group, domain.MarkApplied)
	becomes = func() { ready = true }
	r := wait("--timeout", "0")
	require.Zero(t, r.code, "%s%s", r.out, r.err)
	require.Contains(t, r.out, group+" is ready\n")
	require.Equal(t, 2, looks)
}

// TestNoTimeIsLessThanNone: it is refused, as a bound that is none would be without end.
func TestNoTimeIsLessThanNone(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{
		{"wait", "web"}, {"approve", "web"}, {"update", "web", "--wait"}, {"apply", "-f", "x", "--wait"}, {"delete", "group", "web", "--terminate"},
		{"deploy", "x", "--name", "x", "--clusters", "x", "--wait"},
	} {
		r := w.run(append(args, "--timeout=-1s")...)
		require.Equal(t, 2, r.code, "%v: %s", args, r.err)
		require.Contains(t, r.err, "--timeout -1s is less than no time", "%v", args)
	}
	require.Zero(t, w.requests.Load())
}

// TestAMigrateIsLookedAt: a group that was migrated has nothing to wait for, and says so at once; of a migrate in files the group that it goes to is
// waited for, and once it is carried out a folder is unchanged, also in what it says of the first group.
func TestAMigrateIsLookedAt(t *testing.T) {
	w := newWorld(t)
	folder := w.fleet()
	w.done("apply", "-f", folder, "-v", folder+"/values.yaml")
	const app = "projects/demo/composite-apps/vfw/"
	const from, to = app + "v1/deployment-intent-groups/web", app + "v2/deployment-intent-groups/next"
	w.done("apply", "-f", w.file("v2.yaml", `resourceContext: {anchor: projects/demo/composite-apps}
metadata: {name: vfw}
spec: {compositeAppVersion: v2}
---
resourceContext: {anchor: `+app+`v2/composite-profiles}
metadata: {name: cp}
---
resourceContext: {anchor: `+app+`v2/deployment-intent-groups}
metadata: {name: next}
spec: {compositeProfile: cp, version: r1, logicalCloud: lc, overrideValues: []}
`))
	files := []string{"apply", "-f", w.file("migrate.yaml", `resourceContext: {anchor: `+from+`/approve}
---
resourceContext: {anchor: `+from+`/instantiate}
---
resourceContext: {anchor: `+to+`/approve}
---
resourceContext: {anchor: `+from+`/migrate}
spec: {targetCompositeAppVersion: v2, targetDeploymentIntentGroup: next}
`)}
	// migrated puts both groups where a migrate leaves them.
	migrated := func(status domain.ContextStatus) {
		w.stand(from, domain.Updated, domain.ContextUpdated, 1)
		w.stand(to, domain.Instantiated, status, 1)
		o, err := w.db.Get(t.Context(), domain.DeploymentIntentGroups, to)
		require.NoError(t, err)
		o.(domain.Owner).Track().Note("migrate from v1/web", "")
		require.NoError(t, w.db.Replace(t.Context(), o))
	}
	w.stand(from, domain.Instantiated, domain.ContextInstantiated, 1)
	w.stand(to, domain.Approved, domain.ContextNone, 0)
	w.engine.does = func(s domain.Scope) (int, []string, error) {
		require.Equal(t, domain.OpMigrate, s.Operation)
		migrated(domain.ContextInstantiated)
		return 1, nil, nil
	}
	r := w.run(append(files, "--wait", "--timeout", "10s")...)
	require.Zero(t, r.code, "%s%s", r.out, r.err)
	require.Contains(t, r.out, from+"/migrate accepted\nInstantiated\n")

	for _, what := range []string{"ready", "deployed", "terminated"} {
		r = w.run("wait", "v1/web", "--for", what, "--timeout", "10s")
		require.Equal(t, 1, r.code, r.out)
		require.Contains(t, r.err, from+": it is Updated: its instance went to the deployment intent group that it was migrated to\n")
	}

	all := from + "/approve unchanged\n" + from + "/instantiate unchanged\n" + to + "/approve unchanged\n" + from + "/migrate "
	require.Equal(t, all+"unchanged\n", w.done(files...))
	migrated(domain.ContextInstantiating)
	require.Equal(t, all+"goes on\n", w.done(files...))
	migrated(domain.ContextInstantiateFailed)
	r = w.run(files...)
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, from+"/migrate: it was asked for before and has failed: 'drover explain deployment-intent-groups "+to+"'")
}
