package status

import (
	"encoding/json"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
)

// Subject is what a document is about.
type Subject string

// The subjects.
const (
	SubjectGroup    Subject = ""         // a deployment intent group
	SubjectNetworks Subject = "networks" // the network intents of a cluster
	SubjectCloud    Subject = "cloud"    // a logical cloud
)

// SubjectOf is what the documents of an owner are about.
func SubjectOf(owner domain.Key) Subject {
	switch domain.OwnerNoun(owner) {
	case domain.ClustersNoun:
		return SubjectNetworks
	case domain.LogicalClouds:
		return SubjectCloud
	default:
		return SubjectGroup
	}
}

// Source is what is known of a resource with a lifecycle and one of its app contexts.
type Source struct {
	Subject Subject
	Project string
	// Of a deployment intent group.
	CompositeApp     string
	Version          string // of the composite app
	CompositeProfile string

	// Warnings are what was asked for and nothing brings about; shown where there are any.
	Warnings []string

	Name    string // of the subject; of a cluster, with that of its provider: "provider+cluster"
	History domain.History

	// ContextID is the app context that the rest is about (Query.ContextID), "" when there never was one:
	// then a document has no status and lists are empty.
	ContextID string
	Status    domain.ContextStatus

	// Counts are those of the whole context, by state. They are used where Query.CountsSuffice; every
	// other answer counts what it shows.
	Counts map[domain.ResourceState]int

	// Apps is in the order of the composite app.
	Apps []App

	// Namespace is the logical cloud's, where resources are that name none.
	Namespace string
	// Observations is what the clusters report, looked at where Query.Reported; nil for nothing.
	Observations Observations
	// Unreported is what is known of a cluster that Observations leaves out; nil for nothing.
	Unreported func(app string, c domain.ClusterName) *Observation
	// Rules are those of users for the readiness of their kinds; nil for none.
	Rules *readiness.Rules

	// Manifest gives the rendered manifest of a resource by the app's name and the resource's index; nil
	// for none. It is called for OutputDetail only, once for each resource shown of an app, and may itself
	// be nil.
	Manifest func(app string, index int) json.RawMessage
}

// App is one app of a context.
type App struct {
	Name      string
	Resources []plan.ResourceID // in the order of the bundle
	Hook      func(i int) bool  // says of a resource, by its index, whether it is a hook; nil for none
	Clusters  []Cluster         // sorted as plan.SortTargets does
}

// Cluster is one app on one cluster, as its domain.Leaf has it.
type Cluster struct {
	domain.ClusterName
	Connectivity domain.Connectivity
	Marks        domain.Marks // one per resource of the app; what is missing counts as domain.MarkPending
	InProgress   bool
	Notes        []domain.Note // in any order; the last one of an index counts
	Warnings     []domain.Note // there may be several of an index; detail shows them
	LastError    string        // of the cluster as a whole; detail shows it as long as it is set
	Reason       string        // what is waited for, or why nothing was done; shown as LastError is
	Placement    string        // why the app is here: plan.Target.Reason
}

// mark is that of a resource by its index.
func (c *Cluster) mark(i int) domain.Mark {
	if i >= len(c.Marks) {
		return domain.MarkPending
	}
	return c.Marks[i]
}

// absent says whether a resource with the mark is not to be in its cluster, as long as the context is to be
// there: a hook that is not run, or that was deleted when it had done its work, and what was there before and is left
// as it is, which does not carry the context's label.
func (s *Source) absent(m domain.Mark) bool {
	return !s.deleting() && (m.Idle() || m == domain.MarkDeleted || m == domain.MarkKept)
}

// over says whether a resource with the mark is a hook that has done its work, or that is not run, as long as the
// context is to be there: what is left of it, and in which state, says nothing of the app.
func (s *Source) over(app *App, i int, m domain.Mark) bool {
	return !s.deleting() && app.Hook != nil && app.Hook(i) && (m.Idle() || m == domain.MarkApplied || m == domain.MarkDeleted)
}

// bare says whether there are no resources at all.
func (s *Source) bare() bool {
	return !slices.ContainsFunc(s.Apps, func(a App) bool { return len(a.Resources) > 0 })
}

// deleting says whether the context is not to be there any more.
func (s *Source) deleting() bool {
	switch s.Status {
	case domain.ContextTerminating, domain.ContextTerminated, domain.ContextTerminateFailed:
		return true
	default:
		return false
	}
}

// state is how a mark is shown on this cluster.
func (c *Cluster) state(m domain.Mark) domain.ResourceState {
	return m.State(c.InProgress, c.Connectivity)
}

// has says whether the resource is one of the context's on this cluster.
func (c *Cluster) has(i int) bool { return c.mark(i) != domain.MarkGone }

// departed says whether the app has left the cluster.
func (c *Cluster) departed() bool {
	return len(c.Marks) > 0 && !c.Marks.Has(func(m domain.Mark) bool { return m != domain.MarkGone })
}

// connectivity is Unknown where nothing was said of it.
func (c *Cluster) connectivity() domain.Connectivity {
	if c.Connectivity == "" {
		return domain.ConnectivityUnknown
	}
	return c.Connectivity
}
