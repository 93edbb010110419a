package observe_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/observe"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// hostile is what a cluster answers that wants to do harm, in place of lists and watches of reports. What it sends has no end unless it
// says otherwise; more says whether anybody still listens.
type hostile struct {
	name  string
	reply func(r *http.Request, send func(text string) (more bool))
	// says is a part of why nobody hears it, " " where a slow machine finds that it takes too long, first; "" when it is heard.
	says string
}

// harms are ways to do harm. good is an app of another cluster.
func harms(good string) []hostile {
	filler := strings.Repeat("a", 64<<10)
	page := func(send func(string) bool, next string, items func(send func(string) bool)) {
		send(`{"kind":"List","metadata":{"resourceVersion":"1","continue":"` + next + `"},"items":[`)
		items(send)
		send(`{"metadata":{"name":"last"}}]}`)
	}
	return []hostile{
		{"an object without end", func(_ *http.Request, send func(string) bool) {
			page(send, "", func(send func(string) bool) {
				send(`{"metadata":{"name":"`)
				for send(filler) {
				}
			})
		}, " "},
		{"objects without end", func(_ *http.Request, send func(string) bool) {
			page(send, "", func(send func(string) bool) {
				for i := 0; send(fmt.Sprintf(`{"metadata":{"name":"n%d","labels":{"emco/deployment-id":"d%d"}}},`, i, i)); i++ {
				}
			})
		}, " "},
		{"pages without end", func(_ *http.Request, send func(string) bool) {
			page(send, "more", func(func(string) bool) {})
		}, "is not an API server"},
		{"a byte a second", func(r *http.Request, send func(string) bool) {
			for send(" ") {
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		}, " "},
		{"something else", func(_ *http.Request, send func(string) bool) { send(`{"items":{"a":[]}}`) }, "is not an API server"},
		{"nesting", func(_ *http.Request, send func(string) bool) {
			page(send, "", func(send func(string) bool) { send(strings.Repeat(`{"a":`, 1<<20)) })
		}, " "},
		{"other kinds", func(_ *http.Request, send func(string) bool) {
			page(send, "", func(send func(string) bool) { send(`{"kind":7,"metadata":{"name":["a"],"labels":"x"}},`) })
		}, "sends an object that cannot be read"},
		{"reports of 10 MB", func(r *http.Request, send func(string) bool) {
			if r.URL.Query().Get("watch") != "" {
				<-r.Context().Done()
				return
			}
			page(send, "", func(send func(string) bool) {
				for range 20 {
					send(`{"kind":"ResourceBundleState","metadata":{"name":"n","resourceVersion":"1","labels":{"emco/deployment-id":"` + good + `"}},"status":{"resourceStatuses":[],"x":"`)
					for range 160 {
						send(filler)
					}
					send(`"}},`)
				}
			})
		}, ""},
		{"lies about others", func(r *http.Request, send func(string) bool) {
			if r.URL.Query().Get("watch") != "" {
				<-r.Context().Done()
				return
			}
			page(send, "", func(send func(string) bool) {
				send(`{"kind":"ResourceBundleState","metadata":{"name":"n","uid":"u","resourceVersion":"1","labels":{"emco/deployment-id":"` + good + `"}},` +
					`"status":{"observedKinds":["ConfigMap"],"resourceCount":1,"resourceStatuses":[{"version":"v1","kind":"ConfigMap","namespace":"n","name":"lie","res":"e30="}]}},`)
			})
		}, ""},
		{"events without end", func(r *http.Request, send func(string) bool) {
			if r.URL.Query().Get("watch") == "" {
				page(send, "", func(func(string) bool) {})
				return
			}
			send(`{"type":"ADDED","object":{"metadata":{"name":"`)
			for send(filler) {
			}
		}, ""},
	}
}

// serveHostile answers for a cluster, and gives its kubeconfig.
func serveHostile(t *testing.T, h http.HandlerFunc) []byte {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: s.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "token"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	require.NoError(t, err)
	return data
}

func (h *hostile) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if !strings.Contains(r.URL.Path, bundle.Resource) && !strings.Contains(r.URL.Path, "leases") {
		_, _ = io.WriteString(w, `{"major":"1","minor":"35","gitVersion":"v1.35.0","resources":[],"groups":[]}`)
		return
	}
	h.reply(r, func(text string) bool {
		_, err := io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		return err == nil && r.Context().Err() == nil
	})
}

// heard notes what becomes of each hostile cluster; what it reports is stored as of any other one.
type heard struct {
	*world
	mu   sync.Mutex
	last map[domain.ClusterName]domain.Watch
	bad  map[domain.ClusterName]string // why it was not heard, the last time that it was not
}

func (h *heard) Contact(_ context.Context, c domain.Watch) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[c.Cluster] = c
	if !c.Connected {
		h.bad[c.Cluster] = c.Reason
	}
	return nil
}

func (h *heard) why(c domain.ClusterName) (reason string, said, connected bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, said := h.last[c]
	return h.bad[c], said, last.Connected
}

// TestHostileClusters: clusters that send what has no end, is large, slow, another thing, or not true, are watched in one process with a
// real one. Of that everything is heard as before; of the others it is said why they are not heard, or what they report is stored as
// theirs. Nothing follows a redirect, and memory is bounded.
func TestHostileClusters(t *testing.T) {
	w := newWorld(t)
	w.apply(configMaps, "app", configMap("c", "one"))
	w.watch(domain.ReportAgentless, nil)
	w.await("app", has(1))

	all := harms(plan.DeploymentID(w.contextID, "app"))
	honeypot := atomic.Int64{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { honeypot.Add(1) }))
	defer elsewhere.Close()
	kubeconfigs := map[domain.ClusterName][]byte{}
	wants := map[domain.ClusterName]string{}
	for i := range all {
		name := domain.ClusterName{Provider: "hostile", Name: fmt.Sprint(i)}
		kubeconfigs[name], wants[name] = serveHostile(t, all[i].serve), all[i].says
	}
	redirects := domain.ClusterName{Provider: "hostile", Name: "redirects"}
	wants[redirects] = " "
	kubeconfigs[redirects] = serveHostile(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	clusters, err := kube.NewClusters(kube.Config{Request: 3 * time.Second}, func(_ context.Context, name domain.ClusterName) ([]byte, domain.Digest, error) {
		return kubeconfigs[name], "digest", nil
	})
	require.NoError(t, err)
	defer clusters.Close()
	sink := &heard{world: w, last: map[domain.ClusterName]domain.Watch{}, bad: map[domain.ClusterName]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	for name := range kubeconfigs {
		watcher, err := observe.New(observe.Config{
			Cluster: name, Report: domain.ReportAgent, Clusters: clusters, Sink: sink,
			RetryFirst: 2 * time.Second, RetryMost: 5 * time.Second, Interval: 200 * time.Millisecond,
		})
		require.NoError(t, err)
		watching.Go(func() { _ = watcher.Run(ctx) })
	}
	percent := debug.SetGCPercent(100) // what is in use is meant, not what CI lets a heap grow to
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	most := uint64(0)
	for round := 0; ; round++ {
		value := fmt.Sprint("round", round)
		w.apply(configMaps, "app", configMap("c", value))
		require.Eventually(t, func() bool { return strings.Contains(ours(t, w), value) }, deadline, tick)
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		most = max(most, memory.HeapInuse)
		for name, says := range wants { // not of all in one round: where the machine is slow, some say for a while that a request takes too long
			reason, said, connected := sink.why(name)
			if said && (says == "" && (connected || reason != "") || says != "" && strings.Contains(reason, strings.TrimSpace(says))) {
				delete(wants, name)
			}
		}
		if len(wants) == 0 && round >= 5 {
			break
		}
		require.Less(t, round, 1000, "of %v nobody says that they are not heard: %v %v", wants, sink.last, sink.bad)
	}
	t.Logf("%d MiB of memory at most", most>>20)
	require.Less(t, most, uint64(1<<30))
	require.Zero(t, honeypot.Load(), "a redirect was followed")
	require.NotContains(t, ours(t, w), "lie")
}

// ours is what the store has of the app in the real cluster.
func ours(t *testing.T, w *world) string {
	t.Helper()
	var b strings.Builder
	for o, err := range w.store.Observations(t.Context(), w.contextID, "app", []domain.ClusterName{cluster}) {
		require.NoError(t, err)
		for i, r := range o.Resources {
			object, err := o.Object(i)
			require.NoError(t, err)
			fmt.Fprintf(&b, "%s %s\n", r.Name, object)
		}
	}
	return b.String()
}

// TestAClusterThatForgetsAtOnce: one that has forgotten the version of each of its lists is not asked for lists all the time.
func TestAClusterThatForgetsAtOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var lists []time.Time
	h := hostile{reply: func(*http.Request, func(string) bool) {}}
	kubeconfig := serveHostile(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, bundle.Resource) && !strings.HasSuffix(r.URL.Path, "/leases"):
			h.serve(w, r)
		case r.URL.Query().Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
		default:
			if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") { // of names, by the feed
				mu.Lock()
				lists = append(lists, time.Now())
				mu.Unlock()
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}`)
		}
	})
	defer watchAgent(t, kubeconfig, 0, 0)()
	const rounds = 4
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(lists) >= rounds
	}, deadline, tick)
	mu.Lock()
	defer mu.Unlock()
	for i := 2; i < rounds; i++ { // the second one may be chance
		require.Greater(t, lists[i].Sub(lists[i-1]), policy.FirstSession/2, "between %d and %d", i, i+1)
	}
}

// watchAgent hears a cluster by its agent until end is called. It is tried again after first, and after most in the end; as usual when these are 0.
func watchAgent(t *testing.T, kubeconfig []byte, first, most time.Duration) (end func()) {
	t.Helper()
	return watchCluster(t, kubeconfig, observe.Config{Report: domain.ReportAgent, RetryFirst: first, RetryMost: most})
}

// watchCluster hears a cluster as the configuration says until end is called.
func watchCluster(t *testing.T, kubeconfig []byte, config observe.Config) (end func()) {
	t.Helper()
	clusters, err := kube.NewClusters(kube.Config{}, func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
		return kubeconfig, "digest", nil
	})
	require.NoError(t, err)
	config.Cluster, config.Clusters, config.Sink = domain.ClusterName{Provider: "p", Name: "c"}, clusters, &quiet{}
	watcher, err := observe.New(config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = watcher.Run(ctx) })
	return func() {
		cancel()
		watching.Wait()
		clusters.Close()
	}
}

// TestAWatchThatIsRefusedOnce is begun again, with a list, in the same session: what refuses it may be over in a moment.
func TestAWatchThatIsRefusedOnce(t *testing.T) {
	t.Parallel()
	for path, report := range map[string]domain.Report{"/leases": domain.ReportAgent, "/customresourcedefinitions": domain.ReportAgentless} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			var pings, lists, watches atomic.Int64
			h := hostile{}
			kubeconfig := serveHostile(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				asked, watch := strings.HasSuffix(r.URL.Path, path), r.URL.Query().Get("watch") != ""
				switch {
				case watch && asked && watches.Add(1) == 1:
					w.WriteHeader(http.StatusInternalServerError)
					_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcdserver: leader changed","code":500}`)
				case watch:
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				case r.URL.Path == "/apis":
					_, _ = io.WriteString(w, `{"kind":"APIGroupList","groups":[]}`)
				case r.URL.Path == "/api/v1":
					_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","watch"]}]}`)
				case strings.Count(r.URL.Path, "/") > 2: // lists
					if asked {
						lists.Add(1)
					}
					_, _ = io.WriteString(w, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"n","resourceVersion":"1"}}]}`)
				default:
					if r.URL.Path == "/version" {
						pings.Add(1)
					}
					h.serve(w, r)
				}
			})
			defer watchCluster(t, kubeconfig, observe.Config{Report: report})()
			require.Eventually(t, func() bool { return watches.Load() == 2 }, deadline, tick)
			require.EqualValues(t, 2, lists.Load(), "what happened before the watch")
			require.EqualValues(t, 1, pings.Load(), "in the same session")
		})
	}
}

// TestAGroupThatIsDownAtFirst is asked for its kinds again, though no definition changes.
func TestAGroupThatIsDownAtFirst(t *testing.T) {
	t.Parallel()
	var asked, lists atomic.Int64
	h := hostile{}
	kubeconfig := serveHostile(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		const kinds = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"things","kind":"Thing","namespaced":true,"verbs":["list","watch"]}]}`
		switch {
		case r.URL.Query().Get("watch") != "":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/apis":
			_, _ = io.WriteString(w, `{"kind":"APIGroupList","groups":[{"name":"late.example.com","preferredVersion":{"version":"v1"}}]}`)
		case r.URL.Path == "/apis/late.example.com/v1" && asked.Add(1) == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/api/v1", r.URL.Path == "/apis/late.example.com/v1":
			_, _ = io.WriteString(w, kinds)
		case strings.Count(r.URL.Path, "/") > 2: // lists
			if strings.HasPrefix(r.URL.Path, "/apis/late.example.com/") {
				lists.Add(1)
			}
			_, _ = io.WriteString(w, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}`)
		default:
			h.serve(w, r)
		}
	})
	defer watchCluster(t, kubeconfig, observe.Config{Report: domain.ReportAgentless})()
	require.Eventually(t, func() bool { return lists.Load() > 0 }, deadline, tick)
	require.EqualValues(t, 3, asked.Load(), "that it has come back is seen, and then it is heard")
}

// flood is a cluster that names more deployments than anybody keeps, and says nothing of them. When it was left alone for that, it has a
// report of one of ours.
type flood struct {
	hostile
	watches atomic.Int64
	left    chan struct{} // closed when it is asked for what follows
	asked   atomic.Int64  // for what it has of a deployment
}

func (f *flood) serve(w http.ResponseWriter, r *http.Request) {
	reports, query := strings.HasSuffix(r.URL.Path, bundle.Resource), r.URL.Query()
	if !reports && !strings.HasSuffix(r.URL.Path, "/leases") {
		f.hostile.serve(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	named := func(id string, version int, status string) string {
		return fmt.Sprintf(`{"kind":"ResourceBundleState","metadata":{"name":"n","namespace":"n","uid":"u","resourceVersion":"%d","labels":{%q:%q}},"status":{%s}}`,
			version, plan.DeploymentLabel, id, status)
	}
	const last = limits.ClusterObjects + 1000
	if query.Get("watch") != "" {
		var events strings.Builder
		switch {
		case !reports:
		case f.watches.Add(1) == 1:
			for i := range last - 1 {
				fmt.Fprintf(&events, `{"type":"ADDED","object":%s}`, named(fmt.Sprint(i, "-flood"), 1+i, ""))
			}
		default:
			fmt.Fprintf(&events, `{"type":"ADDED","object":%s}`, named("1-app", last, ""))
			if f.watches.Load() == 2 {
				close(f.left)
			}
		}
		_, _ = io.WriteString(w, events.String())
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	item := ""
	if of, found := strings.CutPrefix(query.Get("labelSelector"), plan.DeploymentLabel+"="); found {
		f.asked.Add(1)
		select {
		case <-f.left:
		case <-r.Context().Done():
		}
		if of == "1-app" {
			item = named(of, last, `"observedKinds":["ConfigMap"],"resourceCount":0,"resourceStatuses":[]`)
		}
	}
	_, _ = io.WriteString(w, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[`+item+`]}`)
}

// TestAClusterThatNamesEverNewDeployments is left alone when it has named too many, and what it had for a moment is not in the way of what
// it has.
func TestAClusterThatNamesEverNewDeployments(t *testing.T) {
	t.Parallel()
	f := &flood{left: make(chan struct{})}
	kubeconfig := serveHostile(t, f.serve)
	clusters, err := kube.NewClusters(kube.Config{Request: deadline}, func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
		return kubeconfig, "digest", nil
	})
	require.NoError(t, err)
	defer clusters.Close()
	sink := &quiet{contextID: "1"}
	watcher, err := observe.New(observe.Config{
		Cluster: cluster, Report: domain.ReportAgent, Clusters: clusters, Sink: sink, RetryFirst: 20 * time.Millisecond, RetryMost: 200 * time.Millisecond,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { _ = watcher.Run(ctx) })
	require.Eventually(t, func() bool { return sink.puts.Load() > 0 }, 3*deadline, tick) // 200,000 events, each seen by the race detector
	require.Less(t, f.asked.Load(), int64(1000), "nobody asks for what it had")
}

// TestADefinitionWithoutOurVersion is there and not served: nothing will come in a moment, and the cluster is asked less and less often.
func TestADefinitionWithoutOurVersion(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []time.Time
	h := hostile{}
	kubeconfig := serveHostile(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/customresourcedefinitions"):
			_, _ = io.WriteString(w, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"d"},"status":{"conditions":[{"type":"Established","status":"True"}]}}]}`)
		case strings.HasSuffix(r.URL.Path, "/"+bundle.Resource):
			mu.Lock()
			asked = append(asked, time.Now())
			mu.Unlock()
			w.WriteHeader(http.StatusNotFound)
		default:
			h.serve(w, r)
		}
	})
	defer watchAgent(t, kubeconfig, 20*time.Millisecond, time.Minute)()
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(asked) >= 7
	}, deadline, tick)
	mu.Lock()
	defer mu.Unlock()
	require.Greater(t, asked[6].Sub(asked[5]), 300*time.Millisecond, "the sixth wait is 640 ms, but for a quarter")
}
