package kube

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/drover-io/drover/internal/domain"
)

// Cluster is the client of one cluster. It may be used by any number of goroutines, also after its
// Clusters has closed or replaced it.
type Cluster struct {
	config    Config
	digest    domain.Digest // of the kubeconfig
	base      string        // URL of the API server, without a slash at its end
	client    *http.Client
	streams   *http.Client // for watches that do not fit into the connection of client
	transport *transport
	kinds     *kinds
	slots     chan struct{} // holds one for each request that is under way
	answers   atomic.Int64  // counts answers to requests
	checked   atomic.Int64  // when the credentials were last known to be current, in ns since 1970
}

func newCluster(kubeconfig []byte, digest domain.Digest, config Config) (*Cluster, error) {
	access, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	c := &Cluster{config: config, digest: digest, slots: make(chan struct{}, config.Parallel)}
	if err := c.connect(access); err != nil {
		return nil, err
	}
	c.kinds = newKinds(c.read, config.Request)
	return c, nil
}

// fresh says whether the credentials need not be asked for again yet.
func (c *Cluster) fresh() bool {
	return time.Since(time.Unix(0, c.checked.Load())) < c.config.Fresh
}

// Answers counts what has answered requests in the cluster's place.
func (c *Cluster) Answers() int64 { return c.answers.Load() }

// doubt makes the next Get ask for the credentials.
func (c *Cluster) doubt() { c.checked.Store(0) }

func (c *Cluster) close() { c.transport.closeIdle() }

// pingTimeout bounds Ping: who asks wants to know whether a cluster answers at all.
const pingTimeout = 5 * time.Second

// Ping says whether the cluster's API answers: nil, or an error as Apply's Outcome.Retry has it.
func (c *Cluster) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := c.read(ctx, "/version")
	return kindOf(err)
}

// slot waits for a place among the requests to this cluster.
func (c *Cluster) slot(ctx context.Context) (release func(), err error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	}
}
