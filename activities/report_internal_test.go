package activities

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/policy"
)

// TestClientsThatWereReplacedAreNotKept by what is known of their clusters: credentials are replaced every day, and what is known is forgotten
// when there are thousands.
func TestClientsThatWereReplacedAreNotKept(t *testing.T) {
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://127.0.0.1:1"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "token"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	require.NoError(t, err)
	digest, name := domain.Digest("1"), domain.ClusterName{Provider: "p", Name: "c"}
	clusters, err := kube.NewClusters(kube.Config{Fresh: 1}, func(context.Context, domain.ClusterName) ([]byte, domain.Digest, error) {
		return kubeconfig, digest, nil
	})
	require.NoError(t, err)
	defer clusters.Close()
	r, h := newReporting(nil, nil), &hearsay{}
	is := func() client {
		c, err := clusters.Get(t.Context(), name)
		require.NoError(t, err)
		return weak.Make(c)
	}
	was := is()
	func() {
		c := was.Value()
		r.installed.Add(weak.Make(c), struct{}{})
		r.lacking.Add(weak.Make(c), time.Now())
		r.matches.Add(matchReportOf(c, &domain.Home{Cluster: name}), time.Now())
		q, err := h.ask(t.Context(), c, "tenant", policy.FirstAway)
		require.NoError(t, err)
		q.hears(true)
	}()
	runtime.GC()
	require.Equal(t, was, is(), "it is in use")
	require.True(t, r.installed.Contains(is()))
	for _, digest = range []domain.Digest{"2", "3"} { // the cache of clients itself holds the last one that it has let go
		require.NotEqual(t, was, is())
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return was.Value() == nil
	}, 10*time.Second, 10*time.Millisecond)
	runtime.KeepAlive(r)
	runtime.KeepAlive(h)
}
