package monitor

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	writes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "drover_monitor_writes_total", Help: "Statuses of ResourceBundleStates written, parts counted one by one.",
	})
	writtenBytes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "drover_monitor_written_bytes_total", Help: "Bytes of the statuses written.",
	})
	failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "drover_monitor_failures_total", Help: "Writes that failed; each is tried again.",
	})
	observedKinds = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "drover_monitor_kinds", Help: "Kinds that are watched.",
	})
)

func init() { metrics.Registry.MustRegister(writes, writtenBytes, failures, observedKinds) }
