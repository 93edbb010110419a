package app

import (
	"cmp"
	"maps"
	"slices"

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

// tenantCollector has the metrics of what a process has counted of tenants.
type tenantCollector struct {
	counts func() map[string]service.TenantCounts
}

// Describe implements prometheus.Collector.
func (tenantCollector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range tenantMetrics {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c tenantCollector) Collect(to chan<- prometheus.Metric) {
	counts := c.counts()
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b].Messages, counts[a].Messages), cmp.Compare(a, b))
	})
	for _, m := range tenantMetrics {
		others := 0.0
		for i, name := range names {
			value := m.of(counts[name])
			if i < measuredTenants {
				to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, name)
				continue
			}
			others += value
		}
		if len(names) > measuredTenants {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, others, otherTenants)
		}
	}
}
