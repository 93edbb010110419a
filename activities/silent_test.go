package activities_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// TestSilentClustersLeaveSlotsToOthers has as many attempts at clusters that do not answer as there may be: the next such
// one is put off without a request, and the workflow is told; one at a cluster that nobody has tried is not.
func TestSilentClustersLeaveSlotsToOthers(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0)
	activities.BoundSilent(l.kube, 2)
	hanging, answers := make(chan struct{}), make(chan struct{})
	hangs := sync.OnceFunc(func() { close(hanging) })
	l.handle = func(w http.ResponseWriter, _ *http.Request) {
		hangs()
		<-answers
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	silent := l.in
	silent.Suspect = true
	ended := make(chan error, 1)
	go func() {
		_, err := l.env.ExecuteActivity(l.kube.ApplyToCluster, silent)
		ended <- err
	}()
	<-hanging
	_, err := l.environment().ExecuteActivity(l.kube.ApplyToCluster, silent)
	require.ErrorContains(t, err, "it did not answer when it was last tried")
	require.Equal(t, 1, l.asked())
	require.Equal(t, []string{"1p"}, l.told())

	again := l.environment()
	again.SetHeartbeatDetails(map[string]any{"marks": "1p", "announced": "1p", "connectivity": "Retrying", "error": "connection refused"})
	_, err = again.ExecuteActivity(l.kube.ApplyToCluster, l.in)
	require.ErrorContains(t, err, "connection refused", "what was said of it last stays")
	require.Equal(t, 1, l.asked())
	require.Len(t, l.told(), 1, "the workflow knows")

	l.handle = nil
	_, err = l.environment().ExecuteActivity(l.kube.ApplyToCluster, l.in)
	require.NoError(t, err, "nobody has tried it yet")
	close(answers)
	require.Error(t, <-ended)
	_, err = l.environment().ExecuteActivity(l.kube.ApplyToCluster, silent)
	require.NoError(t, err, "the slot was given back")
}
