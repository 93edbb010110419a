package policy

import "time"

// The audit log.
const (
	// AuditWrite is how long records are written for until what they tell of is refused.
	AuditWrite = 10 * time.Second
	// AuditSeal is how long a record stays unsealed at most.
	AuditSeal = 10 * time.Second
	// AuditLook is how often a process says that it is alive, and looks after the others. AuditDead is for how long one says nothing
	// until it is taken for dead.
	AuditLook = 30 * time.Second
	AuditDead = 3 * time.Minute
	// AuditDrop is how often somebody looks for what was kept long enough.
	AuditDrop = time.Hour
	// AuditHeard is for how long it counts for how long a process that has ended had kept records, so that a restart of all drops nothing of it.
	AuditHeard = 24 * time.Hour
)
