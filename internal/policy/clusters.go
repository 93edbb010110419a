package policy

import "time"

// What is waited for of a cluster.
const (
	// Dial is how long it may take to connect, Handshake to agree on TLS, and ClusterRequest one request, connecting included. ClusterWrite is that for
	// one by which an operation changes something: Kubernetes lets a webhook that is asked beforehand take ClusterWebhook.
	Dial           = 3 * time.Second
	Handshake      = 5 * time.Second
	ClusterRequest = 15 * time.Second
	ClusterWebhook = 30 * time.Second
	ClusterWrite   = 35 * time.Second
	// A connection on which nothing arrives is asked for a sign of life after Silence, and given up after another Mute: a host that was
	// switched off is noticed before a request's deadline, not by TCP's. One that nobody uses is kept for ClusterIdle.
	Silence     = 8 * time.Second
	Mute        = 4 * time.Second
	ClusterIdle = time.Minute
	// Ping bounds the question whether a cluster answers at all.
	Ping = 5 * time.Second
	// Fresh is how long credentials are used before they are asked for again, and Replaced when work goes on with those that have come in
	// place of others.
	Fresh    = 10 * time.Second
	Replaced = 50 * time.Millisecond
	// Credentials is how long it is waited for the answer whether there are others, when a cluster has said that something is forbidden.
	Credentials = 2 * time.Second
	// ReadyAgain is the least time between two questions whether an API server that forbids something is ready at all.
	ReadyAgain = time.Second
	// StageWait is how long a new CRD, or a deletion, is waited for. FirstGone and LongestGone are between two looks at an object that is
	// being deleted, and RemoveLooks is how long there are looks where one is removed for itself.
	StageWait   = 10 * time.Second
	FirstGone   = 20 * time.Millisecond
	LongestGone = time.Second
	RemoveLooks = 200 * time.Millisecond
	// FirstSweep is the wait before remnants are looked for again, in which what was deleted mostly goes, LongestSweep before the last
	// time.
	FirstSweep   = 100 * time.Millisecond
	LongestSweep = 400 * time.Millisecond
	// DiscoverAgain is the least time between two requests for the same discovery document.
	DiscoverAgain = 200 * time.Millisecond
	// ReplaceWait is the wait before an object is updated once more that others have changed meanwhile, times the tries.
	ReplaceWait = 50 * time.Millisecond
	// PatchAgain is how long it is believed that a user may not patch: a request more a kind, then, and rights that were granted are used.
	PatchAgain = time.Minute
	// WatchGrace is after how long a watch is cut off that the cluster does not end when it was to.
	WatchGrace = 30 * time.Second
	// LeastWatch is how long a cluster has to keep a watch open: one that closes it sooner would be asked all the time.
	LeastWatch = time.Second
)

// How a cluster is watched.
const (
	// FirstSession and LongestSession are before another session with a cluster; it doubles. GoodSession is how long one has to last that
	// another one may follow at once, before anybody is told: it is a connection that broke, not a cluster that is gone.
	FirstSession   = 500 * time.Millisecond
	LongestSession = 30 * time.Second
	GoodSession    = 5 * time.Second
	// Probe is how long a cluster may take to answer of which everybody believes that it is heard.
	Probe = 3 * time.Second
	// ReportEach is the least time between two reports of an app, where there is no agent. Takeover is how long an agent has to live until
	// it is heard in place of the resources.
	ReportEach = 500 * time.Millisecond
	Takeover   = 15 * time.Second
	// FirstRefused and LongestRefused are how long a kind that the cluster refuses is left alone: first, since it may be a moment's, and at
	// most, for mostly it lacks a permission. It doubles in between.
	FirstRefused   = 5 * time.Second
	LongestRefused = 5 * time.Minute
	// ThinLine is how long after a page of a list that did not come in time none is asked for that is larger than what came.
	ThinLine = time.Hour
	// Remembers is after how long a silence a cluster is listed anew: by then most have forgotten what they would tell of the time between.
	Remembers = 5 * time.Minute
	// RestoredLook is between two looks of an agent whether its cluster was restored from a backup, RestoredAgain after one without an answer: a cluster
	// that comes back soon comes further than it was.
	RestoredLook  = 10 * time.Second
	RestoredAgain = 2 * time.Second
	// KindsLook is how soon after a change of definitions the kinds are looked at, KindsLookAgain how soon after that, and KindsLookLast once more: changes
	// come in bursts, and a kind is served a moment after its definition has changed for the last time, on a busy cluster a long one.
	KindsLook      = time.Second
	KindsLookAgain = 5 * time.Second
	KindsLookLast  = 20 * time.Second
)
