package workflows

import (
	"hash/fnv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/policy"
)

// All timeouts, retries and bounds of the workflows.
const (
	// briefTimeout bounds a call in a workflow's task, well below the time that Temporal gives the task.
	briefTimeout = 3 * time.Second
	// atOnceTimeout bounds the first try at a cluster, well below the 2 s in which a stop takes effect, and
	// enough for a connection, discovery and two stages to a cluster 100 ms away.
	atOnceTimeout = 600 * time.Millisecond
	// haltTimeout bounds the halting of a worker's own attempts, and haltGrace is how long what was halted may take
	// to end by itself.
	haltTimeout = 200 * time.Millisecond
	haltGrace   = time.Second
	// atOnceResources is how much is tried at once.
	atOnceResources = 40
	// openLeaves bounds the leaves of one app that are at work at a time; the batches of a split app share
	// it, openBatches of them at a time. How many are open at a time decides what each of them costs.
	// Leaves whose cluster does not answer do not count: a dead cluster never holds up a live one.
	openLeaves  = 30
	openBatches = 4
	fewestOpen  = 4 // of a batch, where all are at work
	// gatherEach is how long an app gathers what comes of its leaves for each that is at work, gatherMost the longest,
	// and gatherLeast the fewest leaves for which it does at all. A leaf takes two cores some 10 ms, so that
	// no leaf is late by more than those before it. Temporal takes 100 events meanwhile. Where leaves take longer, it gathers until a
	// gatherPart of those at work will have ended, up to gatherLongest.
	gatherEach    = 4 * time.Millisecond
	gatherMost    = 100 * time.Millisecond
	gatherLeast   = 4
	gatherPart    = 5
	gatherLongest = 250 * time.Millisecond
	// patience is how long all slots may be taken by leaves none of which comes to an end, before others get them: well
	// below the 15 s after which a request to a cluster that hangs is given up.
	patience = 2 * time.Second
	// Between two reports an app waits a reportPart of its age, and longer in an operation of more than reportingApps apps. An operation takes at most
	// mostReports from all its apps in each of its two rounds, and fewer if it has many apps: a run takes 10,000 signals, and mostSignals is how many
	// are sent to it with everything else. The rest is for signals that stop it.
	reportPart    = 60
	reportingApps = 5
	mostReports   = 4500
	mostSignals   = 9_900
	// A batch waits at most longestReport between two reports. Batches are looked at for at most longestStill before one counts as still. Both are for an app
	// of up to reportingBatches, and grow in proportion beyond. An app takes at most mostOfBatches reports from all its batches: enough if each is at work
	// for a quarter of an hour. In an app that runs for hours the look is at least a stillPart of its age. With four events for each report and twelve
	// for each batch, a history stays below Temporal's 51,200 events, up to limits.AppClusters.
	longestReport    = 10 * time.Second
	longestStill     = 20 * time.Second
	reportingBatches = 25
	mostOfBatches    = 6000
	stillPart        = 360
	// batchSize is the number of clusters from which an app's work is split, which keeps every history
	// far below 10,000 events.
	batchSize = 250
	// hookTime is how long a hook is waited for that does not say it itself. EMCO has no bound and Helm one of
	// 5 minutes, which a person may change and a chart may not: this one is for what will never come.
	hookTime = time.Hour
	// watchEvents is the length of a watch's history from which it goes on as a new one: a change of the set of
	// clusters costs some ten events.
	watchEvents = 4000
	// watchClaims is how many claims, some 80 bytes each, a watch hands to its next run one by one, as releases up to v0.1.0 do. More are
	// folded: Temporal takes 2 MiB.
	watchClaims = 10_000
	// watchDelay is how long an operation that is not over keeps the watches waiting in any case, and watchLatest how long
	// one does that nothing holds up.
	watchDelay  = time.Second
	watchLatest = 10 * time.Second
	// firstSweep and lastSweep are the waits before the looks for remnants of a context that is terminated, rarestSweep that
	// while there are some, longestSweep how long that goes on, and sweepGap the least time between two looks. A worker that
	// was frozen is replaced after policy.Heartbeat, and mostly thawed soon after.
	firstSweep   = time.Minute
	lastSweep    = 15 * time.Minute
	rarestSweep  = time.Hour
	longestSweep = 3 * 24 * time.Hour
	sweepGap     = 2 * time.Second
	// fewClusters is how many clusters are looked at for remnants in a workflow's own task.
	fewClusters = 10
	// SweepInterval is the time from one Sweep to the next.
	SweepInterval = 24 * time.Hour
	// dailyTime bounds an attempt at it, dailyAll all of them, of which there are dailyAttempts.
	dailyTime     = 8 * time.Hour
	dailyAll      = 20 * time.Hour
	dailyAttempts = 20
	// keepAgain is the wait after certificates were renewed, or could not be, before they are looked at, longestKeep that
	// before certificates are looked at in any case, and keepEvents the length of a history that goes on as a new one. keepPart
	// is how many clusters' names, 300 bytes each at the most, are taken from the store at a time: a renewal costs some six events, and
	// between two parts the length is looked at.
	keepAgain   = time.Minute
	longestKeep = 30 * 24 * time.Hour
	keepEvents  = 4000
	keepPart    = 500
	// dueMatches is how many matches of a tenant are taken from the store at a time. Up to matchesAtOnce are tried at once. What that
	// leaves has a child, and of more each matchBatch have one, which costs Temporal as much as one match by itself does; up to
	// openMatches children may be at work.
	dueMatches    = 500
	openMatches   = 30
	matchesAtOnce = 30
	matchBatch    = 50
	// settleTimeout bounds that first try, below the time that Temporal gives the task. No stop waits for it, as for that of a leaf.
	settleTimeout = 2 * time.Second
	// settleAgain is the wait before what ended in an unforeseen way is looked at again, settleEvents the length of a history
	// that goes on as a new one, and BehindInterval the time from one look for tenants that are behind to the next.
	settleAgain    = 10 * time.Second
	settleEvents   = 4000
	BehindInterval = time.Minute
	// readyInterval is the wait after an activity that waits for an app to be Ready has given up.
	readyInterval = 10 * time.Second
	// rewatchInterval is the wait after an activity that watches has given up.
	rewatchInterval = 10 * time.Second
)

// age is for how long a run has been going on.
func age(ctx workflow.Context) time.Duration {
	return workflow.Now(ctx).Sub(workflow.GetInfo(ctx).WorkflowStartTime)
}

// briefly is for calls to the store, without which there is no truth to go on from. They are tried once in
// the workflow's own task, which saves two rounds through Temporal, and if that does not get through they
// are tried as an activity until they do: a database that is away for hours costs no history.
func briefly(ctx workflow.Context, activity, in, out any) error {
	return brieflyWith(ctx, activity, out, in)
}

// brieflyWith is briefly for a call with several inputs.
func brieflyWith(ctx workflow.Context, activity, out any, in ...any) error {
	err := workflow.ExecuteLocalActivity(once(ctx, briefTimeout), activity, in...).Get(ctx, out)
	if err == nil || !retryable(err) {
		return err
	}
	return workflow.ExecuteActivity(waiting(ctx), activity, in...).Get(ctx, out)
}

// reports are the least times between two reports of an app to its operation: longer as long as there is always more. A report is five of
// Temporal's transactions, and a task of the operation's. See pace.
var reports = policy.Doubling{First: 500 * time.Millisecond, Most: time.Second}

// soon is the retry policy of all that depends on nothing but the store and Temporal. Temporal has no jitter: what begins together, as
// after a restart or while the store was slow, is spread by the run.
func soon(ctx workflow.Context) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: spread(ctx, 100*time.Millisecond), BackoffCoefficient: 2, MaximumInterval: spread(ctx, 5*time.Second)}
}

// spread leaves out up to a quarter of a time, of each run another part, as pause.Backoff does.
func spread(ctx workflow.Context, d time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(workflow.GetInfo(ctx).WorkflowExecution.RunID))
	return d - time.Duration(h.Sum32()%spreadParts)*(d/4/spreadParts)
}

// spreadParts is how many different waits there are.
const spreadParts = 1000

// patient is the retry policy of what depends on a cluster.
func patient() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: policy.FirstWork, BackoffCoefficient: 2, MaximumInterval: policy.LongestWork}
}

// preparing is for rendering and planning, which a caller waits for.
func preparing(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              LifecycleQueue,
		StartToCloseTimeout:    policy.Prepare,
		ScheduleToCloseTimeout: policy.PrepareAll,
		HeartbeatTimeout:       policy.Heartbeat,
		WaitForCancellation:    true,
		RetryPolicy:            soon(ctx),
	})
}

// atOnce is for a first try at a cluster in the leaf's own task: little work on a cluster that answers is
// done in less time than Temporal takes to hand out an activity. What it does not finish is taken up by an
// activity. A stop is noticed when it is over, and it holds a slot among the worker's workflow tasks.
func atOnce(ctx workflow.Context) workflow.Context { return once(ctx, atOnceTimeout) }

// once is for a single try in the workflow's own task.
func once(ctx workflow.Context, limit time.Duration) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: limit,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}

// waiting is for an activity that may take long, because it waits for another workflow to close, goes over
// all leaves, or for the store to answer again.
func waiting(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           LifecycleQueue,
		StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:    policy.Heartbeat,
		RetryPolicy:         soon(ctx),
	})
}

// daily is for what comes again the next day. An attempt begins from nothing, unless one before it has swept the blobs, and may take hours where
// there is much. What goes on failing is given up after twenty attempts, each of which asks all clouds and watches: within the hour, where each
// fails at once.
func daily(ctx workflow.Context) workflow.Context {
	retry := soon(ctx)
	retry.MaximumInterval, retry.MaximumAttempts = 5*time.Minute, dailyAttempts
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              LifecycleQueue,
		StartToCloseTimeout:    dailyTime,
		ScheduleToCloseTimeout: dailyAll,
		HeartbeatTimeout:       policy.Heartbeat,
		RetryPolicy:            retry,
	})
}

// clusterWork is for applying and deleting: for ever, until stop or terminate. The interval's cap is how
// long a cluster that is back may have to wait.
func clusterWork(ctx workflow.Context) workflow.Context { return workOn(ctx, KubeQueue) }

// hookWork is clusterWork for work that waits for hooks, which has a queue of its own.
func hookWork(ctx workflow.Context) workflow.Context { return workOn(ctx, WaitQueue) }

func workOn(ctx workflow.Context, queue string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: 24 * time.Hour,
		HeartbeatTimeout:    policy.Heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         patient(),
	})
}

// sweeping is for one look for remnants in all clusters: one that does not answer is counted and does not fail it.
func sweeping(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           KubeQueue,
		StartToCloseTimeout: time.Hour,
		HeartbeatTimeout:    policy.Heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         patient(),
	})
}

// settling is for what is to be done for some matches now: few requests each, and what takes longer is due again later.
func settling(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           KubeQueue,
		StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:    policy.Heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         soon(ctx),
	})
}

// awaiting is for the wait until a cluster answers: for ever.
func awaiting(ctx workflow.Context) workflow.Context { return workOn(ctx, WaitQueue) }

// renewing is for replacing one certificate: what does not get through comes up again in another round. It is tried once. A round waits for
// all, so that a cluster that is away would hold up those that come due as long as it is tried. In a round of all certificates, whatever their age,
// it is tried for some minutes: the next round is of those that are due, and what this one leaves keeps a certificate that somebody wants replaced.
// How long an attempt waits for a worker counts only to all: where these are busy, it gets its turn.
func renewing(ctx workflow.Context, all bool) workflow.Context {
	retry := patient()
	if !all {
		retry.MaximumAttempts = 1
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              KubeQueue,
		StartToCloseTimeout:    time.Minute,
		ScheduleToCloseTimeout: 5 * time.Minute,
		HeartbeatTimeout:       policy.Heartbeat,
		WaitForCancellation:    true,
		RetryPolicy:            retry,
	})
}

// readying is for waiting until an app is Ready: for ever, until a stop, which need not wait for it.
func readying(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           WaitQueue,
		StartToCloseTimeout: 24 * time.Hour,
		HeartbeatTimeout:    policy.Heartbeat,
		RetryPolicy:         soon(ctx),
	})
}

// watching is for the activity that watches clusters: until it is cancelled. A day is as long as Temporal need
// believe in one attempt; the next one begins at once.
func watching(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           WatchQueue,
		StartToCloseTimeout: 24 * time.Hour,
		HeartbeatTimeout:    policy.Heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         soon(ctx),
	})
}

// child is for the children of the tree. A child ends in order when it is cancelled; when its parent is
// killed by hand it goes too.
func child(ctx workflow.Context, id string, attributes temporal.SearchAttributes, summary string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            id,
		TaskQueue:             LifecycleQueue,
		WaitForCancellation:   true,
		WorkflowTaskTimeout:   policy.Task,
		TypedSearchAttributes: attributes,
		StaticSummary:         summary,
	})
}
