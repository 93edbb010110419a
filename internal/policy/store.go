package policy

import "time"

// What the store waits for, and for how long it goes by what it has read.
const (
	// StoreCall bounds one call of the database.
	StoreCall = 10 * time.Second
	// RoomAfter is how long somebody needs at least to make room where there is none.
	RoomAfter = 30 * time.Second
	// PulsesAge is for how long pulses are not read again. Whoever asks judges each time whether they still prove what watchers said: an
	// old pulse can only prove less. The first and the end of a watcher's pulses have the version changed. PulseKept is after how long
	// what a watcher left that was killed is removed.
	PulsesAge = 250 * time.Millisecond
	PulseKept = 24 * time.Hour
	// ObservedAge is for how long observations are not read again as a whole: whoever dies between writing one and the version of its
	// context leaves the old version.
	ObservedAge = time.Second
	// ClockSkew is by how much clocks of processes that write observations, or give pulses for streams of tenants, may differ. Of an
	// observation a time that is further ahead is wrong: what is stored in its place has the writer's own.
	ClockSkew = time.Minute
	// StoredTime is the precision of times in the database.
	StoredTime = time.Millisecond
	// ClocksApart is by how much clocks of processes of the API are expected to differ: that much of the audit records of a project that had
	// the name before is told at the most, so that nobody misses what another process has written of his.
	ClocksApart = 5 * time.Second
	// ClockWrong is how far from the database's a clock is not believed by which something would be removed for good.
	ClockWrong = time.Hour
	// CertificateOver is for how long a certificate of a logical cloud's user counts as good after its end: the cluster that takes it
	// goes by a clock of its own.
	CertificateOver = time.Hour
	// Of the chain of changes of a context a writer goes for TailAge by what it knows of its end, and a reader follows it for FollowAge
	// after its last look. An entry is kept for ChangesKept.
	TailAge     = 10 * time.Second
	FollowAge   = time.Minute
	ChangesKept = 5 * time.Minute
	// HomesStand is how long homes are kept, if nobody says that they have changed: a process may die between the two writes.
	HomesStand = 20 * time.Second
	// UnreadKept is for how long it is told of what could not be read: what nobody reads any more may be gone.
	UnreadKept = time.Hour
	// KMSCall is how long a service of keys (KMS) may take for what it is asked; KMSLook how often it is asked which key seals, and KMSLookAgain
	// when it has not said so; KMSAgain is for how long nobody asks one anything that has not answered.
	KMSCall      = 5 * time.Second
	KMSLook      = 30 * time.Second
	KMSLookAgain = 10 * time.Second
	KMSAgain     = time.Second
	// Touch is how old the note may get that a blob was wanted.
	Touch = time.Hour
)
