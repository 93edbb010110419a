package observe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// TestAGroupThatStaysDown, as of an aggregated API whose backend is gone, cuts no watch off: the kinds are looked at once it has come back.
func TestAGroupThatStaysDown(t *testing.T) {
	t.Parallel()
	var asked, watches atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") != "":
			if strings.HasSuffix(r.URL.Path, "/things") {
				watches.Add(1)
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/apis":
			_, _ = io.WriteString(w, `{"kind":"APIGroupList","groups":[{"name":"dead.example.com","preferredVersion":{"version":"v1"}}]}`)
		case r.URL.Path == "/apis/dead.example.com/v1" && asked.Add(1) < 5:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/apis/dead.example.com/v1":
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"dead.example.com/v1","resources":[]}`)
		case r.URL.Path == "/api/v1":
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"things","kind":"Thing","namespaced":true,"verbs":["list","watch"]}]}`)
		case strings.Count(r.URL.Path, "/") > 2: // lists
			_, _ = io.WriteString(w, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}`)
		default:
			_, _ = io.WriteString(w, `{"gitVersion":"v1.35.0"}`)
		}
	}))
	t.Cleanup(s.Close)
	c := openAt(t, s.URL, kube.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a := newAgentless(newQueue(0), nobodys, NewRoom(limits.Watched))
	a.definitions.again = pause.Backoff{First: 50 * time.Millisecond, Most: 50 * time.Millisecond}
	require.NoError(t, a.sync(ctx, c))
	require.ErrorIs(t, a.follow(ctx, c), errKinds)
	require.EqualValues(t, 5, asked.Load(), "until it has come back")
	require.EqualValues(t, 1, watches.Load())
}

// openAt is a cluster that is a server of a test.
func openAt(t *testing.T, url string, config kube.Config) *kube.Cluster {
	t.Helper()
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: url}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c"}},
		CurrentContext: "x",
	})
	require.NoError(t, err)
	return kubetest.Open(t, config, kubeconfig)
}

// TestWhatWasLeftOutIsListedAgain when the next session begins.
func TestWhatWasLeftOutIsListedAgain(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := `{"kind":"List","metadata":{"resourceVersion":"7"},"items":[]}`
		switch r.URL.Path {
		case "/apis":
			answer = `{"kind":"APIGroupList","groups":[]}`
		case "/api/v1":
			answer = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","watch"]}]}`
		case "/api/v1/configmaps":
			answer = fmt.Sprintf(`{"kind":"List","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"namespace":"n","name":"c","labels":{%q:"1-app"}}}]}`, plan.DeploymentLabel)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	c := openAt(t, s.URL, kube.Config{})
	a := newAgentless(newQueue(0), nobodys, NewRoom(limits.Watched))
	require.NoError(t, a.sync(t.Context(), c))
	whole := a.objects.observation("1-app")
	require.Len(t, whole.Resources, 1)
	a.objects.leaveOut("1-app")
	require.NotEmpty(t, a.objects.observation("1-app").Error)
	require.NoError(t, a.sync(t.Context(), c))
	require.Equal(t, whole, a.objects.observation("1-app"))
}

// TestPagesFitTheLine: a page that does not come in time would not come the next time, either.
func TestPagesFitTheLine(t *testing.T) {
	t.Parallel()
	var thin atomic.Bool
	thin.Store(true)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, _ := strconv.Atoi(r.URL.Query().Get("limit")); thin.Load() && n > 2*leastPage {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"List","metadata":{"resourceVersion":"7"},"items":[]}`)
	}))
	t.Cleanup(s.Close)
	c := openAt(t, s.URL, kube.Config{Request: 300 * time.Millisecond})
	f := &feed{Collection: kube.Collection{Path: "/api/v1/things", Page: pageOfObjects}, follower: newDefinitions()}
	for tries := 0; tries < 10 && f.version == ""; tries++ {
		if err := f.sync(t.Context(), c); err != nil {
			require.True(t, fail.Is(err, fail.Timeout), "%v", err)
		}
	}
	require.Equal(t, "7", f.version)
	least := f.Page
	require.LessOrEqual(t, least, 4*leastPage)
	f.version = ""
	require.Eventually(t, func() bool { return f.sync(t.Context(), c) == nil }, kubetest.Deadline, kubetest.Tick)
	require.LessOrEqual(t, f.Page, least, "the next list would not come in time")
	thin.Store(false)
	f.thin = f.thin.Add(-2 * policy.ThinLine)
	for range 10 {
		f.version = ""
		require.Eventually(t, func() bool { return f.sync(t.Context(), c) == nil }, kubetest.Deadline, kubetest.Tick)
	}
	require.Equal(t, pageOfObjects, f.Page, "the line is better by now")
}

// TestAKindThatIsServedElsewhere: its CRD was deleted and made anew, with another plural, between two looks.
func TestAKindThatIsServedElsewhere(t *testing.T) {
	t.Parallel()
	a := newAgentless(newQueue(0), nobodys, NewRoom(limits.Watched))
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	look := func(plural string) *kindFeed {
		a.choose([]kube.Served{{GroupVersionKind: kind, Path: "/apis/example.com/v1/" + plural}}, nil)
		return a.kinds[kind.GroupKind()]
	}
	first := look("widgets")
	first.version = "7"
	require.Same(t, first, look("widgets"))
	second := look("gadgets")
	require.Equal(t, "/apis/example.com/v1/gadgets", second.Path)
	require.Empty(t, second.version)
}

// TestAfterALongSilenceAllIsListed: a cluster that was restored meanwhile may have come further than it was heard. It is listed once: what a thin line has
// brought stays. The sink does not matter: a worker that was cut off from the cluster may have been cut off from the sink, too.
func TestAfterALongSilenceAllIsListed(t *testing.T) {
	t.Parallel()
	var lists atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := `{"kind":"List","metadata":{"resourceVersion":"150"},"items":[]}`
		switch query := r.URL.Query(); {
		case query.Get("watch") != "": // it ends at once, and so does the session
			return
		case r.URL.Path == "/apis":
			answer = `{"kind":"APIGroupList","groups":[]}`
		case r.URL.Path == "/api/v1":
			answer = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","watch"]}]}`
		case r.URL.Path == "/api/v1/configmaps" && query.Get("limit") != "1": // which asks for the version alone
			lists.Add(1)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	for name, said := range map[string]*domain.Watch{
		"the sink has never answered":       nil,
		"the sink was told that it is away": {LastSeen: time.Now()},
		"the sink was told nothing of it":   {Connected: true, LastSeen: time.Now()},
	} {
		w := &Watcher{config: Config{Clusters: always{openAt(t, s.URL, kube.Config{})}, Sink: mute{}}.withDefaults(), said: said}
		w.hearResources()
		session := func() int64 {
			before := lists.Load()
			_, err := w.session(t.Context())
			require.Error(t, err, name)
			return lists.Load() - before
		}
		require.EqualValues(t, 1, session(), "%s: nothing is known", name)
		require.Zero(t, session(), name)
		w.heard = time.Now().Add(-policy.Remembers / 2)
		require.Zero(t, session(), name)
		w.heard = time.Now().Add(-policy.Remembers - time.Second)
		require.EqualValues(t, 1, session(), name)
		require.Zero(t, session(), name)
	}
}

// always gives one cluster.
type always struct{ cluster *kube.Cluster }

func (a always) Get(context.Context, domain.ClusterName) (*kube.Cluster, error) {
	return a.cluster, nil
}

// mute is a sink that does not answer.
type mute struct{}

func (mute) Put(context.Context, *domain.Observation) (bool, error) { return false, errMute }
func (mute) Delete(context.Context, domain.ObservedApp) error       { return errMute }
func (mute) Contact(context.Context, domain.Watch) error            { return errMute }

var errMute = fail.New(fail.Unavailable, "the store does not answer")
