package combined

import (
	"slices"
	"testing"
	"time"
)

// SetFirstSlice sets how long tables may take in the first pass for the time of a test.
func SetFirstSlice(t *testing.T, d time.Duration) {
	before := firstSlice
	t.Cleanup(func() { firstSlice = before })
	firstSlice = d
}

// SetMostHeld sets what a set may hold for the time of a test.
func SetMostHeld(t *testing.T, bytes int64) {
	before := mostHeld
	t.Cleanup(func() { mostHeld = before })
	mostHeld = bytes
}

// Held is what the set has counted that it holds, and what it does.
func Held(s *Set) (counted, held int64) { return s.held, s.Size() }

// GiveUp gives up the tables of some collectors.
func GiveUp(s *Set, why string, collectors ...string) {
	for _, i := range s.items {
		for n := range i.tables {
			if t := &i.tables[n]; slices.Contains(collectors, t.result("").Name) {
				t.giveUp(why)
			}
		}
		s.weigh(i)
	}
}

// Unfinished stands in place of the rows of a table that is not there yet.
const Unfinished = unfinished

// UnfinishedOnce does so where nobody goes on with it.
const UnfinishedOnce = unfinishedOnce
