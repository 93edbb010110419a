package harness

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/internal/freeport"
)

// Pipe is a shared cluster behind a forwarder of the test's own. Unlike a Cluster's proxy it does not see what it
// forwards, so that client certificates get through.
type Pipe struct {
	Name   string
	config *rest.Config
	target string
	addr   string
	delay  time.Duration
	wire   *Wire
}

// NewPipe puts a forwarder before a shared cluster.
func NewPipe(t testing.TB, name string) *Pipe {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(Kubeconfig(t, name))
	require.NoError(t, err)
	config.QPS = -1
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	p := &Pipe{Name: name, config: config, target: target.Host, addr: freeport.Address()}
	p.Up(t)
	t.Cleanup(p.Down)
	return p
}

// Up makes the cluster answer, at the same address as ever.
func (p *Pipe) Up(t testing.TB) {
	t.Helper()
	p.wire = wireAt(t, p.addr, p.target)
	p.Slow(p.delay)
}

// Down makes it refuse connections and ends those that there are.
func (p *Pipe) Down() { p.wire.close() }

// Slow lets everything that is sent to the cluster take its time.
func (p *Pipe) Slow(d time.Duration) {
	p.delay = d
	p.wire.asks.Store(int64(d))
}

// Kubeconfig is the administrator's kubeconfig for the forwarder.
func (p *Pipe) Kubeconfig(t testing.TB) []byte {
	t.Helper()
	file, err := clientcmd.Load(Kubeconfig(t, p.Name))
	require.NoError(t, err)
	for _, c := range file.Clusters {
		c.Server = "https://" + p.addr
	}
	data, err := clientcmd.Write(*file)
	require.NoError(t, err)
	return data
}

// Client asks the cluster itself, past the forwarder, with the administrator's rights.
func (p *Pipe) Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(p.config)
	require.NoError(t, err)
	return client
}
