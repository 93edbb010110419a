package observe_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
)

// forget stands before the world's cluster, speaks HTTP/1, and has the first watches of the bundles begin at a version
// that the API server has long forgotten.
type forget struct {
	mu    sync.Mutex
	left  int // watches to be led astray
	lists int // of names
}

func (w *world) behindForget(n int) *forget {
	w.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(w.kubeconfig)
	require.NoError(w, err)
	upstream, err := rest.TransportFor(config)
	require.NoError(w, err)
	target, err := url.Parse(config.Host)
	require.NoError(w, err)
	f := &forget{left: n}
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			f.rewrite(r.Out)
		},
		Transport:     upstream,
		FlushInterval: -1,
	}
	s := httptest.NewServer(through)
	w.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	w.kubeconfig, err = clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: s.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c"}},
		CurrentContext: "x",
	})
	require.NoError(w, err)
	return f
}

func (f *forget) rewrite(r *http.Request) {
	query := r.URL.Query()
	if !strings.HasSuffix(r.URL.Path, "/"+bundle.Resource) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case query.Get("watch") == "":
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") { // others read whole objects
			f.lists++
		}
	case f.left > 0:
		f.left--
		query.Set("resourceVersion", "1")
		r.URL.RawQuery = query.Encode()
	}
}

func (f *forget) listed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists
}

func TestAVersionThatTheClusterHasForgotten(t *testing.T) {
	w := newWorld(t)
	f := w.behindForget(2)
	w.makeBundle("app")
	w.fill("app", bundle.MaxSize, object(t, "a", 10))
	w.watch(domain.ReportAgent, nil)
	w.await("app", there)
	require.Eventually(t, func() bool { return f.listed() == 3 }, deadline, tick, "it is listed again each time")
	w.fill("app", bundle.MaxSize, object(t, "a", 11))
	w.await("app", func(o *domain.Observation) bool {
		return string(o.Resources[0].JSON) == string(object(t, "a", 11).JSON)
	})
	require.Equal(t, 3, f.listed())
	require.Len(t, w.said(), 1, "the cluster was heard all the time")
}
