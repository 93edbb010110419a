package combine

import (
	"testing"
	"time"
)

// Quantity reads one, and writes it as a cell has it.
func Quantity(text string) (string, bool) {
	n, ok := quantity(text)
	return n.String(), ok
}

// SetDeadline sets how long an evaluation may take for the time of a test.
func SetDeadline(t *testing.T, d time.Duration) {
	before := deadline
	t.Cleanup(func() { deadline = before })
	deadline = d
}

// Nothing but what an expression costs ends it in tests, however busy the machine is.
func init() { deadline = time.Hour }
