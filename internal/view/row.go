package view

import (
	"encoding/json"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// Presence says whether a resource is in its cluster.
type Presence uint8

// The presences. A row that was made without Ask.Reported has NoPresence.
const (
	NoPresence Presence = iota
	Present             // it is there
	Missing             // it would be reported if it were there, and is not
	Unknown             // nobody can tell
)

func (p Presence) String() string { return [...]string{"", "Present", "Missing", "Unknown"}[p] }

// Readiness says whether a resource does its work. A resource for which nobody vouches is never Ready.
type Readiness uint8

// The readinesses. Uncounted is a resource by which the readiness of its app is not judged: a hook that has done its work, or a
// kind that nobody would report. All rows that were made without Ask.Judged are Uncounted.
const (
	Uncounted Readiness = iota
	Ready
	NotReady
	NotThere // it is not in the cluster, and should be
)

func (r Readiness) String() string { return [...]string{"", "Ready", "NotReady", "NotThere"}[r] }

// Doubt is why nobody vouches for what is reported, or for there being no report.
type Doubt struct {
	LastSeen time.Time // when somebody did for the last time; zero for never
	Reason   string
	Reported bool // of a cluster: it has reported once
}

// Heard says of the doubt of a place whether its cluster was heard once.
func (d *Doubt) Heard() bool { return d.Reported || !d.LastSeen.IsZero() }

// Place is an app on a cluster, as rows have it in common.
type Place struct {
	App     *App
	Cluster *Cluster
	// Connectivity is what the work last saw of the cluster; with Ask.Reported it is that of its reports.
	Connectivity domain.Connectivity
	// Doubt is why what the cluster reports does not hold now, nil when it does, and without Ask.Reported.
	Doubt *Doubt

	source   *Source
	order    []int // indices of the resources of Rows
	said     *said
	observed *Observation
}

// Row is a resource of an app on a cluster. It is the reader's until the next one; what it points to that is of the app
// or the cluster stays.
type Row struct {
	Place    *Place
	Resource *plan.ResourceID
	// Index is the resource's in the app's bundle, and Rank its number in the order of rows of the app, whatever the
	// cluster. Both are -1 for what only the cluster knows, such as the Pods of a Deployment.
	Index, Rank int

	// What was done.

	Mark  domain.Mark          // zero for what only the cluster knows
	State domain.ResourceState // "" for that
	// Message is what the cluster said of it as long as it is neither Applied nor Deleted, and Warnings are what users
	// should know of it: of one that a terminate counts as Deleted that it was left, say. Both with Ask.Detail only.
	Message  string
	Warnings []string

	// What is reported.

	Observed bool // the last report has it
	Was      bool // the last report does not have it, and an earlier one has
	Presence Presence
	// Readiness is with Ask.Judged, and Unready why it is not Ready, with Ask.Detail too.
	Readiness Readiness
	Unready   string
	// Stored is when the control plane stored what the last report has of it, as it is; Sum tells that from what it was before.
	// Of one that Was it is when the control plane stored that it is gone. Zero for any other that the last report does not have.
	Stored time.Time
	Sum    uint64
	// LastPresence and LastReadiness are what was last reported, where nobody vouches for it now: a Pod was Ready a minute ago,
	// and its cluster has not been heard since.
	LastPresence  Presence
	LastReadiness Readiness
	// Moot says that the resource is not Ready and that this does not matter: a hook that has done its work, for example. Nor
	// does it matter whether it is heard. With Ask.Judged.
	Moot bool
	// Doubt is why nobody vouches for resources of the kind although the cluster is heard, nil when somebody does.
	Doubt *Doubt

	index int // in the observation
}

// Confirmed says whether what is reported of the resource holds now.
func (r *Row) Confirmed() bool { return r.Why() == nil }

// Why is why it is not confirmed, nil when it is: what is wrong with the cluster comes before what is with the kind.
func (r *Row) Why() *Doubt {
	if r.Place.Doubt != nil {
		return r.Place.Doubt
	}
	return r.Doubt
}

// Readied says whether the resource counts when it is asked whether all is ready, and whether it is.
func (r *Row) Readied() (counts, ready bool) { return r.Readiness != Uncounted, r.Readiness == Ready }

// Deployed says whether the resource counts when it is asked whether all is deployed, and whether it is. Hooks that are not in
// clusters of a context that stands do not count, as they are not to be: those of other operations, and those that were deleted
// when they had done their work.
func (r *Row) Deployed() (counts, deployed bool) {
	switch r.State {
	case domain.ResourcePending, domain.ResourceRetrying, domain.ResourceDeleted:
		return !r.Place.source.Stands(), false
	default:
		return true, r.State == domain.ResourceApplied
	}
}

// Hook says whether it is a hook.
func (r *Row) Hook() bool { return r.Index >= 0 && r.Place.App.hook(r.Index) }

// Manifest is the resource as it was sent, without what is secret in it; nil where that is not known. It is the same on
// all clusters with the same Variant. Errors are those of Source.Manifest.
func (r *Row) Manifest() (json.RawMessage, error) {
	if r.Index < 0 || r.Place.source.Manifest == nil {
		return nil, nil
	}
	return r.Place.source.Manifest(r.Place.App.Name, r.Place.Cluster.Variant, r.Index)
}

// Effects are what intents of the group have made of the resource, and which, as users read it.
func (r *Row) Effects() (effects []string) {
	for _, e := range r.Place.Cluster.Effects {
		if e.Resource == r.Index {
			effects = append(effects, e.String())
		}
	}
	return effects
}

// Object is the resource as it was reported: its metadata, spec and status. Nil where there is none. Errors are those of
// Observation.Object.
func (r *Row) Object() (json.RawMessage, error) {
	if !r.Observed {
		return nil, nil
	}
	return r.Place.observed.object(r.index)
}
