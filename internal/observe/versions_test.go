package observe_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	f := &forget{left: n}
	w.behindReverse(f.rewrite, nil)
	return f
}

// behindReverse puts a proxy before the world's cluster that speaks HTTP/1, and changes requests and answers.
func (w *world) behindReverse(rewrite func(*http.Request), answer func(*http.Response) error) *httptest.Server {
	w.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(w.kubeconfig)
	require.NoError(w, err)
	upstream, err := rest.TransportFor(config)
	require.NoError(w, err)
	target, err := url.Parse(config.Host)
	require.NoError(w, err)
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			rewrite(r.Out)
		},
		ModifyResponse: answer,
		Transport:      upstream,
		FlushInterval:  -1,
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
	return s
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

// ahead has a cluster's lists be at versions that are still to come, until it is restored.
type ahead struct{ restored atomic.Bool }

var listVersion = regexp.MustCompile(`"metadata":\{"resourceVersion":"(\d+)"`)

func (a *ahead) answer(r *http.Response) error {
	if a.restored.Load() || r.Request.URL.Query().Get("watch") != "" || strings.Count(r.Request.URL.Path, "/") < 3 {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	body = listVersion.ReplaceAllFunc(body, func(said []byte) []byte {
		version, _ := strconv.Atoi(string(listVersion.FindSubmatch(said)[1]))
		return fmt.Appendf(nil, `"metadata":{"resourceVersion":"%d"`, version+1_000_000)
	})
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// TestAClusterThatWasRestored from a backup has not what it had, nor what it will have had once more: it is listed.
func TestAClusterThatWasRestored(t *testing.T) {
	for _, report := range []domain.Report{domain.ReportAgent, domain.ReportAgentless, domain.ReportAuto} {
		t.Run(string(report), func(t *testing.T) {
			w := newWorld(t)
			a := &ahead{}
			s := w.behindReverse(func(*http.Request) {}, a.answer)
			w.apply(configMaps, "app", configMap("a", "one"))
			w.makeBundle("app")
			w.fill("app", bundle.MaxSize, object(t, "a", 10))
			w.watch(report, nil)
			w.await("app", func(o *domain.Observation) bool { return o != nil && resource(o, "ConfigMap", "a") != nil })
			w.awaitContact(true, "")
			w.delete(configMaps, "a")
			w.apply(configMaps, "app", configMap("b", "one"))
			w.fill("app", bundle.MaxSize, object(t, "b", 10))
			a.restored.Store(true)
			s.CloseClientConnections()
			o := w.await("app", func(o *domain.Observation) bool { return o != nil && resource(o, "ConfigMap", "b") != nil })
			require.Nil(t, resource(o, "ConfigMap", "a"))
		})
	}
}
