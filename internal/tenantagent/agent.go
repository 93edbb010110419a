// Package tenantagent is the agent of a tenant's cluster. It tells the control plane, by universe.workload.v1, which Pods there
// are, and has the WorkloadRules of the cluster be rules of the tenant.
//
// A scope has the Pods of the namespaces that a ConfigMap names, each as the bytes that are said of it. When all its lists are
// complete the teller begins a stream with one sync of all of them, and then says what changes. Of several agents one does
// so, the one that has the Lease. The carrier looks at WorkloadRules one by one, and writes into the status of each how it stands.
//
// All of that can be lost: an agent that starts lists again, and its sync makes good what it did not see.
package tenantagent

import (
	"context"
	"crypto/tls"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/internal/restored"
	"github.com/drover-io/drover/internal/span"
	"github.com/drover-io/drover/internal/universe"
)

// Config is what the agent needs.
type Config struct {
	Cluster *rest.Config
	Server  Server
	Tenant  string               // for which the agent speaks
	Listen  string               // address of health and metrics; "" for none
	TLS     *tls.Config          // of that address; nil for none
	Names   []string             // by which it may be asked there, beside its addresses
	Metrics prometheus.Collector // more of them; nil for none
	// Namespace is the agent's own, where its Lease and its ConfigMap are; "" for neither: then it is alone, and tells of all
	// namespaces.
	Namespace string
	ConfigMap string // its name
	Identity  string // among the agents of the cluster
	// Rules says whether the WorkloadRules of the cluster are carried over.
	Rules bool
	Log   *slog.Logger
	// Started is called when the agent runs; nil for nobody.
	Started func()
}

// userAgent is what the agent calls itself.
const userAgent = "drover-tenant-agent"

// Limits of the agent's requests to its cluster, a second; watches do not count.
const (
	requestRate  = 20
	requestBurst = 50
)

// agent is one that runs.
type agent struct {
	config  Config
	kube    kubernetes.Interface
	objects dynamic.Interface
	scopes  *scopes
	state   *state
	lost    context.CancelFunc // says that the Lease is another agent's
	spoken  chan struct{}      // all was told: the server answers
}

// Run runs the agent until ctx ends, and closes its stream in order then. An error is that of its start, but for one: the cluster was restored from a
// backup, or may have been (package restored), and the process is to begin anew.
func Run(ctx context.Context, c Config) error {
	cluster := rest.CopyConfig(c.Cluster)
	cluster.UserAgent = userAgent
	cluster.QPS, cluster.Burst = requestRate, requestBurst
	cluster.Wrap(span.Requests)
	objects, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return err
	}
	cluster.ContentType, cluster.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return err
	}
	a := &agent{config: c, kube: client, objects: objects, state: newState(c.Metrics), spoken: make(chan struct{}, 1)}
	g, ctx := errgroup.WithContext(ctx)
	if c.Listen != "" {
		wait, err := a.listen(ctx)
		if err != nil {
			return err
		}
		g.Go(wait)
	}
	if c.Started != nil {
		c.Started()
	}
	g.Go(func() error { return a.lead(ctx, a.work) })
	return g.Wait()
}

// work is what the agent does that has the Lease.
func (a *agent) work(ctx, leading context.Context) error {
	connection, err := a.config.Server.connect()
	if err != nil {
		return err
	}
	defer connection.Close()
	a.scopes = newScopes() // whom it follows is said again
	a.state.follow(a.scopes)
	defer a.state.follow(nil)
	// What follows the cluster ends after what tells of it. When something cannot be followed all ends.
	g, leading := errgroup.WithContext(leading)
	following, stop := context.WithCancel(leading)
	defer stop()
	g.Go(func() error { return a.scopes.run(following, a.kube) })
	g.Go(func() error { return restored.Await(following, a.config.Log, a.database) })
	if a.config.Namespace == "" {
		a.scopes.wanted.set(nil, nil)
	} else {
		g.Go(func() error {
			return a.scopes.wanted.follow(following, a.scopes.watches, a.kube, a.config.Namespace, a.config.ConfigMap)
		})
	}
	t := &teller{agent: a, client: universe.NewWorkloadServiceClient(connection)}
	g.Go(func() error {
		defer stop()
		t.run(ctx, leading)
		return nil
	})
	if a.config.Rules {
		c := newCarrier(a, universe.NewWorkloadRuleServiceClient(connection))
		g.Go(func() error { return c.run(following) })
	}
	return g.Wait()
}

// database says how far the cluster's database is, by a list of one Pod, which the agent may have in any case.
func (a *agent) database(ctx context.Context) (string, error) {
	pods, err := a.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	return pods.ResourceVersion, nil
}
