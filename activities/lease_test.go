package activities_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/plan"
)

// freezing gives the leaf's attempts a lease, which they do not hold any more when freeze was called: as when the process
// was frozen, nobody tells them.
func (l *leaf) freezing() (freeze func()) {
	var now atomic.Int64
	x := lease.New(func() lease.Instant { return lease.Instant{Boot: time.Duration(now.Load())} }, lease.Instant{}, time.Hour)
	l.t.Cleanup(x.Close)
	l.options.BackgroundActivityContext = lease.With(l.t.Context(), x)
	return func() { now.Store(int64(time.Hour)) }
}

// leftAlone checks that an attempt which was frozen has ended without a word.
func (l *leaf) leftAlone(err error, requests, contacts int) {
	l.t.Helper()
	require.ErrorIs(l.t, err, lease.ErrLost)
	require.Equal(l.t, requests, l.asked(), "%v", l.seen())
	require.Empty(l.t, l.store.leaves)
	require.Empty(l.t, l.store.reachable)
	require.Len(l.t, l.contacts, contacts)
}

// TestFrozenAttempt freezes a process in the middle of an attempt.
func TestFrozenAttempt(t *testing.T) {
	t.Run("which applies", func(t *testing.T) {
		l := newLeaf(t, domain.OpInstantiate, 0, 1, 2)
		freeze := l.freezing()
		l.handle = func(w http.ResponseWriter, _ *http.Request) {
			freeze()
			answer(w, http.StatusCreated, map[string]any{})
		}
		_, err := l.run()
		l.leftAlone(err, 1, 0)
	})
	t.Run("which deletes", func(t *testing.T) {
		l := newLeaf(t, domain.OpTerminate, 0, 0)
		l.in.Incomplete = true
		freeze := l.freezing()
		l.handle = func(w http.ResponseWriter, _ *http.Request) {
			freeze()
			answer(w, http.StatusOK, map[string]any{
				"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
				"metadata": map[string]any{"name": "a", "uid": "1", "labels": map[string]string{plan.DeploymentLabel: plan.DeploymentID("1", "app")}},
			})
		}
		_, err := l.run()
		require.ErrorIs(t, err, lease.ErrLost)
		require.Empty(t, l.store.leaves)
		for _, r := range l.seen() {
			require.True(t, strings.HasPrefix(r, http.MethodGet), r)
		}
	})
	t.Run("whose work is done", func(t *testing.T) {
		l := newLeaf(t, domain.OpTerminate, 0)
		l.in.Incomplete = true
		freeze := l.freezing()
		l.handle = func(w http.ResponseWriter, _ *http.Request) {
			freeze()
			refuse(w, http.StatusNotFound, "NotFound", "a0") // as another attempt has deleted it
		}
		_, err := l.run()
		l.leftAlone(err, 1, 0)
	})
	t.Run("whose cluster does not answer", func(t *testing.T) {
		l := newLeaf(t, domain.OpInstantiate, 0)
		freeze := l.freezing()
		l.handle = func(w http.ResponseWriter, _ *http.Request) {
			freeze()
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, err := l.run()
		l.leftAlone(err, 1, 0)
	})
	t.Run("once the workflow has heard that the cluster does not answer", func(t *testing.T) {
		l := newLeaf(t, domain.OpInstantiate, 0)
		freeze := l.freezing()
		l.handle = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		l.onContact = func(activities.Contact) { freeze() }
		_, err := l.run()
		l.leftAlone(err, l.asked(), 1) // nothing is recorded: another worker may have found the cluster again
	})
	t.Run("which waits for a hook", func(t *testing.T) {
		l, o := hooked(t, domain.OpInstantiate, jobHook("job", on("pre-install")))
		o.ends["job"] = ""
		freeze := l.freezing()
		l.onContact = func(activities.Contact) {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.kept, "job") // as a terminate has
			freeze()
		}
		_, err := l.run()
		require.ErrorIs(t, err, lease.ErrLost)
		require.Empty(t, l.store.leaves)
	})
	t.Run("in the workflow's own task", func(t *testing.T) {
		l := newLeaf(t, domain.OpInstantiate, 0)
		freeze := l.freezing()
		l.handle = func(w http.ResponseWriter, _ *http.Request) {
			freeze()
			answer(w, http.StatusCreated, map[string]any{})
		}
		l.env.SetWorkerOptions(l.options)
		_, err := l.env.ExecuteLocalActivity(l.kube.ApplyToCluster, l.in)
		require.Error(t, err)
		if !strings.Contains(err.Error(), activities.ErrNotAtOnce.Error()) { // when the work is cut off before it comes to its look at the lease
			require.ErrorContains(t, err, lease.ErrLost.Message)
		}
		require.Empty(t, l.store.leaves, "which the activity after it does")
	})
}

// TestAttemptAfterAFrozenOne does the work.
func TestAttemptAfterAFrozenOne(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0)
	l.freezing()()
	_, err := l.run()
	l.leftAlone(err, 0, 0)
	require.True(t, fail.KindOf(err).Retryable())
	l.freezing()
	l.env = l.environment()
	end, err := l.run()
	require.NoError(t, err)
	require.Equal(t, "1A", end.Marks)
}
