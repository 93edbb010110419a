package harness

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/built"
	"github.com/drover-io/drover/internal/freeport"
	"github.com/drover-io/drover/internal/tempdir"
)

// ClusterNames are the clusters that all tests of a process share, and AgentClusterNames those of tests with agents. A cluster has one definition
// of reports, and an agent tells of everything there: these tests come one after the other, beside all others.
var (
	ClusterNames      = []string{"edge01", "edge02"}
	AgentClusterNames = []string{"edge03", "edge04"}
)

// supervised are clusters of one supervisor, which is started when one of them is first asked for.
type supervised struct {
	names []string
	once  sync.Once
	dir   string
	err   error
	proc  *Process
}

var clusters, agentClusters = &supervised{names: ClusterNames}, &supervised{names: AgentClusterNames}

// Kubeconfig is the administrator's kubeconfig of a shared cluster, which is started when first asked for.
func Kubeconfig(t testing.TB, name string) []byte {
	t.Helper()
	path, of := built.Binary(t, "drover-kube"), clusters
	if slices.Contains(AgentClusterNames, name) {
		of = agentClusters
	}
	of.once.Do(func() {
		if of.dir, of.err = tempdir.Make("drover-clusters"); of.err != nil {
			return
		}
		base := freeport.Block(portsOfCluster * len(of.names))[0]
		of.proc, of.err = start("clusters", "ready", nil, path, "up", "--data-dir", of.dir,
			"--cluster", strings.Join(of.names, ","), "--port-base", fmt.Sprint(base))
	})
	require.NoError(t, of.err)
	data, err := os.ReadFile(filepath.Join(of.dir, name, "kubeconfig"))
	require.NoError(t, err)
	return data
}

// stop ends them.
func (s *supervised) stop() {
	if s.proc != nil {
		s.proc.Kill()
		_ = os.RemoveAll(s.dir)
	}
}

// portsOfCluster is how many ports apart the clusters of one supervisor are.
const portsOfCluster = 10

// KillAPIServers ends the API servers of AgentClusterNames as kill -9 does, and keeps their supervisor from starting
// others before again is called, or the test ends.
func KillAPIServers(t testing.TB) (again func()) {
	t.Helper()
	supervisor := agentClusters.proc.cmd.Process
	again = func() { require.NoError(t, supervisor.Signal(syscall.SIGCONT)) }
	t.Cleanup(again)
	require.NoError(t, supervisor.Signal(syscall.SIGSTOP))
	for _, name := range agentClusters.names {
		data, err := os.ReadFile(filepath.Join(agentClusters.dir, name, "state.json"))
		require.NoError(t, err)
		var state struct {
			Components map[string]struct{ PID int }
		}
		require.NoError(t, json.Unmarshal(data, &state))
		pid := state.Components["kube-apiserver"].PID
		require.NotZero(t, pid, "%s", data)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	return again
}

// Cluster is a shared cluster seen through a proxy of the test's own, which can be told to do harm.
type Cluster struct {
	Name   string
	direct *rest.Config
	addr   string // of the proxy
	line   *line
	server *httptest.Server
	proxy  *httputil.ReverseProxy
	fault  atomic.Pointer[Fault]
}

// NewCluster puts a proxy before a shared cluster.
func NewCluster(t testing.TB, name string) *Cluster {
	t.Helper()
	return NewClusterAs(t, name, "")
}

// NewClusterAs is NewCluster with the rights of a user, of whom the cluster knows nothing until a role is
// bound; the administrator's when it is "".
func NewClusterAs(t testing.TB, name, user string) *Cluster {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(Kubeconfig(t, name))
	require.NoError(t, err)
	config.QPS = -1
	as := rest.CopyConfig(config)
	as.Impersonate.UserName = user
	transport, err := rest.TransportFor(as)
	require.NoError(t, err)
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	c := &Cluster{Name: name, direct: config, addr: freeport.Address()}
	c.proxy = &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // what breaks is meant to
	}
	c.Up(t)
	t.Cleanup(c.Down)
	return c
}

// Up makes the cluster answer, at the same address as ever.
func (c *Cluster) Up(t testing.TB) {
	t.Helper()
	c.line = listen(t, c.addr)
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := c.fault.Load(); f != nil {
			(*f)(w, r, c.proxy)
			return
		}
		c.proxy.ServeHTTP(w, r)
	}))
	c.server.Listener.Close()
	c.server.Listener = c.line
	c.server.EnableHTTP2 = true
	c.server.Config.ErrorLog = c.proxy.ErrorLog
	c.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	c.server.StartTLS()
}

// Down makes it refuse connections, and ends those that there are.
func (c *Cluster) Down() {
	c.line.cut()
	c.server.Config.Close()
}

// Kubeconfig is a kubeconfig of the proxy.
func (c *Cluster) Kubeconfig(t testing.TB) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://" + c.addr, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "the-proxy-has-the-credentials"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return data
}

// Client asks the cluster itself, past the proxy.
func (c *Cluster) Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.direct)
	require.NoError(t, err)
	return client
}

// Dynamic is Client for objects of every kind.
func (c *Cluster) Dynamic(t testing.TB) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.direct)
	require.NoError(t, err)
	return client
}

// kinds are those that the tests' charts use.
var kinds = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "secrets"},
	{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"}, {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
}

// Labelled lists what the cluster holds of a context, as "kind/name", whatever the app.
func (c *Cluster) Labelled(t testing.TB, contextID string) []string {
	t.Helper()
	client := c.Dynamic(t)
	var found []string
	for _, gvr := range kinds {
		list, err := client.Resource(gvr).List(t.Context(), metav1.ListOptions{LabelSelector: "emco/deployment-id"})
		require.NoError(t, err)
		for _, o := range list.Items {
			if id := o.GetLabels()["emco/deployment-id"]; len(id) > len(contextID) && id[:len(contextID)+1] == contextID+"-" {
				found = append(found, gvr.Resource+"/"+o.GetName())
			}
		}
	}
	return found
}
