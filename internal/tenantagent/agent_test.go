package tenantagent_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/tenantagent"
	"github.com/drover-io/drover/internal/universe"
)

func TestTellsAllOnceAndThenWhatDiffers(t *testing.T) {
	w := newWorld(t)
	w.configure("namespaces: [" + w.namespace + "]")
	uid := w.pod(w.namespace, "a").UID
	w.pod(w.namespace, "b")
	stop := w.agent(nil)
	w.awaitWords("sync [a b]")
	require.Equal(t, []string{"tenant1"}, w.server.last().tenant)

	w.pod(w.namespace, "c")
	w.awaitWords("sync [a b]", "update c")
	w.patch("a", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
	w.awaitWords("sync [a b]", "update c", "update a")
	// Nothing that is told has changed.
	w.patch("b", `{"spec":{"containers":[{"name":"c","image":"example.com/other"}]}}`)
	w.patch("b", `{"status":{"phase":"Succeeded"}}`, "status")
	w.patch("a", `{"metadata":{"labels":{"app":"db"}}}`)
	w.awaitWords("sync [a b]", "update c", "update a", "update a")
	last := w.server.last().messages[3].GetWorkloadUpdate()
	require.Equal(t, string(uid), last.GetWorkloadMetadata().GetId())
	require.Equal(t, universe.OrchestratorType_ORCHESTRATOR_TYPE_KUBERNETES, last.GetWorkloadMetadata().GetOrchestrator())
	require.Equal(t, "v1/Pod", last.GetWorkloadMetadata().GetResourceType())
	require.Equal(t, w.namespace, last.GetWorkloadMetadata().GetResourceNamespace())
	require.True(t, last.GetWorkloadState().GetReady())
	require.Equal(t, map[string]string{"app": "db"}, last.GetWorkloadState().GetExtra()["labels"].GetData())
	require.Equal(t, map[string]string{"note": "x"}, last.GetWorkloadState().GetExtra()["annotations"].GetData())

	w.deletePod(w.namespace, "a")
	w.awaitWords("sync [a b]", "update c", "update a", "update a", "delete a")
	require.Equal(t, string(uid), w.server.last().messages[4].GetWorkloadDelete().GetWorkloadMetadata().GetId())
	stop()
	require.Eventually(t, func() bool { return w.server.last().over }, deadline, tick)
	require.NoError(t, w.server.last().err, "the stream is closed in order")
}

// TestAPodStaysUntilItIsRemoved: be it that it is about to go.
func TestAPodStaysUntilItIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.configure("namespaces: [" + w.namespace + "]")
	w.pod(w.namespace, "a")
	w.patch("a", `{"metadata":{"finalizers":["example.com/wait"]}}`)
	w.deletePod(w.namespace, "a")
	w.agent(nil)
	w.awaitWords("sync [a]")
	w.patch("a", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/wait"]}}`)
	w.awaitWords("sync [a]", "delete a")
}

// holding fails the lists and watches of the Pods of a namespace as long as it is told to.
type holding struct {
	namespace string
	on        atomic.Bool
	asked     atomic.Int64

	mu      sync.Mutex
	watches []io.Closer // that were begun
}

// cut ends all watches.
func (h *holding) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.watches {
		_ = one.Close()
	}
	h.watches = nil
}

func (h *holding) of(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if h.on.Load() && strings.HasSuffix(r.URL.Path, "/namespaces/"+h.namespace+"/pods") {
				h.asked.Add(1)
				return &http.Response{
					StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"text/plain"}}, Request: r,
					Body: io.NopCloser(strings.NewReader("not yet")),
				}, nil
			}
			answer, err := next.RoundTrip(r)
			if err == nil && r.URL.Query().Has("watch") {
				h.mu.Lock()
				h.watches = append(h.watches, answer.Body)
				h.mu.Unlock()
			}
			return answer, err
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNoSyncBeforeAllListsAreComplete(t *testing.T) {
	w := newWorld(t)
	other := kubetest.Name("other")
	w.makeNamespace(other)
	w.configure(fmt.Sprintf("namespaces: [%s, %s]", w.namespace, other))
	w.pod(w.namespace, "a")
	w.pod(other, "b")
	h := &holding{namespace: other}
	h.on.Store(true)
	address := freeport.Address()
	w.agent(func(c *tenantagent.Config) { c.Cluster, c.Listen = h.of(w.config), address })
	require.Eventually(t, func() bool { return h.asked.Load() > 2 }, deadline, tick)
	require.Zero(t, w.server.begun())
	require.Contains(t, w.get("http://"+address+"/readyz"), "503 the Pods of namespace \""+other+"\" cannot be listed")
	h.on.Store(false)
	w.awaitWords("sync [a b]")
	require.Eventually(t, func() bool { return strings.HasPrefix(w.get("http://"+address+"/readyz"), "200 ok") }, deadline, tick)
	require.Contains(t, w.get("http://"+address+"/metrics"), "drover_tenant_agent_pods 2")

	// Later, too: what was told of goes on, and it is said that it may not hold.
	h.on.Store(true)
	h.cut()
	require.Eventually(t, func() bool {
		return strings.Contains(w.get("http://"+address+"/readyz"), "503 the Pods of namespace \""+other+"\" cannot be listed or watched")
	}, deadline, tick)
	h.on.Store(false)
	require.Eventually(t, func() bool { return strings.HasPrefix(w.get("http://"+address+"/readyz"), "200 ok") }, deadline, tick)
	require.Equal(t, 1, w.server.begun())
}

// get is the code and the body of an answer.
func (w *world) get(url string) string {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, url, nil)
	require.NoError(w, err)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(w, err)
	return fmt.Sprint(answer.StatusCode, " ", string(body))
}

func TestOtherNamespacesAreANewSync(t *testing.T) {
	w := newWorld(t)
	other := kubetest.Name("other")
	w.makeNamespace(other)
	w.pod(w.namespace, "a")
	w.pod(other, "b")
	address := freeport.Address()
	w.agent(func(c *tenantagent.Config) { c.Listen = address })
	problem := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(w.get("http://"+address+"/readyz"), text) }, deadline, tick, text)
	}
	problem("there is no ConfigMap " + w.namespace + "/agent")
	require.Zero(t, w.server.begun(), "nobody has said whose Pods")

	w.configure("namespaces: [" + w.namespace + "]")
	w.awaitWords("sync [a]")
	w.configure("namespaces: [" + other + ", " + w.namespace + "]")
	w.awaitWords("sync [a]", "sync [a b]")
	w.configure("namespaces: [" + other + "]")
	w.awaitWords("sync [a]", "sync [a b]", "sync [b]")

	// What cannot be read changes nothing, and is shown.
	w.configure("namespace: [" + w.namespace + "]")
	problem("cannot be read")
	w.configure("namespaces: [Shop]")
	problem(`"Shop" is not the name of a namespace`)
	require.NoError(t, w.kube.CoreV1().ConfigMaps(w.namespace).Delete(t.Context(), "agent", metav1.DeleteOptions{}))
	problem("there is no ConfigMap")
	w.pod(other, "c")
	w.awaitWords("sync [a]", "sync [a b]", "sync [b]", "update c")

	w.configure("namespaces: []")
	require.Eventually(t, func() bool {
		words := w.server.last().words()
		said := words[len(words)-1]
		return strings.HasPrefix(said, "sync [") && strings.Contains(said, "a") && strings.Contains(said, "b") && strings.Contains(said, "c")
	}, deadline, tick, "[] is all namespaces")
	require.Equal(t, 1, w.server.begun(), "all of that is one stream")
}

// TestBeginsAgain: after the end of a stream the next one begins with a sync, which has what happened meanwhile.
func TestBeginsAgain(t *testing.T) {
	w := newWorld(t)
	w.configure("namespaces: [" + w.namespace + "]")
	w.pod(w.namespace, "a")
	var away atomic.Bool
	w.server.refuse = func() error {
		if away.Load() {
			return status.Error(codes.Unavailable, "away")
		}
		return nil
	}
	w.agent(nil)
	w.awaitWords("sync [a]")
	away.Store(true)
	w.server.endFirst(status.Error(codes.Unavailable, "the server stops"))
	require.Eventually(t, func() bool { return w.server.begun() > 1 }, deadline, tick, "it tries again")
	w.deletePod(w.namespace, "a")
	w.pod(w.namespace, "b")
	away.Store(false)
	w.awaitWords("sync [b]")
}

func TestOneOfSeveralSpeaks(t *testing.T) {
	w := newWorld(t)
	w.configure("namespaces: [" + w.namespace + "]")
	w.pod(w.namespace, "a")
	stop := w.agent(nil)
	w.awaitWords("sync [a]")
	address := freeport.Address()
	w.agent(func(c *tenantagent.Config) { c.Listen = address })
	require.Eventually(t, func() bool { return w.get("http://"+address+"/readyz") == "200 ok\n" }, deadline, tick, "who waits is ready")
	require.Contains(t, w.get("http://"+address+"/metrics"), "drover_tenant_agent_leader 0")
	w.pod(w.namespace, "b")
	w.awaitWords("sync [a]", "update b")
	require.Equal(t, 1, w.server.begun())
	stop()
	require.Eventually(t, func() bool { return w.server.begun() == 2 }, deadline, tick, "the other one takes over")
	w.awaitWords("sync [a b]")
	require.Contains(t, w.get("http://"+address+"/metrics"), "drover_tenant_agent_leader 1")
}

// TestWhoHasLostTheLeaseSaysNothing: another one has taken the Lease while the agent could not know, as a frozen process cannot.
func TestWhoHasLostTheLeaseSaysNothing(t *testing.T) {
	w := newWorld(t)
	w.configure("namespaces: [" + w.namespace + "]")
	w.pod(w.namespace, "a")
	address := freeport.Address()
	w.agent(func(c *tenantagent.Config) { c.Listen = address })
	w.awaitWords("sync [a]")
	leases := w.kube.CoordinationV1().Leases(w.namespace)
	require.Eventually(t, func() bool { // the agent renews it meanwhile
		lease, err := leases.Get(t.Context(), "drover-tenant-agent", metav1.GetOptions{})
		require.NoError(t, err)
		another, now := "another", metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &another, &now
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		return err == nil
	}, deadline, tick)
	// The other one's stream has displaced the agent's: it looks at the Lease at once, and leaves that as it is.
	w.server.endFirst(status.Error(codes.Aborted, "a newer stream has begun"))
	require.Eventually(t, func() bool {
		shown := w.get("http://" + address + "/metrics")
		return strings.Contains(shown, "drover_tenant_agent_leader 0") && strings.Contains(shown, "drover_tenant_agent_pods 0")
	}, deadline, tick)
	held, err := leases.Get(t.Context(), "drover-tenant-agent", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "another", *held.Spec.HolderIdentity)
	w.pod(w.namespace, "b")
	// Its own Lease of 15 s, which the other one never renews, has to pass before it speaks again.
	require.Eventually(t, func() bool { return w.server.begun() == 2 }, deadline, tick)
	lease, err := leases.Get(t.Context(), "drover-tenant-agent", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotEqual(t, "another", *lease.Spec.HolderIdentity, "it speaks with the Lease alone")
	w.awaitWords("sync [a b]")
}
