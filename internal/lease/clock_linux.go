package lease

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the Clock of this machine.
func Now() Instant {
	var t unix.Timespec
	// It fails on kernels before 2.6.39 alone; the time of day is left then.
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return Instant{Boot: time.Duration(t.Nano()), Wall: time.Duration(time.Now().UnixNano())}
}
