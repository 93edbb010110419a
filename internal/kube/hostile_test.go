package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
)

// ill is what a cluster answers to work that wants to do harm. It may say that all is well, which then is said of itself.
type ill struct {
	custom bool // it is to find a kind that it alone knows of
	answer func(r *http.Request, say func(text string) (more bool))
	lies   bool
}

// ills are ways to do harm to who applies and deletes.
func ills() map[string]ill {
	filler := strings.Repeat("a", 64<<10)
	custom := func(groups, list string) func(*http.Request, func(string) bool) {
		return func(r *http.Request, say func(string) bool) {
			switch {
			case r.URL.Path == "/apis":
				say(`{"kind":"APIGroupList","groups":[` + groups + `]}`)
			case strings.Count(r.URL.Path, "/") == 3: // a group version
				say(`{"kind":"APIResourceList","resources":[` + list + `]}`)
			default:
				say(`{}`)
			}
		}
	}
	many := func(n int, one string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, one+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	return map[string]ill{
		"an answer without end": {answer: func(_ *http.Request, say func(string) bool) {
			for more := say(`{"kind":"ConfigMap","metadata":{"name":"`); more; more = say(filler) {
			}
		}},
		"a byte a second": {answer: func(r *http.Request, say func(string) bool) {
			for more := true; more; more = say(" ") {
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		}},
		"nothing":        {answer: func(r *http.Request, _ func(string) bool) { <-r.Context().Done() }},
		"nesting":        {answer: func(_ *http.Request, say func(string) bool) { say(strings.Repeat(`{"metadata":`, 1<<20)) }, lies: true},
		"something else": {answer: func(_ *http.Request, say func(string) bool) { say(`<html>log in</html>`) }, lies: true},
		"another object": {answer: func(_ *http.Request, say func(string) bool) {
			say(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"other","namespace":"kube-system","uid":"u","labels":{"` + plan.DeploymentLabel + `":"others-app"}}}`)
		}, lies: true},
		"warnings of 10 MB": {answer: func(_ *http.Request, say func(string) bool) {
			say(`{"kind":"Status","status":"Failure","code":422,"message":"`)
			for range 160 {
				say(filler)
			}
			say(`"}`)
		}, lies: true},
		"kinds without number":     {custom: true, answer: custom(``, many(limits.ServedKinds+1, `{"name":"n%[1]d","kind":"K%[1]d"}`))},
		"kinds with long names":    {custom: true, answer: custom(``, `{"name":"`+filler+`","kind":"Widget"}`)},
		"versions without number":  {custom: true, answer: custom(`{"name":"example.com","versions":[`+many(limits.ServedVersions+1, `{"version":"v2alpha%d"}`)+`]}`, ``), lies: true},
		"a kind that is elsewhere": {custom: true, answer: custom(`{"name":"example.com","versions":[{"version":"v1"}]}`, `{"name":"..","kind":"Widget"},{"name":"?dryRun=All#","kind":"Gadget"}`), lies: true},
	}
}

// TestWorkOnHostileClusters: clusters that answer work with what has no end, is large, slow, another thing or not true hold it up for themselves alone, and
// no longer than an answer may take. What is applied and deleted in a real one beside them, by the same process, is done as before. Nothing follows a
// redirect, and memory is bounded.
func TestWorkOnHostileClusters(t *testing.T) {
	honeypot := atomic.Int64{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { honeypot.Add(1) }))
	defer elsewhere.Close()
	all := ills()
	kubeconfigs := map[domain.ClusterName][]byte{}
	named := func(name string) domain.ClusterName { return domain.ClusterName{Provider: "p", Name: name} }
	good := named("good")
	kubeconfigs[good] = kubetest.Kubeconfig(t)
	for name, h := range all {
		kubeconfigs[named(name)] = serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			h.answer(r, func(text string) bool {
				_, err := io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
				return err == nil && r.Context().Err() == nil
			})
		}).kubeconfig(t)
	}
	all["redirects"] = ill{}
	kubeconfigs[named("redirects")] = serve(t, http2, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}).kubeconfig(t)
	clusters, err := kube.NewClusters(kube.Config{Request: 3 * time.Second, StageWait: 3 * time.Second}, func(_ context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
		return kubeconfigs[name], "digest", nil
	})
	require.NoError(t, err)
	defer clusters.Close()

	percent := debug.SetGCPercent(100) // what is in use is meant, not what CI lets a heap grow to
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	ctx, cancel := context.WithTimeout(t.Context(), kubetest.Deadline)
	defer cancel()
	var working sync.WaitGroup
	defer working.Wait()
	var mu sync.Mutex
	came := map[string][]error{} // of an apply and a delete
	for name, h := range all {
		working.Go(func() {
			c, err := clusters.Get(ctx, named(name))
			if err != nil {
				t.Error(err)
				return
			}
			resources := configMaps(3, 0)
			if h.custom {
				resources = customResources(3, "Widget")
			}
			var ends []error
			apply, _ := job(resources, domain.MarkPending)
			ends = append(ends, c.Apply(ctx, apply).Retry)
			remove, _ := job(resources, domain.MarkDoomed)
			ends = append(ends, c.Delete(ctx, remove).Retry)
			mu.Lock()
			defer mu.Unlock()
			came[name] = ends
		})
	}
	safe, err := clusters.Get(ctx, good)
	require.NoError(t, err)
	namespace := kubetest.Name("hostile")
	kubetest.MakeNamespace(t, kubetest.Dynamic(t, kubeconfigs[good]), namespace)
	most, done := uint64(0), false
	for round := 0; !done || round < 5; round++ {
		resources := configMaps(3, 0)
		apply, watcher := job(resources, domain.MarkPending)
		apply.Namespace = namespace
		require.NoError(t, safe.Apply(ctx, apply).Retry)
		require.Equal(t, domain.NewMarks(len(resources), domain.MarkApplied), watcher.Marks, "%v", watcher.Notes)
		remove, _ := job(resources, domain.MarkDoomed)
		remove.Namespace = namespace
		require.NoError(t, safe.Delete(ctx, remove).Retry)
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		most = max(most, memory.HeapInuse)
		mu.Lock()
		done = len(came) == len(all)
		mu.Unlock()
	}
	working.Wait()
	for name, ends := range came {
		for _, err := range ends {
			if err == nil {
				require.True(t, all[name].lies, "%s is as if it had been done", name)
				continue
			}
			require.False(t, errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil, "%s holds up who works for as long as it likes", name)
			require.True(t, fail.KindOf(err).Retryable(), "%s: %v", name, err)
			require.Less(t, len(err.Error()), 64<<10, name)
		}
	}
	t.Logf("%d MiB of memory at most", most>>20)
	require.Less(t, most, uint64(1<<30))
	require.Zero(t, honeypot.Load(), "a redirect was followed")
}
