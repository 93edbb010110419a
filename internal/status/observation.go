package status

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

// Observations gives what the clusters of an app report, in the order of plan.SortTargets; a cluster that
// nothing ever arrived from may be left out. A reader that names clusters wants those only (others do no
// harm), nil all. An error ends the sequence. It is called once for a document, twice for OutputDetail,
// and for every app in turn, so that no more than one observation need be in memory at a time.
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

	// Object gives a resource of Resources by its index as it was received: its metadata, spec and status.
	// It is called only for OutputDetail, and where State does not say enough; no bytes stand for none.
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
	// rule of Source.Rules are judged when a document is made in any case: rules change without resources.
	State readiness.State
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

// stale says whether there is a report that nobody can vouch for any more.
func (o *Observation) stale() bool { return o.Seen && !o.Connected }

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

// lastSeen is when the cluster was last heard of, nil for now and for never.
func (o *Observation) lastSeen() *time.Time {
	if o.confirmed() || o.LastSeen.IsZero() {
		return nil
	}
	at := stamp(o.LastSeen)
	return &at
}

// reason is why the observation is not confirmed, "" when it is.
func (o *Observation) reason() string {
	switch {
	case o.confirmed():
		return ""
	case o.Reason != "":
		return o.Reason
	case o.Seen:
		return "the cluster cannot be heard; this is what it last reported"
	default:
		return "no report has arrived from the cluster"
	}
}

// unheard says why resources of a kind are not confirmed though the cluster is heard; nil when they are.
func (o *Observation) unheard(kind schema.GroupKind) *UnheardKind {
	i := slices.IndexFunc(o.Unheard, func(u UnheardKind) bool { return u.GroupKind == kind })
	if i < 0 || !o.confirmed() {
		return nil
	}
	return &o.Unheard[i]
}

// reason is why nobody vouches for resources of the kind.
func (u *UnheardKind) reason() string {
	return "the kind " + u.String() + " cannot be watched: " + u.Reason
}

// watches says whether the agent would report a resource of the kind, if there were one. An agent that does
// not say is one of EMCO's, whose kinds are given.
func (o *Observation) watches(kind schema.GroupKind, emco map[schema.GroupKind]int) bool {
	if o.Kinds != nil {
		return slices.Contains(o.Kinds, kind)
	}
	_, ok := emco[kind]
	return ok
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

// summarised is how an object says of itself that it is a summary.
var summarised = []byte(`"` + bundle.SummarisedAnnotation + `":"true"`)

func (o *Observation) object(index int) (json.RawMessage, error) {
	if o.Object == nil {
		return nil, nil
	}
	return o.Object(index)
}

// observe calls visit for every cluster of a section, by its index and in order, with what it reports. It
// ends with the first error.
func (s *Source) observe(q Query, sec *section, visit func(index int, o *Observation) error) error {
	next := 0
	until := func(name domain.ClusterName) error { // those before name have reported nothing
		for ; next < len(sec.clusters) && sec.clusters[next].Compare(name) < 0; next++ {
			if err := visit(next, s.unreported(sec.app.Name, sec.clusters[next].ClusterName)); err != nil {
				return err
			}
		}
		return nil
	}
	if s.Observations != nil {
		var last domain.ClusterName
		for o, err := range s.Observations(sec.app.Name, q.Clusters) {
			if err != nil {
				return err
			}
			if last.Compare(o.ClusterName) >= 0 {
				return fail.New(fail.Internal, "observations of %s come out of order: %s after %s", sec.app.Name, o.ClusterName, last)
			}
			last = o.ClusterName
			if err := until(last); err != nil {
				return err
			}
			if next == len(sec.clusters) {
				break
			}
			if sec.clusters[next].ClusterName != last {
				continue // filtered out, or no longer a target
			}
			if err := visit(next, o); err != nil {
				return err
			}
			next++
		}
	}
	for ; next < len(sec.clusters); next++ {
		if err := visit(next, s.unreported(sec.app.Name, sec.clusters[next].ClusterName)); err != nil {
			return err
		}
	}
	return nil
}
