package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/store"
)

// usage is what projects have: operations in the engine, documents in the store.
type usage struct {
	*engine.Engine
	*store.Store
}

// shareCollector tells how often somebody had more of the API than their share.
type shareCollector struct{ shares *door.Shares }

var refusedShares = prometheus.NewDesc("drover_share_refused_total", "Requests that were answered 429, by the limit that they met.", []string{"limit"}, nil)

// Describe implements prometheus.Collector.
func (shareCollector) Describe(to chan<- *prometheus.Desc) { to <- refusedShares }

// Collect implements prometheus.Collector.
func (c shareCollector) Collect(to chan<- prometheus.Metric) {
	for limit, n := range c.shares.Refused() {
		to <- prometheus.MustNewConstMetric(refusedShares, prometheus.CounterValue, float64(n), limit)
	}
}
