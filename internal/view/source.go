// Package view is the read model of status. It makes rows of what is known of an app context: its plan, its leaf records, the
// work that goes on, what clusters report and whether they are heard. There is a row for each resource of each app on each
// cluster. It says what was done to the resource, whether it is there, whether it is ready, and whether anybody vouches for
// that.
//
// Which of two sources counts, what is ready, and what is too old to be believed is decided here and nowhere else. Rows use no
// words of any API: internal/status spells them in EMCO's, others read them as they are. The package does no I/O.
package view

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/readiness"
)

// Source is what is known of an app context.
type Source struct {
	// ContextID is the app context's, "" when there never was one: then there are no rows.
	ContextID string
	Status    domain.ContextStatus
	// Ended is when the last operation has ended; zero while one goes on, and where that is not known.
	Ended time.Time

	// Now is the time at which it is decided what holds: what was heard of a cluster before may be too old. Hear needs it.
	Now time.Time

	// Apps is in the order of the composite app; Records.Apps makes it.
	Apps []App

	// Namespace is the logical cloud's, where resources are that name none.
	Namespace string
	// Observations is what the clusters report, looked at where Ask.Reported; nil for nothing. Hear makes it.
	Observations Observations
	// Unreported is what is known of a cluster that Observations leaves out; nil for nothing.
	Unreported func(app string, c domain.ClusterName) *Observation
	// Rules are those of users for the readiness of their kinds; nil for none.
	Rules *readiness.Rules

	// Manifest gives the rendered manifest of a resource by the app's name, the variant of the app that the cluster gets and the resource's
	// index, with what Secrets hold masked (bundle.Masker); nil for none. It is the reader's until the next one is asked for, and must not be
	// changed. It may itself be nil. Row.Manifest asks for it.
	Manifest func(app string, variant, index int) (json.RawMessage, error)
}

// Stands says whether the context is what was asked for: it was brought to its end, or another one has taken over what it had.
func (s *Source) Stands() bool {
	return s.Status == domain.ContextInstantiated || s.Status == domain.ContextUpdated
}

// App is one app of a context.
type App struct {
	Name      string
	Resources []plan.ResourceID // in the order of the bundle
	Hook      func(i int) bool  // says of a resource, by its index, whether it is a hook; nil for none
	Expires   []int             // the indices of those that their cluster takes away when they have done their work: plan.App's
	Clusters  []Cluster         // sorted as plan.SortTargets does
}

// hook says whether a resource is a hook.
func (a *App) hook(i int) bool { return a.Hook != nil && a.Hook(i) }

// Cluster is what was done of one app on one cluster, as its domain.Leaf has it.
type Cluster struct {
	domain.ClusterName
	Connectivity domain.Connectivity
	Earlier      bool         // Connectivity is what an earlier context saw of the cluster: nobody has come to it since
	Marks        domain.Marks // one per resource of the app; what is missing counts as domain.MarkPending
	InProgress   bool
	Notes        []domain.Note // in any order; the last one of an index counts
	Warnings     []domain.Note // there may be several of an index
	LastError    string        // of the cluster as a whole
	Reason       string        // what is waited for, or why nothing was done
	Placement    string        // why the app is here: plan.Target.Reason
	Passed       []string      // why it is not in others: plan.Target.Passed
	Variant      int           // which of the app's variants it gets: plan.Target.Variant
	Effects      []plan.Effect // what intents have made of the app's resources there
}

// mark is that of a resource by its index.
func (c *Cluster) mark(i int) domain.Mark {
	if i >= len(c.Marks) {
		return domain.MarkPending
	}
	return c.Marks[i]
}

// state is how a mark is shown on this cluster.
func (c *Cluster) state(m domain.Mark) domain.ResourceState {
	connectivity := c.Connectivity
	if c.Earlier { // nobody tries it yet
		connectivity = ""
	}
	return m.State(c.InProgress, connectivity)
}

// Heard says whether the context's work has heard of the cluster, or knows that it does not answer.
func (c *Cluster) Heard() bool { return c.Connectivity != "" && !c.Earlier }

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

// Bare says whether there are no resources at all.
func (s *Source) Bare() bool {
	return !slices.ContainsFunc(s.visible(), func(a App) bool { return len(a.Resources) > 0 })
}

// Names are those of the apps that rows are of, in the order of the composite app: without the apps that have left all
// their clusters.
func (s *Source) Names() []string {
	apps := s.visible()
	names := make([]string, 0, len(apps))
	for i := range apps {
		names = append(names, apps[i].Name)
	}
	return names
}

// On is the source as far as it is about one cluster.
func (s *Source) On(c domain.ClusterName) *Source {
	on := *s
	on.Apps = nil
	for _, a := range s.Apps {
		a.Clusters = slices.DeleteFunc(slices.Clone(a.Clusters), func(x Cluster) bool { return x.ClusterName != c })
		if len(a.Clusters) > 0 {
			on.Apps = append(on.Apps, a)
		}
	}
	return &on
}

// visible are the apps without the clusters that they have left; none as long as there is no app context.
func (s *Source) visible() []App {
	if s.ContextID == "" {
		return nil
	}
	departed := func(c Cluster) bool { return c.departed() }
	var apps []App
	for i, a := range s.Apps {
		if slices.ContainsFunc(a.Clusters, departed) {
			if apps == nil {
				apps = slices.Clone(s.Apps)
			}
			apps[i].Clusters = slices.DeleteFunc(slices.Clone(a.Clusters), departed)
		}
	}
	if apps == nil {
		return s.Apps
	}
	return slices.DeleteFunc(apps, func(a App) bool { return len(a.Clusters) == 0 })
}

// absent says whether a resource with the mark is not to be in its cluster, as long as the context is to be there.
func (s *Source) absent(m domain.Mark) bool { return !s.Status.Deleting() && !m.Expected() }

// expired says of a resource of an app that is missing, with the mark, whether nobody expects anything else: it goes by itself when it has
// done its work, and had the time to be reported once.
func (s *Source) expired(app *App, i int, m domain.Mark) bool {
	return m == domain.MarkApplied && slices.Contains(app.Expires, i) && !s.Ended.IsZero() && s.Now.Sub(s.Ended) >= policy.Reporting
}

// over says whether a resource with the mark is a hook that has done its work, or that is not run, as long as the
// context is to be there: what is left of it, and in which state, says nothing of the app.
func (s *Source) over(app *App, i int, m domain.Mark) bool {
	return !s.Status.Deleting() && app.hook(i) && (m.Idle() || m.Succeeded())
}
