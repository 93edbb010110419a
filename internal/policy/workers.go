package policy

import "time"

// How soon it is noticed that a worker is gone, and how soon a worker notices that its work is not its own any more.
const (
	// Heartbeat and Task are how long a dead worker is waited for, by its activities and by the workflows whose tasks it had;
	// a new attempt then starts within the first retry interval. The budget from kill to going on is 15 s, and what goes on
	// competes with all else that does.
	Heartbeat = 5 * time.Second
	Task      = 5 * time.Second
	// Beat is how often an activity heartbeats. Throttle is how long the SDK may hold heartbeats back; the answers to them
	// carry cancellation.
	Beat     = 500 * time.Millisecond
	Throttle = time.Second
	// Deadlock is how long a workflow may take to decide before the SDK fails its task; it is the SDK's second, times five,
	// since a busy machine takes a second for nothing.
	Deadlock = 5 * time.Second
	// Sticky is how long a workflow's task waits for the worker that has the workflow in memory before any other may
	// have it: so long a stop, or a status, waits for a worker that was killed. The SDK's own 5 s are more than the 2 s in
	// which a stop is to take effect. What it costs is a replay of a workflow whose worker is there and that busy; with
	// twenty times the work that two cores can do, no task of an operation on 600 leaves waited for 2 s.
	Sticky = 2 * time.Second
	// LeaseMargin is how long before Temporal may hand work out again a worker leaves it alone: what it has begun to send by
	// then arrives before another one begins.
	LeaseMargin = time.Second
	// Alive is how often a worker notes that it runs. It was frozen when it did not for as long as Frozen.
	Alive  = 200 * time.Millisecond
	Frozen = time.Second
	// HandOver is when the work of a worker that stops is tried again by another one.
	HandOver = 50 * time.Millisecond
	// Record bounds the last write of a cancelled activity.
	Record = 10 * time.Second
	// InFlight is how long requests may be on their way to clusters after a workflow was killed by hand: its activities learn
	// of it by their next heartbeat.
	InFlight = 3 * time.Second
	// GoesOn is how long it counts that an operation goes on by its record, which each leaf would read.
	GoesOn = 10 * time.Second
)

// MaxInternal is how often, one time after the other, an activity may fail for a reason that nobody classified: a bug must not be retried for ever.
const MaxInternal = 10

// How activities look at clusters, and tell of them. Where there are two, the wait doubles from the first to the longest.
const (
	// FirstLook and LongestLook are between two looks at what is over soon: an agent's report, a certificate. LongestHookLook
	// is the longest of a hook. Of the time between two answers of its cluster HookSilence at most counts as time in which it was waited for: more than
	// between two looks, one of which has failed.
	FirstLook       = 50 * time.Millisecond
	LongestLook     = 500 * time.Millisecond
	LongestHookLook = time.Second
	HookSilence     = 30 * time.Second
	// LongestHook is the longest time that a chart may give a hook: a leaf waits for it.
	LongestHook = 24 * time.Hour
	// FirstReadyLook and LongestReadyLook are between two looks at an app that is not Ready. An app that takes minutes need
	// not be seen within a second.
	FirstReadyLook   = 200 * time.Millisecond
	LongestReadyLook = 5 * time.Second
	// FirstLacking and LongestLacking are between two words on what an app lacks: they make history. Who has waited for long waits for an eighth (LackingShare)
	// of that. Where more have something to say to the same operation than LackingBeside, all waits are longer by as much.
	FirstLacking   = time.Second
	LongestLacking = 5 * time.Minute
	LackingShare   = 8
	LackingBeside  = 25
	// FirstEnding and LongestEnding are between two looks at what outlives its deletion; in between it is a quarter of
	// the time that has passed. Nobody needs to know at once that a finalizer has gone for which he has waited for an hour.
	FirstEnding   = time.Second
	LongestEnding = 30 * time.Second
	// FirstWork and LongestWork are between two attempts at work on a cluster; each wait is twice the one before it. The longest is
	// how long a cluster that is back may have to wait.
	FirstWork   = 500 * time.Millisecond
	LongestWork = 10 * time.Second
	// HandedOut is how long it may take until an attempt that is due begins, for who counts what is open.
	HandedOut = time.Second
	// TellAgain is the least time after which a workflow is told that another error stands in the way now, and TellLongest the longest after which it is
	// told what else is waited for.
	TellAgain   = 5 * time.Second
	TellLongest = 6 * time.Hour
	// Confirm is how long a terminate waits for the agent to report that the resources are gone.
	Confirm = 5 * time.Second
	// Lacking is how long a cluster without the agent's definition is not asked for it again.
	Lacking = 10 * time.Second
	// Sign is how long an attempt waits for a cluster to issue a certificate; that of a healthy one takes less than a second.
	Sign = 10 * time.Second
	// Remnants is how long one cluster may take to be looked at for remnants, a write of it included.
	Remnants = 50 * time.Second
	// Heard is the least time between two words on who is heard: each costs the workflow's history four events.
	Heard = 15 * time.Second
	// News is how often it is looked whether contexts have ended of which clusters said that they have something.
	News = 5 * time.Second
	// FirstAway and LongestAway are between two looks whether the cluster is back in which matches of a tenant are due.
	FirstAway   = 500 * time.Millisecond
	LongestAway = 12 * time.Second
	// RelapseWithin is how soon after such a cluster has answered it counts as the same trouble that it is waited for again.
	RelapseWithin = 30 * time.Second
	// Note is how long before the end of a try at matches its requests end, so that it can be written what came of them, and NoteEvery
	// how often that is written while others go on.
	Note      = 400 * time.Millisecond
	NoteEvery = time.Second
	// Answered is for how long a cluster that has answered somebody is taken to answer others, too. Those who have waited for it go on
	// BackEach after each other, and the last of them after BackMost.
	Answered = 5 * time.Second
	BackEach = 20 * time.Millisecond
	BackMost = 2 * time.Second
	// FirstWatch and LongestWatch are before a watch that could not be begun is tried again, Changes before changes are asked
	// for again when that has failed.
	FirstWatch   = time.Second
	LongestWatch = 30 * time.Second
	Changes      = time.Second
	// WatchedAnew is how long after a watch was asked for an attempt that is not the first goes on to tell of all that it is to watch.
	WatchedAnew = time.Hour
	// Unwanted is how long nobody must have wanted a blob, or what a cluster said, before it is removed. An upload that is refused, or an instantiate,
	// may have stored it a moment before what refers to it.
	Unwanted = 24 * time.Hour
)
