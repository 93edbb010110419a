package rpc

import (
	"testing"
	"time"
)

// SetSendTime sets how long a client may take for a notification for the time of a test.
func SetSendTime(t *testing.T, d time.Duration) {
	before := sendTime
	t.Cleanup(func() { sendTime = before })
	sendTime = d
}
