// Package kube works on clusters: a client per cluster, server-side apply, delete. It turns what clusters
// answer into the product's errors and marks, and is the only place that knows how to talk to them.
package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/drover-io/drover/internal/address"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// Config bounds the work on clusters; the zero value of a member means its default.
type Config struct {
	Clients   int           // clients kept, 2,000
	Parallel  int           // requests at a time to one cluster, 8
	Dial      time.Duration // to connect, 3 s
	Handshake time.Duration // for TLS, 5 s
	Request   time.Duration // for one request, connecting included, 15 s
	Write     time.Duration // for one by which a Job changes something, 35 s; as long as Request where that is set alone
	Idle      time.Duration // how long an unused connection is kept, 1 min
	Fresh     time.Duration // how long credentials are used before they are asked for again, 10 s
	StageWait time.Duration // how long a new CRD, or a deletion, is waited for, 10 s

	Allowed  Allowed          // what kubeconfigs may have that they may not by themselves
	Networks address.Networks // of the addresses that clusters may have
}

func (c Config) withDefaults() Config {
	if c.Write == 0 {
		c.Write = c.Request
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&c.Dial, policy.Dial},
		{&c.Handshake, policy.Handshake},
		{&c.Request, policy.ClusterRequest},
		{&c.Write, policy.ClusterWrite},
		{&c.Idle, policy.ClusterIdle},
		{&c.Fresh, policy.Fresh},
		{&c.StageWait, policy.StageWait},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if c.Clients == 0 {
		c.Clients = 2000
	}
	if c.Parallel == 0 {
		c.Parallel = 8
	}
	return c
}

// Name names the clients of a Clients.
type Name interface {
	comparable
	fmt.Stringer
}

// User is the user of a logical cloud in one of its clusters.
type User struct {
	Cloud domain.Key
	domain.ClusterName
}

// String is the cluster, then the cloud.
func (u User) String() string { return u.ClusterName.String() + " in " + string(u.Cloud) }

// SourceOf gives credentials and their digest. Its errors are passed on as they are.
type SourceOf[K Name] func(ctx context.Context, name K) (kubeconfig []byte, digest domain.Digest, err error)

type (
	// Clusters keeps a client per cluster, with the rights of the cluster's registration.
	Clusters = Clients[domain.ClusterName]
	// Source gives the credentials of clusters' registrations.
	Source = SourceOf[domain.ClusterName]
	// Users keeps a client for each user of a logical cloud in a cluster.
	Users = Clients[User]
)

// Clients keeps clients of clusters; the least recently used ones are closed, unless something goes on with them, such as a watch: then they
// are kept until that is over, as another client for the same cluster would be one more. No lock is held while a
// cluster or the source is asked, so a dead cluster holds up nobody.
type Clients[K Name] struct {
	config  Config
	source  SourceOf[K]
	flights singleflight.Group // by name
	clients *lru.Cache[K, *Cluster]

	mu    sync.Mutex
	inUse map[K]*Cluster // those that clients has no room for

	closed     atomic.Bool
	unmeasured func() // ends what measures the clients
}

// ErrClosed is why there is no new client after Close: nobody would close it.
var ErrClosed = &fail.Error{
	Kind: fail.Unavailable, Message: "this process is ending; another one goes on with the work", RetryAfter: policy.Replaced,
}

// NewClusters makes an empty set of clients. It fails only when config.Clients is negative.
func NewClusters(config Config, source Source) (*Clusters, error) {
	return newClients(config, source)
}

// NewUsers is NewClusters for users.
func NewUsers(config Config, source SourceOf[User]) (*Users, error) {
	return newClients(config, source)
}

func newClients[K Name](config Config, source SourceOf[K]) (*Clients[K], error) {
	k := &Clients[K]{config: config.withDefaults(), source: source, inUse: map[K]*Cluster{}}
	clients, err := lru.NewWithEvict(k.config.Clients, k.evicted)
	if err != nil {
		return nil, fmt.Errorf("make client cache: %w", err)
	}
	k.clients, k.unmeasured = clients, measure.Size(measure.CacheClients, clients.Len)
	return k, nil
}

// Get returns the client of a cluster, without talking to the cluster. The client's credentials are those
// of at most Config.Fresh ago, and newer when the cluster refused them since. Errors are the source's, or
// Malformed or Invalid when the kubeconfig cannot be used, or the context's, or ErrClosed.
func (k *Clients[K]) Get(ctx context.Context, name K) (*Cluster, error) {
	c, ok := k.find(name)
	measure.Looked(measure.CacheClients, ok)
	if ok && c.fresh() {
		return c, nil
	}
	return k.ask(ctx, name)
}

// Since is Get for credentials that are asked for at a time or later: what was registered before it counts, though the word that a
// registration was replaced has not come to this process yet.
func (k *Clients[K]) Since(ctx context.Context, name K, at time.Time) (*Cluster, error) {
	c, err := k.Get(ctx, name)
	for range 2 { // who is joined in the first may have begun to ask before that
		if err != nil || c.checkedSince(at) {
			break
		}
		c, err = k.ask(ctx, name)
	}
	return c, err
}

// ask is load, or joins who is at it.
func (k *Clients[K]) ask(ctx context.Context, name K) (*Cluster, error) {
	flight := k.flights.DoChan(name.String(), func() (any, error) {
		// Whoever began this may leave; others wait for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.config.Request)
		defer cancel()
		return panics.Value(ctx, func() (any, error) { return k.load(ctx, name) })
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case r := <-flight:
		if r.Err != nil {
			return nil, fmt.Errorf("credentials of cluster %s: %w", name, r.Err)
		}
		return r.Val.(*Cluster), nil
	}
}

// load asks for the credentials, and makes a new client if they are not those of the present one.
func (k *Clients[K]) load(ctx context.Context, name K) (*Cluster, error) {
	if k.closed.Load() {
		return nil, ErrClosed
	}
	asked := time.Now()
	kubeconfig, digest, err := k.source(ctx, name)
	old, _ := k.find(name)
	if fail.Is(err, fail.NotFound) && old != nil { // another one that comes in its name is another cluster
		k.clients.Remove(name)
		k.drop(name, old)
		old.end()
	}
	if err != nil {
		return nil, err
	}
	if old != nil && old.digest == digest {
		old.checked.Store(asked.UnixNano())
		return old, nil
	}
	c, err := newCluster(kubeconfig, digest, k.config)
	if err != nil {
		return nil, err
	}
	c.checked.Store(asked.UnixNano())
	c.made = asked
	c.unused = func() { k.drop(name, c) }
	c.again = func(ctx context.Context) { _, _ = k.Get(ctx, name) }
	k.clients.Remove(name) // closes the one with the old credentials
	if old != nil {
		k.drop(name, old)
	}
	k.clients.Add(name, c)
	if old != nil {
		old.end()
	}
	if k.closed.Load() { // Close was called meanwhile, and may have been too early to find the client
		k.clients.Remove(name)
		return nil, ErrClosed
	}
	return c, nil
}

// find finds a client that is kept.
func (k *Clients[K]) find(name K) (*Cluster, bool) {
	if c, ok := k.clients.Get(name); ok {
		return c, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.inUse[name]
	return c, ok
}

// evicted takes a client for which there is no room any more. Work that begins with it in this moment makes a connection of its own.
func (k *Clients[K]) evicted(name K, c *Cluster) {
	if c.users.Load() == 0 || c.life.Err() != nil {
		c.close()
		return
	}
	k.mu.Lock()
	k.inUse[name] = c
	k.mu.Unlock()
	if c.users.Load() == 0 { // it was left before it was kept
		k.drop(name, c)
	}
}

// drop closes a client that is in use no more.
func (k *Clients[K]) drop(name K, c *Cluster) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inUse[name] == c {
		delete(k.inUse, name)
		c.close()
	}
}

// names are those of all clients that are kept.
func (k *Clients[K]) names() []K {
	kept := k.clients.Keys()
	k.mu.Lock()
	defer k.mu.Unlock()
	return append(kept, slices.Collect(maps.Keys(k.inUse))...)
}

// Renew asks for the credentials of the clients there are whose names are wanted. What goes on with credentials that have
// been replaced ends with ErrReplaced.
func (k *Clients[K]) Renew(ctx context.Context, wanted func(K) bool) error {
	names := slices.DeleteFunc(k.names(), func(name K) bool { return !wanted(name) })
	errs := make([]error, len(names))
	g := panics.New(ctx)
	g.SetLimit(renewedAtOnce)
	for i, name := range names {
		if c, ok := k.find(name); ok {
			c.recheck()
			g.Go(func() error {
				_, errs[i] = panics.Value(ctx, func() (*Cluster, error) { return k.Get(ctx, name) })
				return nil
			})
		}
	}
	_ = g.Wait() // none returns an error
	return errors.Join(errs...)
}

// renewedAtOnce is how many credentials Renew asks for at a time.
const renewedAtOnce = 8

// Close closes the clients. Work that still goes on with one is not cut off; for what begins after it there is no new client.
func (k *Clients[K]) Close() {
	k.closed.Store(true)
	k.unmeasured()
	k.clients.Purge()
}
