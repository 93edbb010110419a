package combined

import (
	"testing"
	"time"
)

// SetFirstSlice sets how long tables may take in the first pass for the time of a test.
func SetFirstSlice(t *testing.T, d time.Duration) {
	before := firstSlice
	t.Cleanup(func() { firstSlice = before })
	firstSlice = d
}

// Unfinished stands in place of the rows of a table that is not there yet.
const Unfinished = unfinished

// UnfinishedOnce does so where nobody goes on with it.
const UnfinishedOnce = unfinishedOnce
