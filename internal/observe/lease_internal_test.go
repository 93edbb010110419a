package observe

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/limits"
)

func leaseIn(namespace string, at time.Time) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"metadata":{"name":"drover-monitor","namespace":%q},"spec":{"renewTime":%q}}`, namespace, at.Format(time.RFC3339Nano)))
}

// TestALeaseThatAnybodyHasMade: who may make a Lease in some namespace must not have a dead agent look alive, nor fill memory.
func TestALeaseThatAnybodyHasMade(t *testing.T) {
	t.Parallel()
	l, now := newLease(time.Minute), time.Now()
	l.begin()
	require.NoError(t, l.put(leaseIn("agents", now.Add(-time.Hour))))
	for i := range 2 * limits.ClusterLeases {
		require.NoError(t, l.put(leaseIn(fmt.Sprint("t", i), now)))
	}
	l.end()
	require.LessOrEqual(t, len(l.beats), limits.ClusterLeases)
	require.True(t, l.lives(now), "nobody knows yet where the agent's is")
	l.expect("agents")
	require.False(t, l.lives(now))
	reason, since := l.silent(now)
	require.NotEmpty(t, reason)
	require.Equal(t, now.Add(-time.Hour).UnixNano(), since.UnixNano())

	require.NoError(t, l.put(leaseIn("agents", now)))
	require.True(t, l.lives(time.Now()))
	require.NoError(t, l.remove(leaseIn("agents", now)))
	require.True(t, l.lives(time.Now()), "it is silent from now on")
	require.NoError(t, l.remove(leaseIn("t0", now)))
	require.NotContains(t, l.beats, "agents")
	require.NotContains(t, l.beats, "t0")
	l.begin()
	l.end()
	require.Empty(t, l.beats, "nothing is left of what a list does not have")
	require.True(t, l.lives(time.Now()))
}
