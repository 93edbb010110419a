package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
)

// clock is set by hand. Real time stands still for it.
type clock struct{ now lease.Instant }

func (c *clock) read() lease.Instant { return c.now }

func (c *clock) pass(d time.Duration) {
	c.now.Boot += d
	c.now.Wall += d
}

func TestLease(t *testing.T) {
	const lasts = time.Hour // of a clock that is set by hand: the timer is of no account
	for name, c := range map[string]struct {
		do   func(*clock, *lease.Lease)
		held bool
	}{
		"a moment before its end": {func(c *clock, _ *lease.Lease) { c.pass(lasts - 1) }, true},
		"at its end":              {func(c *clock, _ *lease.Lease) { c.pass(lasts) }, false},
		"renewed at a moment, it lasts from that": {func(c *clock, l *lease.Lease) {
			c.pass(lasts / 2)
			sent := c.read()
			c.pass(lasts / 4) // which the answer took
			l.Renew(sent)
			c.pass(lasts*3/4 - 1)
		}, true},
		"and not from the answer": {func(c *clock, l *lease.Lease) {
			c.pass(lasts / 2)
			sent := c.read()
			c.pass(lasts / 4)
			l.Renew(sent)
			c.pass(lasts * 3 / 4)
		}, false},
		"an older word does not shorten it": {func(c *clock, l *lease.Lease) {
			older := c.read()
			c.pass(lasts / 2)
			l.Renew(c.read())
			l.Renew(older)
			c.pass(lasts / 2)
		}, true},
		"lost, it does not come back": {func(c *clock, l *lease.Lease) {
			c.pass(lasts)
			_ = l.Check()
			l.Renew(c.read())
		}, false},
		"taken away":                               {func(_ *clock, l *lease.Lease) { l.Lose() }, false},
		"the machine was suspended":                {func(c *clock, _ *lease.Lease) { c.now.Boot += lasts }, false},
		"it was paused, and the time is right now": {func(c *clock, _ *lease.Lease) { c.now.Wall += lasts }, false},
		"the time was set back":                    {func(c *clock, _ *lease.Lease) { c.now.Wall -= lasts; c.now.Boot += lasts - 1 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := &clock{now: lease.Instant{Boot: time.Minute, Wall: 1000 * time.Hour}}
			l := lease.New(now.read, now.read(), lasts)
			defer l.Close()
			ctx := lease.With(t.Context(), l)
			c.do(now, l)
			if c.held {
				require.NoError(t, lease.Check(ctx))
				return
			}
			require.ErrorIs(t, lease.Check(ctx), lease.ErrLost)
			require.True(t, fail.KindOf(lease.ErrLost).Retryable(), "another attempt is to be made")
			<-lease.Lost(ctx)
		})
	}
}

// TestLeaseEndsByItself is on the machine's own clock.
func TestLeaseEndsByItself(t *testing.T) {
	l := lease.New(lease.Now, lease.Now(), time.Millisecond)
	defer l.Close()
	<-lease.Lost(lease.With(t.Context(), l))
	require.ErrorIs(t, l.Check(), lease.ErrLost)
}

func TestNoLease(t *testing.T) {
	require.NoError(t, lease.Check(t.Context()))
	require.Nil(t, lease.Lost(t.Context()))
}

func TestNow(t *testing.T) {
	before := lease.Now()
	after := lease.Now()
	require.NotZero(t, before.Boot)
	require.GreaterOrEqual(t, after.Boot, before.Boot)
}
