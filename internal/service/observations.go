package service

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
)

// over are the reasons why nothing is reported of an app context that has nothing in clusters any more.
var over = map[domain.ContextStatus]string{
	domain.ContextTerminated: "the app context is terminated",
	domain.ContextUpdated:    "another app context has taken over from it",
}

// reported is what clusters report of the apps of one app context.
type reported struct {
	contextID string
	over      string // why nothing is reported; "" when something should be
	watches   map[domain.ClusterName]domain.Watch
	leaves    map[string]domain.Leaf // by id
}

// hear adds to the document what clusters report under the label, joined with whether they are heard.
func (l *Lifecycle) hear(ctx context.Context, d *StatusDocument, label string, leaves map[string]domain.Leaf) error {
	watches, err := l.heard.Watches(ctx, d.query.Clusters)
	if err != nil {
		return err
	}
	if d.source.Rules, err = l.heard.Rules(ctx); err != nil {
		return err
	}
	r := &reported{
		contextID: d.source.ContextID, over: over[d.source.Status], watches: watches, leaves: leaves,
	}
	d.source.Unreported = func(app string, c domain.ClusterName) *status.Observation {
		return r.observation(app, c, Observation{})
	}
	if r.over != "" {
		return nil
	}
	d.source.Observations = func(app string, clusters []domain.ClusterName) iter.Seq2[*status.Observation, error] {
		return func(yield func(*status.Observation, error) bool) {
			for o, err := range l.heard.Observations(ctx, label, app, clusters) {
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(r.observation(app, o.Cluster, o), nil) {
					return
				}
			}
		}
	}
	return nil
}

// observation is what is known of an app on a cluster; o is empty where nothing has arrived.
func (r *reported) observation(app string, name domain.ClusterName, o Observation) *status.Observation {
	w := r.watches[name]
	known := o.Observation != nil
	out := &status.Observation{ClusterName: name, Seen: known && o.Error == "", Connected: w.Connected, LastSeen: w.LastSeen, Reason: w.Reason}
	if !out.Seen {
		switch said := r.leaves[domain.LeafID(r.contextID, app, name)].Report; {
		case known && r.over == "":
			out.Reason = "the cluster's agent cannot report: " + o.Error
		case r.over != "" && said != "":
			out.Reason = r.over + "; " + said
		case r.over != "":
			out.Reason = r.over
		case said != "":
			out.Reason = said
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
	for _, u := range o.Unheard {
		out.Unheard = append(out.Unheard, status.UnheardKind{GroupKind: schema.ParseGroupKind(u.Kind), Since: u.Since, Reason: u.Reason})
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
