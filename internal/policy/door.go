package policy

import "time"

// What the door waits for, and for how long it goes by what it knows.
const (
	// A right that is withdrawn in another process is gone here after BookFresh and what it takes to read the bindings, which is BookTime
	// at the most; when they cannot be read, no request begins by what they were for longer than BookGood, but one for
	// metrics (ScrapeGood). A request that goes on has ended BookFresh, Standing and BookTime after its right was withdrawn: 10 s.
	BookFresh = 2 * time.Second
	BookGood  = 7 * time.Second
	BookTime  = 3 * time.Second
	// AdmitWait is how long a request waits for a slot. AdmitLater is when one that found none may be sent again, and AdmitLatest when so
	// many were refused before it. PacedWait is how long a request waits for others of its holder alone: there are slots, and who asks for
	// a few things at a time gets all.
	AdmitWait   = 1500 * time.Millisecond
	AdmitLater  = 2 * time.Second
	AdmitLatest = 30 * time.Second
	PacedWait   = 10 * time.Second
	// AsksFor is for how long somebody counts who has asked, and YoungFor for how long a request is young. One that lasts for longer waits
	// for something else, as a cluster, or has had its time: the next one of its holder need not wait for it.
	AsksFor  = time.Second
	YoungFor = 100 * time.Millisecond
	// ShareLater is when a request may be sent again that had no room in its share. Those that were refused as a project has too many
	// operations come OperationEach after each other. SharesSweep is how often it is looked at the most who has nothing any more.
	ShareLater    = time.Second
	OperationEach = time.Second
	SharesSweep   = time.Second
	// CountTime bounds counting the operations of a project, and UsageTime its documents, of which there may be many.
	CountTime = 10 * time.Second
	UsageTime = 2 * time.Minute
	// RunningFresh is for how long a number of operations is good that go on; those that are begun here meanwhile come to it. UsageFresh is
	// the same of documents, when the project has half of what it may have, and UsageRare when it has less.
	RunningFresh = 2 * time.Second
	UsageFresh   = 30 * time.Second
	UsageRare    = 10 * time.Minute
	// RunningStale and UsageStale are when a number is too old to refuse anybody: it could not be counted since, and what was begun, or
	// stored, may be over.
	RunningStale = time.Minute
	UsageStale   = time.Hour
)

// How often a status stream looks whether something has changed.
const (
	// StreamLook is between two looks at a sign. A look that takes long is followed by a longer wait, up to LongestStreamLook, and none
	// takes longer than StreamLookTime.
	StreamLook        = 250 * time.Millisecond
	LongestStreamLook = 5 * time.Second
	StreamLookTime    = 30 * time.Second
	// StreamAnew is when a status is evaluated whatever its sign says. StreamLinger is for how long what nobody is subscribed to is kept for
	// who comes back, and StreamPatience for how long a status that cannot be evaluated is left as it was.
	StreamAnew     = 10 * time.Second
	StreamLinger   = 30 * time.Second
	StreamPatience = time.Minute
)

// How an explanation judges by times.
const (
	// Outlasts is how long an attempt has to go on until what the one before failed with is over: longer than a request to the store or to
	// a cluster may take.
	Outlasts = 40 * time.Second
	// TaskPatience is how long a workflow's task may wait for a worker before that is worth a word.
	TaskPatience = 3 * time.Second
	// Reporting is how long after the end of an operation a cluster may take to report what was applied: an agent writes once a second, and
	// watches begin when the operation does.
	Reporting = 5 * time.Second
)
