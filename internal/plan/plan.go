// Package plan holds what is to be put where: the manifests of an app in the order in which they are
// applied (Bundle), and which bundle goes to which clusters (Plan). Both are values that can be printed,
// compared and stored by digest; a fleet of a thousand clusters stores a bundle once.
package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
)

// ResourceID names a Kubernetes resource. Namespace is "" when the manifest does not say one: then the
// logical cloud's is used if the kind is namespaced.
type ResourceID struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Resource is one rendered resource. Manifest is JSON, without namespace or labels of ours.
type Resource struct {
	ResourceID
	Stage    int             `json:"stage"`          // resources of a stage are applied in parallel, stages in order
	Keep     bool            `json:"keep,omitempty"` // left in the cluster on terminate, and when it is not wanted any more
	Hook     *Hook           `json:"hook,omitempty"` // set for a Helm hook
	Manifest json.RawMessage `json:"manifest"`
}

// Bundle is all of one app's rendered resources: those of its release in apply order, then its hooks in the
// order in which those of an event are run. Its index positions are what leaf records and notes refer to.
type Bundle struct {
	Version   int64      `json:"v,omitempty"` // see Known
	App       string     `json:"app"`
	Resources []Resource `json:"resources"`
	// Warnings are for whoever has the app rendered, and are not stored.
	Warnings []string `json:"-"`
}

// Target is one cluster that an app goes to.
type Target struct {
	domain.ClusterName
	// Reason says why this cluster was taken: "allOf", or "anyOf: first of 3".
	Reason string `json:"reason,omitempty"`
	// Passed are clusters that could have been taken in its place, and why they were not: "p+edge02: 2 nodes, none with 4 free
	// cpu (hpa intent i)", as it was when the plan was made.
	Passed []string `json:"passed,omitempty"`
	// Variant says what the cluster gets: 0 the app's bundle as it is, n with the overlay of the n-th of the app's variants.
	Variant int `json:"variant,omitempty"`
	// Leaving says that the app does not go to the cluster any more: all that it has there is to be pruned.
	Leaving bool `json:"leaving,omitempty"`
	// Installs says, of a context that takes over from another one, that on this cluster it is an install's hooks that
	// are run: the release is not there, or an install's hooks have not all succeeded. Of one that is Leaving, that they will be if
	// the app comes back before all of it has gone.
	Installs bool `json:"installs,omitempty"`
	// Inherited is what the cluster holds already when the context begins, nil for nothing.
	Inherited *Inherited `json:"inherited,omitempty"`
}

// Inherited is what earlier contexts left of one app on one cluster. It stands in for the leaf's record as long as
// there is none, which for a leaf without work is for good.
type Inherited struct {
	Marks        string              `json:"marks"` // domain.Marks.Encode, of the bundle's resources
	Connectivity domain.Connectivity `json:"connectivity,omitempty"`
	Report       string              `json:"report,omitempty"` // see domain.Leaf
	// Warnings are a few of those of an earlier context about what is there unchanged; see domain.Leaf and Plan.CarryFew.
	Warnings []domain.Note `json:"warnings,omitempty"`
}

// Warnings are those about the app on the cluster: of its leaf, nil for none, and of what no work was to be done on.
func (t *Target) Warnings(leaf *domain.Leaf) (warnings []domain.Note) {
	if leaf != nil && len(leaf.Unpatchable) > 0 {
		warnings = append(warnings, domain.Note{Index: domain.WholeCluster, Message: fmt.Sprintf(
			"the user may not patch %s: such resources are created, and updated where the verb update is granted; grant patch to have them applied",
			strings.Join(leaf.Unpatchable, ", "))})
	}
	if leaf != nil {
		warnings = append(warnings, leaf.Warnings...)
	}
	if t.Inherited != nil {
		warnings = append(warnings, t.Inherited.Warnings...)
	}
	return warnings
}

// Begin are the marks with which the context begins on the cluster, of n resources.
func (t *Target) Begin(n int) domain.Marks {
	if t.Inherited == nil {
		return domain.NewMarks(n, domain.MarkPending)
	}
	return domain.DecodeMarks(t.Inherited.Marks)
}

// App is one app of a plan.
type App struct {
	Name     string        `json:"name"`
	Needs    []Dependency  `json:"needs,omitempty"`  // apps of the plan that it waits for
	Events   []string      `json:"events,omitempty"` // of the bundle's hooks: EventsOf
	Bundle   domain.Digest `json:"bundle"`
	Variants []Variant     `json:"variants,omitempty"` // see Target.Variant
	// Lacks are the marks (domain.Marks.Encode) with which clusters without a variant begin that do not get all of the
	// resources: domain.MarkGone for those that only other clusters get; "" when they get all.
	Lacks     string       `json:"lacks,omitempty"`
	Effects   []Effect     `json:"effects,omitempty"` // on clusters without a variant
	Resources []ResourceID `json:"resources"`         // of the bundle, by index, and of all variants
	// Hooks is how many of the wanted resources, the last ones, are hooks.
	Hooks int `json:"hooks,omitempty"`
	// Pruned is how many of the resources, the last ones, are not wanted any more: they are to go from wherever
	// an earlier context applied them.
	Pruned int `json:"pruned,omitempty"`
	// Expires are the indices of the wanted resources that Resource.Expires, on one of the clusters at least.
	Expires []int `json:"expires,omitempty"`
	// Prefers is a word for what hpa intents preferred among its clusters: placement.Prefers.
	Prefers string   `json:"prefers,omitempty"`
	Targets []Target `json:"targets"` // sorted by provider, name
	// Definitions are those of the bundle, where collisions are looked for; nil where nobody has read it. They are not stored, as the
	// bundle says it.
	Definitions *Definitions `json:"-"`
}

// Wanted is how many of the resources, the first ones, are wanted.
func (a *App) Wanted() int { return len(a.Resources) - a.Pruned }

// Hook says whether the resource with an index is a hook, of those that are wanted.
func (a *App) Hook(i int) bool { return i < a.Wanted() && i >= a.Wanted()-a.Hooks }

// Plan is one app context's work.
type Plan struct {
	Version   int64      `json:"v,omitempty"` // see Known
	ContextID string     `json:"contextID"`
	Label     string     `json:"label,omitempty"` // see domain.Instance
	Owner     domain.Key `json:"owner"`
	Release   string     `json:"release"`
	Namespace string     `json:"namespace"`
	User      domain.Key `json:"user,omitempty"` // the logical cloud with whose user's rights it is applied
	Apps      []App      `json:"apps"`           // in the order of the composite app
	// Held are what the apps do not have any more, and stays for what is in it. A build that does not know of it keeps nobody from taking it.
	Held []Held `json:"held,omitempty"`
}

// Known is the newest version of plans and of bundles that this build knows. Who gives them a member by which other things are done to clusters
// counts on, and has those that use it say the number. A build that knows less would do half of what they say, and refuses them. 0 is
// the first one, and is not written: the digest of what says nothing new stays.
const Known = 0

// Versions say which version a plan has, and which ones are known.
func (p *Plan) Versions() (what string, has, known int64) { return "plan", p.Version, Known }

// Versions are those of Plan.Versions.
func (b *Bundle) Versions() (what string, has, known int64) { return "bundle", b.Version, Known }

// App finds an app by name; nil when there is none.
func (p *Plan) App(name string) *App {
	for i := range p.Apps {
		if p.Apps[i].Name == name {
			return &p.Apps[i]
		}
	}
	return nil
}

// SortTargets sorts targets as plans and status documents have them.
func SortTargets(targets []Target) {
	slices.SortFunc(targets, func(a, b Target) int { return a.Compare(b.ClusterName) })
}
