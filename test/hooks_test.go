package test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/harness"
)

// The clusters' own controller runs the Jobs of hooks, and their pods succeed at once; one that is suspended, or
// for which there is no node, does not.

// hookJob is a template of a Job that is a hook. spec are members of its own spec.
func hookJob(name, events, annotations, spec string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata:
  name: '{{ .Release.Name }}-%s'
  annotations: {helm.sh/hook: "%s"%s}
spec: {%s template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}
`, name, events, annotations, spec)
}

// unplaced keeps the pods of a Job from being run.
func unplaced(job string) string {
	return strings.Replace(job, "restartPolicy: Never", "restartPolicy: Never, nodeSelector: {there: is-none}", 1)
}

const suspended = "suspend: true,"

// hookApp is an app of one ConfigMap and hooks.
func hookApp(t *testing.T, name string, hooks map[string]string) client.App {
	t.Helper()
	templates := harness.ConfigMaps(name, 1)
	for file, text := range hooks {
		templates[file+".yaml"] = text
	}
	return client.App{Name: name, Chart: harness.Chart(t, name, templates)}
}

// written are the names of what was written to a cluster, with their methods, as the release's parts of them.
type written struct {
	mu  sync.Mutex
	all []string
}

// watchWrites notes what is written by way of a cluster's proxy.
func watchWrites(c *harness.Cluster) *written {
	w := &written{}
	c.Harm(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "resourcebundlestates") {
			w.mu.Lock()
			_, name, _ := strings.Cut(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], "-")
			w.all = append(w.all, r.Method+" "+name)
			w.mu.Unlock()
		}
		next.ServeHTTP(rw, r)
	})
	return w
}

// list is what was written since it was forgotten, in the order in which it first was: what is not answered in time is
// written again.
func (w *written) list() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.all {
		if !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all
}

func (w *written) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = nil
}

// job reads a hook's Job past the proxy; nil when there is none.
func job(ctx context.Context, t *testing.T, c *harness.Cluster, d *client.Deployment, name string) *batchv1.Job {
	t.Helper()
	list, err := c.Client(t).BatchV1().Jobs("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + d.Release + "-" + name})
	require.NoError(t, err)
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

// goes waits until a hook's Job is gone.
func goes(ctx context.Context, t *testing.T, c *harness.Cluster, d *client.Deployment, name string) {
	t.Helper()
	harness.Until(ctx, t, "gone: Job "+name+" on "+c.Name, func() bool { return job(ctx, t, c, d, name) == nil })
}

// release lets a suspended Job run.
func release(ctx context.Context, t *testing.T, c *harness.Cluster, d *client.Deployment, name string) {
	t.Helper()
	jobs := c.Client(t).BatchV1().Jobs("default")
	_, err := jobs.Patch(ctx, d.Release+"-"+name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// reasons are the clusters' in a status in detail, by app.
func reasons(ctx context.Context, t *testing.T, d *client.Deployment) map[string]string {
	t.Helper()
	got, err := d.Status(ctx, url.Values{"output": {"detail"}})
	require.NoError(t, err)
	found := map[string]string{}
	for _, a := range got.Apps {
		for _, c := range a.Clusters {
			if c.Reason != "" {
				found[a.Name] = c.Reason
			}
		}
	}
	return found
}

func awaitReason(ctx context.Context, t *testing.T, d *client.Deployment, app, reason string) {
	t.Helper()
	harness.Until(ctx, t, reason, func() bool { return strings.Contains(reasons(ctx, t, d)[app], reason) })
}

func TestHooks(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	d := s.Deployment(ctx, clusters[:1], hookApp(t, "web", map[string]string{
		"late":    hookJob("late", "pre-install", `, helm.sh/hook-weight: "5", helm.sh/hook-delete-policy: hook-succeeded`, ""),
		"early":   hookJob("early", "pre-install", `, helm.sh/hook-weight: "-5"`, ""),
		"after":   hookJob("after", "post-install", "", "ttlSecondsAfterFinished: 0,"),
		"upgrade": hookJob("upgrade", "pre-upgrade", "", ""),
		"leave":   hookJob("leave", "pre-delete", "", ""),
		"left":    hookJob("left", "post-delete", "", ""),
		"test":    hookJob("test", "test", "", ""),
		"settings": `apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-settings', annotations: {helm.sh/hook: 'pre-install,post-install', helm.sh/hook-weight: "-9"}}
`,
	}))
	writes := watchWrites(clusters[0])
	do(ctx, t, d, "approve", "instantiate")
	got := s.Await(ctx, d, "Instantiated")
	require.Equal(t, []string{"PATCH settings", "PATCH early", "PATCH late", "DELETE late", "PATCH web-000", "DELETE settings", "PATCH after"}, writes.list())
	require.Equal(t, map[domain.ResourceState]int{"Applied": 5, "Deleted": 1, "Pending": 3}, got.Deployed, "hooks of other operations are idle")
	require.NotNil(t, job(ctx, t, clusters[0], d, "early"), "Helm leaves it")
	require.Nil(t, job(ctx, t, clusters[0], d, "late"))

	writes.forget()
	do(ctx, t, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 9}, got.Deployed)
	require.Equal(t, []string{"PATCH leave", "DELETE web-000", "PATCH left"}, writes.list()[:3])
	for _, name := range []string{"early", "late", "after", "upgrade", "leave", "left", "test"} {
		goes(ctx, t, clusters[0], d, name)
	}
	holds(t, clusters[:1], got, 0)
}

func TestHookThatFails(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	d := s.Deployment(ctx, clusters, hookApp(t, "web", map[string]string{
		"fails": unplaced(hookJob("fails", "pre-install", "", "activeDeadlineSeconds: 1,")),
	}), hookApp(t, "other", nil))
	writes := watchWrites(clusters[0])
	do(ctx, t, d, "approve", "instantiate")
	got := s.Await(ctx, d, "InstantiateFailed")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 2, "Failed": 2, "Pending": 2}, got.Deployed, "the other app is not held up")
	require.NotContains(t, writes.list(), "PATCH web-000", "a later step")
	detail, err := d.Status(ctx, url.Values{"output": {"detail"}, "app": {"web"}})
	require.NoError(t, err)
	for _, r := range detail.Apps[0].Clusters[0].Resources {
		if strings.HasSuffix(r.Name, "fails") {
			require.Equal(t, "the Job has failed: DeadlineExceeded: Job was active longer than specified deadline", r.Message)
		}
	}
	require.Equal(t, 409, code(t, d.Do(ctx, "stop")), "it is over")
	x, _ := explains(ctx, t, s, d, explain.HookFailed, nil)
	require.Equal(t, "2 hooks failed on 2 clusters", x.Reasons[0].Text)
	require.Contains(t, x.Reasons[0].Do, client.At(d.Key())+"/update")

	// An update runs it again: the Job of before is not taken for this one's.
	c := &changing{t: t, s: s, clusters: clusters, Deployment: d}
	first := job(ctx, t, clusters[0], d, "fails").UID
	require.Equal(t, 2, c.update(ctx))
	got = s.Await(ctx, d, "InstantiateFailed")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 2, "Failed": 2, "Pending": 2}, got.Deployed)
	require.NotEqual(t, first, job(ctx, t, clusters[0], d, "fails").UID)
	require.NotContains(t, writes.list(), "PATCH web-000")

	// Mended, it succeeds, and the app is installed.
	writes.forget()
	mended := hookApp(t, "web", map[string]string{"fails": hookJob("fails", "pre-install", "", "")})
	replaceChart(ctx, t, d, "web", mended.Chart)
	require.Equal(t, map[domain.ResourceState]int{"Applied": 6}, c.updated(ctx).Deployed)
	require.Equal(t, []string{"DELETE fails", "PATCH fails", "PATCH web-000"}, writes.list())
	do(ctx, t, d, "terminate")
	got = s.Await(ctx, d, "Terminated")
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 6}, got.Deployed)
	for _, c := range clusters {
		goes(ctx, t, c, d, "fails")
	}
}

func TestWhileAHookRuns(t *testing.T) {
	t.Parallel()
	s, clusters := harness.NewStack(t), twoClusters(t)
	// begin waits for a hook that does not end before it is let.
	begin := func(ctx context.Context, t *testing.T) (*client.Deployment, *written) {
		t.Helper()
		d := s.Deployment(ctx, clusters[:1], hookApp(t, "web", map[string]string{"slow": hookJob("slow", "pre-install", "", suspended)}))
		writes := watchWrites(clusters[0])
		do(ctx, t, d, "approve", "instantiate")
		awaitReason(ctx, t, d, "web", "waits for the pre-install hook Job "+d.Release+"-slow")
		got, err := d.Summary(ctx)
		require.NoError(t, err)
		require.Equal(t, domain.ContextInstantiating, got.Status)
		require.Equal(t, map[domain.ResourceState]int{"Pending": 2}, got.Deployed)
		x, _ := explains(ctx, t, s, d, explain.Waiting, nil)
		require.Equal(t, "work on 1 cluster waits for the pre-install hook Job "+d.Release+"-slow", x.Reasons[0].Text)
		return d, writes
	}
	end := func(ctx context.Context, t *testing.T, d *client.Deployment) {
		t.Helper()
		do(ctx, t, d, "terminate")
		got := s.Await(ctx, d, "Terminated")
		require.Equal(t, map[domain.ResourceState]int{"Deleted": 2}, got.Deployed)
		goes(ctx, t, clusters[0], d, "slow")
		holds(t, clusters[:1], got, 0)
	}
	t.Run("it ends", func(t *testing.T) {
		ctx := within(t)
		d, _ := begin(ctx, t)
		require.Equal(t, 409, code(t, d.Do(ctx, "instantiate")), "it is under way")
		release(ctx, t, clusters[0], d, "slow")
		got := s.Await(ctx, d, "Instantiated")
		require.Equal(t, map[domain.ResourceState]int{"Applied": 2}, got.Deployed)
		require.Empty(t, reasons(ctx, t, d))
		end(ctx, t, d)
	})
	t.Run("it is stopped", func(t *testing.T) {
		ctx := within(t)
		d, writes := begin(ctx, t)
		got := stopped(ctx, t, d, "InstantiateFailed")
		require.Equal(t, domain.InstantiateStopped, got.States.State())
		require.Equal(t, map[domain.ResourceState]int{"Failed": 1, "Pending": 1}, got.Deployed)
		require.NotContains(t, writes.list(), "PATCH web-000")
		end(ctx, t, d)
	})
	t.Run("it is terminated", func(t *testing.T) {
		ctx := within(t)
		d, _ := begin(ctx, t)
		end(ctx, t, d)
	})
	t.Run("its worker is killed", func(t *testing.T) {
		ctx := within(t)
		d, writes := begin(ctx, t)
		writes.forget()
		s.Worker.Kill()
		release(ctx, t, clusters[0], d, "slow")
		s.StartWorker()
		started := time.Now()
		s.Await(ctx, d, "Instantiated")
		t.Logf("instantiated %s after the worker was there again", time.Since(started).Round(time.Millisecond))
		require.Equal(t, []string{"PATCH web-000"}, writes.list(), "the hook was run once")
		end(ctx, t, d)
	})
	t.Run("its cluster goes down", func(t *testing.T) {
		ctx := within(t)
		d, writes := begin(ctx, t)
		writes.forget()
		clusters[0].Down()
		waitFor(ctx, t, d, func(g *status.Document) bool { return retrying(g) == 2 })
		release(ctx, t, clusters[0], d, "slow")
		clusters[0].Up(t)
		s.Await(ctx, d, "Instantiated")
		require.Equal(t, []string{"PATCH web-000"}, writes.list(), "the hook was run once")
		end(ctx, t, d)
	})
}

// TestHooksOnATerminate has one that fails at first: nothing is deleted before it has succeeded.
func TestHooksOnATerminate(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	d := s.Deployment(ctx, clusters[:1], hookApp(t, "web", map[string]string{
		"leave": hookJob("leave", "pre-delete", `, drover.io/hook-timeout: 4s`, suspended),
	}))
	do(ctx, t, d, "approve", "instantiate")
	s.Await(ctx, d, "Instantiated")
	do(ctx, t, d, "terminate")
	got := s.Await(ctx, d, "TerminateFailed")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 1, "Failed": 1}, got.Deployed)
	holds(t, clusters[:1], got, 1)
	detail, err := d.Status(ctx, url.Values{"output": {"detail"}})
	require.NoError(t, err)
	require.Equal(t, "it has not completed within 4s: the Job is suspended", detail.Apps[0].Clusters[0].Resources[0].Message)

	// It is run again, and again where it was not let in time.
	for got.Status != "Terminated" {
		last := job(ctx, t, clusters[0], d, "leave").UID
		do(ctx, t, d, "terminate")
		harness.Until(ctx, t, "run again", func() bool {
			j := job(ctx, t, clusters[0], d, "leave")
			return j != nil && j.UID != last
		})
		release(ctx, t, clusters[0], d, "leave")
		got, err = harness.LookAt(ctx, d, func(g *status.Document) bool { return g.Status != "Terminating" })
		require.NoError(t, err)
	}
	require.Equal(t, map[domain.ResourceState]int{"Deleted": 2}, got.Deployed)
	holds(t, clusters[:1], got, 0)
}

// TestHooksOnAnUpdate runs the hooks of an update where the app is, and those of an install where it brings it to.
func TestHooksOnAnUpdate(t *testing.T) {
	t.Parallel()
	ctx, s, clusters := within(t), harness.SharedStack(t), twoClusters(t)
	hooks := map[string]string{
		"install": hookJob("install", "pre-install", "", ""), "upgrade": hookJob("upgrade", "pre-upgrade", "", ""),
		"upgraded": hookJob("upgraded", "post-upgrade", "", ""), "back": hookJob("back", "pre-rollback", "", ""),
	}
	// version is a chart of n ConfigMaps, the first of which says something.
	version := func(n int, says string) []byte {
		templates := harness.ConfigMaps("web", n)
		templates["says.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-says'}\ndata: {says: " + says + "}\n"
		for name, text := range hooks {
			templates[name+"-job.yaml"] = text
		}
		return harness.Chart(t, "web", templates)
	}
	d := s.Deployment(ctx, clusters, client.App{Name: "web", Chart: version(1, "one")})
	c := &changing{t: t, s: s, clusters: clusters, Deployment: d}
	c.place(ctx, "web", clusters[0])
	writes, elsewhere := watchWrites(clusters[0]), watchWrites(clusters[1])
	do(ctx, t, d, "approve", "instantiate")
	got := s.Await(ctx, d, "Instantiated")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 3, "Pending": 3}, got.Deployed)
	replace := func(chart []byte) { replaceChart(ctx, t, d, "web", chart) }
	require.Equal(t, 1, c.update(ctx), "hooks alone are no difference")

	replace(version(2, "two"))
	c.place(ctx, "web", clusters...)
	writes.forget()
	got = c.updated(ctx)
	require.Len(t, writes.list(), 4)
	require.Equal(t, "PATCH upgrade", writes.list()[0])
	require.ElementsMatch(t, []string{"PATCH says", "PATCH web-001"}, writes.list()[1:3])
	require.Equal(t, "PATCH upgraded", writes.list()[3])
	require.Equal(t, "PATCH install", elsewhere.list()[0])
	require.NotContains(t, elsewhere.list(), "PATCH upgrade")
	require.NotContains(t, elsewhere.list(), "PATCH upgraded")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 6 + 4, "Pending": 1 + 3}, got.Deployed)

	writes.forget()
	require.NoError(t, c.rollback(ctx, 1))
	got = s.Await(ctx, d, "Instantiated")
	require.Equal(t, "PATCH back", writes.list()[0])
	require.Equal(t, map[domain.ResourceState]int{"Applied": 6}, got.Deployed, "of one cluster, with all its hooks")

	do(ctx, t, d, "terminate")
	s.Await(ctx, d, "Terminated")
	for _, k := range clusters {
		for _, name := range []string{"install", "upgrade", "upgraded", "back"} {
			goes(ctx, t, k, d, name)
		}
	}
}
