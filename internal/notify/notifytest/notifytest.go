// Package notifytest has statuses for tests of status streams.
package notifytest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/view"
)

// Statuses implements notify.Statuses by one status, whatever the group. It counts what it is asked for.
type Statuses struct {
	mu               sync.Mutex
	source           status.Source
	revision         int
	err              error
	signs, snapshots int
}

// New makes the statuses of a fleet in the middle of an instantiate.
func New(apps, clusters, resources int) *Statuses {
	s := &Statuses{source: status.Source{
		Project: "fleet", CompositeApp: "collectd", Version: "v1", CompositeProfile: "default", Name: "everywhere",
		Source: view.Source{ContextID: "2621114006130701074", Status: domain.ContextInstantiating},
	}}
	for a := range apps {
		app := view.App{Name: fmt.Sprintf("app-%d", a)}
		for r := range resources {
			app.Resources = append(app.Resources, plan.ResourceID{
				Group: "apps", Version: "v1", Kind: "Deployment", Name: fmt.Sprintf("component-%d", r),
			})
		}
		for c := range clusters {
			app.Clusters = append(app.Clusters, view.Cluster{
				ClusterName:  domain.ClusterName{Provider: "provider", Name: fmt.Sprintf("edge-%04d", c)},
				Connectivity: domain.ConnectivityAvailable, InProgress: true,
				Marks: domain.NewMarks(resources, domain.MarkPending),
			})
		}
		s.source.Apps = append(s.source.Apps, app)
	}
	return s
}

// Change changes the status.
func (s *Statuses) Change(change func(*status.Source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.source.Apps = slices.Clone(s.source.Apps) // what was given away stays as it is
	for i := range s.source.Apps {
		a := &s.source.Apps[i]
		a.Clusters = slices.Clone(a.Clusters)
		for j := range a.Clusters {
			a.Clusters[j].Marks = slices.Clone(a.Clusters[j].Marks)
		}
	}
	change(&s.source)
}

// Mark is a change of one resource.
func (s *Statuses) Mark(app, cluster, resource int, m domain.Mark) {
	s.Change(func(s *status.Source) { s.Apps[app].Clusters[cluster].Marks[resource] = m })
}

// Report is a change of what clusters report: every resource has the state, and they are heard or not.
func (s *Statuses) Report(state readiness.Status, connected bool) {
	s.Change(func(source *status.Source) {
		apps := source.Apps
		source.Observations = func(name string, _ []domain.ClusterName) iter.Seq2[*view.Observation, error] {
			return func(yield func(*view.Observation, error) bool) {
				i := slices.IndexFunc(apps, func(a view.App) bool { return a.Name == name })
				for _, c := range apps[i].Clusters {
					o := &view.Observation{ClusterName: c.ClusterName, Seen: true, Connected: connected}
					for _, id := range apps[i].Resources {
						o.Resources = append(o.Resources, view.ObservedResource{ResourceID: id, State: readiness.State{Status: state}})
					}
					if !yield(o, nil) {
						return
					}
				}
			}
		}
	})
}

// Fail makes every question fail; nil ends that.
func (s *Statuses) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Asked says how often signs and snapshots were asked for.
func (s *Statuses) Asked() (signs, snapshots int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signs, s.snapshots
}

// Sign implements notify.Statuses.
func (s *Statuses) Sign(context.Context, domain.Key, status.Extent) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signs++
	return strconv.Itoa(s.revision), s.err
}

// Snapshot implements notify.Statuses.
func (s *Statuses) Snapshot(context.Context, domain.Key, status.Extent) (notify.StatusSnapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots++
	if s.err != nil {
		return nil, s.err
	}
	source := s.source
	return &source, nil
}
