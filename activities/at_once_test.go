package activities_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// TestAtOnce does a leaf in the workflow's own task.
func TestAtOnce(t *testing.T) {
	t.Run("to its end", func(t *testing.T) {
		l := newLeaf(t, domain.OpInstantiate, 0, 0)
		value, err := l.env.ExecuteLocalActivity(l.kube.ApplyToCluster, l.in)
		require.NoError(t, err)
		var end domain.Leaf
		require.NoError(t, value.Get(&end))
		require.Equal(t, "2A", end.Marks)
		stored, err := l.store.Leaf(t.Context(), l.in.LeafID())
		require.NoError(t, err)
		require.Equal(t, "2A", stored.Marks)
	})
	t.Run("not to its end: nothing is told and nothing recorded, the activity that follows begins anew", func(t *testing.T) {
		l := newLeaf(t, domain.OpInstantiate, 0, 0)
		l.handle = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
		_, err := l.env.ExecuteLocalActivity(l.kube.ApplyToCluster, l.in)
		require.ErrorContains(t, err, "not done at once")
		require.Empty(t, l.told())
		_, err = l.store.Leaf(t.Context(), l.in.LeafID())
		require.True(t, fail.Is(err, fail.NotFound))
	})
}

// TestHalt ends an attempt at a cluster that hangs.
func TestHalt(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0, 1)
	hangs := make(chan struct{})
	l.handle = func(_ http.ResponseWriter, r *http.Request) {
		select {
		case hangs <- struct{}{}:
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	halted := make(chan error, 1)
	var told domain.Leaf
	go func() {
		select {
		case <-hangs:
			value, err := l.env.ExecuteActivity(l.kube.Halt)
			if err == nil {
				err = value.Get(&told)
			}
			halted <- err
		case <-ctx.Done():
			halted <- ctx.Err()
		}
	}()
	value, err := l.env.ExecuteActivity(l.kube.ApplyToCluster, l.in)
	require.NoError(t, <-halted)
	require.NoError(t, err)
	var end domain.Leaf
	require.NoError(t, value.Get(&end))
	stored, err := l.store.Leaf(t.Context(), l.in.LeafID())
	require.NoError(t, err)
	require.Equal(t, stored.Marks, end.Marks)
	require.Equal(t, stored.Marks, told.Marks)
	require.Equal(t, domain.MarkPending, domain.DecodeMarks(end.Marks)[1], "the second stage was never sent")
}

// TestTriesAreBounded has as many tries at a cluster that hangs as there may be: the next leaf is left to an activity, at
// once and without a request.
func TestTriesAreBounded(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0)
	activities.BoundTasks(l.kube, 2)
	hanging, answers := make(chan struct{}), make(chan struct{})
	hangs := sync.OnceFunc(func() { close(hanging) })
	l.handle = func(w http.ResponseWriter, _ *http.Request) {
		hangs()
		<-answers
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := l.env.ExecuteLocalActivity(l.kube.ApplyToCluster, l.in)
		ended <- err
	}()
	<-hanging
	_, err := l.environment().ExecuteLocalActivity(l.kube.ApplyToCluster, l.in)
	require.ErrorContains(t, err, "not done at once")
	require.Equal(t, 1, l.asked())
	close(answers)
	require.ErrorContains(t, <-ended, "not done at once")

	l.handle = nil
	_, err = l.env.ExecuteLocalActivity(l.kube.ApplyToCluster, l.in)
	require.NoError(t, err, "the slot was given back")
}

// TestGatherersAreBounded has two gather where one may: the other one comes back at once.
func TestGatherersAreBounded(t *testing.T) {
	l := newLeaf(t, domain.OpInstantiate, 0)
	activities.BoundTasks(l.kube, 4)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() { ended <- l.kube.Gather(ctx, time.Hour) }()
	}
	require.NoError(t, <-ended)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, l.kube.Gather(t.Context(), 0))
}
