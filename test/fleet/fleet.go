// Package fleet is a server that behaves as many Kubernetes API servers in one process, each under a path of
// its own: for tests and benchmarks with more clusters than real ones fit on a machine. It stores objects
// and runs no controllers but those that end namespaces, custom resources, dependents, and Jobs that say how (JobEnds). Faults can be
// put into every cluster.
package fleet

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/internal/fail"
)

// Config is what a fleet is made of. The zero value of a member is its default.
type Config struct {
	Clusters int           // how many there are
	Listen   string        // address; any free port of the loopback interface
	History  int           // how many events of a cluster a watch can look back, at least; its part of 100,000
	Bookmark time.Duration // between two bookmarks of a watch that wants them; a minute
	Reviews  bool          // clients can ask what they may do, which is everything; who serves agents needs it
}

func (c Config) withDefaults() Config {
	// Events keep what was replaced and deleted in memory: some hundred megabytes in all at the most.
	const events, least, most = 100_000, 64, 10_000
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.History == 0 {
		c.History = min(max(events/max(c.Clusters, 1), least), most)
	}
	if c.Bookmark == 0 {
		c.Bookmark = time.Minute
	}
	return c
}

// All stands for every cluster where a name is asked for.
const All = "all"

// Name is that of cluster i, which is counted from 1: edge0001.
func Name(i int) string { return fmt.Sprintf("edge%04d", i) }

// Fleet is a running server. It may be used by any number of goroutines.
type Fleet struct {
	config   Config
	names    []string
	clusters map[string]*cluster
	server   *http.Server
	url      string
	ca       []byte
	signer   *signer
	served   sync.WaitGroup
}

// Start starts a server, which Close ends.
func Start(config Config) (*Fleet, error) {
	f := &Fleet{config: config.withDefaults(), clusters: map[string]*cluster{}}
	if f.config.Clusters < 1 {
		return nil, errors.New("start a fleet: it needs at least one cluster")
	}
	shared, token := newMemo(f.config.Clusters > 1), rand.Text()
	for i := range f.config.Clusters {
		name := Name(i + 1)
		f.names = append(f.names, name)
		f.clusters[name] = newCluster(name, token, f.config.History, shared)
		if f.config.Reviews {
			f.clusters[name].custom[reviewKind.address()] = reviewKind
		}
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(context.Background(), "tcp", f.config.Listen)
	if err != nil {
		return nil, fmt.Errorf("start a fleet: %w", err)
	}
	host, _, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("start a fleet: %w", err)
	}
	certificate, ca, err := certify(host)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("start a fleet: %w", err)
	}
	f.ca, f.url = ca, "https://"+listener.Addr().String()
	if f.signer, err = newSigner(certificate); err != nil {
		listener.Close()
		return nil, fmt.Errorf("start a fleet: %w", err)
	}
	f.server = &http.Server{
		Handler:           f.routes(),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: f.signer.pool()},
		ReadHeaderTimeout: time.Minute,
		IdleTimeout:       5 * time.Minute,
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // clients come and go
	}
	f.served.Go(func() { _ = f.server.ServeTLS(listener, "", "") }) // it ends with Close, by an error that says so
	return f, nil
}

// Close ends the server and all connections.
func (f *Fleet) Close() {
	f.server.Close()
	f.served.Wait()
}

// Names are those of the clusters, in order.
func (f *Fleet) Names() []string { return append([]string(nil), f.names...) }

// Ready is where the fleet is, for another process.
func (f *Fleet) Ready() Ready { return Ready{URL: f.url, CA: f.ca, Clusters: len(f.names)} }

// Kubeconfig is the administrator's of a cluster, which has to be one of the fleet.
func (f *Fleet) Kubeconfig(name string) []byte {
	if f.clusters[name] == nil {
		panic("there is no cluster " + name)
	}
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: f.url + "/clusters/" + name, CertificateAuthorityData: f.ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": {Token: f.clusters[name].token.Load().(string)}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: "admin"}},
		CurrentContext: name,
	})
	if err != nil {
		panic(err) // all of it can be written
	}
	return data
}

// Revoke ends the administrator's credential of a cluster: what comes with it is answered 401 from now on, and Kubeconfig has another one. A
// watch that goes on is not ended, as in Kubernetes.
func (f *Fleet) Revoke(name string) (kubeconfig []byte, err error) {
	c := f.clusters[name]
	if c == nil {
		return nil, fail.New(fail.NotFound, "there is no cluster %q", name)
	}
	c.token.Store(rand.Text())
	return f.Kubeconfig(name), nil
}

// Objects counts the objects of a cluster, or of All, that the label selector matches; "" matches all, the
// two namespaces that every cluster begins with among them.
func (f *Fleet) Objects(name, selector string) (int, error) {
	s, err := labels.Parse(selector)
	if err != nil {
		return 0, fail.Wrap(err, fail.Invalid, "the label selector cannot be read: %s", err)
	}
	clusters, err := f.named(name)
	n := 0
	for _, c := range clusters {
		n += c.count(s)
	}
	return n, err
}

// Held is an object that a cluster has.
type Held struct {
	Kind      string            `json:"kind"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	Leaving   bool              `json:"leaving,omitempty"` // it is deleted, and waits for a finalizer
	Object    json.RawMessage   `json:"object"`
}

// Held lists the objects of a cluster, or of All, that the label selector matches, whatever faults there are.
func (f *Fleet) Held(name, selector string) ([]Held, error) {
	s, err := labels.Parse(selector)
	if err != nil {
		return nil, fail.Wrap(err, fail.Invalid, "the label selector cannot be read: %s", err)
	}
	clusters, err := f.named(name)
	held := []Held{}
	for _, c := range clusters {
		held = append(held, c.held(s)...)
	}
	return held, err
}

// Requests counts the requests that a cluster, or All, got since the start, those that a fault struck among
// them, by verb: get, list, watch, create, update, patch, apply, delete, and other for what is not about
// objects.
func (f *Fleet) Requests(name string) (map[string]int64, error) {
	clusters, err := f.named(name)
	sum := map[string]int64{}
	for _, c := range clusters {
		c.counts.addTo(sum)
	}
	return sum, err
}

// Inject puts faults into a cluster, or All, in place of those that are there; none heals it. Requests that
// hang by a fault which goes are answered.
func (f *Fleet) Inject(name string, faults ...Fault) error {
	for _, fault := range faults {
		if err := fault.validate(); err != nil {
			return err
		}
	}
	clusters, err := f.named(name)
	for _, c := range clusters {
		c.faults.set(faults)
	}
	return err
}

// named are the clusters that a name stands for.
func (f *Fleet) named(name string) ([]*cluster, error) {
	if name != All {
		c, ok := f.clusters[name]
		if !ok {
			return nil, fail.New(fail.NotFound, "there is no cluster %q", name)
		}
		return []*cluster{c}, nil
	}
	all := make([]*cluster, len(f.names))
	for i, name := range f.names {
		all[i] = f.clusters[name]
	}
	return all, nil
}
