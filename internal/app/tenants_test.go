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
	r.MustRegister(newTenantCollector(func() map[string]service.TenantCounts { return counts }))
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

// TestCountersOfTenantsNeverFall: who says most has metrics of its own, and that changes. By it nothing is lost, nor counted twice.
func TestCountersOfTenantsNeverFall(t *testing.T) {
	counts, want := map[string]service.TenantCounts{}, 0.0
	say := func(tenant string, n int64) {
		counts[tenant] = service.TenantCounts{Messages: counts[tenant].Messages + n, Connected: 1}
		want += float64(n)
	}
	for n := range measuredTenants + 2 {
		say(fmt.Sprintf("t%03d", n), int64(1000-n))
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newTenantCollector(func() map[string]service.TenantCounts { return counts }))
	told := map[string]float64{} // what each series last had
	for _, c := range []struct {
		name    string
		happens func()
	}{
		{"at first", func() {}},
		{"one of the others says most", func() { say("t201", 5000) }},
		{"and one that has lost its series", func() { say("t199", 6000) }},
		{"one of the others goes", func() { delete(counts, "t200") }},
		{"one is forgotten, and has come again", func() { delete(counts, "t050"); say("t050", 7) }},
		{"one with a series of its own goes", func() { delete(counts, "t100") }},
	} {
		c.happens()
		families, err := r.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() != "drover_tenant_messages_total" {
				continue
			}
			for _, m := range f.GetMetric() {
				tenant, value := m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()
				require.GreaterOrEqual(t, value, told[tenant], "%s: %s", c.name, tenant)
				told[tenant] = value
			}
		}
		sum := 0.0
		for _, value := range told {
			sum += value
		}
		require.InDelta(t, want, sum, 0, c.name)
	}
}
