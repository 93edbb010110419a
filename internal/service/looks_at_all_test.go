package service_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
)

// crowded counts how many have all workloads of a tenant in memory at a time. Who has them waits for another one.
type crowded struct {
	*store.Store
	bytes int64           // that each tenant is said to have, unless 0
	waits time.Duration   // for another one
	begin <-chan struct{} // closed when there may be one; nil for at once

	mu                 sync.Mutex
	going, most, reads int
	two                chan struct{} // closed when two are at it
}

// aMoment is how long nobody else is to come, and patience how long somebody may take who is to.
const aMoment, patience = 100 * time.Millisecond, time.Minute

func (s *crowded) WorkloadsAt(ctx context.Context, tenant string) ([]*domain.Workload, int64, error) {
	s.mu.Lock()
	s.going++
	s.reads++
	two := s.two
	if s.most = max(s.most, s.going); s.going == 2 {
		close(s.two)
		s.two = make(chan struct{})
	}
	s.mu.Unlock()
	if s.begin != nil {
		select {
		case <-s.begin:
		case <-ctx.Done():
		}
	}
	select {
	case <-two:
	case <-time.After(s.waits):
	}
	return s.Store.WorkloadsAt(ctx, tenant)
}

// Matches are read while the workloads are in memory.
func (s *crowded) Matches(ctx context.Context, tenant string) ([]domain.Match, error) {
	s.mu.Lock()
	s.going--
	s.mu.Unlock()
	return s.Store.Matches(ctx, tenant)
}

func (s *crowded) LookBytes(ctx context.Context, tenant string) (int64, error) {
	if s.bytes > 0 {
		return s.bytes, nil
	}
	return s.Store.LookBytes(ctx, tenant)
}

// TestRulesThatAreWrittenAtATimeShareALook: else each would have all that the tenant has in memory, as often as its calls are.
func TestRulesThatAreWrittenAtATimeShareALook(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	w.take(w.begin(r), syncs(labelled("a", "yes"), labelled("b", "no")))
	var all errgroup.Group
	var want []string
	var written atomic.Int64
	begin := make(chan struct{})
	s := &crowded{Store: r.store, waits: aMoment, begin: begin, two: make(chan struct{})}
	r.Matcher = service.NewMatcher(s, r.settled, w.clock.Now, "crowded")
	defer r.Close()
	write := func(ctx context.Context, o domain.Object) error {
		defer func() {
			if written.Add(1) == limits.TenantCalls {
				close(begin)
			}
		}()
		return r.store.Create(ctx, o)
	}
	for n := range limits.TenantCalls {
		id := fmt.Sprintf("r-%02d", n)
		want = append(want, id+"/a")
		all.Go(func() error { return r.put(t.Context(), rule(id, "yes"), write) })
	}
	require.NoError(t, all.Wait())
	require.Equal(t, want, w.wanted(), "each rule is looked at")
	require.Equal(t, 1, s.most, "at a time")
	require.Less(t, s.reads, limits.TenantCalls, "those who wait share")
	unfinished, err := r.store.UnfinishedSettings(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, unfinished)
}

// TestLooksAtLargeTenantsTakeTurns: together they have so much memory, whoever they are for.
func TestLooksAtLargeTenantsTakeTurns(t *testing.T) {
	w := newTenancy(t, 1)
	for name, c := range map[string]struct {
		bytes int64
		waits time.Duration
		most  int
	}{
		"large": {2 * limits.Tenants, aMoment, 1},
		"small": {1, patience, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &crowded{Store: w.first().store, two: make(chan struct{}), bytes: c.bytes, waits: c.waits}
			m := service.NewMatcher(s, nil, w.clock.Now, "crowded")
			defer m.Close()
			tenants := []string{name + "-a", name + "-b"}
			var all sync.WaitGroup
			for _, tenant := range tenants {
				w.tenant(tenant, func(*domain.Tenant) {})
				require.NoError(t, m.Changing(t.Context(), tenant))
			}
			for _, tenant := range tenants {
				all.Go(func() { m.Changed(t.Context(), tenant, "") })
			}
			all.Wait()
			require.Equal(t, c.most, s.most)
			require.Equal(t, len(tenants), s.reads)
		})
	}
}

// TestALookThatFailsIsDoneByTheNext: what it was asked for is not forgotten.
func TestALookThatFailsIsDoneByTheNext(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	w.take(w.begin(r), syncs(labelled("a", "yes")))
	s := &forgetful{Store: r.store, end: true}
	r.Matcher = service.NewMatcher(s, r.settled, w.clock.Now, "forgetful")
	defer r.Close()
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	require.Empty(t, w.wanted())
	s.end = false
	require.NoError(t, r.make(t.Context(), rule("other", "yes")))
	require.Equal(t, []string{"other/a", "r/a"}, w.wanted())
}

// stuck has who reads all workloads wait until he is called off.
type stuck struct {
	*store.Store
	reads chan struct{} // closed when he reads
	over  atomic.Bool
}

func (s *stuck) WorkloadsAt(ctx context.Context, _ string) ([]*domain.Workload, int64, error) {
	close(s.reads)
	<-ctx.Done()
	s.over.Store(true)
	return nil, 0, ctx.Err()
}

// TestCloseEndsLooks: a look goes on when who has asked for it is gone, and not when the store is closed.
func TestCloseEndsLooks(t *testing.T) {
	w := newTenancy(t, 1)
	s := &stuck{Store: w.first().store, reads: make(chan struct{})}
	m := service.NewMatcher(s, nil, w.clock.Now, "stuck")
	w.tenant("stuck", func(*domain.Tenant) {})
	require.NoError(t, m.Changing(t.Context(), "stuck"))
	var asks sync.WaitGroup
	asks.Go(func() { m.Changed(t.Context(), "stuck", "") })
	<-s.reads
	m.Close()
	require.True(t, s.over.Load())
	asks.Wait()
}

// crossed calls between when matches were written, once.
type crossed struct {
	*store.Store
	between func()
}

func (s *crossed) WriteMatches(ctx context.Context, tenant string, write, remove []domain.Match) error {
	if between := s.between; between != nil {
		s.between = nil
		between()
	}
	return s.Store.WriteMatches(ctx, tenant, write, remove)
}

// TestARuleThatGoesWhileItsMatchIsWritten leaves none: who has deleted it has looked before, and who has written it looks again.
// That one is due no more, so that nobody else would look.
func TestARuleThatGoesWhileItsMatchIsWritten(t *testing.T) {
	w := newTenancy(t, 2)
	r, other := w.replicas[0], w.replicas[1]
	gone := rule("r", "yes")
	gone.Spec.DPUSelectionPolicy = domain.SameNode
	require.NoError(t, r.make(t.Context(), gone))
	s := &crossed{Store: r.store}
	m := service.NewMatcher(s, r.settled, w.clock.Now, "crossed")
	defer m.Close()
	in, err := m.Begin(t.Context(), "t")
	require.NoError(t, err)
	s.between = func() { require.NoError(t, other.delete(t.Context(), gone)) }
	one := labelled("a", "yes")
	one.NodeName = "nobody-knows"
	require.NoError(t, in.Take(t.Context(), updates(one)))
	require.NoError(t, in.End(t.Context()))
	require.Nil(t, s.between)
	records, err := r.store.Matches(t.Context(), "t")
	require.NoError(t, err)
	require.Empty(t, records)
}
