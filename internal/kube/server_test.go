package kube_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/kubetest"
	"github.com/drover-io/drover/internal/plan"
)

// server is something that answers in a cluster's place. Real API servers do what is expected; these do
// harm.
type server struct {
	*httptest.Server
	requests  atomic.Int64
	conns     atomic.Int64 // made so far
	connected atomic.Int64 // now
}

// protocol is what a server speaks.
type protocol bool

const (
	http2 protocol = true
	http1 protocol = false
)

func serve(t testing.TB, p protocol, handle http.HandlerFunc) *server {
	t.Helper()
	return serveAll(t, p, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		handle(w, r)
	})
}

// serveAll is serve for those who look at what is sent.
func serveAll(t testing.TB, p protocol, handle http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handle(w, r)
	}))
	s.EnableHTTP2 = bool(p)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.conns.Add(1)
			s.connected.Add(1)
		case http.StateClosed:
			s.connected.Add(-1)
		default: // it is neither made nor ended
		}
	}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// kubeconfig is one that trusts the server.
func (s *server) kubeconfig(t testing.TB) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return kubeconfig(t, clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: ca}, clientcmdapi.AuthInfo{Token: "token"})
}

func kubeconfig(t testing.TB, cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) []byte {
	t.Helper()
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": &cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": &user},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	require.NoError(t, err)
	return data
}

func (s *server) open(t testing.TB, config kube.Config) *kube.Cluster {
	t.Helper()
	return kubetest.Open(t, config, s.kubeconfig(t))
}

// answer writes a document as an API server does.
func answer(w http.ResponseWriter, code int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(document)
}

// status is an API server's answer that is no success.
func status(code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: message, Details: details,
	}
}

// found writes an object that belongs to the suite's deployment.
func found(w http.ResponseWriter) {
	answer(w, http.StatusOK, map[string]any{
		"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
		"metadata": map[string]any{"name": "a", "uid": "1", "labels": map[string]string{plan.DeploymentLabel: kubetest.DeploymentID}},
	})
}

// bodyOf reads the body of a request, "" for one that cannot be read.
func bodyOf(r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	return string(body)
}

// configMaps makes resources of one stage.
func configMaps(n, stage int) []plan.Resource {
	resources := make([]plan.Resource, n)
	for i := range resources {
		name := "a" + strconv.Itoa(i)
		resources[i] = plan.Resource{
			ResourceID: plan.ResourceID{Version: "v1", Kind: "ConfigMap", Name: name},
			Stage:      stage,
			Manifest:   []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"key":"value"}}`),
		}
	}
	return resources
}

// job is one on resources that all have the mark.
func job(resources []plan.Resource, m domain.Mark) (kube.Job, *kubetest.Watcher) {
	marks := domain.NewMarks(len(resources), m)
	watcher := kubetest.Watch(marks)
	return kube.Job{
		Resources: resources, Marks: marks, Namespace: "default", DeploymentID: kubetest.DeploymentID, OnMark: watcher.OnMark,
		OnDropped: watcher.OnDropped, OnShared: watcher.OnShared, OnUnpatchable: watcher.OnUnpatchable,
	}, watcher
}
