package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/match"
)

// Homes keeps the namespaces that tenants have in clusters.
type Homes interface {
	PutHome(ctx context.Context, h domain.Home) error
	// Homes are those of tenants with a name; all when it is "".
	Homes(ctx context.Context, tenant string) ([]domain.Home, error)
	HomesOf(ctx context.Context, contextID string) ([]domain.Home, error)
	DeleteHome(ctx context.Context, h domain.Home) error
}

// moveIn has the cluster watched, and notes that the tenant is to have its namespace, before anything is made there. The record
// comes last: where it is, both are done.
func (s *settling) moveIn(ctx context.Context) error {
	h := domain.HomeOf(s.tenant)
	if found, err := s.homeOf(ctx, h.ContextID, h.Cluster); err != nil || found != nil {
		return err
	}
	if err := lease.Check(ctx); err != nil {
		return err
	}
	if s.Shards != nil {
		err := s.Shards.Watch(ctx, shardOf(h.Cluster), Watching{
			ContextID: h.ContextID, Clusters: []domain.ClusterName{h.Cluster}, Began: s.Now(),
		})
		if err != nil {
			return err
		}
	}
	return s.Store.PutHome(ctx, h)
}

// left are the homes of the tenants with a name that are nobody's any more; of all names when it is "".
func (m *Match) left(ctx context.Context, name string) ([]domain.Home, error) {
	all, err := m.Store.Homes(ctx, name)
	if err != nil {
		return nil, err
	}
	var left []domain.Home
	tenants := map[string]*domain.Tenant{}
	for _, h := range all {
		t, known := tenants[h.Tenant]
		if !known {
			o, err := m.Store.Get(ctx, domain.Tenants, domain.TenantKey(h.Tenant))
			if err != nil && !fail.Is(err, fail.NotFound) {
				return nil, err
			}
			if err == nil {
				t = o.(*domain.Tenant)
			}
			tenants[h.Tenant] = t
		}
		if h.Left(t) {
			left = append(left, h)
		}
	}
	return left, nil
}

// LeaveHomes removes the namespaces of tenants with the name that are gone, or are in another cluster now. It fails, to be tried
// again, until all are gone.
func (m *Match) LeaveHomes(ctx context.Context, in TenantInput) error {
	stop := beat(ctx)
	defer stop()
	ctx, cancel := whileHeld(ctx)
	defer cancel(nil)
	left, err := m.left(ctx, in.Tenant)
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range left {
		errs = append(errs, m.leave(ctx, h))
	}
	return errors.Join(errs...)
}

// leave removes one namespace, unless somebody else has one of the name by now.
func (m *Match) leave(ctx context.Context, h domain.Home) error {
	if m.Shards != nil {
		if err := m.Shards.Unwatch(ctx, shardOf(h.Cluster), h.ContextID); err != nil {
			return err
		}
	}
	cluster, err := m.Work.clusters.Get(ctx, h.Cluster)
	switch {
	case fail.Is(err, fail.NotFound): // it is not registered any more
		return m.Store.DeleteHome(ctx, h)
	case err != nil:
		return err
	}
	waits, err := cluster.RemoveNamespace(ctx, h.Namespace, match.LabelTenant, h.ContextID)
	switch {
	case err != nil:
		return err
	case waits != "":
		again := fail.New(fail.Unavailable, "%s", waits)
		again.RetryAfter = waitAgain(time.Since(activity.GetInfo(ctx).ScheduledTime))
		return again
	default:
		return m.Store.DeleteHome(ctx, h)
	}
}

// Reported takes what a cluster says of what matches have made there: what is gone is due again, and what has no record is to go.
// ours is false when it is not about a tenant's matches.
func (m *Match) Reported(ctx context.Context, o *domain.Observation) (ours bool, err error) {
	h, err := m.homeOf(ctx, o.ContextID, o.Cluster)
	if h == nil || err != nil {
		return false, err
	}
	due := false
	err = cas.Do(ctx, func() error {
		records, err := m.Store.Matches(ctx, h.Tenant)
		if err != nil {
			return err
		}
		changed := match.Missed(records, o, h.Tenant, m.Now())
		if len(changed) == 0 {
			return nil
		}
		due = true
		if err := m.Store.PutBehind(ctx, h.Tenant); err != nil {
			return err
		}
		return cas.Overtaken(m.Store.WriteMatches(ctx, h.Tenant, changed, nil))
	})
	if err == nil && due {
		err = m.Settler.Settle(ctx, h.Tenant)
	}
	return true, err
}

// homeOf is that of a context in a cluster; nil when it has none there.
func (m *Match) homeOf(ctx context.Context, contextID string, c domain.ClusterName) (*domain.Home, error) {
	found, err := m.Store.HomesOf(ctx, contextID)
	for _, h := range found {
		if h.Cluster == c {
			return &h, err
		}
	}
	return nil, err
}
