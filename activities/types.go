// Package activities holds what workflows ask of the world, thin: an activity loads, calls one pure
// decision or one adapter, and stores. Every activity is idempotent. Inputs and results are stored in the
// histories of running workflows: members may be added, never renamed or given another meaning.
package activities

import (
	"cmp"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/plan"
)

// Prepared is what an operation works through: the plan by digest and the sizes of its parts, never a
// manifest.
type Prepared struct {
	Plan      domain.Digest `json:"plan"`
	Namespace string        `json:"namespace"`
	Apps      []PreparedApp `json:"apps"`
	Warnings  []string      `json:"warnings,omitempty"`
	// OwnerRevision is the revision of the owner's document that the plan was made from.
	OwnerRevision int64 `json:"ownerRevision,omitempty"`
	// Incomplete is set when an earlier operation on the context did not end in order, so that its leaf
	// records may know less than was sent to the clusters.
	Incomplete bool `json:"incomplete,omitempty"`
	// User is the logical cloud with whose user's rights the apps are put into clusters; "" for the rights of the
	// clusters' registrations.
	User domain.Key `json:"user,omitempty"`
	// Release, Profile and LogicalCloud are for the instance's record.
	Release      string     `json:"release,omitempty"`
	Profile      string     `json:"profile,omitempty"`
	LogicalCloud domain.Key `json:"logicalCloud,omitempty"`
	// Label is domain.Instance's.
	Label string `json:"label,omitempty"`
	// From is the context that is taken over from, nil where there is none.
	From *From `json:"from,omitempty"`
	// Unchanged says that what is wanted is there: nothing is to be done and nothing to be recorded.
	Unchanged bool `json:"unchanged,omitempty"`
	// Revision is that of the instance when all is done.
	Revision int `json:"revision,omitempty"`
	// Leaving says that an app leaves a cluster.
	Leaving bool `json:"leaving,omitempty"`
}

// From is the context that another one takes over from.
type From struct {
	ContextID string `json:"contextID"`
	// Owner, whose document has the revision, is another group than the new context's in a migrate.
	Owner         domain.Key `json:"owner"`
	OwnerRevision int64      `json:"ownerRevision"`
	// Ended is set when nothing is taken over, because the terminate of the other context has failed though no leaf record
	// knew of anything in clusters. It is that context's label: what carries it is a remnant. Plan is that context's plan.
	Ended string        `json:"ended,omitempty"`
	Plan  domain.Digest `json:"plan,omitempty"`
}

// Work is what an operation that takes over has to do for an app: on how many clusters it applies and from how many it
// prunes.
type Work struct {
	Apply int `json:"apply,omitempty"`
	Prune int `json:"prune,omitempty"`
}

// PreparedApp is one app of a plan.
type PreparedApp struct {
	Name      string            `json:"name"`
	Bundle    domain.Digest     `json:"bundle"`
	Resources int               `json:"resources"` // per cluster
	Clusters  int               `json:"clusters"`
	Needs     []plan.Dependency `json:"needs,omitempty"`  // see plan.App
	Events    []string          `json:"events,omitempty"` // see plan.App
	// Targets are its clusters when they are few; else they are asked for.
	Targets *Targets `json:"targets,omitempty"`
	// Work is nil when there is work on all clusters: for operations that take over from no other context.
	Work *Work `json:"work,omitempty"`
	// Counts are the states of its resources before the work.
	Counts map[domain.ResourceState]int `json:"counts,omitempty"`
}

// RecordInput asks for the state change of an operation. Prepared is set for what is planned, which a
// terminate is not.
type RecordInput struct {
	domain.Scope
	domain.Seen
	Prepared *Prepared `json:"prepared,omitempty"`
	// Goal, By and RunID are for the history and the context's record.
	Goal  domain.Goal `json:"goal,omitzero"`
	By    string      `json:"by,omitempty"` // who asked for it
	RunID string      `json:"runID,omitempty"`
	late  bool        // see RecordLate
}

// StopInput asks for a stop to be recorded.
type StopInput struct {
	domain.Scope
	By string `json:"by,omitempty"` // who asked for it
}

// TargetsInput asks for the clusters [From, To) of an app.
type TargetsInput struct {
	Plan domain.Digest `json:"plan"`
	App  string        `json:"app"`
	From int           `json:"from"`
	To   int           `json:"to"`
}

// Targets are clusters of an app, in the plan's order.
type Targets struct {
	Clusters []domain.ClusterName `json:"clusters"`
	// Suspect are the indices of those that did not answer when they were last tried.
	Suspect []int `json:"suspect,omitempty"`
	// Installs are the indices of those of which plan.Target says so.
	Installs []int `json:"installs,omitempty"`
	// Marks are plan.Inherited's, "" where nothing is inherited; nil when nothing is anywhere.
	Marks MarkTexts `json:"marks,omitempty"`
	// Reports are plan.Inherited's, by index; nil when all clusters report.
	Reports map[int]string `json:"reports,omitempty"`
	// Overlays are those of the app's bundle, by index; nil when all clusters get the bundle as it is.
	Overlays map[int]domain.Part `json:"overlays,omitempty"`
}

// Inherited are the marks of the cluster with an index.
func (t *Targets) Inherited(i int) string {
	if t.Marks == nil {
		return ""
	}
	return t.Marks[i]
}

// HaltInput asks for the end of the attempts at an app.
type HaltInput struct {
	domain.Scope
	App string `json:"app"`
}

// LeafInput is the work of one app on one cluster.
type LeafInput struct {
	domain.Scope
	App        string             `json:"app"`
	Cluster    domain.ClusterName `json:"cluster"`
	Plan       domain.Digest      `json:"plan,omitempty"` // of a terminate, which goes by what other apps keep
	Bundle     domain.Digest      `json:"bundle"`
	Overlay    domain.Part        `json:"overlay,omitempty"` // what the cluster gets otherwise, see Targets
	Resources  int                `json:"resources"`
	Namespace  string             `json:"namespace"`
	Incomplete bool               `json:"incomplete,omitempty"` // see Prepared
	Suspect    bool               `json:"suspect,omitempty"`    // see Targets
	Label      string             `json:"label,omitempty"`      // see domain.Instance
	Inherited  string             `json:"inherited,omitempty"`  // the marks of what earlier contexts left, see Targets
	Report     string             `json:"report,omitempty"`     // plan.Inherited's, see Targets
	Prune      bool               `json:"prune,omitempty"`      // what is not wanted any more is to be deleted
	User       domain.Key         `json:"user,omitempty"`       // see Prepared
	Installs   bool               `json:"installs,omitempty"`   // plan.Target's, see Targets
	// Hooked is set when the operation runs hooks. Then the work has more than one step: Step is the one to be
	// done, and domain.Leaf's Next says which follows.
	Hooked bool `json:"hooked,omitempty"`
	Step   int  `json:"step,omitempty"`
	// HookTime is how long a hook is waited for that does not say it itself.
	HookTime time.Duration `json:"hookTime,omitempty"`
}

// Deletes says whether the work is to delete.
func (in LeafInput) Deletes() bool { return in.Operation == domain.OpTerminate || in.Prune }

// Writer is who records a leaf: of two of the same step the later one.
type Writer int64

// The writers.
const (
	ByTask     Writer = iota // the first try, in the workflow's own task
	ByAttempt                // the activity after it
	ByWorkflow               // the workflow, when the activity could not
)

// Turn is the place of what a writer records. The rounds of an operation come one after the other (to apply, to prune), in
// each the steps, in each step the writers, and of an activity the attempts.
func (in LeafInput) Turn(w Writer, attempt int32) domain.Turn {
	rank := int64(attempt) | int64(w)<<32 | int64(in.Step)<<34
	if in.Prune {
		rank |= 1 << 62
	}
	return domain.Turn{Began: in.Began, Rank: rank}
}

// labelID is the context id by which the cluster knows the resources.
func (in LeafInput) labelID() string { return cmp.Or(in.Label, in.ContextID) }

// LeafID names the leaf's record.
func (in LeafInput) LeafID() string { return domain.LeafID(in.ContextID, in.App, in.Cluster) }

// Contact is what the work on a cluster tells its workflow when the cluster stops or begins to answer,
// and before it sends anything new to a cluster of which that was said.
type Contact struct {
	Connectivity domain.Connectivity `json:"connectivity"`
	Marks        string              `json:"marks"`
	Error        string              `json:"error,omitempty"`
	Reason       string              `json:"reason,omitempty"` // what is waited for, of a cluster that answers
	Notes        []domain.Note       `json:"notes,omitempty"`  // on what outlives its deletion
}

// FinishInput asks for the end of an operation to be recorded.
type FinishInput struct {
	domain.Scope
	Plan    domain.Digest `json:"plan"`
	Stopped bool          `json:"stopped,omitempty"`
	Reason  string        `json:"reason,omitempty"` // why it did not come to its end
	Left    bool          `json:"left,omitempty"`   // of a terminate: clusters have something that is in no leaf's record
	Lost    bool          `json:"lost,omitempty"`   // domain.Instance's
	Sound   bool          `json:"sound,omitempty"`  // domain.Ran's; a workflow of v0.1.0 says neither
	// NotStarted are the apps that were not started, and why.
	NotStarted map[string]string `json:"notStarted,omitempty"`
}

// ReadyInput asks for an app to be Ready on its clusters [From, To).
type ReadyInput struct {
	Plan      domain.Digest `json:"plan"`
	App       string        `json:"app"`
	Namespace string        `json:"namespace"`
	From      int           `json:"from"`
	To        int           `json:"to"`
	// Beside is how many such questions the operation has, this one included, of which each has something to tell: 0 in a workflow of before.
	Beside int `json:"beside,omitempty"`
}

// Lacking is what an app lacks to be Ready, for people.
type Lacking struct {
	App    string `json:"app"`
	Reason string `json:"reason"`
}

// Outcome is how an operation ended.
type Outcome struct {
	Status domain.ContextStatus         `json:"status,omitempty"`
	Counts map[domain.ResourceState]int `json:"counts,omitempty"`
	// Plan is what is left of the operation's plan when that is less, see plan.Plan.Trim.
	Plan domain.Digest `json:"plan,omitempty"`
	// Refused is why the operation was not begun; nothing else is set then.
	Refused string `json:"refused,omitempty"`
	// Stopped says that somebody has stopped it.
	Stopped bool `json:"stopped,omitempty"`
}

// deploymentID is the value of the label that ties the resources of an app to its context.
func (in LeafInput) deploymentID() string { return plan.DeploymentID(in.labelID(), in.App) }
