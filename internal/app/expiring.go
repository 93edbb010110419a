package app

import (
	"cmp"
	"context"
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
	first []expiry // those that expire first, measure.MostClusters at the most
}

// expiry is when the first credential of a cluster expires.
type expiry struct {
	domain.ClusterName
	at time.Time
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
	for _, c := range e.first {
		if left := c.at.Sub(now); left <= domain.ExpiryNotice {
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
	var all []expiry
	for _, o := range clusters {
		if c := o.(*domain.Cluster); !c.Expires.IsZero() {
			all = append(all, expiry{c.ClusterName(), c.Expires})
		}
	}
	slices.SortFunc(all, func(a, b expiry) int { return cmp.Or(a.at.Compare(b.at), a.Compare(b.ClusterName)) })
	e.read, e.first = now, all[:min(len(all), measure.MostClusters)]
}
