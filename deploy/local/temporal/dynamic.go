package temporal

import (
	"time"

	dc "go.temporal.io/server/common/dynamicconfig"
)

// plenty is a rate or a count that nothing here reaches.
const plenty = 100_000

// dynamicConfig are the server's settings where they differ from its defaults,
// which are made for a large cluster that many tenants share. Times were
// measured with the benchmarks of this package on two cores.
var dynamicConfig = dc.StaticClient{
	// A history shard reads its queues at most 20 times a second by default. A
	// single workflow runs into that: each of its workflow tasks waited up to
	// 50 ms to be dispatched, and a workflow of one activity took 100 instead
	// of 15.
	dc.TransferProcessorMaxPollRPS.Key():   plenty,
	dc.TimerProcessorMaxPollRPS.Key():      plenty,
	dc.VisibilityProcessorMaxPollRPS.Key(): plenty,

	// With one partition a task always meets the poller that waits for it; with
	// the default of four it often has to be forwarded first. A query took 22 ms
	// and now takes 2.
	dc.MatchingNumTaskqueueReadPartitions.Key():  1,
	dc.MatchingNumTaskqueueWritePartitions.Key(): 1,

	// Who waits for a workflow's end is told through a channel with room for
	// one message; a second one is dropped, and the end with it, in about one
	// of a hundred short workflows. Then this is how long it takes until the
	// waiting client asks again, by default 20 s.
	dc.HistoryLongPollExpirationInterval.Key(): 500 * time.Millisecond,

	// A workflow may have as many children, activities and signals open as it
	// likes.
	dc.NumPendingChildExecutionsLimitError.Key(): plenty,
	dc.NumPendingActivitiesLimitError.Key():      plenty,
	dc.NumPendingSignalsLimitError.Key():         plenty,
	dc.NumPendingCancelRequestsLimitError.Key():  plenty,

	// One user on one machine is not throttled.
	dc.FrontendRPS.Key():                                         plenty,
	dc.FrontendMaxNamespaceRPSPerInstance.Key():                  plenty,
	dc.FrontendMaxNamespaceVisibilityRPSPerInstance.Key():        plenty,
	dc.FrontendMaxConcurrentLongRunningRequestsPerInstance.Key(): plenty,
	dc.HistoryRPS.Key():                                          plenty,
	dc.MatchingRPS.Key():                                         plenty,
	dc.FrontendPersistenceMaxQPS.Key():                           plenty,
	dc.HistoryPersistenceMaxQPS.Key():                            plenty,
	dc.MatchingPersistenceMaxQPS.Key():                           plenty,
	dc.VisibilityPersistenceMaxReadQPS.Key():                     plenty,
	dc.VisibilityPersistenceMaxWriteQPS.Key():                    plenty,

	// The cache of workflows has two entries for most, and keeps those that have ended for an hour if there is room. One
	// is some 15 KiB, and four times as much of the process's memory, as the heap grows (gcPercent). So there
	// is room for about a thousand, which is more than are open at a time; with 8,000 entries the server took 830 MiB
	// after ten minutes of load (docs/performance.md). The cache of events has half a MiB a shard by default.
	dc.HistoryCacheHostLevelMaxSize.Key(): 2_000,

	// A parent that closes ends its children itself, instead of through a
	// system workflow. The worker for that and the scanners, which look twice a
	// day for what years of operation leave behind, are also the ones that the
	// server does not stop when it stops.
	dc.EnableParentClosePolicyWorker.Key(): false,
	dc.TaskQueueScannerEnabled.Key():       false,
	dc.HistoryScannerEnabled.Key():         false,

	// Nothing calls home.
	dc.EnableServerVersionCheck.Key(): false,
}
