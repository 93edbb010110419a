// Package idle tells tests how long something would take on a machine that does nothing else.
//
// The time that a promise allows is that of such a machine. Tests run beside others, on machines of any speed. So a Clock
// does the same small piece of work again and again, next to what is timed: where that takes three times as long as on an
// idle machine, three seconds count as one.
package idle

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	// pieceTime is how long a piece of work takes on an idle core of some 3 GHz, and pieceEach the time between two.
	pieceTime = 10 * time.Millisecond
	pieceEach = 100 * time.Millisecond
	// Slowest is the most that a time is stretched to: a stop that takes ten times what is promised keeps no promise, whatever
	// the machine does beside it.
	Slowest = 10
)

// Clock tells how long something would take on an idle machine.
type Clock struct {
	begun time.Time
	from  time.Duration // what the machine's pace was at then
	once  sync.Once
}

// machine is what all clocks of a process read: one goroutine does the pieces of work, however many clocks there are.
type machine struct {
	mu     sync.Mutex
	clocks int           // that are not stopped
	ended  chan struct{} // ends the work
	gone   chan struct{} // says that it has ended
	pace   pace
	done   uint64 // what came of the pieces of work, so that none is left out
}

var this machine

// Start starts a clock, which stops with the test at the latest.
func Start(t testing.TB) *Clock {
	c := &Clock{}
	c.begun, c.from = this.enter()
	t.Cleanup(c.Stop)
	return c
}

// Stop stops the clock. As long as there is one, they cost a tenth of a processor, all together.
func (c *Clock) Stop() { c.once.Do(this.leave) }

// Read is the time since the clock was started: what it would be on an idle machine, and what it is.
func (c *Clock) Read() (idle, wall time.Duration) {
	now, at := this.read()
	return (at - c.from).Round(time.Millisecond), now.Sub(c.begun).Round(time.Millisecond)
}

// enter counts a clock more, and says what time it is, and what the pace is at then.
func (m *machine) enter() (now time.Time, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = time.Now()
	if m.clocks++; m.clocks == 1 {
		m.pace = pace{until: now, slow: 1}
		m.ended, m.gone = make(chan struct{}), make(chan struct{})
		go m.work(m.ended, m.gone)
	}
	m.pace = m.pace.at(now) // what comes later counts from here on, however slow it turns out to be
	return now, m.pace.idle
}

// leave counts a clock less. After the last one there is no work.
func (m *machine) leave() {
	m.mu.Lock()
	m.clocks--
	last, gone := m.clocks == 0, m.gone
	if last {
		close(m.ended)
	}
	m.mu.Unlock()
	if last {
		<-gone
	}
}

// read says what time it is, and what the pace is at.
func (m *machine) read() (now time.Time, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now = time.Now()
	return now, m.pace.at(now).idle
}

// work does pieces of work until ended is closed.
func (m *machine) work(ended <-chan struct{}, gone chan<- struct{}) {
	defer close(gone)
	runtime.LockOSThread() // the turns of the machine count, not those of the test's goroutines
	defer runtime.UnlockOSThread()
	for {
		m.piece()
		select {
		case <-time.After(pieceEach):
		case <-ended:
			return
		}
	}
}

// piece does a piece of work.
func (m *machine) piece() {
	m.mu.Lock()
	begun := time.Now()
	m.pace.work = begun
	m.mu.Unlock()
	done := churn(uint64(begun.UnixNano()))
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.pace.slow = slowness(now.Sub(begun))
	m.pace.work = time.Time{}
	m.pace = m.pace.at(now)
	m.done ^= done
}

// pace is what the clock of a machine shows at a time.
type pace struct {
	idle  time.Duration // until then
	until time.Time
	slow  float64   // how many times too slow the machine was at the last piece of work
	work  time.Time // when the one that is being done was begun
}

// at is the pace later on. The time that has passed counts by the last piece of work, or by the one that is not done yet
// where that is slower already.
func (p pace) at(now time.Time) pace {
	if !p.work.IsZero() {
		p.slow = max(p.slow, slowness(now.Sub(p.work)))
	}
	p.idle += time.Duration(float64(now.Sub(p.until)) / p.slow)
	p.until = now
	return p
}

// slowness is how many times slower than an idle machine is one where a piece of work takes so long.
func slowness(took time.Duration) float64 {
	return min(max(1, float64(took)/float64(pieceTime)), Slowest)
}

// churn is a piece of work: xorshift, each step of which needs the one before.
func churn(x uint64) uint64 {
	for range 6_000_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
