package policy

import "time"

// How long queries ask for what may not be there, and for how long they go by what they have read.
const (
	// ClusterTry bounds the look whether a cluster can be reached that is registered.
	ClusterTry = 5 * time.Second
	// ClusterCheck bounds all that a cluster is asked by a check of it.
	ClusterCheck = 10 * time.Second
	// Explain bounds all that is asked of the engine for one explanation: an explanation without it must come soon.
	Explain = 6 * time.Second
	// ListCounts bounds what all workflows are asked for one list, and SignCounts what one is asked by a look of a stream: it does not
	// answer while no worker has it.
	ListCounts = 2 * time.Second
	SignCounts = time.Second
	// SignWatches is how old the watches of a sign may be: they are those of all clusters, for all groups that somebody looks at, and
	// a pulse that fails is noticed after domain.PulseLife only. SignWatchesWait is how long newer ones are waited for.
	SignWatches     = time.Second
	SignWatchesWait = 20 * time.Millisecond
	// TablesAnew is how often the tables of a query look at all clusters, whatever versions say: a process that dies while it stores
	// what a cluster says leaves the old one. TablesKept is how long they stay when nobody asks for them any more.
	TablesAnew = 10 * time.Second
	TablesKept = time.Minute
	// FirstTables and LongestTables are for how long tables that were given up are left alone; it doubles.
	FirstTables   = time.Minute
	LongestTables = time.Hour
	// OperationsAge is how old what is said of the fleet's operations may be: the engine is asked for it, however many watch and however often
	// they look. OperationsWatched is since when those have ended that a watch shows.
	OperationsAge     = time.Second
	OperationsWatched = 24 * time.Hour
	// Judge bounds judging the health of one group. JudgeAgain is after how long one is tried again that could not be judged, and JudgeAnew after how
	// long one is that seems unchanged: not every change shows in its sign.
	Judge      = 30 * time.Second
	JudgeAgain = 10 * time.Second
	JudgeAnew  = 5 * time.Minute
	// Undo is how long the caller of a refused write waits for its taking back, which goes on for UndoLong. UndoneBack is for how long a refused
	// write that is gone is looked for, which another one's undo may put back: its caller waits for that.
	Undo       = 10 * time.Second
	UndoLong   = 2 * time.Minute
	UndoneBack = 2 * time.Second
	// FirstWritten and LongestWritten are between two looks at what has become of a write.
	FirstWritten   = 20 * time.Millisecond
	LongestWritten = time.Second
)

// What streams of tenants wait for.
const (
	// StreamStands is how often a stream that says nothing looks whether it is the last one of its tenant still, and whether who speaks
	// on it still may.
	StreamStands = 5 * time.Second
	// StreamAgain is how often a stream of a tenant may end at the most so that all is said again, when there is room for what was left out.
	StreamAgain = time.Minute
	// StreamLeast is the least time until the next look.
	StreamLeast = time.Millisecond
	// StreamHandOver is how long a stream waits at most for the end of the one that it displaces in the same process.
	StreamHandOver = time.Second
	// Lost is how often streams are looked for whose process is gone, and Unfinished how long a change of settings may take before
	// somebody else ends it. SweepTenant is how long that may take for one tenant: one that has much, or whose part of the database is
	// slow, keeps the others waiting no longer.
	Lost        = 10 * time.Second
	Unfinished  = 30 * time.Second
	SweepTenant = time.Minute
	// HeardAgain is how long a tenant's cluster has to say what is there when a stream of it begins: until then nothing goes that was gone before.
	// It runs from when a process has read first of the stream, by its own clock.
	HeardAgain = 10 * time.Second
	// WordTime is the precision of the time that stands in the word of such a change.
	WordTime = time.Second
	// ReadWait is how long who reads all workloads or matches of a tenant waits for others who do, and ReadLater when one may come again who was
	// refused for them.
	ReadWait  = 10 * time.Second
	ReadLater = 2 * time.Second
)

// How matches are tried again.
const (
	// FirstAgain and LongestAgain are before what was gone, or did not get through, is tried again; it doubles.
	FirstAgain   = time.Second
	LongestAgain = 5 * time.Minute
	// LongestWait is between two looks at what is being deleted.
	LongestWait = 30 * time.Second
	// Lives is how long an object has to have been there for the waits to begin anew when it is gone.
	Lives = 10 * time.Minute
	// SendWithin is how long after it was written that a create is about to be sent it is sent at the latest, and CreateLasts how long
	// the request may take then.
	SendWithin  = 10 * time.Second
	CreateLasts = 15 * time.Second
	// CreateArrives is how long a create that nobody waits for any more may be on its way.
	CreateArrives = 3 * time.Second
)
