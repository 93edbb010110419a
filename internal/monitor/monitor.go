// Package monitor is the agent of a member cluster: it watches whatever carries the label of a deployment, in all
// namespaces, and keeps the status of the ResourceBundleState with the same label as the cluster has it.
//
// The watcher decides which kinds are watched and has them watched, each with the label as the API server's
// selector. What comes is stripped and kept as it will stand in a status (tracked), by deployment id (index). The
// writer, a controller whose requests are deployment ids, writes the statuses: a first change at once, then at most
// one an interval.
//
// All of that can be lost: an agent that starts finds the resources by their label and fills them from what is there.
package monitor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/connections"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/restored"
	"github.com/drover-io/drover/internal/span"
)

// Config is what the agent needs.
type Config struct {
	Cluster   *rest.Config
	Listen    string               // address of health and metrics; "" for none
	Metrics   prometheus.Collector // more of them; nil for none
	TLS       *tls.Config          // of that address; nil for none
	Names     []string             // by which it may be asked there, beside its addresses
	Interval  time.Duration        // between two writes of a status
	MaxSize   int                  // of a status, in bytes; bundle.MinSize at least
	KindsFile string               // JSON list of additional kinds, read again every minute; "" for none
	Discover  bool                 // watch every kind that the agent may
	// Namespace is the agent's own, where its Lease is; "" for no Lease.
	Namespace string
	Log       *slog.Logger
}

// Limits of the agent's requests, a second; watches do not count.
const (
	requestRate  = 50
	requestBurst = 200
)

// workers is how many deployments are written at a time.
const workers = 4

// How long a failed write waits for its next attempt: first, and at most.
const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Run runs the agent until ctx ends. An error is that of its start: the configuration is not valid, or the cluster
// does not answer. One is not: the cluster was restored from a backup, or may have been (package restored), and the process is to begin anew.
func Run(ctx context.Context, c Config) error {
	if c.MaxSize < bundle.MinSize || c.Interval <= 0 {
		return fail.New(fail.Invalid, "a status may have %d bytes at least, and the interval has to be positive", bundle.MinSize)
	}
	if _, err := readExtra(c.KindsFile); err != nil {
		return err
	}
	x := newIndex(c.Namespace)
	h := newHealth(x, time.Now)
	m, err := newManager(c, h)
	if err != nil {
		return err
	}
	w, err := newWatcher(c, m, x, h)
	if err != nil {
		return err
	}
	if err := watchDefinitions(ctx, m, w.lookNow); err != nil {
		return err
	}
	f := &fitness{index: x, arrears: newArrears(time.Now)}
	if err := addWriter(c, m, x, f.arrears); err != nil {
		return err
	}
	version, err := databaseOf(m)
	if err != nil {
		return err
	}
	restarts := manager.RunnableFunc(func(ctx context.Context) error { return restored.Await(ctx, c.Log, version) })
	runnables := []manager.Runnable{w, h, restarts}
	if c.Namespace != "" {
		runnables = append(runnables, &pulse{client: m.GetClient(), log: c.Log, namespace: c.Namespace, now: time.Now, fitness: f})
	}
	for _, r := range runnables {
		if err := m.Add(r); err != nil {
			return err
		}
	}
	if err := answer(ctx, c, m, f); err != nil { // last: nothing after it fails without closing what it has opened
		return err
	}
	return m.Start(ctx)
}

func newManager(c Config, h *health) (manager.Manager, error) {
	cluster := rest.CopyConfig(c.Cluster)
	cluster.UserAgent = "drover-monitor"
	cluster.QPS, cluster.Burst = requestRate, requestBurst
	cluster.Wrap(span.Requests)
	labelled, err := labels.NewRequirement(plan.DeploymentLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	drain := 2 * time.Second // what is not written is written at the next start
	if c.Metrics != nil {
		if err := metrics.Registry.Register(c.Metrics); err != nil {
			return nil, err
		}
	}
	return manager.New(cluster, manager.Options{
		Logger: logr.FromSlogHandler(libraries{c.Log.Handler()}),
		Cache: cache.Options{
			DefaultLabelSelector: labels.NewSelector().Add(*labelled), DefaultTransform: track, NewInformer: h.informer,
		},
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // the library's word for none: it would take any name, and any number of connections
		GracefulShutdownTimeout: &drain,
		MapperProvider:          mapper,
	})
}

// mapper asks the cluster for its kinds, by requests that have a time of their own: controller-runtime gives them none, and no context.
func mapper(c *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	timed := *client
	timed.Timeout = policy.ClusterRequest
	return apiutil.NewDynamicRESTMapper(c, &timed)
}

// answer has the manager answer who asks for health and metrics, before it does anything else.
func answer(ctx context.Context, c Config, m manager.Manager, f *fitness) error {
	if c.Listen == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: limits.Gathers}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("/readyz", readyz(f))
	server, l, err := connections.Side{
		Address: c.Listen, Purpose: "metrics (--metrics-listen)", TLS: c.TLS, Names: c.Names, Handler: mux, Log: c.Log,
	}.Open(ctx)
	if err != nil {
		return err
	}
	drain := policy.SideDrain
	if err := m.Add(&manager.Server{Name: "metrics", Server: server, Listener: l, ShutdownTimeout: &drain}); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// readyz says whether statuses are being written.
func readyz(f *fitness) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if lacks := f.lacks(); lacks != "" {
			http.Error(w, lacks, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

func newWatcher(c Config, m manager.Manager, x *index, h *health) (*watcher, error) {
	asking := rest.CopyConfig(m.GetConfig())
	asking.Timeout = requestTime
	d, err := discovery.NewDiscoveryClientForConfig(asking)
	if err != nil {
		return nil, err
	}
	return &watcher{
		index: x, health: h, cache: m.GetCache(), client: m.GetClient(), discovery: d, log: c.Log,
		kindsFile: c.KindsFile, discover: c.Discover,
		look: make(chan struct{}, 1), running: map[schema.GroupKind]*watch{},
	}, nil
}

// databaseOf asks how far the cluster's database is, by a list of one namespace. The agent's cache would ask by its label, for which some API servers read
// the whole collection.
func databaseOf(m manager.Manager) (restored.Version, error) {
	client, err := metadata.NewForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	return func(ctx context.Context) (string, error) {
		list, err := namespaces.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return "", err
		}
		return list.ResourceVersion, nil
	}, nil
}

// watchDefinitions calls changed with every change of a CustomResourceDefinition, labelled or not. Where the agent
// may not watch them, new kinds are found a minute later.
func watchDefinitions(ctx context.Context, m manager.Manager, changed func()) error {
	definitions, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Mapper: m.GetRESTMapper(), Scheme: m.GetScheme(), DefaultTransform: track,
	})
	if err != nil {
		return err
	}
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	informer, err := definitions.GetInformer(ctx, o, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch CustomResourceDefinitions: %w", err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(_, _ any) { changed() },
		DeleteFunc: func(any) { changed() },
	}); err != nil {
		return err
	}
	// A plain runnable: the manager would wait for a cache to be filled, which it may not be allowed to.
	return m.Add(manager.RunnableFunc(definitions.Start))
}

func addWriter(c Config, m manager.Manager, x *index, owed *arrears) error {
	w := &writer{
		index: x, arrears: owed, client: m.GetClient(), log: c.Log, interval: c.Interval, maxSize: c.MaxSize, now: time.Now,
		shares: map[string]*share{},
	}
	skip := true // a process may have several agents, in tests
	written, err := controller.NewTyped("bundles", m, controller.TypedOptions[string]{
		Reconciler: w, MaxConcurrentReconciles: workers, SkipNameValidation: &skip,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost),
		LogConstructor: func(id *string) logr.Logger {
			log := logr.FromSlogHandler(libraries{c.Log.Handler()})
			if id != nil {
				return log.WithValues("deploymentID", *id)
			}
			return log
		},
	})
	if err != nil {
		return err
	}
	return written.Watch(source.TypedFunc[string](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[string]) error {
		x.setChanged(func(id string) {
			owed.owe(id)
			queue.Add(id)
		})
		return nil
	}))
}
