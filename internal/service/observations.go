package service

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
)

// terminated is why nothing is reported of an app context that has nothing in clusters any more.
const terminated = "the app context is terminated"

// reported is what clusters report of the apps of one app context.
type reported struct {
	heard     Heard
	contextID string
	status    domain.ContextStatus
	watches   map[domain.ClusterName]domain.Watch
	apps      []status.App
	leaves    map[string]domain.Leaf // by id
}

// observations joins, for the document, what clusters report with whether they are heard.
func (l *Lifecycle) observations(ctx context.Context, d *StatusDocument, leaves map[string]domain.Leaf) (status.Observations, error) {
	watches, err := l.heard.Watches(ctx, d.query.Clusters)
	if err != nil {
		return nil, err
	}
	r := &reported{
		heard: l.heard, contextID: d.source.ContextID, status: d.source.Status, watches: watches,
		apps: d.source.Apps, leaves: leaves,
	}
	return func(app string, clusters []domain.ClusterName) iter.Seq2[*status.Observation, error] {
		return r.of(ctx, app, clusters)
	}, nil
}

// of goes over the clusters of an app, in order, with what each reports or why there is nothing.
func (r *reported) of(ctx context.Context, app string, clusters []domain.ClusterName) iter.Seq2[*status.Observation, error] {
	return func(yield func(*status.Observation, error) bool) {
		targets := r.targets(app, clusters)
		// silent yields the clusters before one, of which nothing is stored.
		silent := func(before *domain.ClusterName) bool {
			for len(targets) > 0 && (before == nil || byName(targets[0], *before) < 0) {
				if !yield(r.observation(app, targets[0], Observation{}), nil) {
					return false
				}
				targets = targets[1:]
			}
			return true
		}
		if r.status != domain.ContextTerminated {
			for o, err := range r.heard.Observations(ctx, r.contextID, app, clusters) {
				if err != nil {
					yield(nil, err)
					return
				}
				if !silent(&o.Cluster) {
					return
				}
				if len(targets) == 0 || targets[0] != o.Cluster {
					continue // not a target
				}
				targets = targets[1:]
				if !yield(r.observation(app, o.Cluster, o), nil) {
					return
				}
			}
		}
		silent(nil)
	}
}

// targets are the clusters of an app in order, those that are asked for.
func (r *reported) targets(app string, clusters []domain.ClusterName) []domain.ClusterName {
	var names []domain.ClusterName
	for i := range r.apps {
		if r.apps[i].Name != app {
			continue
		}
		for _, c := range r.apps[i].Clusters {
			if clusters == nil || slices.Contains(clusters, c.ClusterName) {
				names = append(names, c.ClusterName)
			}
		}
	}
	return names
}

func byName(a, b domain.ClusterName) int {
	return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Name, b.Name))
}

// observation is what is known of an app on a cluster; o is empty where nothing has arrived.
func (r *reported) observation(app string, name domain.ClusterName, o Observation) *status.Observation {
	w := r.watches[name]
	out := &status.Observation{ClusterName: name, Seen: o.Observation != nil, Connected: w.Connected, LastSeen: w.LastSeen, Reason: w.Reason}
	if !out.Seen {
		if leaf := r.leaves[domain.LeafID(r.contextID, app, name)]; r.status == domain.ContextTerminated {
			out.Reason = terminated
		} else if leaf.Report != "" {
			out.Reason = leaf.Report
		}
		return out
	}
	out.Object = o.Object
	if o.Kinds != nil {
		out.Kinds = make([]schema.GroupKind, 0, len(o.Kinds))
		for _, k := range o.Kinds {
			out.Kinds = append(out.Kinds, schema.ParseGroupKind(k))
		}
	}
	out.Resources = make([]status.ObservedResource, 0, len(o.Resources))
	for _, x := range o.Resources {
		out.Resources = append(out.Resources, status.ObservedResource{
			ResourceID: plan.ResourceID{Group: x.Group, Version: x.Version, Kind: x.Kind, Namespace: x.Namespace, Name: x.Name},
			State:      readiness.State{Status: readiness.Status(x.Status), Message: x.Message},
		})
	}
	return out
}
