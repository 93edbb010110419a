package idle

import (
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
		"at a stand":  {"there is an end to it", pace{slow: 1, work: begun}, 10 * time.Second, time.Second, Slowest},
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
	require.InDelta(t, Slowest, slowness(time.Minute), 0)
}

func TestClock(t *testing.T) {
	c := Start(t)
	begun := time.Now()
	for time.Since(begun) < 3*pieceEach {
		this.piece()
	}
	idle, wall := c.Read()
	require.Positive(t, idle)
	require.LessOrEqual(t, idle, wall, "no machine is quicker than an idle one")
	require.GreaterOrEqual(t, wall, 3*pieceEach)
	c.Stop()
}

// TestClocksShareTheWork: a clock that is begun beside another one begins at nothing, and costs nothing.
func TestClocksShareTheWork(t *testing.T) {
	var m machine
	_, first := m.enter()
	ended := m.ended
	m.piece()
	begun, second := m.enter()
	require.Equal(t, ended, m.ended, "there is one goroutine")
	for range 3 {
		m.piece()
		now, at := m.read()
		require.GreaterOrEqual(t, at-second, time.Duration(0), "no clock goes back, also where a piece that was being done proves to be slow")
		require.LessOrEqual(t, at-second, now.Sub(begun))
		require.Greater(t, at-first, at-second)
	}
	m.leave()
	select {
	case <-m.gone:
		require.Fail(t, "the work has ended with the first clock that was stopped")
	default:
	}
	m.leave()
	<-m.gone
	_, third := m.enter()
	require.NotEqual(t, ended, m.ended, "a clock that comes later has the work begin again")
	require.Zero(t, third)
	m.leave()
}
