// Package activities holds what workflows ask of the world, thin: an activity loads, calls one pure
// decision or one adapter, and stores. Every activity is idempotent. Inputs and results are stored in the
// histories of running workflows: members may be added, never renamed or given another meaning.
package activities

import (
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
	// Unsettled is set when an earlier operation on the context did not end in order, so that its leaf
	// records may know less than was sent to the clusters.
	Unsettled bool `json:"unsettled,omitempty"`
	// Release, Profile and LogicalCloud are for the instance's record.
	Release      string     `json:"release,omitempty"`
	Profile      string     `json:"profile,omitempty"`
	LogicalCloud domain.Key `json:"logicalCloud,omitempty"`
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
}

// RecordInput asks for the state change of an operation. Prepared is set for instantiate. Observed is the
// context's status as the API saw it: it knows of workflows that somebody ended by hand.
type RecordInput struct {
	domain.Scope
	Observed domain.ContextStatus `json:"observed,omitempty"`
	Prepared *Prepared            `json:"prepared,omitempty"`
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
}

// HaltInput asks for the end of the attempts at an app.
type HaltInput struct {
	domain.Scope
	App string `json:"app"`
}

// LeafInput is the work of one app on one cluster.
type LeafInput struct {
	domain.Scope
	App       string             `json:"app"`
	Cluster   domain.ClusterName `json:"cluster"`
	Bundle    domain.Digest      `json:"bundle"`
	Resources int                `json:"resources"`
	Namespace string             `json:"namespace"`
	Unsettled bool               `json:"unsettled,omitempty"` // see Prepared
	Suspect   bool               `json:"suspect,omitempty"`   // see Targets
	// Hooked is set when the operation runs hooks. Then the work has more than one step: Step is the one to be
	// done, and domain.Leaf's Next says which follows.
	Hooked bool `json:"hooked,omitempty"`
	Step   int  `json:"step,omitempty"`
	// HookTime is how long a hook is waited for that does not say it itself.
	HookTime time.Duration `json:"hookTime,omitempty"`
}

// LeafID names the leaf's record.
func (in LeafInput) LeafID() string { return domain.LeafID(in.ContextID, in.App, in.Cluster) }

// Contact is what the work on a cluster tells its workflow when the cluster stops or begins to answer,
// and before it sends anything new to a cluster of which that was said.
type Contact struct {
	Connectivity domain.Connectivity `json:"connectivity"`
	Marks        string              `json:"marks"`
	Error        string              `json:"error,omitempty"`
	Reason       string              `json:"reason,omitempty"` // what is waited for, of a cluster that answers
}

// FinishInput asks for the end of an operation to be recorded.
type FinishInput struct {
	domain.Scope
	Plan    domain.Digest `json:"plan"`
	Stopped bool          `json:"stopped,omitempty"`
	// Held are the apps that were not started, and why.
	Held map[string]string `json:"held,omitempty"`
}

// ReadyInput asks for an app to be Ready on its clusters [From, To).
type ReadyInput struct {
	Plan      domain.Digest `json:"plan"`
	App       string        `json:"app"`
	Namespace string        `json:"namespace"`
	From      int           `json:"from"`
	To        int           `json:"to"`
}

// Lacking is what an app lacks to be Ready, for people.
type Lacking struct {
	App    string `json:"app"`
	Reason string `json:"reason"`
}

// Outcome is how an operation ended.
type Outcome struct {
	Status domain.ContextStatus         `json:"status"`
	Counts map[domain.ResourceState]int `json:"counts"`
}

// deploymentID is the value of the label that ties the resources of an app to its context.
func (in LeafInput) deploymentID() string { return plan.DeploymentID(in.ContextID, in.App) }
