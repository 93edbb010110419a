package lease

import "time"

// Instant is a moment as the clocks of this machine tell it.
type Instant struct {
	// Boot is the time since the machine was started, with that for which it was suspended.
	Boot time.Duration
	// Wall is the time of day. It tells of a pause that a hypervisor has hidden from Boot, once it is set right again.
	Wall time.Duration
}

// Since is how long after the other moment it is. What only one of the clocks tells counts.
func (i Instant) Since(earlier Instant) time.Duration {
	return max(i.Boot-earlier.Boot, i.Wall-earlier.Wall)
}

// Day is the time of day.
func (i Instant) Day() time.Time { return time.Unix(0, int64(i.Wall)).UTC() }

// Passed is how long after the other moment it is by the clock that nobody sets: at least so long, as a pause may be hidden from it.
func (i Instant) Passed(earlier Instant) time.Duration { return i.Boot - earlier.Boot }

// After says whether it comes after the other moment, however the time of day was set meanwhile.
func (i Instant) After(other Instant) bool { return i.Boot > other.Boot }

// Clock tells what time it is.
type Clock func() Instant

// By is the Clock of this machine with a time of day that somebody else tells, as tests do.
func By(day func() time.Time) Clock {
	return func() Instant { return Instant{Boot: Now().Boot, Wall: time.Duration(day().UnixNano())} }
}
