package readiness

import (
	"testing"
	"time"
)

// SetDeadline sets how long a rule may take for the time of a test.
func SetDeadline(t *testing.T, d time.Duration) {
	before := deadline
	t.Cleanup(func() { deadline = before })
	deadline = d
}

// Nothing but what a rule costs ends it in tests, however busy the machine is.
func init() { deadline = time.Hour }
