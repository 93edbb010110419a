package tenantagent

import (
	"testing"
	"time"
)

// SetLook sets how often rules are compared for the time of a test.
func SetLook(t *testing.T, d time.Duration) {
	before := lookEvery
	t.Cleanup(func() { lookEvery = before })
	lookEvery = d
}
