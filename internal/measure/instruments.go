package measure

import "time"

// The processes.
var (
	ofAPI         = []string{"api"}
	ofWorker      = []string{"worker"}
	ofServers     = []string{"api", "worker"}
	ofMonitor     = []string{"monitor"}
	ofTenantAgent = []string{"tenant-agent"}
	ofAll         = []string{"api", "worker", "monitor", "tenant-agent"}
)

// Labels that several instruments have.
var (
	operation = Label{Name: "operation", About: "what was asked for", Values: []string{"instantiate", "update", "rollback", "migrate", "terminate"}}
	failures  = []string{
		"Invalid", "Malformed", "Unauthorized", "Forbidden", "NotFound", "Conflict", "Precondition", "Exhausted", "Aborted", "Unavailable", "Timeout",
		"Internal",
	}
	provider = Label{Name: "cluster_provider", About: "the cluster's provider", Most: MostClusters}
	cluster  = Label{Name: "cluster", About: "the cluster's name", Most: MostClusters}
	tenant   = Label{Name: "tenant", About: "the tenant, those that say least together as (others)", Most: 200}
	// Only methods that there are come as far as to be measured.
	grpcMethod = Label{Name: "method", About: "the service with its package, a slash and the method", Most: 30}
	grpcCode   = Label{Name: "code", About: "gRPC's", Most: 17}
	cache      = Label{Name: "cache", About: "what is kept", Values: Caches}
)

// MostClusters is how many clusters a metric by cluster has at most: those that matter most.
const MostClusters = 200

// Outcomes.
const (
	Done     = "done"
	Failed   = "failed"
	Stopped  = "stopped"
	Canceled = "canceled"
	Accepted = "accepted"
	// HandedOver is what could not be done in a workflow's own task, and is done by another attempt.
	HandedOver = "handed over"
	Sent       = "sent"
	Dropped    = "dropped" // for want of room
)

// Why leaves are open.
const (
	Working     = "working"     // an attempt goes on
	Unreachable = "unreachable" // the cluster does not answer
	Refusing    = "refusing"    // it answers, but lets nothing through now
	Waiting     = "waiting"     // for what outlives its deletion
	Broken      = "broken"      // by a failure that is not the cluster's: the store, Temporal, a worker that ends
)

// StuckAfter is how long a leaf is open until it counts as stuck.
const StuckAfter = time.Hour

// Overcome is how long an attempt goes on until what the one before has failed with is over.
const Overcome = 5 * time.Minute

// What becomes of clusters of which reports are wanted.
const (
	Heard      = "heard"
	Unheard    = "unheard"
	Unreported = "unreported" // by their registration
)

// Slots of a worker.
const (
	SlotsTries   = "tries"   // leaves that are tried at once, in their workflow's task
	SlotsGathers = "gathers" // tasks that wait for more of what comes
	SlotsSilent  = "silent"  // attempts at clusters that did not answer
)

// Windows of apps: an app has so many clusters at work at a time.
const (
	WindowFree = "free"
	WindowFull = "full" // nothing of it is begun until a cluster has left it

	LeavesSlots   = "slots"   // there are, in all windows together
	LeavesAtWork  = "at work" // hold one
	LeavesOutside = "outside" // are open and hold none: their cluster does not answer, they wait, or were slow
	LeavesWaiting = "waiting" // were not begun yet
)

// Caches are those that are measured.
var Caches = []string{CacheBundles, CacheBlobs, CacheObserved, CacheClients}

// The caches.
const (
	CacheBundles  = "bundles"  // decoded manifests, in a worker
	CacheBlobs    = "blobs"    // of the store
	CacheObserved = "observed" // what clusters say of deployments
	CacheClients  = "clients"  // connections to clusters
)

// Bounds of buckets, in seconds: of a call, of rendering, and of what goes on until clusters let it through, which may be days.
var (
	calls = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	works = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	spans = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
)

// What is measured.
var (
	Build = newGauge(Instrument{
		Name: "drover_build_info", From: ofAll, Across: Sum,
		Help: "1, with what the process is and was built from.",
		Labels: []Label{
			{Name: "process", About: "which of the processes", Values: []string{"api", "worker", "monitor", "tenant-agent", "local"}},
			{Name: "version", About: "of Drover", Most: 1}, {Name: "go", About: "the compiler's version", Most: 1},
		},
	})
	OperationAcceptance = newHistogram(Instrument{
		Name: "drover_operation_acceptance_seconds", Unit: "s", From: ofAPI, Across: Sum, Bounds: works,
		Help:   "Time from a request for an operation until it was accepted or refused, rendering and planning included.",
		Labels: []Label{operation, {Name: "outcome", About: "accepted, or the kind of the refusal", Values: append([]string{Accepted, Canceled}, failures...)}},
	})
	CallDuration = newHistogram(Instrument{
		Name: "drover_grpc_call_duration_seconds", Unit: "s", From: ofAPI, Across: Sum, Bounds: calls,
		Help: "Time to answer a call of gRPC with one answer, by method and status code.", Labels: []Label{grpcMethod, grpcCode},
	})
	StreamsEnded = newCounter(Instrument{
		Name: "drover_grpc_streams_ended_total", From: ofAPI, Across: Sum,
		Help: "Streams of gRPC that have ended, or were refused, by method and status code.", Labels: []Label{grpcMethod, grpcCode},
	})
	OperationDuration = newHistogram(Instrument{
		Name: "drover_operation_duration_seconds", Unit: "s", From: ofWorker, Across: Sum, Bounds: spans,
		Help:   "Time from the acceptance of an operation to its end.",
		Labels: []Label{operation, {Name: "outcome", About: "how it ended", Values: []string{Done, Failed, Stopped}}},
	})
	OperationsEnded = newCounter(Instrument{
		Name: "drover_operations_ended_total", From: ofWorker, Across: Sum,
		Help:   "Operations that have ended. All series are there from the start of a worker, so that the first failure is seen.",
		Labels: []Label{operation, {Name: "outcome", About: "how it ended", Values: []string{Done, Failed, Stopped}}},
	})
	OperationsRunning = newGauge(Instrument{
		Name: "drover_operations_running", From: ofAPI, Across: Max,
		Help: "Operations that go on, by Temporal's visibility.", Labels: []Label{operation},
	})
	LeafDuration = newHistogram(Instrument{
		Name: "drover_leaf_duration_seconds", Unit: "s", From: ofWorker, Across: Sum, Bounds: spans,
		Help: "Time that the work on one app on one cluster took, from the start of its workflow to its end.",
		Labels: []Label{
			{Name: "work", About: "what it was", Values: []string{"apply", "delete"}},
			{Name: "outcome", About: "done, failed where a resource did not come to be as planned, stopped", Values: []string{Done, Failed, Stopped}},
		},
	})
	LeavesOpen = newGauge(Instrument{
		Name: "drover_leaves_open", From: ofWorker, Across: Sum,
		Help:   "Apps on clusters that are being worked on, or are to be tried again; each is counted by the worker that made the last attempt.",
		Labels: []Label{{Name: "reason", About: "why it is open", Values: []string{Working, Unreachable, Refusing, Waiting, Broken}}},
	})
	LeavesStuck = newGauge(Instrument{
		Name: "drover_leaves_stuck", From: ofWorker, Across: Sum,
		Help: "Of the apps on clusters that are open, those that were to be worked on more than an hour ago and have failed since, by the last failure; " +
			"each is counted by the worker that made the last attempt.",
		Labels: []Label{{Name: "reason", About: "why the last attempt failed", Values: []string{Unreachable, Refusing, Waiting, Broken}}},
	})
	Attempts = newCounter(Instrument{
		Name: "drover_attempts_total", From: ofWorker, Across: Sum,
		Help: "Attempts at activities. Retries are those with attempt=\"again\".",
		Labels: []Label{
			{Name: "activity", About: "the activity's type", Most: 60},
			{Name: "attempt", About: "the first one of its activity or a later one", Values: []string{"first", "again"}},
			{
				Name: "outcome", About: "done, canceled, handed over by a first try in the workflow's own task, or the kind of the failure",
				Values: append([]string{Done, Canceled, HandedOver}, failures...),
			},
		},
	})
	Clusters = newGauge(Instrument{
		Name: "drover_clusters", From: ofWorker, Across: Sum,
		Help:   "Clusters that this worker watches, because something is deployed there.",
		Labels: []Label{{Name: "connectivity", About: "whether changes there would be heard of", Values: []string{Heard, Unheard, Unreported}}},
	})
	ClusterUnheard = newGauge(Instrument{
		Name: "drover_cluster_unheard_seconds", Unit: "s", From: ofWorker, Across: Max,
		Help:   "Time since a cluster was heard last, of those that are watched and not heard; longest first.",
		Labels: []Label{provider, cluster},
	})
	WatchAge = newGauge(Instrument{
		Name: "drover_watch_age_seconds", Unit: "s", From: ofWorker, Across: Max,
		Help: "How long clusters have been heard without a break, of those that are heard by this worker; of the youngest it is the min of all workers that counts.", Labels: []Label{
			{Name: "of", About: "the one that began last or first", Values: []string{"youngest", "oldest"}},
		},
	})
	Slots = newGauge(Instrument{
		Name: "drover_worker_slots", From: ofWorker, Across: Sum,
		Help: "Slots of a worker: how many there are of one kind, and are taken.",
		Labels: []Label{
			{Name: "window", About: "what they are for", Values: []string{SlotsTries, SlotsGathers, SlotsSilent}},
			{Name: "state", About: "those that are taken, or all", Values: []string{"used", "size"}},
		},
	})
	Windows = newGauge(Instrument{
		Name: "drover_app_windows", From: ofWorker, Across: Sum,
		Help:   "Apps, of more than 250 clusters batches of them, that are being brought to their clusters by workflows that this worker has in memory.",
		Labels: []Label{{Name: "state", About: "whether the app's window has room for one more cluster", Values: []string{WindowFree, WindowFull}}},
	})
	WindowLeaves = newGauge(Instrument{
		Name: "drover_app_window_leaves", From: ofWorker, Across: Sum,
		Help: "What there is in these windows: slots, and apps on clusters.",
		Labels: []Label{{
			Name: "state", About: "slots that there are; apps on clusters that hold one, that are open without one, and that wait for one",
			Values: []string{LeavesSlots, LeavesAtWork, LeavesOutside, LeavesWaiting},
		}},
	})
	Backlog = newGauge(Instrument{
		Name: "drover_task_queue_backlog", From: ofAPI, Across: Max,
		Help: "Tasks that no worker has taken yet, as Temporal estimates them.",
		Labels: []Label{
			{Name: "queue", About: "the task queue", Most: 10},
			{Name: "task", About: "of which kind", Values: []string{"workflow", "activity"}},
		},
	})
	BacklogAge = newGauge(Instrument{
		Name: "drover_task_queue_backlog_age_seconds", Unit: "s", From: ofAPI, Across: Max,
		Help: "How long the oldest of them has waited.",
		Labels: []Label{
			{Name: "queue", About: "the task queue", Most: 10},
			{Name: "task", About: "of which kind", Values: []string{"workflow", "activity"}},
		},
	})
	RenderDuration = newHistogram(Instrument{
		Name: "drover_render_duration_seconds", Unit: "s", From: ofServers, Across: Sum, Bounds: works,
		Help: "Time to render or check a chart or a profile, the wait for a process included.",
		Labels: []Label{
			{Name: "work", About: "what was asked of the process", Values: []string{"render", "check chart", "check profile"}},
			{Name: "outcome", About: "done, canceled, or the kind of the failure", Values: append([]string{Done, Canceled}, failures...)},
		},
	})
	StoreDuration = newHistogram(Instrument{
		Name: "drover_store_duration_seconds", Unit: "s", From: ofServers, Across: Sum, Bounds: calls,
		Help: "Time of a command to the database. While it is away no command is sent, and those that fail are `hello`, by which it is looked for. So are those that are answered while there is no primary.",
		Labels: []Label{
			{Name: "command", About: "MongoDB's name of it", Values: []string{
				"find", "getMore", "insert", "update", "delete", "findAndModify", "aggregate", "count", "distinct", "createIndexes", "listIndexes",
				"listCollections", "create", "drop", "killCursors", "ping", "hello", "endSessions",
			}},
			{Name: "outcome", About: "whether there was an answer", Values: []string{Done, Failed}},
		},
	})
	ClusterDuration = newHistogram(Instrument{
		Name: "drover_cluster_request_duration_seconds", Unit: "s", From: ofServers, Across: Sum, Bounds: calls,
		Help: "Time until a cluster began to answer a request.",
		Labels: []Label{
			{Name: "method", About: "HTTP's", Values: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}},
			{Name: "code", About: "HTTP's class, or failed without an answer", Values: []string{"1xx", "2xx", "3xx", "4xx", "5xx", Failed}},
		},
	})
	Spans = newCounter(Instrument{
		Name: "drover_spans_total", From: ofAll, Across: Sum,
		Help: "Spans of traces, where --otlp-endpoint has them sent.",
		Labels: []Label{{
			Name: "outcome", About: "sent; failed where the collector has not taken them; dropped where more than OTEL_BSP_MAX_QUEUE_SIZE (8,192) were waiting",
			Values: []string{Sent, Failed, Dropped},
		}},
	})
	Panics = newCounter(Instrument{
		Name: "drover_panics_total", From: ofServers, Across: Sum,
		Help: "Panics of which each has ended one request, stream or task, and nothing else: defects, which the log has with their stacks.",
	})
	Unreadable = newGauge(Instrument{
		Name: "drover_store_unreadable", From: ofServers, Across: Max,
		Help:   "What could not be opened or decoded when this process read it last, and nothing of what only others have read: somebody has changed it, or its key is missing. Forgotten an hour after it was read.",
		Labels: []Label{{Name: "collection", About: "where it is, such as projects", Most: 100}},
	})
	CacheLookups = newCounter(Instrument{
		Name: "drover_cache_lookups_total", From: ofServers, Across: Sum, Help: "Looks into a cache.",
		Labels: []Label{cache, {Name: "outcome", About: "whether it was there", Values: []string{"hit", "miss"}}},
	})
	CacheSize = newGauge(Instrument{
		Name: "drover_cache_entries", From: ofServers, Across: Sum, Help: "What a cache has.", Labels: []Label{cache},
	})
)

// What Prometheus' own library records.
func init() {
	client(HistogramKind, Instrument{
		Name: "drover_http_request_duration_seconds", Unit: "s", From: ofAPI, Across: Sum,
		Help:   "Time to answer a request, by route template, method and status code.",
		Bounds: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		Labels: []Label{
			{Name: "route", About: "the template of the path, unknown for any other", Most: 500},
			{Name: "method", About: "HTTP's", Values: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}},
			{Name: "code", About: "HTTP's", Most: 60},
		},
	})
	for _, i := range []Instrument{
		{Name: "drover_status_evaluations_total", Help: "Statuses that were evaluated for subscribers."},
		{Name: "drover_status_changes_total", Help: "Changes of documents, each told to all who asked the same query."},
		{Name: "drover_status_subscribers_dropped_total", Help: "Subscribers that were dropped because they were too slow."},
		{
			Name: "drover_share_refused_total", Help: "Requests that were answered 429, by the limit that they met.",
			Labels: []Label{{Name: "limit", About: "the limit", Most: 20}},
		},
	} {
		i.From, i.Across = ofAPI, Sum
		client(CounterKind, i)
	}
	client(GaugeKind, Instrument{Name: "drover_status_subscribers", From: ofAPI, Across: Sum, Help: "Readers of status streams that are connected now."})
	client(GaugeKind, Instrument{
		Name: "drover_secret_keys_unreadable", From: ofServers, Across: Sum,
		Help: "1 while the file of secret keys cannot be read again, and the keys of before are used, or while a KMS does not answer.",
	})
	client(GaugeKind, Instrument{
		Name: "drover_cluster_credentials_expire_seconds", Unit: "s", From: ofAPI, Across: Max,
		Help:   "Seconds until the first credential of a cluster's kubeconfig expires, of those that do within 14 days; negative from then on.",
		Labels: []Label{provider, cluster},
	})
	client(CounterKind, Instrument{
		Name: "drover_audit_lost_total", From: ofServers, Across: Sum,
		Help:   "Audit records that have not come to a sink, though the store has them; those of store are nowhere.",
		Labels: []Label{{Name: "sink", About: "where they were to go", Most: 10}},
	})
	client(GaugeKind, Instrument{Name: "drover_audit_unwritten", From: ofServers, Across: Sum, Help: "Audit records that wait for the store to be there."})
	for name, help := range map[string]string{
		"streams_total":          "Streams that tenants' clusters have begun.",
		"messages_total":         "Messages of workloads that were taken.",
		"workload_changes_total": "Workloads that were stored or removed.",
		"match_writes_total":     "Records of matches that were written because of workloads, rules or hosts.",
		"held_syncs_total":       "Syncs of which deletions were held.",
	} {
		client(CounterKind, Instrument{Name: "drover_tenant_" + name, From: ofAPI, Across: Sum, Help: help, Labels: []Label{tenant}})
	}
	for name, help := range map[string]string{
		"left_out":  "Workloads that are left out of what the cluster says.",
		"workloads": "Workloads of tenants whose streams this process reads.",
		"connected": "Streams that this process reads.",
	} {
		client(GaugeKind, Instrument{Name: "drover_tenant_" + name, From: ofAPI, Across: Sum, Help: help, Labels: []Label{tenant}})
	}
	for name, help := range map[string]string{
		"writes_total":        "Statuses of ResourceBundleStates written, parts counted one by one.",
		"written_bytes_total": "Bytes of the statuses written.",
		"failures_total":      "Writes that failed; each is tried again.",
	} {
		client(CounterKind, Instrument{Name: "drover_monitor_" + name, From: ofMonitor, Across: Sum, Help: help})
	}
	client(GaugeKind, Instrument{Name: "drover_monitor_kinds", From: ofMonitor, Across: Sum, Help: "Kinds that are watched."})
	for name, help := range map[string]string{
		"leader":    "Whether this agent has the Lease.",
		"connected": "Whether a stream is open on which all was told.",
		"pods":      "Pods that are told of.",
	} {
		client(GaugeKind, Instrument{Name: "drover_tenant_agent_" + name, From: ofTenantAgent, Across: Sum, Help: help})
	}
	client(GaugeKind, Instrument{
		Name: "drover_tenant_agent_rules", From: ofTenantAgent, Across: Sum,
		Help:   "WorkloadRules of the cluster, by the reason of their condition Synced.",
		Labels: []Label{{Name: "reason", About: "the condition's", Most: 10}},
	})
	client(CounterKind, Instrument{Name: "drover_tenant_agent_syncs_total", From: ofTenantAgent, Across: Sum, Help: "Syncs that were sent."})
	client(CounterKind, Instrument{
		Name: "drover_tenant_agent_changes_total", From: ofTenantAgent, Across: Sum, Help: "Changes that were sent.",
		Labels: []Label{{Name: "kind", About: "what became of the Pod", Values: []string{"update", "delete"}}},
	})
	client(CounterKind, Instrument{
		Name: "drover_tenant_agent_stream_ends_total", From: ofTenantAgent, Across: Sum, Help: "Streams that have ended, or could not be begun.",
		Labels: []Label{grpcCode},
	})
}
