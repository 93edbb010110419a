//go:build !linux

package lease

import "time"

var started = time.Now()

// Now is the Clock of this machine. That it was suspended, the time of day tells.
func Now() Instant {
	return Instant{Boot: time.Since(started), Wall: time.Duration(time.Now().UnixNano())}
}
