package monitor

import (
	"testing"
	"time"
)

// SetPatience sets how long a kind may go unheard, and a status unwritten, for the time of a test.
func SetPatience(t *testing.T, d time.Duration) {
	after, every, renew, look := unheardAfter, listenEvery, renewEvery, lookFit
	t.Cleanup(func() { unheardAfter, listenEvery, renewEvery, lookFit = after, every, renew, look })
	unheardAfter, listenEvery, renewEvery, lookFit = d, d/4, d/4, d/4
}
