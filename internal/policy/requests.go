// Package policy says how long who waits for whom, and how often somebody looks or tries again. Packages on different sides of
// a call must agree on it: the engine waits longer than a renderer may take, for example. A test says which times must be in
// which order.
//
// What only workflows wait for is in workflows/policies.go, and what an operator may set is in internal/config. Nothing here
// decides or acts.
package policy

import "time"

// The limits of a request that begins an operation, such as instantiate, from the inside out. Each is less than the next one,
// so that whoever knows most about a delay is the one who says so: the renderer names the chart, the engine the operation,
// and a client need never guess why a connection was cut.
const (
	// Render bounds the templates of one chart, all together. The process that renders it is ended RenderOvertime later: only
	// templates notice the end of their time themselves.
	Render         = 30 * time.Second
	RenderOvertime = 2 * time.Second
	// Accept is how long the engine waits until an operation is accepted, all its charts included. An approve, which renders
	// as much, has as long.
	Accept = time.Minute
	// Answer is how long the API has for the answer.
	Answer = 80 * time.Second
	// Client is how long Drover's own client, or the page, waits for it, and for more of what goes or comes; with a file the client waits for as long as
	// Upload. The API counts from when it has a slot, which it may wait for as long as PacedWait.
	Client = 95 * time.Second
	// Patience is for how long the command asks again for what was refused for now (429, 503), as long as it is told when to; MostAgain how often.
	Patience  = time.Minute
	MostAgain = 20
	// Prepare bounds an attempt at rendering and planning, PrepareAll all attempts. What is prepared after Accept is refused
	// by the workflow, which says so; an attempt that is cut off says nothing.
	Prepare    = 2 * time.Minute
	PrepareAll = 3 * time.Minute
)

// The limits of other requests.
const (
	// Plain bounds requests that neither begin an operation nor upload a file. It is more than what any of them asks of
	// the store or of Temporal.
	Plain = 30 * time.Second
	// Tables is how long tables are evaluated for a request: those that are not there then are shown without rows. TablesLook
	// is the same for a look of a stream, which looks again soon, and TablesRetry for a request where all that is left to do is
	// to try again what was given up.
	Tables      = 20 * time.Second
	TablesLook  = 5 * time.Second
	TablesRetry = time.Second
	// Nodes is how long one cluster may take to say what nodes it has, when a plan is made. One that did not answer when it was last
	// tried has NodesAgain, and all such clusters of a plan NodesAgainAll. NodesAll is for all of a plan, of which charts are rendered after that.
	Nodes         = 10 * time.Second
	NodesAll      = 25 * time.Second
	NodesAgain    = 5 * time.Second
	NodesAgainAll = 15 * time.Second
	// Unread is how long an answer waits for what is still to come of a body that nobody has asked for.
	Unread = time.Second
	// Upload bounds requests that bring a file, the slowest upload included.
	Upload = 5 * time.Minute
	// Body is how long a body may stand still in all, and each write of an answer that nobody takes.
	Body = 20 * time.Second
	// Header bounds the header of a request, Idle the time between two requests of a connection. Who stands between keeps connections for less: a balancer
	// that sends a request just as it ends answers 502 to somebody. Google's keep them for ten minutes, which nobody can change.
	Header = 10 * time.Second
	Idle   = 11 * time.Minute
	// SideRead bounds a request for health, metrics or profiles, and SideWrite its answer; one with a profile, which is taken meanwhile,
	// ProfileWrite. SideDrain is how long such requests may take to end when a process does.
	SideRead     = 10 * time.Second
	SideWrite    = 30 * time.Second
	ProfileWrite = 5 * time.Minute
	SideDrain    = time.Second
	// Handlers is how long gRPC calls may go on whose connections were ended as a process ends.
	Handlers = 5 * time.Second
	// Start is how long a request waits for a process that has begun and is not ready; StartRetry is what one is told to wait who was refused.
	Start      = 5 * time.Second
	StartRetry = time.Second
	// Ready bounds the questions of one readiness check. What they came to is told for ReadyKept to all who ask.
	Ready     = 3 * time.Second
	ReadyKept = time.Second
	// ReadyBeside bounds those that decide nothing: a probe that has a second, as a kubelet's has where nothing else is said, must not
	// run out of it for them.
	ReadyBeside = 500 * time.Millisecond
	// StreamBeat is how often something goes over the connection of a status stream, which proxies cut mostly after a minute of
	// silence. A reader of one that takes nothing for as long as StreamWrite is gone; StreamRetry is what one waits whose
	// connection broke.
	StreamBeat  = 15 * time.Second
	StreamWrite = 20 * time.Second
	StreamRetry = 2 * time.Second
	// Measured is how old what Temporal says of the whole may be in metrics, and Measure how long it is waited for.
	Measured = 10 * time.Second
	Measure  = 2 * time.Second
	// Prove is how long it may take to find out who calls. Standing is how often it is looked whether that still holds, for requests
	// and streams that last longer.
	Prove    = 8 * time.Second
	Standing = 5 * time.Second
	// ScrapeLook is how long it may take to look for a token that asks for metrics and was good before. For ScrapeGood it is still good while the
	// store does not answer, and so is what it has a right to: an outage of the store is to be seen, and one that nobody mends in an hour was.
	ScrapeLook = 2 * time.Second
	ScrapeGood = time.Hour
	// TokensRetry is when somebody may come again of whose address too many tokens are looked for.
	TokensRetry = time.Second
	// Login is how long somebody may take to log in at a provider. SessionLife is how long a login at the page lasts at the most, and
	// SessionIdle how long after its token has expired it may still get another one.
	Login       = 10 * time.Minute
	SessionLife = 12 * time.Hour
	SessionIdle = time.Hour
	// Renew is how long it may take to get another token for a session, and for how long others leave that to who began it, and for ClocksApart
	// more. They look every RenewLook whether it is there.
	Renew     = 7 * time.Second
	RenewLook = 100 * time.Millisecond
	// GiveBack is how long who logs out waits until the provider has taken back what it has given. SessionSweep is how often a process looks
	// for sessions that are over, SessionRetry when it tells a provider again that has not answered, and SessionKept for how long it does so.
	GiveBack     = 3 * time.Second
	SessionSweep = 30 * time.Second
	SessionRetry = 10 * time.Minute
	SessionKept  = 24 * time.Hour
	// Keys is how long it may take to fetch the keys of an OpenID provider. They are fetched for a key that is not known, every
	// KeysLeast at the most, and anew when they are as old as KeysAge; when that fails, again after KeysRetry.
	Keys      = 5 * time.Second
	KeysLeast = time.Second
	KeysAge   = time.Minute
	KeysRetry = 10 * time.Second
)

// The limits of gRPC connections: pings after so much silence, the time to answer one, the least time between two of a
// client, and the time to set a connection up.
const (
	PingAfter = 30 * time.Second
	PingTime  = 10 * time.Second
	PingLeast = 10 * time.Second
	Setup     = 10 * time.Second
	// CallsIdle is how long a gRPC connection may be without a call.
	CallsIdle = 5 * time.Minute
	// The message of a call is to arrive within Arrive, and ArriveMiB for each MiB that it may have.
	Arrive    = 10 * time.Second
	ArriveMiB = time.Second
	// Of a large message of a stream each MiB is to arrive within ArrivePiece, 32 KiB/s, of a large answer an eighth of that, and all of it within ArriveWhole: 64 MiB
	// over a line of 2 Mbit/s take four and a half minutes. Meanwhile it has its room of its tenant's half.
	ArrivePiece = 32 * time.Second
	ArriveWhole = 5 * time.Minute
	// A tenant may say at once what it may say in PaceBurst by its rate. Who has said more is not read for PacePause at least, and
	// PaceLog is how often that is logged at the most.
	PaceBurst = 10 * time.Second
	PacePause = 500 * time.Millisecond
	PaceLog   = time.Minute
	// RefusedLog is how often it is logged at the most that connections are refused.
	RefusedLog = 10 * time.Second
)

// What the engine asks of Temporal.
const (
	// Call bounds a call, Stop one that waits until a stop is recorded.
	Call = 10 * time.Second
	Stop = 15 * time.Second
	// Look is how long the engine looks whether an operation was begun that was not accepted in time, AskAgain when it is
	// worth while to ask for it again.
	Look     = time.Second
	AskAgain = 5 * time.Second
	// Leave is how long who asks for an operation again waits for the end of its workflow, when the end of the operation is recorded.
	Leave = 10 * time.Second
	// Poll bounds one long poll for a workflow's end, of which Temporal does not always tell, and PollLeast is the shortest. Close is how long a cancelled workflow
	// may take to end in order before it is terminated.
	Poll      = 2 * time.Second
	PollLeast = time.Second
	Close     = 45 * time.Second
	// Below is how long is waited for what runs below a workflow that was terminated.
	Below = 2 * time.Minute
	// LookAgain is between two looks whether Temporal knows that a worker polls, or a workflow has ended, which it learns some tenths of a second
	// after that.
	LookAgain = 200 * time.Millisecond
	// Claim is how often a worker looks whether its build does the work, and claims it.
	Claim = 30 * time.Second
	// Describe bounds all calls of one question about runs: who asks wants to know soon that Temporal does not answer.
	Describe = 3 * time.Second
	// DescribeChildren bounds those about what a run has begun, which are asked for a hint when all else is known.
	DescribeChildren = time.Second
	// Told is how long the warnings of a group are good whose operation goes on.
	Told = time.Second
	// Counts is how long an answer about an operation's progress is good: half of the time after which its workflow learns more.
	Counts = 250 * time.Millisecond
)
