package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

func instanceOf(contextID string, owner domain.Key, status domain.ContextStatus) *domain.Instance {
	return &domain.Instance{
		ContextID: contextID, Owner: owner, Operation: domain.OpInstantiate, Status: status, Namespace: "ns",
		LogicalCloud: "projects/p/logical-clouds/l", Profile: "cp", Release: "r", Plan: "0a",
		Counts: map[domain.ResourceState]int{domain.ResourceApplied: 2, domain.ResourceFailed: 0}, Accepted: time.UnixMilli(5).UTC(),
	}
}

func TestInstancesComeBackAsTheyWere(t *testing.T) {
	s, ctx := open(t), t.Context()
	in := instanceOf("7", group, domain.ContextInstantiating)
	require.NoError(t, s.PutInstance(ctx, in))
	got, err := s.Instance(ctx, "7")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(in, got))
	require.True(t, got.Ended.IsZero())

	require.NoError(t, s.PutInstance(ctx, instanceOf("7", group, domain.ContextTerminated)), "an activity that is done twice")
	got, err = s.Instance(ctx, "7")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(in, got), "the first one stays")

	requireKind(t, s.PutInstance(ctx, instanceOf("7", "projects/other", domain.ContextInstantiating)), fail.Conflict)
	_, err = s.Instance(ctx, "8")
	requireKind(t, err, fail.NotFound)
}

func TestNoUpdateOfAnInstanceIsLost(t *testing.T) {
	s, ctx := open(t), t.Context()
	require.NoError(t, s.PutInstance(ctx, instanceOf("7", group, domain.ContextInstantiating)))
	const writers, each = 4, 5
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() {
			for range each {
				errs[i] = errors.Join(errs[i], s.UpdateInstance(ctx, "7", func(in *domain.Instance) error {
					in.Counts[domain.ResourceApplied]++
					return nil
				}))
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	got, err := s.Instance(ctx, "7")
	require.NoError(t, err)
	require.Equal(t, 2+writers*each, got.Counts[domain.ResourceApplied])
}

func TestUpdatesOfAnInstanceThatAreRefused(t *testing.T) {
	s, ctx := open(t), t.Context()
	in := instanceOf("7", group, domain.ContextInstantiating)
	require.NoError(t, s.PutInstance(ctx, in))
	t.Run("by the change", func(t *testing.T) {
		refusal := errors.New("refused")
		require.ErrorIs(t, s.UpdateInstance(ctx, "7", func(i *domain.Instance) error { i.Reason = "x"; return refusal }), refusal)
		got, err := s.Instance(ctx, "7")
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(in, got))
	})
	t.Run("when it is not there", func(t *testing.T) {
		requireKind(t, s.UpdateInstance(ctx, "8", func(*domain.Instance) error { return nil }), fail.NotFound)
	})
	t.Run("when somebody else is always faster", func(t *testing.T) {
		faster := func(*domain.Instance) error {
			return s.UpdateInstance(ctx, "7", func(*domain.Instance) error { return nil })
		}
		requireKind(t, s.UpdateInstance(ctx, "7", faster), fail.Unavailable)
	})
}

func TestInstancesAreFoundAndForgotten(t *testing.T) {
	s, ctx := open(t), t.Context()
	require.NoError(t, s.EnsureIndexes(ctx))
	for id, status := range map[string]domain.ContextStatus{
		"1": domain.ContextInstantiating, "2": domain.ContextInstantiateFailed, "3": domain.ContextTerminated, "4": domain.ContextTerminateFailed,
		"5": domain.ContextUpdated,
	} {
		require.NoError(t, s.PutInstance(ctx, instanceOf(id, group, status)))
		require.NoError(t, s.PutLeaf(ctx, leafOf(id, "a", 1)))
	}
	require.NoError(t, s.PutInstance(ctx, instanceOf("10", group+"x", domain.ContextInstantiated)))
	require.NoError(t, s.PutLeaf(ctx, leafOf("10", "a", 1)))

	require.Equal(t, []string{"1", "10", "2", "4"}, contexts(t)(s.ActiveInstances(ctx)))
	require.Equal(t, []string{"1", "2", "3", "4", "5"}, contexts(t)(s.InstancesOf(ctx, group)))

	for range 2 {
		require.NoError(t, s.DeleteInstance(ctx, "5"))
	}
	retracted, err := s.RetractInstance(ctx, "4", func(i *domain.Instance) bool { return i.Owner != group })
	require.NoError(t, err)
	require.False(t, retracted)
	retracted, err = s.RetractInstance(ctx, "5", func(*domain.Instance) bool { return false })
	require.NoError(t, err)
	require.True(t, retracted, "there is none")
	require.Equal(t, []string{"1", "2", "3", "4"}, contexts(t)(s.InstancesOf(ctx, group)))

	for range 2 {
		require.NoError(t, s.DeleteInstances(ctx, []string{"1", "2", "3", "4"}))
	}
	require.NoError(t, s.DeleteInstances(ctx, nil))
	require.Empty(t, contexts(t)(s.InstancesOf(ctx, group)))
	for id, left := range map[string]int{"1": 0, "3": 0, "10": 1} {
		leaves, err := s.Leaves(ctx, id)
		require.NoError(t, err)
		require.Len(t, leaves, left, "leaves of %s", id)
	}
	require.Equal(t, []string{"10"}, contexts(t)(s.ActiveInstances(ctx)))
}

// contexts are the ids of a listing.
func contexts(t *testing.T) func([]*domain.Instance, error) []string {
	return func(found []*domain.Instance, err error) []string {
		t.Helper()
		require.NoError(t, err)
		ids := []string{}
		for _, i := range found {
			ids = append(ids, i.ContextID)
		}
		return ids
	}
}

func TestReachability(t *testing.T) {
	s, ctx := open(t), t.Context()
	one, two := domain.ClusterName{Provider: "p", Name: "one"}, domain.ClusterName{Provider: "p", Name: "two"}
	for _, step := range []struct {
		name      string
		cluster   domain.ClusterName
		reachable bool
		down      map[domain.ClusterName]bool
	}{
		{"one that was never down", one, true, map[domain.ClusterName]bool{}},
		{"one goes", one, false, map[domain.ClusterName]bool{one: true}},
		{"it is still gone", one, false, map[domain.ClusterName]bool{one: true}},
		{"another goes", two, false, map[domain.ClusterName]bool{one: true, two: true}},
		{"one is back", one, true, map[domain.ClusterName]bool{two: true}},
	} {
		require.NoError(t, s.SetReachable(ctx, step.cluster, step.reachable), step.name)
		down, err := s.Unreachable(ctx)
		require.NoError(t, err, step.name)
		require.Equal(t, step.down, down, step.name)
	}
}

// TestSinceWhenAClusterDoesNotAnswer is when it first did not: that it still does not is no other time, and once it has answered there is none.
func TestSinceWhenAClusterDoesNotAnswer(t *testing.T) {
	now := time.Date(2026, 11, 21, 5, 29, 7, 0, time.UTC)
	s, ctx := storetest.Open(t, store.Config{Now: func() time.Time { return now }}), t.Context()
	c := domain.ClusterName{Provider: "p", Name: "one"}
	for _, step := range []struct {
		name      string
		reachable bool
		since     map[domain.ClusterName]time.Time
	}{
		{"it goes", false, map[domain.ClusterName]time.Time{c: now}},
		{"it is still gone", false, map[domain.ClusterName]time.Time{c: now}},
		{"it is back", true, map[domain.ClusterName]time.Time{}},
		{"it goes again", false, map[domain.ClusterName]time.Time{c: now.Add(3 * time.Hour)}},
	} {
		require.NoError(t, s.SetReachable(ctx, c, step.reachable), step.name)
		since, err := s.UnreachableSince(ctx)
		require.NoError(t, err, step.name)
		require.Equal(t, step.since, since, step.name)
		now = now.Add(time.Hour)
	}

	// A build that notes no time has noted a cluster, too.
	other := domain.ClusterName{Provider: "p", Name: "other"}
	require.NoError(t, s.NoteContact(ctx, other))
	since, err := s.UnreachableSince(ctx)
	require.NoError(t, err)
	require.Contains(t, since, other)
	require.Zero(t, since[other])
}

// TestARecordIsRetractedAsItWasRead: who changes it meanwhile has it looked at anew.
func TestARecordIsRetractedAsItWasRead(t *testing.T) {
	for _, still := range []bool{true, false} {
		c := storetest.Config(t)
		proxy, behind := mongotest.NewProxy(t, c.URI), c
		behind.URI = proxy.URI()
		late, s, ctx := storetest.Open(t, behind), storetest.Open(t, c), t.Context()
		require.NoError(t, s.PutInstance(ctx, instanceOf("7", group, domain.ContextInstantiating)))
		proxy.Meet("instances", 1, mongotest.Fault{Before: func() {
			require.NoError(t, s.UpdateInstance(ctx, "7", func(i *domain.Instance) error {
				if i.Namespace = "other"; !still {
					i.Status = domain.ContextTerminating
				}
				return nil
			}))
		}})
		retracted, err := late.RetractInstance(ctx, "7", func(i *domain.Instance) bool { return i.Status == domain.ContextInstantiating })
		require.NoError(t, err)
		require.True(t, proxy.Met())
		require.Equal(t, still, retracted)
		_, err = s.Instance(ctx, "7")
		require.Equal(t, still, fail.Is(err, fail.NotFound), err)
	}
}
