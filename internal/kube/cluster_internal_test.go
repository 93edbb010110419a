package kube

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCredentialsAreNotFreshForLong: also where the clock is set back after they were looked at.
func TestCredentialsAreNotFreshForLong(t *testing.T) {
	t.Parallel()
	c := &Cluster{config: Config{Fresh: time.Minute}}
	for ago, want := range map[time.Duration]bool{time.Second: true, 2 * time.Minute: false, -time.Hour: false} {
		c.checked.Store(time.Now().Add(-ago).UnixNano())
		require.Equal(t, want, c.fresh(), "%s ago", ago)
	}
	c.recheck()
	require.False(t, c.fresh())
}
