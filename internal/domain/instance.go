package domain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

// Digest names a blob, in lower-case hex: the same content has the same one within an installation, and tells nobody else what it is.
type Digest string

// Part says where one of several values is that are stored together, as a blob that is a JSON array: the digest of the blob and
// the place in it from 0, as in "<digest>/3". "" is none. Plans and histories have it.
type Part string

// PartOf is the part of a blob at a place.
func PartOf(blob Digest, place int) Part { return Part(string(blob) + "/" + strconv.Itoa(place)) }

// Cut is the blob and the place. Internal when it is no part.
func (p Part) Cut() (blob Digest, place int, err error) {
	digest, number, _ := strings.Cut(string(p), "/")
	place, err = strconv.Atoi(number)
	if err != nil || place < 0 {
		return "", 0, fail.New(fail.Internal, "%q is no part of a blob", string(p))
	}
	return Digest(digest), place, nil
}

// Instance is the record of one app context: one instantiation of a resource with a lifecycle, from the
// moment it was accepted. What is still going on is asked of the workflow; the record says how it began
// and how it ended.
type Instance struct {
	ContextID    string                `bson:"_id"`
	Owner        Key                   `bson:"owner"`
	Origin       Operation             `bson:"origin"`    // the one that made it: instantiate, update, rollback or migrate
	Operation    Operation             `bson:"operation"` // the last one: Origin or terminate
	Status       ContextStatus         `bson:"status"`
	Reason       string                `bson:"reason"` // why it failed; "" otherwise
	Namespace    string                `bson:"namespace"`
	LogicalCloud Key                   `bson:"logicalCloud"`
	Profile      string                `bson:"profile"`
	Release      string                `bson:"release"`
	Plan         Digest                `bson:"plan"`       // blob: plan.Plan
	NotStarted   map[string]string     `bson:"notStarted"` // apps that were not started, and why
	Counts       map[ResourceState]int `bson:"counts"`     // at the end of the last operation
	Accepted     time.Time             `bson:"accepted"`
	Ended        time.Time             `bson:"ended"` // zero while an operation is going on
	// Label is the context whose id is in the labels of what is in clusters, "" for its own: that of the first
	// one when this one has taken over.
	Label string `bson:"label,omitempty"`
	// From is the context that this one takes over from, "" for none.
	From string `bson:"from,omitempty"`
	// Began is Scope.Began of Operation.
	Began int64 `bson:"began"`
	// Runs are the accepted operations on the context, oldest first: the one that made it, then terminates, of which the last limits.Runs are kept.
	Runs []Ran `bson:"runs,omitempty"`
	// Remnants says, of a terminated one, what has turned up in clusters again and cannot be removed yet; "" for nothing.
	Remnants string `bson:"remnants,omitempty"`
	// Lost says that an operation has ended without the word of its work on some cluster, which somebody has ended by hand, say. That may
	// have sent more than is recorded. That it is missing says nothing, as of Ran.Sound, with which v0.1.0 drops it.
	Lost bool `bson:"lost,omitempty"`
}

// Standing is what an active record says of where its resources may be: what others are compared with.
type Standing struct {
	ContextID string
	Owner     Key
	Namespace string
	Plan      Digest
}

// Ran is one operation on an app context, as its record has it.
type Ran struct {
	RunID       string        `bson:"run"` // of the workflow
	Operation   Operation     `bson:"operation"`
	Detail      string        `bson:"detail,omitempty"` // Action.Operation
	RequestedBy string        `bson:"requestedBy,omitempty"`
	Accepted    time.Time     `bson:"accepted"`
	Ended       time.Time     `bson:"ended,omitempty"` // zero while it goes on, and of one that was ended by hand
	Status      ContextStatus `bson:"status,omitempty"`
	Stopped     bool          `bson:"stopped,omitempty"`
	Reason      string        `bson:"reason,omitempty"`
	// Sound says of one that has ended that its work on each cluster came to its own end: what is recorded is all that was sent. That it is
	// missing says nothing, as v0.1.0 has never written it, and drops it.
	Sound bool `bson:"sound,omitempty"`
}

// Begin notes an operation. One whose run is known is not noted again.
func (i *Instance) Begin(r Ran) {
	if r.RunID == "" || i.ran(r.RunID) == nil {
		i.Runs = append(i.Runs, r)
	}
	if n := len(i.Runs); n > limits.Runs {
		i.Runs = slices.Delete(i.Runs, 1, n-limits.Runs+1)
	}
}

// End notes how the last operation of the kind of ran came to its end, and when: Status, Stopped, Reason, Sound and Ended of ran.
func (i *Instance) End(ran Ran) {
	if r := i.Last(ran.Operation); r != nil {
		r.Status, r.Stopped, r.Reason, r.Sound, r.Ended = ran.Status, ran.Stopped, ran.Reason, ran.Sound, ran.Ended
	}
}

// Sound says whether the last operation of a kind has ended, and what is recorded of the context is all that was sent. That outlives the
// operation's workflow, which the engine forgets. Where an operation has succeeded, nothing was left that could have been sent unrecorded;
// of another one of v0.1.0 nobody knows.
func (i *Instance) Sound(op Operation) bool {
	r := i.Last(op)
	return r != nil && !r.Ended.IsZero() && !i.Lost && (r.Sound || r.Status.Succeeded())
}

// Finished says whether the end of the last operation of a kind is recorded.
func (i *Instance) Finished(op Operation) bool {
	r := i.Last(op)
	return r != nil && !r.Ended.IsZero()
}

// Last is the last operation of a kind, nil when none is recorded.
func (i *Instance) Last(op Operation) *Ran {
	for n := len(i.Runs) - 1; n >= 0; n-- {
		if i.Runs[n].Operation == op {
			return &i.Runs[n]
		}
	}
	return nil
}

// Knows says whether an operation on the context is recorded.
func (i *Instance) Knows(op Operation) bool {
	return slices.ContainsFunc(i.Runs, func(r Ran) bool { return r.Operation == op })
}

func (i *Instance) ran(runID string) *Ran {
	for n := range i.Runs {
		if i.Runs[n].RunID == runID {
			return &i.Runs[n]
		}
	}
	return nil
}

// Has says whether the operation of the scope is the one that the record tells of.
func (i *Instance) Has(s Scope) bool {
	return s.Began != 0 && i.Began == s.Began && (i.Operation == OpTerminate) == (s.Operation == OpTerminate)
}

// Overtaken says whether the record tells of a later operation than that of the scope: a terminate comes after what made
// the context, and after every terminate that began before it.
func (i *Instance) Overtaken(s Scope) bool {
	if (i.Operation == OpTerminate) != (s.Operation == OpTerminate) {
		return i.Operation == OpTerminate
	}
	return i.Began > s.Began
}

// PassOn records that another context has taken over from this one, or from one that came after it. The record then belongs
// to the owner of the other context: a group whose instance is migrated to another group gives the records of all contexts
// of that instance away with it.
//
// This context is Updated then, if the other one has the same label. If it has another one, an instantiate has begun anew
// after a terminate that failed though no record knew of anything in clusters: this context is Terminated, and whatever
// carries its label is a remnant.
func (i *Instance) PassOn(to *Instance) {
	i.Owner = to.Owner
	switch {
	case i.ContextID != to.From || i.Status == ContextTerminated:
	case i.LabelID() == to.LabelID():
		i.Status = ContextUpdated
	default:
		i.Status, i.Remnants, i.Reason = ContextTerminated, i.Reason, ""
		if i.Ended.IsZero() { // its terminate was ended by hand
			i.Ended = to.Accepted
		}
	}
}

// LabelID is the context id by which clusters know the instance's resources.
func (i *Instance) LabelID() string { return cmp.Or(i.Label, i.ContextID) }

// Within says whether it is in the logical cloud, which is not the cloud's own.
func (i *Instance) Within(cloud Key) bool { return i.LogicalCloud == cloud && i.Owner != cloud }

// Working is the operation that is going on while the context is in progress, or was the last one.
func (i *Instance) Working() Operation {
	if i.Status.Deleting() {
		return OpTerminate
	}
	return cmp.Or(i.Origin, OpInstantiate)
}

// Scope says which operation on which app context a piece of work belongs to.
type Scope struct {
	Owner     Key       `json:"owner"`
	ContextID string    `json:"contextID"`
	Operation Operation `json:"operation"`
	// Began tells the runs of an operation on a context apart, and which is the later one: when the run began by
	// Temporal's clock, in ns since 1970; 0 where no run is meant.
	Began int64 `json:"began,omitempty"`
}

// Seen is what whoever asks for an operation has seen of its owner: the operation is refused when something else was
// asked since then.
type Seen struct {
	Status  ContextStatus `json:"observed,omitempty"` // of the last context
	History string        `json:"history,omitempty"`  // Sign
	// Created is Made: a namesake that was never instantiated may have the same sign. v0.1.0 neither says it nor goes by it.
	Created time.Time `json:"created,omitzero"`
}

// Goal says, of an operation that takes over from another context, what Scope does not.
type Goal struct {
	// Revert is, of a rollback, the context whose plan is wanted again.
	Revert string `json:"revert,omitempty"`
	// Reapply says, of an update, that what records know to be in clusters is applied again.
	Reapply bool `json:"reapply,omitempty"`
	// Source is, of a migrate, the group whose context is taken over.
	Source Key `json:"source,omitempty"`
	// SourceHistory is Sign of that group's history when it was asked for.
	SourceHistory string `json:"sourceHistory,omitempty"`
}

// ClusterName identifies a cluster as status documents do.
type ClusterName struct {
	Provider string `json:"provider" bson:"provider"`
	Name     string `json:"name" bson:"name"`
}

// String is provider+name, the form of EMCO's queries.
func (c ClusterName) String() string { return c.Provider + "+" + c.Name }

// Compare is the order of plans and status documents: by provider, then by name.
func (c ClusterName) Compare(other ClusterName) int {
	return cmp.Or(cmp.Compare(c.Provider, other.Provider), cmp.Compare(c.Name, other.Name))
}

// Key is the key of the cluster's document.
func (c ClusterName) Key() Key {
	return Join("cluster-providers", c.Provider, "clusters", c.Name)
}

// Connectivity is what was last seen of a cluster by the work on it.
type Connectivity string

// The connectivities, as EMCO spells them.
const (
	ConnectivityUnknown   Connectivity = "Unknown" // not tried yet
	ConnectivityAvailable Connectivity = "Available"
	ConnectivityRetrying  Connectivity = "Retrying"
)

// ResourceState is the state of an rsync resource as users see it.
type ResourceState string

// The states of rsync resources.
const (
	ResourcePending  ResourceState = "Pending"
	ResourceApplied  ResourceState = "Applied"
	ResourceFailed   ResourceState = "Failed"
	ResourceRetrying ResourceState = "Retrying"
	ResourceDeleted  ResourceState = "Deleted"
)

// ResourceStates lists all states. Whatever goes over counts goes over this list: a range over the map
// would make workflow code depend on its order.
var ResourceStates = [...]ResourceState{
	ResourceApplied, ResourceDeleted, ResourceFailed, ResourcePending, ResourceRetrying,
}

// Leaf is the record of one app on one cluster in one app context: its resources' marks, and what the
// cluster said about those that failed.
type Leaf struct {
	ID           string       `bson:"-" json:"-"` // LeafID
	ContextID    string       `bson:"ctx" json:"ctx"`
	Operation    Operation    `bson:"op" json:"op"` // whose record this is
	App          string       `bson:"app" json:"app"`
	Cluster      ClusterName  `bson:"cluster" json:"cluster"`
	Connectivity Connectivity `bson:"conn" json:"conn"`
	Marks        string       `bson:"marks" json:"marks"` // Marks.Encode, in the order of the app's bundle
	Notes        []Note       `bson:"notes,omitempty" json:"notes,omitempty"`
	// Warnings are what users should know although nothing failed; there may be several of an index.
	Warnings []Note `bson:"warnings,omitempty" json:"warnings,omitempty"`
	// Unpatchable are the kinds ("deployments.apps") that were created or updated, as the logical cloud's user may not
	// patch them; sorted.
	Unpatchable []string `bson:"unpatchable,omitempty" json:"unpatchable,omitempty"`
	LastError   string   `bson:"err,omitempty" json:"err,omitempty"`       // of the cluster as a whole
	Report      string   `bson:"report,omitempty" json:"report,omitempty"` // why the cluster does not report on it; "" when it should
	Open        bool     `bson:"open" json:"open"`                         // work is going on
	Turn        Turn     `bson:"turn" json:"turn,omitzero"`
	Next        int      `bson:"-" json:"next,omitempty"`   // the step that follows; 0 for none
	Reason      string   `bson:"-" json:"reason,omitempty"` // what is waited for
}

// Follow adds what the record of an earlier step or round of the same work knows, and who writes this one does not: warnings, why
// the cluster does not report, and what was said of resources that are as they were.
func (l *Leaf) Follow(earlier *Leaf) {
	if earlier.Operation != l.Operation || earlier.Turn.Began != l.Turn.Began {
		return
	}
	l.Warnings, l.Unpatchable, l.Report = earlier.Warnings, earlier.Unpatchable, earlier.Report
	was, is := DecodeMarks(earlier.Marks), DecodeMarks(l.Marks)
	said := slices.Clone(l.Notes)
	for _, n := range earlier.Notes {
		stays := n.Index >= 0 && n.Index < len(was) && n.Index < len(is) && was[n.Index] == is[n.Index]
		if stays && !slices.ContainsFunc(said, func(s Note) bool { return s.Index == n.Index }) {
			l.Notes = append(l.Notes, n)
		}
	}
}

// Turn is the rank of what is written among all that may be written in the same place: what is of the later turn stays. The records of
// a leaf are ordered as the work goes on: by the run, then, within the run (Rank), by round, step, writer and attempt. What is heard of
// clusters is ordered by the attempts that hear them: by when they began, then by term and attempt.
type Turn struct {
	Began int64 `bson:"began" json:"began,omitempty"` // Scope's, or when the attempt began by Temporal's clock, in ns since 1970
	Rank  int64 `bson:"rank" json:"rank,omitempty"`   // within that
}

// Before says whether another turn comes after this one.
func (t Turn) Before(other Turn) bool {
	return cmp.Or(cmp.Compare(t.Began, other.Began), cmp.Compare(t.Rank, other.Rank)) < 0
}

// WholeCluster is the Index of a Note that is about no resource, but about the cluster.
const WholeCluster = -1

// Note is a message about one resource, by its index in the bundle.
type Note struct {
	Index   int    `bson:"i" json:"i"`
	Message string `bson:"m" json:"m"`
}

// BeyondHeld is how Kubernetes begins to refuse a role, or a binding of one, that gives rights beyond those of who writes it, after naming
// that one and its groups. The rules follow, which differ from role to role.
const BeyondHeld = "attempting to grant RBAC permissions not currently held"

// Abridged is a message of most bytes at the most, without its middle where it is longer: Kubernetes says in the tail, of so many bytes, what it has against a
// value, after the whole of that.
func Abridged(message string, most, tail int) string {
	const more = "…"
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most-tail-len(more)], "") + more + strings.ToValidUTF8(message[len(message)-tail:], "")
}

// LeafID is the _id of a leaf; all leaves of a context share the prefix "<context id>/".
func LeafID(contextID, app string, c ClusterName) string {
	return contextID + "/" + app + "/" + c.String()
}
