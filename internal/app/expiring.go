package app

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/measure"
)

// expiring has the clusters whose credentials expire soon as a metric.
type expiring struct {
	list func(ctx context.Context) ([]domain.Object, error)
	now  func() time.Time

	mu    sync.Mutex
	asked time.Time // whether there was an answer or not
	read  time.Time
	found map[domain.ClusterName]time.Time
}

// How often clusters are read for the metric, how long that may take, and for how long what was read is told while the store does not
// answer: clusters may have other credentials meanwhile, or be gone.
const (
	expiringEvery = time.Minute
	expiringTime  = 5 * time.Second
	expiringKept  = 10 * time.Minute
)

func (p *Parts) expiring() *expiring {
	return &expiring{now: time.Now, list: func(ctx context.Context) ([]domain.Object, error) {
		return p.store.ListUnder(ctx, domain.ClustersNoun, "")
	}}
}

var credentialsExpire = prometheus.NewDesc("drover_cluster_credentials_expire_seconds",
	"Seconds until the first credential of a cluster's kubeconfig expires, of those that do within 14 days; negative from then on.",
	[]string{"cluster_provider", "cluster"}, nil)

// Describe implements prometheus.Collector.
func (*expiring) Describe(to chan<- *prometheus.Desc) { to <- credentialsExpire }

// Collect implements prometheus.Collector. A store that does not answer leaves what was read last, for a while.
func (e *expiring) Collect(to chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if now.Sub(e.asked) >= expiringEvery {
		e.asked = now
		e.look(now)
	}
	if now.Sub(e.read) > expiringKept {
		return
	}
	soon := slices.SortedFunc(maps.Keys(e.found), func(a, b domain.ClusterName) int {
		return cmp.Or(e.found[a].Compare(e.found[b]), a.Compare(b))
	})
	for _, c := range soon[:min(len(soon), measure.MostClusters)] {
		if left := e.found[c].Sub(now); left <= domain.ExpiryNotice {
			to <- prometheus.MustNewConstMetric(credentialsExpire, prometheus.GaugeValue, left.Seconds(), c.Provider, c.Name)
		}
	}
}

func (e *expiring) look(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), expiringTime)
	defer cancel()
	clusters, err := e.list(ctx)
	if _, err = domain.UnreadableOf(err); err != nil { // one that somebody has damaged says nothing of the others
		return
	}
	e.read, e.found = now, map[domain.ClusterName]time.Time{}
	for _, o := range clusters {
		if c := o.(*domain.Cluster); !c.Expires.IsZero() {
			e.found[c.ClusterName()] = c.Expires
		}
	}
}
