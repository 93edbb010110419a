package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/policy"
)

// asked is a cluster that takes a while to answer, or does not, and counts who asks.
type asked struct {
	hearsay
	cluster *kube.Cluster
	count   atomic.Int32
	takes   time.Duration
	answers bool
}

func (a *asked) ask(ctx context.Context, tenant string) (heard, silent bool, err error) {
	q, err := a.hearsay.ask(ctx, a.cluster, tenant, policy.FirstAway)
	if err != nil || q == nil {
		return false, q == nil && err == nil, err
	}
	defer q.end()
	a.count.Add(1)
	time.Sleep(a.takes) //nolint:forbidigo // in synctest's time
	q.hears(a.answers)
	return true, false, nil
}

// all has a hundred tenants ask at the same time.
func (a *asked) all(t *testing.T) (silent int) {
	t.Helper()
	var g sync.WaitGroup
	var n atomic.Int32
	for i := range 100 {
		g.Go(func() {
			_, s, err := a.ask(t.Context(), fmt.Sprint(i))
			if err != nil {
				t.Error(err)
			}
			if s {
				n.Add(1)
			}
		})
	}
	g.Wait()
	return int(n.Load())
}

func TestOfAHundredTenantsOneAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{cluster: &kube.Cluster{}, takes: 15 * time.Second}
		require.Equal(t, 99, a.all(t), "the cluster does not answer")
		require.EqualValues(t, 1, a.count.Load())
		a.takes, a.answers = time.Millisecond, true
		synctest.Wait()
		time.Sleep(policy.FirstAway) //nolint:forbidigo // in synctest's time
		require.Zero(t, a.all(t), "it does again")
		require.EqualValues(t, 101, a.count.Load(), "and all ask it what they want")
	})
}

func TestNobodyWaitsWhereTheClusterHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{cluster: &kube.Cluster{}, answers: true}
		_, _, err := a.ask(t.Context(), "a")
		require.NoError(t, err)
		a.takes = time.Minute // of which nobody waits for another's
		began := time.Now()
		require.Zero(t, a.all(t))
		require.Equal(t, time.Minute, time.Since(began))
	})
}

func TestATenantIsNotKeptByWhatItHasHeardItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{cluster: &kube.Cluster{}}
		for range 3 {
			heard, _, err := a.ask(t.Context(), "a")
			require.NoError(t, err)
			require.True(t, heard)
		}
		_, silent, err := a.ask(t.Context(), "b")
		require.NoError(t, err)
		require.True(t, silent)
		heard, _, err := (&asked{hearsay: hearsay{of: a.hearsay.of}, cluster: &kube.Cluster{}}).ask(t.Context(), "b")
		require.NoError(t, err)
		require.True(t, heard, "what is registered anew is another cluster")
	})
}

// TestWhoAsksMayEndWithoutAWord: the next one asks then.
func TestWhoAsksMayEndWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{cluster: &kube.Cluster{}, answers: true}
		q, err := a.hearsay.ask(t.Context(), a.cluster, "a", policy.FirstAway)
		require.NoError(t, err)
		time.AfterFunc(time.Second, q.end)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(gone) })
		_, _, err = a.ask(ctx, "b")
		require.ErrorIs(t, err, gone)
		began := time.Now()
		heard, _, err := a.ask(t.Context(), "b")
		require.NoError(t, err)
		require.True(t, heard)
		require.Equal(t, time.Second-time.Millisecond, time.Since(began))
	})
}

func TestThoseWhoWaitedGoOnOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{cluster: &kube.Cluster{}}
		_, _, err := a.ask(t.Context(), "a")
		require.NoError(t, err)
		var g sync.WaitGroup
		var mu sync.Mutex
		at := map[time.Duration]bool{}
		began := time.Now()
		for range 100 {
			g.Go(func() {
				if err := a.wait(t.Context(), a.cluster, time.Hour); err != nil {
					t.Error(err)
				}
				mu.Lock()
				at[time.Since(began)] = true
				mu.Unlock()
			})
		}
		synctest.Wait()
		time.Sleep(time.Minute) //nolint:forbidigo // in synctest's time
		a.answers = true
		_, _, err = a.ask(t.Context(), "a")
		require.NoError(t, err)
		g.Wait()
		require.Greater(t, len(at), 50)
		for d := range at {
			require.GreaterOrEqual(t, d, time.Minute)
			require.LessOrEqual(t, d, time.Minute+policy.BackMost)
		}
	})
}

func TestWhatDoesNotAnswerIsWaitedForFromItsLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{cluster: &kube.Cluster{}}
		_, _, err := a.ask(t.Context(), "a")
		require.NoError(t, err)
		began := time.Now()
		time.Sleep(4 * time.Second) //nolint:forbidigo // in synctest's time
		require.NoError(t, a.wait(t.Context(), a.cluster, 10*time.Second))
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}
