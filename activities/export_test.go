package activities

import (
	"testing"
	"time"
)

// SetTellEvery sets how often the workflow is told who is heard for the time of a test.
func SetTellEvery(t *testing.T, d time.Duration) {
	before := tellEvery
	t.Cleanup(func() { tellEvery = before })
	tellEvery = d
}
