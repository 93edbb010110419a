package monitor

import (
	"testing"
	"time"
)

// SetPatience sets how long a kind may go unheard for the time of a test.
func SetPatience(t *testing.T, d time.Duration) {
	after, every := unheardAfter, listenEvery
	t.Cleanup(func() { unheardAfter, listenEvery = after, every })
	unheardAfter, listenEvery = d, d/4
}
