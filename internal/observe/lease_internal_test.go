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

// TestAnAgentThatDiedWhileItsClusterWasAway is not alive once the cluster is back, and was heard when it was.
func TestAnAgentThatDiedWhileItsClusterWasAway(t *testing.T) {
	t.Parallel()
	const ahead = 20 * time.Minute // the agent's clock
	was := time.Now().Add(-time.Hour)
	back := func(renewed time.Time) *lease {
		t.Helper()
		l := newLease(time.Minute)
		l.begin()
		require.NoError(t, l.put(leaseIn("agents", was.Add(ahead))))
		l.end()
		l.beats["agents"] = pulse{was.Add(ahead), was}
		l.begin()
		require.NoError(t, l.put(leaseIn("agents", renewed.Add(ahead))))
		l.end()
		return l
	}
	l := back(was.Add(15 * time.Minute))
	require.False(t, l.lives(time.Now()))
	_, since := l.silent(time.Now())
	require.WithinDuration(t, was.Add(15*time.Minute), since, time.Second)

	require.False(t, back(was).lives(time.Now()), "it died with the cluster")
	require.True(t, back(time.Now()).lives(time.Now()))
	set := back(time.Now().Add(-5 * time.Minute)) // its clock, meanwhile
	require.False(t, set.lives(time.Now()))
	require.NoError(t, set.put(leaseIn("agents", time.Now().Add(ahead-5*time.Minute))))
	require.True(t, set.lives(time.Now()), "a renewal was seen")
}

// TestReportsThatNameEverNewLeases: who may write a report in some namespace must not have the agent's own Lease count no more.
func TestReportsThatNameEverNewLeases(t *testing.T) {
	t.Parallel()
	l, now := newLease(time.Minute), time.Now()
	l.begin()
	require.NoError(t, l.put(leaseIn("agents", now)))
	l.end()
	for i := range limits.ClusterLeases + 1 {
		l.expect(fmt.Sprint("t", i))
	}
	l.expect("agents")
	for i := range limits.ClusterLeases + 1 {
		l.expect(fmt.Sprint("u", i))
	}
	require.Len(t, l.named, limits.ClusterLeases)
	require.True(t, l.lives(now))
	reason, _ := l.silent(now)
	require.Empty(t, reason)
	reason, _ = l.silent(now.Add(time.Hour))
	require.NotEmpty(t, reason, "it has died")
}

// TestALeaseBesideAnAgentThatHasNone: who may make a Lease in some namespace must not have EMCO's agent, which has none, look dead.
func TestALeaseBesideAnAgentThatHasNone(t *testing.T) {
	t.Parallel()
	l, now := newLease(time.Minute), time.Now()
	l.begin()
	require.NoError(t, l.put(leaseIn("t0", now.Add(-time.Hour))))
	l.end()
	require.True(t, l.doubtful(now))
	reason, _ := l.silent(now)
	require.NotEmpty(t, reason, "it may be the agent's, which has written nothing yet")
	a := &agent{lease: l}
	a.expect("", nil)
	reason, _ = l.silent(now)
	require.Empty(t, reason)
	a.expect("agents", nil)
	reason, _ = l.silent(now)
	require.NotEmpty(t, reason, "another one has come, and has died")
}

// TestAnAgentInPlaceOfTheResources is heard by its Lease alone, whatever else there is in the cluster.
func TestAnAgentInPlaceOfTheResources(t *testing.T) {
	t.Parallel()
	l, now := newLease(time.Minute), time.Now()
	require.NoError(t, l.put(leaseIn("agents", now)))
	a := &agent{lease: l, yields: true}
	a.expect("", nil)
	reason, _ := a.silence(now.Add(time.Hour))
	require.NotEmpty(t, reason)
}
