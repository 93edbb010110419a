package app

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/service"
)

// TestMetricsOfTenantsAreBounded: however many tenants there are, and nothing is lost of those that have no metrics of their own.
func TestMetricsOfTenantsAreBounded(t *testing.T) {
	counts := map[string]service.TenantCounts{}
	for n := range measuredTenants + 50 {
		counts[fmt.Sprintf("t%03d", n)] = service.TenantCounts{Messages: int64(1000 - n), Workloads: 2}
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(tenantCollector{func() map[string]service.TenantCounts { return counts }})
	families, err := r.Gather()
	require.NoError(t, err)
	require.Len(t, families, len(tenantMetrics))
	for _, f := range families {
		require.Len(t, f.GetMetric(), measuredTenants+1, f.GetName())
		if f.GetName() != "drover_tenant_workloads" {
			continue
		}
		byTenant := map[string]float64{}
		for _, m := range f.GetMetric() {
			byTenant[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
		require.InDelta(t, 100, byTenant[otherTenants], 0)
		require.InDelta(t, 2, byTenant["t000"], 0, "those that say most have their own")
		require.NotContains(t, byTenant, "t249")
	}
}
