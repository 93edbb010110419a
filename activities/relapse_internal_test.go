package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/policy"
)

func TestRelapses(t *testing.T) {
	var r relapses
	now := time.UnixMilli(1e12)
	require.Zero(t, r.next("a", now), "it is back")
	want := policy.FirstAway
	for range 20 {
		now = now.Add(time.Second)
		pause := r.next("a", now)
		require.Equal(t, want, pause, "it answers, and does nothing")
		require.Zero(t, r.next("another at "+now.String(), now), "others do not wait for it")
		now, want = now.Add(pause), min(2*want, policy.LongestAway)
	}
	require.Equal(t, policy.LongestAway, want)
	now = now.Add(policy.RelapseWithin + time.Second)
	require.Zero(t, r.next("a", now), "this is another time")
	require.Len(t, r.last, 1, "what is over is forgotten")
}
