package combine

import (
	"testing"
	"time"
)

// Panicking is a program whose evaluation does.
func Panicking() *Program { return &Program{columns: []string{"a"}, first: []*compiled{nil}} }

// SlotsTaken is how many evaluations go on.
func SlotsTaken() int { return len(slots) }

// TakeSlots has all evaluations wait until release is called.
func TakeSlots(t *testing.T) (release func()) {
	before := slots
	t.Cleanup(func() { slots = before })
	slots = make(chan struct{}, 1)
	slots <- struct{}{}
	return func() { <-slots }
}

// Room is for how many entries the table and its queues have places.
func Room(t *Table) int {
	n := cap(t.order)
	for _, g := range t.groups {
		for i := range g.columns {
			a := &g.columns[i]
			n += cap(a.best.entries) + cap(a.times.entries) + cap(a.dated.entries) + cap(a.others.entries)
		}
	}
	return n
}

// BadWhenTrue are the types of conditions that report trouble.
var BadWhenTrue = badWhenTrue

// SetDeadline sets how long an evaluation may take for the time of a test.
func SetDeadline(t *testing.T, d time.Duration) {
	before := deadline
	t.Cleanup(func() { deadline = before })
	deadline = d
}

// SetTableTime sets how long a table may take for the time of a test.
func SetTableTime(t *testing.T, d time.Duration) {
	before := tableTime
	t.Cleanup(func() { tableTime = before })
	tableTime = d
}

// Nothing but what an expression costs ends it in tests, however busy the machine is.
func init() { deadline, tableTime = time.Hour, time.Hour }
