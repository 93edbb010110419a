package view

import (
	"cmp"
	"encoding/json"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

// Report is what a cluster has said of an app, as it is stored, with the objects themselves on demand.
type Report struct {
	*domain.Observation
	Object func(index int) (json.RawMessage, error)
}

// Reports is what is stored of what clusters say of an app context.
type Reports struct {
	// Read reads what clusters say of an app, sorted as plan.SortTargets does; nil clusters are all. An error ends the
	// sequence.
	Read func(app string, clusters []domain.ClusterName) iter.Seq2[Report, error]
	// Watches is what was last said of clusters; one that is missing is not heard.
	Watches map[domain.ClusterName]domain.Watch
	// Leaves are Records.Words: they say why a cluster does not report.
	Leaves map[string]domain.Leaf
}

// over are the reasons why nothing is reported of an app context that has nothing in clusters any more.
var over = map[domain.ContextStatus]string{
	domain.ContextTerminated: "the app context is terminated",
	domain.ContextUpdated:    "another app context has taken over from it",
}

// Contact is whether a cluster is heard at a time. The zero Contact is that of a cluster that nobody watches.
type Contact struct {
	Heard    bool      // what changes there would be heard of now
	LastSeen time.Time // when that was so for the last time; zero for never
	Reason   string    // why it is not so
}

// gone is the reason of a cluster whose watcher has had no pulse for too long.
const gone = "the process that watched the cluster is gone; another one is to take over"

// ContactAt decides whether what was last said of a cluster still holds: it does as long as who said it gives pulses. An
// example: a worker said at noon that it hears the cluster, and gave its last pulse at 12:05:00. At 12:05:10 the cluster is
// heard, at 12:05:16 it is not, and it was seen at 12:05:00 for the last time.
func ContactAt(w domain.Watch, now time.Time) Contact {
	c := Contact{Heard: w.Connected, LastSeen: w.LastSeen, Reason: w.Reason}
	if c.Heard && !w.Stands(now) {
		c.Heard, c.Reason = false, gone
	}
	return c
}

// Hear adds what clusters report to the source, joined with whether they are heard at Source.Now.
func (s *Source) Hear(r Reports) {
	h := &hearing{Reports: r, contextID: s.ContextID, now: s.Now, over: over[s.Status]}
	s.Unreported = func(app string, c domain.ClusterName) *Observation {
		return h.observation(app, c, Report{})
	}
	if h.over != "" {
		return
	}
	s.Observations = func(app string, clusters []domain.ClusterName) iter.Seq2[*Observation, error] {
		return func(yield func(*Observation, error) bool) {
			for report, err := range r.Read(app, clusters) {
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(h.observation(app, report.Cluster, report), nil) {
					return
				}
			}
		}
	}
}

// hearing joins reports with watches.
type hearing struct {
	Reports
	contextID string
	now       time.Time
	over      string // why nothing is reported; "" when something should be
}

// reportedBefore says whether what is stored of a cluster that cannot report says what it reported before.
func reportedBefore(o *domain.Observation) bool {
	return o.Kinds != nil || len(o.Resources)+len(o.Gone) > 0
}

// observation is what is known of an app on a cluster; the report is empty where nothing has arrived.
func (h *hearing) observation(app string, name domain.ClusterName, report Report) *Observation {
	contact := ContactAt(h.Watches[name], h.now)
	known := report.Observation != nil
	o := &Observation{ClusterName: name, Seen: known, Connected: contact.Heard, LastSeen: contact.LastSeen, Reason: contact.Reason}
	if known && report.Error != "" {
		o.Reason = "the app cannot be reported: " + report.Error
		if o.Seen = reportedBefore(report.Observation); o.Seen {
			o.Connected = false
			if o.LastSeen.IsZero() || report.Since.Before(o.LastSeen) {
				o.LastSeen = report.Since
			}
		}
	}
	if !o.Seen {
		said := h.Leaves[domain.LeafID(h.contextID, app, name)].Report
		switch {
		case known && h.over == "":
		case h.over != "" && said != "":
			o.Reason = h.over + "; " + said
		default:
			o.Reason = cmp.Or(h.over, said, o.Reason)
		}
		return o
	}
	o.Object, o.Gone = report.Object, report.Gone
	if report.Kinds != nil {
		o.Kinds = make([]schema.GroupKind, 0, len(report.Kinds))
		for _, k := range report.Kinds {
			o.Kinds = append(o.Kinds, schema.ParseGroupKind(k))
		}
	}
	for _, u := range report.Unheard {
		o.Unheard = append(o.Unheard, UnheardKind{GroupKind: schema.ParseGroupKind(u.Kind), Since: u.Since, Reason: u.Reason})
	}
	o.Resources = make([]ObservedResource, 0, len(report.Resources))
	for _, x := range report.Resources {
		o.Resources = append(o.Resources, ObservedResource{
			ResourceID: plan.ResourceID{Group: x.Group, Version: x.Version, Kind: x.Kind, Namespace: x.Namespace, Name: x.Name},
			State:      readiness.State{Status: readiness.Status(x.Status), Message: x.Message},
			Stored:     x.Stored, Sum: x.Sum,
		})
	}
	return o
}
