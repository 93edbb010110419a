package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/policy"
)

func TestWaitsDoubleUpToTheMost(t *testing.T) {
	d := policy.Doubling{First: 100 * time.Millisecond, Most: time.Second}
	last := time.Duration(0)
	for n, ms := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		require.Equal(t, ms*time.Millisecond, d.Nth(n), "wait %d", n)
		require.Equal(t, ms*time.Millisecond, d.After(last), "after %s", last)
		last = d.After(last)
	}
	require.Equal(t, time.Second, d.Nth(math.MaxInt), "it does not count that far")
	require.Equal(t, 100*time.Millisecond, d.Nth(-1), "before any other")
	most := policy.Doubling{First: time.Second, Most: math.MaxInt64}
	require.Equal(t, time.Duration(math.MaxInt64), most.After(math.MaxInt64-1), "and does not overflow")
	require.Equal(t, time.Second, policy.Doubling{First: time.Hour, Most: time.Second}.After(0), "no wait is longer than the most")
}
