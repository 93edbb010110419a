package harness

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPace(t *testing.T) {
	begun := time.Now()
	after := func(d time.Duration) time.Time { return begun.Add(d) }
	for name, c := range map[string]struct {
		reason string
		pace   pace
		now    time.Duration
		want   time.Duration
		slow   float64
	}{
		"idle":        {"a second is one", pace{slow: 1}, time.Second, time.Second, 1},
		"busy":        {"30 ms for a piece of 10 ms", pace{slow: 3}, 300 * time.Millisecond, 100 * time.Millisecond, 3},
		"not done":    {"a piece that has just been begun says nothing", pace{slow: 3, work: after(299 * time.Millisecond)}, 300 * time.Millisecond, 100 * time.Millisecond, 3},
		"slower":      {"it takes 60 ms already", pace{slow: 3, work: after(240 * time.Millisecond)}, 300 * time.Millisecond, 50 * time.Millisecond, 6},
		"at a stand":  {"there is an end to it", pace{slow: 1, work: begun}, 10 * time.Second, time.Second, slowest},
		"and further": {"what was counted stays", pace{idle: time.Minute, slow: 2}, time.Second, time.Minute + time.Second/2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c.pace.until = begun
			got := c.pace.at(after(c.now))
			require.InDelta(t, c.want, got.idle, float64(time.Microsecond), c.reason)
			require.InDelta(t, c.slow, got.slow, 0.001)
			require.Equal(t, after(c.now), got.until)
		})
	}
}

func TestSlowness(t *testing.T) {
	require.InDelta(t, 1, slowness(time.Millisecond), 0, "no promise is for a machine that is quicker")
	require.InDelta(t, 3, slowness(3*pieceTime), 0.001)
	require.InDelta(t, slowest, slowness(time.Minute), 0)
}

// failing is a test that fails without the one that it is in.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Logf(string, ...any)   {}
func (f *failing) Errorf(string, ...any) {}
func (f *failing) FailNow() {
	f.failed = true
	runtime.Goexit()
}

func TestSoon(t *testing.T) {
	const short = 50 * time.Millisecond
	for name, c := range map[string]struct {
		reason string
		most   time.Duration
		is     func(late <-chan struct{}) bool
		fails  bool
	}{
		"in time":  {"", Patience, func(<-chan struct{}) bool { return true }, false},
		"never":    {"it is not so", short, func(<-chan struct{}) bool { return false }, true},
		"too late": {"an answer that says so and comes late is late", short, func(late <-chan struct{}) bool { <-late; return true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			late, cancel := context.WithTimeout(t.Context(), 2*slowest*c.most) // more than is given on a machine of any speed
			defer cancel()
			f, done := &failing{TB: t}, make(chan struct{})
			go func() {
				defer close(done)
				Soon(t.Context(), f, c.most, func() bool { return c.is(late.Done()) }, func() string { return "" })
			}()
			<-done
			require.Equal(t, c.fails, f.failed, c.reason)
		})
	}
}
