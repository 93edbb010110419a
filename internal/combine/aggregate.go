package combine

import "github.com/drover-io/drover/internal/domain"

// Want says what status is wanted in an object: the flags of the status intents that match it, joined by OR.
type Want struct{ Singleton, Multi bool }

// Reported is what a target says of an object, for Aggregate.
type Reported struct {
	Cluster domain.ClusterName
	// Status is the member status as Decode reads it: nil where the cluster has not reported the object, or is silent about it;
	// empty where it has none.
	Status map[string]any
	// Generation is metadata.generation; 0 where that is not known. A status of an earlier one says nothing of the object as it
	// is: its counters count as 0.
	Generation int64
	Stale      bool // as propagation.stale: what was last reported counts, and the reason says so
}

// ReportedState is the value of the annotation drover.io/reported-state.
type ReportedState string

// The reported states.
const (
	StateCopied     ReportedState = "copied"     // of the one cluster
	StateAggregated ReportedState = "aggregated" // of several
	StateNone       ReportedState = "none"
)

// Aggregated is the status of an object over all clusters.
type Aggregated struct {
	Status map[string]any // nil for no member status
	State  ReportedState
	Reason string // the annotation drover.io/reported-state-reason: how many clusters, which are silent, which stale
}

// Aggregate makes the status that an object is shown with. Group and kind are the object's. With one target it is that one's.
// With more and want.Multi it is what the worst of them would say, so that kstatus finds the object Current only if it is so
// everywhere. The order of targets does not matter; the maps are not changed.
func Aggregate(_, _ string, _ Want, _ []Reported) Aggregated { return Aggregated{State: StateNone} }
