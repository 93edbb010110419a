package app

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/service"
)

// measuredTenants is how many tenants have metrics of their own. The others, those that say least, are one: "others".
const measuredTenants = 200

// otherTenants cannot be the name of a tenant.
const otherTenants = "(others)"

// tenantMetric is one metric by tenant.
type tenantMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(service.TenantCounts) float64
}

func newTenantMetric(name, about string, kind prometheus.ValueType, of func(service.TenantCounts) float64) tenantMetric {
	return tenantMetric{prometheus.NewDesc("drover_tenant_"+name, about, []string{"tenant"}, nil), kind, of}
}

var tenantMetrics = []tenantMetric{
	newTenantMetric("streams_total", "Streams that tenants' clusters have begun.", prometheus.CounterValue, func(c service.TenantCounts) float64 { return float64(c.Streams) }),
	newTenantMetric("messages_total", "Messages of workloads that were taken.", prometheus.CounterValue, func(c service.TenantCounts) float64 { return float64(c.Messages) }),
	newTenantMetric("workload_changes_total", "Workloads that were stored or removed.", prometheus.CounterValue, func(c service.TenantCounts) float64 { return float64(c.Changed) }),
	newTenantMetric("match_writes_total", "Records of matches that were written because of workloads, rules or hosts.", prometheus.CounterValue, func(c service.TenantCounts) float64 { return float64(c.MatchWrites) }),
	newTenantMetric("held_syncs_total", "Syncs of which deletions were held.", prometheus.CounterValue, func(c service.TenantCounts) float64 { return float64(c.Held) }),
	newTenantMetric("left_out", "Workloads that are left out of what the cluster says.", prometheus.GaugeValue, func(c service.TenantCounts) float64 { return float64(c.LeftOut) }),
	newTenantMetric("workloads", "Workloads of tenants whose streams this process reads.", prometheus.GaugeValue, func(c service.TenantCounts) float64 { return float64(c.Workloads) }),
	newTenantMetric("connected", "Streams that this process reads.", prometheus.GaugeValue, func(c service.TenantCounts) float64 { return float64(c.Connected) }),
}

// tenantCollector has the metrics of what a process has counted of tenants. Who says most changes: what a tenant has counted goes to its own
// series as long as it has one, and else to that of the others. Neither falls by that, as a counter may not, and together they have each count once.
type tenantCollector struct {
	counts func() map[string]service.TenantCounts

	mu     sync.Mutex
	of     map[string]*counted
	others []float64 // what was counted of tenants while they had no series of their own, by metric
}

// counted is what the counters of a tenant have come to, by metric.
type counted struct {
	seen []float64 // when it was last asked for
	own  []float64 // of that, what its own series has
}

func newTenantCollector(counts func() map[string]service.TenantCounts) *tenantCollector {
	return &tenantCollector{counts: counts, of: map[string]*counted{}, others: make([]float64, len(tenantMetrics))}
}

// Describe implements prometheus.Collector.
func (*tenantCollector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range tenantMetrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *tenantCollector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts()
	maps.DeleteFunc(c.of, func(name string, _ *counted) bool { _, there := counts[name]; return !there })
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b].Messages, counts[a].Messages), cmp.Compare(a, b))
	})
	for n, m := range tenantMetrics {
		others := 0.0 // of a gauge
		for i, name := range names {
			value, has := m.of(counts[name]), i < measuredTenants
			switch {
			case m.kind == prometheus.CounterValue:
				value = c.count(n, name, value, has)
			case !has:
				others += value
			}
			if has {
				to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, name)
			}
		}
		if m.kind == prometheus.CounterValue {
			others = c.others[n]
		}
		if len(names) > measuredTenants || others > 0 {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, others, otherTenants)
		}
	}
}

// count adds what a counter of a tenant has counted since it was last asked for, to its own series where it has one, and says what that comes to.
func (c *tenantCollector) count(metric int, tenant string, value float64, has bool) (own float64) {
	of := c.of[tenant]
	if of == nil {
		of = &counted{seen: make([]float64, len(tenantMetrics)), own: make([]float64, len(tenantMetrics))}
		c.of[tenant] = of
	}
	if value < of.seen[metric] { // it was forgotten, and has come anew
		of.seen[metric] = 0
	}
	to := &c.others[metric]
	if has {
		to = &of.own[metric]
	}
	*to += value - of.seen[metric]
	of.seen[metric] = value
	return of.own[metric]
}
