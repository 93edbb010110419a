package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

// Observations gives what the clusters of an app report, in the order of plan.SortTargets; a cluster that
// nothing ever arrived from may be left out. A reader that names clusters wants those only (others do no
// harm), nil all. An error ends the sequence. It is called for every app in turn, and what it gives is looked at
// one after the other, so that no more than one observation need be in memory at a time.
type Observations func(app string, clusters []domain.ClusterName) iter.Seq2[*Observation, error]

// Observation is what one cluster reports of one app: the last ResourceBundleState that arrived, and
// whether it still holds.
type Observation struct {
	domain.ClusterName

	Seen      bool      // a report has ever arrived
	Connected bool      // what changes in the cluster would be heard of now
	LastSeen  time.Time // when that was so for the last time, zero for never; need not be set while Connected
	Reason    string    // why there is no report or no connection; "" for the usual reasons

	// Kinds are those that the agent says it watches: a resource of theirs that is missing from the report is
	// missing from the cluster. It is nil where the agent does not say (EMCO's); then EMCO's kinds count.
	Kinds []schema.GroupKind
	// Unheard are kinds of which what is reported is not confirmed, though the cluster is heard.
	Unheard []UnheardKind

	Resources []ObservedResource // in any order
	Gone      []domain.GoneResource

	// Object gives a resource of Resources by its index as it was received: its metadata, spec and status.
	// It is called for Row.Object, and where State does not say enough; no bytes stand for none.
	Object func(index int) (json.RawMessage, error)
}

// UnheardKind is a kind that whoever watches the cluster cannot hear: since when, zero for ever, and why.
type UnheardKind struct {
	schema.GroupKind
	Since  time.Time
	Reason string
}

// ObservedResource is one resource in a cluster. Its namespace is the real one, "" only where the kind has
// none.
type ObservedResource struct {
	plan.ResourceID
	// State is what readiness.Of said when the resource arrived; zero when it was not asked. Kinds with a
	// rule of Source.Rules are judged when rows are made in any case: rules change without resources.
	State readiness.State
	// Stored and Sum are those of domain.ObservedResource.
	Stored time.Time
	Sum    uint64
}

// unreported is what is known of a cluster of an app that nothing ever arrived from.
func (s *Source) unreported(app string, c domain.ClusterName) *Observation {
	if s.Unreported == nil {
		return &Observation{}
	}
	return s.Unreported(app, c)
}

// confirmed says whether what was reported holds now.
func (o *Observation) confirmed() bool { return o.Seen && o.Connected }

// connectivity is that of the reports: a cluster that cannot be heard is not Available, whatever the work
// on it last saw.
func (o *Observation) connectivity(c *Cluster) domain.Connectivity {
	switch {
	case o.Connected:
		return domain.ConnectivityAvailable
	case o.Seen, !o.LastSeen.IsZero(), c.Connectivity == domain.ConnectivityRetrying:
		return domain.ConnectivityRetrying
	default:
		return domain.ConnectivityUnknown
	}
}

// doubt is why the observation is not confirmed, nil when it is.
func (o *Observation) doubt() *Doubt {
	if o.confirmed() {
		return nil
	}
	d := &Doubt{LastSeen: o.LastSeen, Reason: o.Reason, Reported: o.Seen}
	switch {
	case d.Reason != "":
	case o.Seen:
		d.Reason = "the cluster cannot be heard; this is what it last reported"
	default:
		d.Reason = "no report has arrived from the cluster"
	}
	return d
}

// doubts are why resources of some kinds are not confirmed though the cluster is heard, in the order of o.Unheard; none
// when the cluster is not.
func (o *Observation) doubts() []Doubt {
	if len(o.Unheard) == 0 || !o.confirmed() {
		return nil
	}
	doubts := make([]Doubt, 0, len(o.Unheard))
	for _, u := range o.Unheard {
		doubts = append(doubts, Doubt{LastSeen: u.Since, Reason: "the kind " + u.String() + " cannot be watched: " + u.Reason})
	}
	return doubts
}

// watches says whether whoever reports would report a resource of the kind, if there were one; silent says what holds of
// a reporter that does not say what it watches, as EMCO's agents.
func (o *Observation) watches(kind schema.GroupKind, silent bool) bool {
	if o.Kinds != nil {
		return slices.Contains(o.Kinds, kind)
	}
	return silent
}

// ready judges a resource.
func (o *Observation) ready(index int, rules *readiness.Rules) (readiness.State, error) {
	r := &o.Resources[index]
	gvk := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if r.State.Status != "" && !rules.Has(gvk) {
		return r.State, nil
	}
	data, err := o.object(index)
	if err != nil {
		return readiness.State{}, err
	}
	state := rules.OfJSON(gvk, data)
	if state.Status == readiness.NotPresent { // it is there, but the report has only its name
		state = readiness.State{Status: readiness.NotReady, Message: "the report of it has no status"}
	}
	if state.Message != "" && bytes.Contains(data, summarised) { // what the rule looks at may have been left out
		state.Message += " (by a summary of the object)"
	}
	return state, nil
}

// Lacks is why an object that has just been read from a cluster is not Ready, "" when it is. It is what a row would say if
// the cluster reported the object. No bytes stand for an object that is not there.
func Lacks(id plan.ResourceID, data json.RawMessage, rules *readiness.Rules) string {
	gvk := schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind}
	var state readiness.State
	if object, err := readiness.Decode(data); err != nil {
		state = rules.OfJSON(gvk, data) // which says so
	} else {
		bundle.Reduce(gvk.GroupKind(), object)
		state = rules.Of(gvk, object)
	}
	if state.Status == readiness.Ready {
		return ""
	}
	return cmp.Or(state.Message, string(state.Status))
}

// summarised is how an object says of itself that it is a summary.
var summarised = []byte(`"` + bundle.SummarisedAnnotation + `":"true"`)

func (o *Observation) object(index int) (json.RawMessage, error) {
	if o.Object == nil {
		return nil, nil
	}
	return o.Object(index)
}
