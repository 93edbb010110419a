package service

import (
	"context"
	"iter"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/view"
)

// unknown is the state of a report that is not there; the others are words of readiness and view.
const unknown = "Unknown"

// sights reads what clusters report of the objects of matches of one tenant, each part of a rule in a cluster once.
type sights struct {
	matcher *Matcher
	source  view.Source
	known   map[domain.ObservedApp]func(plan.ResourceID) (view.Sight, error)
}

func (m *Matcher) sights(ctx context.Context, t *domain.Tenant) (*sights, error) {
	s := &sights{matcher: m, known: map[domain.ObservedApp]func(plan.ResourceID) (view.Sight, error){}}
	if m.Heard == nil {
		return s, nil
	}
	watches, err := m.Heard.Watches(ctx, nil)
	if err != nil {
		return nil, err
	}
	s.source = view.Source{ContextID: t.ContextID, Now: m.now()}
	if s.source.Rules, err = m.Heard.Rules(ctx); err != nil {
		return nil, err
	}
	s.source.Hear(view.Reports{
		Watches: watches,
		Read: func(app string, clusters []domain.ClusterName) iter.Seq2[view.Report, error] {
			return m.Heard.Observations(ctx, t.ContextID, app, clusters)
		},
	})
	return s, nil
}

// of is what is reported of a match's object; nil when it has none.
func (s *sights) of(m *domain.Match) (*MatchReport, error) {
	if m.Made == nil || s.matcher.Heard == nil {
		return nil, nil //nolint:nilnil // see above
	}
	find, err := s.in(domain.ObservedApp{App: domain.RuleApp(m.Rule), Cluster: m.Made.Cluster})
	if err != nil {
		return nil, err
	}
	made := m.Made
	seen, err := find(plan.ResourceID{Group: made.Group, Version: made.Version, Kind: made.Kind, Namespace: made.Namespace, Name: made.Name})
	if err != nil {
		return nil, err
	}
	r := &MatchReport{State: unknown, Message: seen.State.Message}
	switch {
	case seen.Presence == view.Missing:
		r.State = view.Missing.String()
	case seen.Presence == view.Present && seen.State.Status == readiness.Ready:
		r.State = string(readiness.Ready)
	case seen.Presence == view.Present:
		r.State = string(readiness.NotReady)
	}
	if d := seen.Doubt; d != nil {
		r.Doubt, r.LastSeen = d.Reason, momentOf(d.LastSeen)
	}
	return r, nil
}

// in reads what is reported of a rule's matches in a cluster.
func (s *sights) in(app domain.ObservedApp) (func(plan.ResourceID) (view.Sight, error), error) {
	if find, ok := s.known[app]; ok {
		return find, nil
	}
	said := s.source.Unreported(app.App, app.Cluster)
	for o, err := range s.source.Observations(app.App, []domain.ClusterName{app.Cluster}) {
		if err != nil {
			return nil, err
		}
		if o.ClusterName == app.Cluster {
			said = o
		}
	}
	s.known[app] = said.Sights(s.source.Rules)
	return s.known[app], nil
}

// report adds what clusters report to matches that are listed, which are those of the records.
func (m *Matcher) report(ctx context.Context, listed []Match, records map[string]*domain.Match) error {
	tenants := map[string]*sights{}
	for i := range listed {
		one := &listed[i]
		s := tenants[one.Tenant]
		if s == nil {
			o, err := m.store.Get(ctx, domain.Tenants, domain.TenantKey(one.Tenant))
			if err != nil {
				return err
			}
			if s, err = m.sights(ctx, o.(*domain.Tenant)); err != nil {
				return err
			}
			tenants[one.Tenant] = s
		}
		var err error
		if one.Reported, err = s.of(records[domain.MatchID(one.Tenant, one.Rule, one.Workload)]); err != nil {
			return err
		}
	}
	return nil
}
