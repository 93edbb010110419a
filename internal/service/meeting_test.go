package service_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
)

// dying is a store that answers nothing any more once workloads were removed: the process has died then.
type dying struct {
	*store.Store
	dead bool
}

var errDead = fail.New(fail.Unavailable, "the process is dead")

func (s *dying) RemoveHeld(ctx context.Context, tenant string) ([]string, error) {
	defer func() { s.dead = true }()
	return s.Store.RemoveHeld(ctx, tenant)
}

func (s *dying) RemoveGone(ctx context.Context, tenant string, until time.Time) ([]string, error) {
	defer func() { s.dead = true }()
	return s.Store.RemoveGone(ctx, tenant, until)
}

func (s *dying) SettingsVersion(ctx context.Context, tenant string) (string, bool, error) {
	if s.dead {
		return "", false, errDead
	}
	return s.Store.SettingsVersion(ctx, tenant)
}

// guarded has the tenant keep workloads that are said to be gone.
func (w *tenancy) guarded(guard int, grace string) {
	w.Helper()
	o, err := w.first().store.Get(w.Context(), domain.Tenants, domain.TenantKey("t"))
	require.NoError(w, err)
	o.(*domain.Tenant).Spec.DeleteGuard, o.(*domain.Tenant).Spec.DeleteAfter = guard, grace
	require.NoError(w, w.first().put(w.Context(), o, w.first().store.Replace))
}

// TestWorkloadsThatAProcessRemovesAndDies: no stream says of them again that they are gone, and what was made for them goes.
func TestWorkloadsThatAProcessRemovesAndDies(t *testing.T) {
	for name, c := range map[string]struct {
		guard  int
		grace  string
		remove func(*service.Matcher) error
	}{
		"released":        {50, "", func(m *service.Matcher) error { return m.Release(t.Context(), "t") }},
		"gone for longer": {0, "30s", func(m *service.Matcher) error { return m.Sweep(t.Context()) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTenancy(t, 2)
			r := w.first()
			w.guarded(c.guard, c.grace)
			require.NoError(t, r.make(t.Context(), rule("r", "yes")))
			in := w.begin(r)
			w.take(in, syncs(labelled("a", "yes")))
			w.take(in, syncs())
			require.Equal(t, []string{"r/a"}, w.wanted())
			require.NoError(t, in.End(t.Context())) // what it has said is seen to
			w.clock.add(time.Minute)
			w.begin(r)
			dead := service.NewMatcher(&dying{Store: r.store}, nil, w.clock.Now, "dead")
			dead.SetMoment(w.clock.moment)
			require.NoError(t, dead.Sweep(t.Context()), "it reads of the stream")
			w.clock.add(policy.HeardAgain)
			require.NoError(t, r.store.Pulse(t.Context(), "replica-0", w.clock.Now()))
			require.ErrorIs(t, c.remove(dead), errDead)
			require.Empty(t, w.stored())
			w.clock.add(time.Minute)
			require.NoError(t, w.replicas[1].Sweep(t.Context()))
			require.Empty(t, w.wanted())
		})
	}
}

// TestNobodyHearsWhetherAWorkloadIsBack: the stream is lost in its grace, as where the machine of the API is suspended. It stays until the tenant's cluster is
// heard again and has had the time to say that it is back.
func TestNobodyHearsWhetherAWorkloadIsBack(t *testing.T) {
	for name, back := range map[string]bool{"it is back": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			w := newTenancy(t, 2)
			r, other := w.replicas[0], w.replicas[1]
			sweep := func() {
				t.Helper()
				require.NoError(t, other.Sweep(t.Context()))
			}
			w.guarded(0, "30s")
			require.NoError(t, r.make(t.Context(), rule("r", "yes")))
			first := w.begin(r)
			require.NoError(t, r.store.Pulse(t.Context(), "replica-0", w.clock.Now()))
			w.take(first, syncs(labelled("a", "yes")))
			w.take(first, []*service.Said{{Delete: []string{"a"}}})
			w.clock.add(5 * time.Minute)
			sweep()
			require.Equal(t, []string{"r/a"}, w.wanted(), "the connection is lost: everything stays")
			second := w.begin(other)
			require.NoError(t, other.store.Pulse(t.Context(), "replica-1", w.clock.Now()))
			sweep()
			require.Equal(t, []string{"r/a"}, w.wanted(), "it has said nothing yet")
			if back {
				w.take(second, syncs(labelled("a", "yes")))
			}
			w.clock.add(policy.HeardAgain)
			require.NoError(t, other.store.Pulse(t.Context(), "replica-1", w.clock.Now()))
			sweep()
			require.Equal(t, back, slices.Equal([]string{"r/a"}, w.wanted()))
		})
	}
}

// TestAClusterIsHeardForSomeTimeByOnesOwnClock: a stream that was begun by a clock that is behind is not older for it, nor for who has set his own forward. Its
// cluster has the time to say what is back.
func TestAClusterIsHeardForSomeTimeByOnesOwnClock(t *testing.T) {
	for name, c := range map[string]struct{ off, set time.Duration }{
		"a clock that is right":     {},
		"a clock that is behind":    {off: -30 * time.Second},
		"a clock that is ahead":     {off: 30 * time.Second},
		"a clock that was set":      {set: time.Hour},
		"a clock that was set back": {set: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTenancy(t, 1)
			r := w.first()
			var set atomic.Int64
			r.SetMoment(func() lease.Instant {
				now := w.clock.moment()
				now.Wall += time.Duration(set.Load())
				return now
			})
			sweep := func() {
				t.Helper()
				require.NoError(t, r.Sweep(t.Context()))
			}
			w.guarded(0, "30s")
			require.NoError(t, r.make(t.Context(), rule("r", "yes")))
			first := w.begin(r)
			w.take(first, syncs(labelled("a", "yes")))
			w.take(first, []*service.Said{{Delete: []string{"a"}}})
			require.NoError(t, first.End(t.Context()))
			w.clock.add(5 * time.Minute)
			sweep()

			config := w.config
			config.Now = func() time.Time { return w.clock.Now().Add(c.off) }
			config.Moment = nil
			of := service.NewMatcher(storetest.Open(t, config), nil, config.Now, "of")
			defer of.Close()
			in, err := of.Begin(t.Context(), "t")
			require.NoError(t, err)
			defer func() { require.NoError(t, in.End(context.Background())) }()
			sweep()
			require.Equal(t, []string{"r/a"}, w.wanted(), "it has said nothing yet")
			set.Store(int64(c.set))
			w.clock.add(policy.HeardAgain - 1)
			sweep()
			require.Equal(t, []string{"r/a"}, w.wanted(), "it has some time still")
			w.clock.add(1)
			sweep()
			require.Empty(t, w.wanted())
		})
	}
}

// TestWhatIsHeldWhenStreamsAreDisplaced: what the newer stream says counts, whatever is released meanwhile.
func TestWhatIsHeldWhenStreamsAreDisplaced(t *testing.T) {
	w := newTenancy(t, 2)
	r, other := w.replicas[0], w.replicas[1]
	w.guarded(50, "")
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	for range 5 {
		first := w.begin(r)
		w.take(first, syncs(labelled("a", "yes"), labelled("b", "yes"), labelled("c", "yes")))
		w.take(first, syncs())
		require.Len(t, w.wanted(), 3, "held")
		var both errgroup.Group
		both.Go(func() error { return r.Release(t.Context(), "t") })
		both.Go(func() error {
			second, err := other.Begin(t.Context(), "t")
			if err == nil {
				err = second.Take(t.Context(), syncs(labelled("a", "yes"), labelled("b", "yes")))
			}
			if err == nil {
				err = second.End(t.Context())
			}
			return err
		})
		require.NoError(t, both.Wait())
		require.Equal(t, []string{"r/a", "r/b"}, releasedC(w), "whichever was first")
		err := first.Take(t.Context(), syncs())
		require.True(t, fail.Is(err, fail.Aborted), "%v", err)
		require.Equal(t, []string{"r/a", "r/b"}, w.wanted())
	}
}

// releasedC releases once more, as c may be held by the second stream, and says what is wanted.
func releasedC(w *tenancy) []string {
	w.Helper()
	require.NoError(w, w.first().Release(w.Context(), "t"))
	return w.wanted()
}

// TestWhatIsInItsGraceWhenStreamsAreDisplaced: it is back when the newer stream says so, and its time runs from when it was gone
// first.
func TestWhatIsInItsGraceWhenStreamsAreDisplaced(t *testing.T) {
	w := newTenancy(t, 2)
	r, other := w.replicas[0], w.replicas[1]
	w.guarded(0, "30s")
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	first := w.begin(r)
	w.take(first, syncs(labelled("a", "yes"), labelled("b", "yes")))
	w.take(first, []*service.Said{{Delete: []string{"a", "b"}}})
	w.clock.add(20 * time.Second)
	second := w.begin(other)
	w.take(second, syncs(labelled("a", "yes")))
	err := first.Take(t.Context(), []*service.Said{{Delete: []string{"a"}}})
	require.True(t, fail.Is(err, fail.Aborted), "%v", err)
	require.Equal(t, []string{"r/a", "r/b"}, w.wanted())
	w.clock.add(10 * time.Second)
	require.NoError(t, other.store.Pulse(t.Context(), "replica-1", w.clock.Now()))
	require.NoError(t, other.Sweep(t.Context()))
	require.Equal(t, []string{"r/a"}, w.wanted())
	w.take(second, syncs())
	w.clock.add(30 * time.Second)
	require.NoError(t, other.store.Pulse(t.Context(), "replica-1", w.clock.Now()))
	require.NoError(t, other.Sweep(t.Context()))
	require.Empty(t, w.wanted())
	require.Empty(t, w.stored())
}

// TestAWorkloadThatFlaps between two looks leaves what is wanted last, and a record of its own.
func TestAWorkloadThatFlaps(t *testing.T) {
	w := newTenancy(t, 1)
	require.NoError(t, w.first().make(t.Context(), rule("r", "yes")))
	in := w.begin(w.first())
	w.take(in, updates(labelled("a", "yes")))
	all, err := w.first().store.Matches(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, all, 1)
	w.take(in, []*service.Said{{Delete: []string{"a"}}})
	back := labelled("a", "yes")
	back.Extra[domain.ExtraLabels]["more"] = "x"
	w.take(in, updates(back))
	err = w.first().store.WriteMatches(t.Context(), "t", all, nil)
	require.True(t, fail.Is(err, fail.Conflict), "who has read the first record does not write over the second: %v", err)
}

// TestATenantWhoseDeletionNobodyHasFinished had a match: what was made goes, so that there can be a tenant of its name.
func TestATenantWhoseDeletionNobodyHasFinished(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	w.take(w.begin(r), syncs(labelled("a", "yes")))
	w.applied()
	require.NoError(t, r.Changing(t.Context(), "t"))
	require.NoError(t, r.store.Delete(t.Context(), domain.Tenants, domain.TenantKey("t"), 0))
	w.clock.add(time.Minute)
	require.NoError(t, r.Sweep(t.Context()))
	require.Empty(t, w.wanted())
	all, err := r.store.Matches(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.False(t, all[0].Due.IsZero())
	behind, err := r.store.Behind(t.Context())
	require.NoError(t, err)
	require.Contains(t, behind, "t")
}

// TestAWorkloadThatCannotBeStored is left out, and those beside it are taken.
func TestAWorkloadThatCannotBeStored(t *testing.T) {
	w := newTenancy(t, 1)
	in := w.begin(w.first())
	bad, worse, odd := labelled("bad", "yes"), labelled("worse", "yes"), labelled("odd", "\x00\n$.\u202e")
	bad.Extra[domain.ExtraLabels]["a\x00b"] = "c"
	worse.Extra["\x00"] = map[string]string{}
	odd.Extra[domain.ExtraLabels]["$where.a b\n"], odd.ResourceName = "", "\x00"
	w.take(in, syncs(bad, worse, odd, labelled("na\x00me", "yes"), labelled("good", "yes")))
	require.Equal(t, []string{"good", "odd"}, w.stored())
	status, err := w.first().TenantStatus(t.Context(), "t")
	require.NoError(t, err)
	require.Len(t, status.LeftOut, 3)
	for _, left := range status.LeftOut {
		require.Contains(t, left.Reason, "character 0")
	}

	// Twice in one message, of which the last word is left out: it is as if they had come one after another.
	again, unfit := labelled("again", "yes"), labelled("again", "no")
	unfit.ResourceType = "v1/Service"
	for _, said := range [][]*service.Said{{{Put: []*domain.Workload{again, unfit}}}, syncs(again, unfit)} {
		require.NoError(t, in.End(t.Context()))
		in = w.begin(w.first())
		w.take(in, syncs())
		w.take(in, said)
		require.Equal(t, []string{"again"}, w.stored())
		status, err = w.first().TenantStatus(t.Context(), "t")
		require.NoError(t, err)
		require.Len(t, status.LeftOut, 1)
		require.Equal(t, "again", status.LeftOut[0].ID)
	}
}

// TestATenantThatHasGotTheNameKeepsWhatItSays: the deletion of an earlier one was held up.
func TestATenantThatHasGotTheNameKeepsWhatItSays(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	w.take(w.begin(r), syncs(labelled("a", "yes")))
	require.NoError(t, r.Forget(t.Context(), "t"))
	require.Equal(t, []string{"a"}, w.stored())
	require.NoError(t, r.store.Delete(t.Context(), domain.Tenants, domain.TenantKey("t"), 0))
	require.NoError(t, r.Forget(t.Context(), "t"))
	require.Empty(t, w.stored())
}

// TestWhatTenantsHaveLeft in a cluster: those that are gone, and those that are in another one now.
func TestWhatTenantsHaveLeft(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	o, err := r.store.Get(t.Context(), domain.Tenants, domain.TenantKey("t"))
	require.NoError(t, err)
	here := o.(*domain.Tenant)
	at, other := here.ClusterName(), domain.ClusterName{Provider: "p", Name: "other"}
	gone := &domain.Tenant{Metadata: domain.Metadata{Name: "gone"}, ContextID: "7"}
	gone.Spec.Cluster = at.String()
	for _, h := range []domain.Home{domain.HomeOf(here), domain.HomeOf(gone), domain.OperatorHome(gone)} {
		require.NoError(t, r.store.PutHome(t.Context(), h))
	}
	made := domain.Match{Tenant: "gone", Rule: domain.TenantKey("gone").Child("workload-rules", "r"), Workload: "a", Made: &domain.Made{Cluster: at}}
	require.NoError(t, r.store.WriteMatches(t.Context(), "gone", []domain.Match{made}, nil))
	require.NoError(t, r.Forget(t.Context(), "gone"), "what may be in a cluster is not forgotten")
	left, err := r.LeftIn(t.Context(), at)
	require.NoError(t, err)
	require.Equal(t, []domain.TenantLeft{{Tenant: "gone", ContextID: "7", Cluster: at, Namespace: "tenant-gone", Objects: 1}}, left)
	left, err = r.LeftIn(t.Context(), other)
	require.NoError(t, err)
	require.Empty(t, left)
	here.Spec.Cluster = other.String()
	require.NoError(t, r.store.Replace(t.Context(), here))
	left, err = r.LeftIn(t.Context(), at)
	require.NoError(t, err)
	require.Len(t, left, 2)
}
