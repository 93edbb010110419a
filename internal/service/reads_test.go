package service_test

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
)

// busy counts how many read all workloads or matches of a tenant at a time. Who does so takes a moment.
type busy struct {
	*store.Store
	going, most, reads, sizes atomic.Int32
}

func (s *busy) LookBytes(ctx context.Context, tenant string) (int64, error) {
	s.sizes.Add(1)
	return s.Store.LookBytes(ctx, tenant)
}

func (s *busy) read() {
	if now := s.going.Add(1); now > s.most.Load() {
		s.most.Store(now)
	}
	s.reads.Add(1)
	<-time.After(2 * time.Millisecond)
	s.going.Add(-1)
}

func (s *busy) WorkloadsAt(ctx context.Context, tenant string) ([]*domain.Workload, int64, error) {
	s.read()
	return s.Store.WorkloadsAt(ctx, tenant)
}

func (s *busy) Matches(ctx context.Context, tenant string) ([]domain.Match, error) {
	s.read()
	return s.Store.Matches(ctx, tenant)
}

// TestWhoAsksForWorkloadsTakesTurns: what is asked needs all that a tenant has in memory, and who may ask could have it there as often as he asks.
func TestWhoAsksForWorkloadsTakesTurns(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	w.take(w.begin(r), syncs(labelled("a", "yes"), labelled("b", "no")))
	require.NoError(t, r.make(t.Context(), rule("r", "yes")))
	operators := &domain.OperatorRule{WorkloadRule: *rule("o", "yes")}
	operators.Parent = ""
	require.NoError(t, r.make(t.Context(), operators))
	s := &busy{Store: r.store}
	m := service.NewMatcher(s, nil, w.clock.Now, "busy")
	defer m.Close()
	tenant, none := domain.TenantKey("t"), url.Values{}
	one, all := domain.KeyOf(rule("r", "yes")), domain.KeyOf(operators)
	for name, ask := range map[string]func(context.Context) error{
		"status":                    func(ctx context.Context) error { _, err := m.TenantStatus(ctx, "t"); return err },
		"workloads":                 func(ctx context.Context) error { _, err := m.Workloads(ctx, "t", none); return err },
		"matches":                   func(ctx context.Context) error { _, err := m.MatchesOf(ctx, tenant, none); return err },
		"matches of a rule":         func(ctx context.Context) error { _, err := m.MatchesOf(ctx, one, none); return err },
		"matches of a rule of all":  func(ctx context.Context) error { _, err := m.MatchesOf(ctx, all, none); return err },
		"explanation of the tenant": func(ctx context.Context) error { _, err := m.Why(ctx, domain.Tenants, "", "t", none); return err },
		"explanation of a rule": func(ctx context.Context) error {
			_, err := m.Why(ctx, domain.WorkloadRules, tenant, "r", none)
			return err
		},
		"explanation of a rule of all":     func(ctx context.Context) error { _, err := m.Why(ctx, domain.OperatorRules, "", "o", none); return err },
		"explanation of a workload":        func(ctx context.Context) error { _, err := m.Why(ctx, domain.Workloads, tenant, "a", none); return err },
		"preview of a rule":                func(ctx context.Context) error { _, err := m.Preview(ctx, rule("r", "yes"), none); return err },
		"preview of a rule of all tenants": func(ctx context.Context) error { _, err := m.Preview(ctx, &operators.WorkloadRule, none); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s.most.Store(0)
			s.reads.Store(0)
			var asked errgroup.Group
			for n := range limits.TenantReads {
				who := caller.Identity{Kind: caller.User, Name: fmt.Sprint(n % 2)}
				asked.Go(func() error { return ask(caller.WithIdentity(t.Context(), who, nil)) })
			}
			require.NoError(t, asked.Wait())
			require.EqualValues(t, 1, s.most.Load(), "at a time")
			require.GreaterOrEqual(t, s.reads.Load(), int32(limits.TenantReads))
		})
	}
}

// TestOneMatchIsReadAlone: who asks for that of a rule and a workload waits for nobody who reads all, and has nothing else in memory.
func TestOneMatchIsReadAlone(t *testing.T) {
	w := newTenancy(t, 1)
	r := w.first()
	w.take(w.begin(r), syncs(labelled("a", "yes"), labelled("b", "yes")))
	operators := &domain.OperatorRule{WorkloadRule: *rule("o", "yes")}
	operators.Parent = ""
	for _, o := range []domain.Object{rule("r", "yes"), rule("other", "yes"), operators} {
		require.NoError(t, r.make(t.Context(), o))
	}
	s := &busy{Store: r.store}
	m := service.NewMatcher(s, nil, w.clock.Now, "busy")
	defer m.Close()
	one, all := domain.KeyOf(rule("r", "yes")), domain.KeyOf(operators)
	for name, c := range map[string]struct {
		of   domain.Key
		rule string
		want domain.Key
	}{
		"of a tenant's rule":                      {one, "", one},
		"of an operator's rule":                   {all, "", all},
		"of a tenant, by a rule's name":           {domain.TenantKey("t"), "r", one},
		"of a tenant, by the path of the other's": {domain.TenantKey("t"), string(all), all},
	} {
		t.Run(name, func(t *testing.T) {
			q := url.Values{"workload": {"a"}}
			if c.rule != "" {
				q.Set("rule", c.rule)
			}
			list, err := m.MatchesOf(t.Context(), c.of, q)
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			require.Equal(t, c.want, list.Items[0].Rule)
			require.Equal(t, "a", list.Items[0].Workload)
			require.Zero(t, s.reads.Load())
		})
	}
}

// TestNothingIsReadOfATenantThatIsNotThere: what a store knows of tenants is kept, and names are as many as somebody makes up.
func TestNothingIsReadOfATenantThatIsNotThere(t *testing.T) {
	w := newTenancy(t, 1)
	s := &busy{Store: w.first().store}
	m := service.NewMatcher(s, nil, w.clock.Now, "busy")
	defer m.Close()
	none := domain.TenantKey("none")
	for _, of := range []struct {
		noun   *domain.Noun
		parent domain.Key
	}{{domain.Tenants, ""}, {domain.WorkloadRules, none}, {domain.Workloads, none}, {domain.OperatorRules, ""}} {
		_, err := m.Why(t.Context(), of.noun, of.parent, "none", nil)
		require.True(t, fail.Is(err, fail.NotFound), "%s: %v", of.noun.Title, err)
	}
	require.Zero(t, s.sizes.Load()+s.reads.Load())
}
