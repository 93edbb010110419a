package harness

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/idle"
)

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
			late, cancel := context.WithTimeout(t.Context(), 2*idle.Slowest*c.most) // more than is given on a machine of any speed
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
