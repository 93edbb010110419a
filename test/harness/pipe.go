package harness

import (
	"io"
	"net"
	"net/url"
	"sync/atomic"
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
	delay  atomic.Int64
	line   *line
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
	p.line = listen(t, p.addr)
	go p.accept(p.line)
}

// Down makes it refuse connections and ends those that there are.
func (p *Pipe) Down() { p.line.cut() }

// Slow lets everything that is sent to the cluster take its time.
func (p *Pipe) Slow(d time.Duration) { p.delay.Store(int64(d)) }

func (p *Pipe) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go p.forward(c)
	}
}

func (p *Pipe) forward(from net.Conn) {
	to, err := net.Dial("tcp", p.target)
	if err != nil {
		from.Close()
		return
	}
	go p.copy(from, to, false)
	p.copy(to, from, true)
}

// copy forwards until either side ends, and ends both.
func (p *Pipe) copy(to, from net.Conn, slowly bool) {
	defer func() {
		from.Close()
		to.Close()
	}()
	if !slowly {
		_, _ = io.Copy(to, from)
		return
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if d := time.Duration(p.delay.Load()); d > 0 {
			<-time.After(d)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
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
