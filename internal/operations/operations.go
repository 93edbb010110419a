// Package operations makes the list of operations: those that go on and those that have ended lately. It reads the query,
// and joins what the workflow engine knows of a run with what the operation has recorded. The engine knows that a run is
// open, for example, and the record how it ended.
package operations

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/when"
)

// State is where an operation stands.
type State string

// The states.
const (
	Running   State = "Running"
	Succeeded State = "Succeeded"
	Failed    State = "Failed"
	Stopped   State = "Stopped" // a person, or another operation, has ended it before its end
	Refused   State = "Refused" // it was not accepted, and has changed nothing
	Unknown   State = "Unknown" // it is over, and how it ended is not known any more: its owner was deleted
)

// States lists all states.
var States = []State{Running, Succeeded, Failed, Stopped, Refused, Unknown}

// Kinds lists the operations that are told of, as their URLs have them; apply is the instantiate of network intents.
var Kinds = []string{"instantiate", "apply", "update", "rollback", "migrate", "terminate"}

// Execution is one run of an operation as the workflow engine knows it.
type Execution struct {
	domain.Scope
	Run    explain.Run
	Closed time.Time // zero while it runs
	// Refused is why it was not accepted, "" when it was.
	Refused string
}

// Operation is one run of an operation. Its times are UTC.
type Operation struct {
	// ID is the operation's: the context's and what it does there. An operation that is repeated on the context, as a
	// terminate that failed, has one entry for each of its runs.
	ID        string `json:"id"`
	Operation string `json:"operation"`        // as its URL has it
	Detail    string `json:"detail,omitempty"` // such as "rollback to 3" or "migrate from v1/web"
	// Resource is what it was asked of, by its path below /v2, and Kind what that is; Instance is the app context.
	Resource domain.Key `json:"resource,omitempty"`
	Kind     string     `json:"kind,omitempty"`        // what the resource is
	Instance string     `json:"instance"`              // the id of the app context
	State    State      `json:"state"`                 // where the run stands
	By       string     `json:"requestedBy,omitempty"` // who asked for it
	Started  time.Time  `json:"started"`               // when it began
	Ended    *time.Time `json:"ended,omitempty"`       // when it ended; missing while it goes on
	// Status is where it has brought the instance; Reason is why not to where it was asked to.
	Status domain.ContextStatus `json:"status,omitempty"`
	Reason string               `json:"reason,omitempty"` // why it failed
	// Counts are the instance's resources by state, where one operation is asked for.
	Counts   map[domain.ResourceState]int `json:"counts,omitempty"`
	Workflow *explain.Workflow            `json:"workflow,omitempty"`
}

// List is a part of all operations: those that go on first, then those that have ended, the last one first.
type List struct {
	Items []Operation `json:"items"` // the operations of this page
	// Continue asks for what follows, "" at the end.
	Continue string `json:"continue,omitempty"`
}

// ID names an operation on a context.
func ID(s domain.Scope) string { return s.ContextID + "-" + string(s.Operation) }

// ParseID reads an ID, or the id of a run, which ends with the context's and the operation: v1/web/7/update. The owner is not
// in what it returns. NotFound when it is none.
func ParseID(id string) (domain.Scope, error) {
	contextID, op, _ := strings.Cut(id, "-")
	if segments := strings.Split(id, "/"); len(segments) > 2 {
		contextID, op = segments[len(segments)-2], segments[len(segments)-1]
	}
	if _, err := strconv.ParseUint(contextID, 10, 64); err != nil || op == "apply" || !slices.Contains(Kinds, op) {
		return domain.Scope{}, fail.New(fail.NotFound, "operation %q not found: an id is that of an instance and what was done to it, such as 2621114006130701074-update", id)
	}
	return domain.Scope{ContextID: contextID, Operation: domain.Operation(op)}, nil
}

// Of tells of an execution, which i is the record of the context of; nil for none. A zero Run stands for one that the
// engine does not know any more.
func Of(x Execution, i *domain.Instance, ui explain.WebUI) Operation {
	o := Operation{
		ID: ID(x.Scope), Operation: string(x.Operation), Resource: x.Owner, Instance: x.ContextID, By: x.Run.By,
		Started: moment(x.Run.Started),
	}
	o.Reason = x.Refused
	ran := ranOf(x, i)
	if ran != nil {
		o.Detail, o.Status, o.Reason = ran.Detail, ran.Status, ran.Reason
		if o.By == "" {
			o.By = ran.RequestedBy
		}
		if o.Started.IsZero() {
			o.Started = moment(ran.Accepted)
		}
		if !ran.Ended.IsZero() {
			o.Ended = ended(ran.Ended)
		}
	}
	if o.Resource == "" && i != nil {
		o.Resource = i.Owner
	}
	if n := domain.OwnerNoun(o.Resource); n != nil {
		o.Kind = n.Title
		o.Operation = n.Owner.Word(x.Operation)
	}
	if o.State = stateOf(x, ran, i != nil); o.State != Running && o.Ended == nil && !x.Closed.IsZero() {
		o.Ended = ended(x.Closed)
	}
	if o.Ended != nil && o.Ended.Before(o.Started) { // a worker's clock has said the one, the engine's the other
		o.Ended = ended(o.Started)
	}
	if o.State == Failed && o.Reason == "" && ran != nil && ran.Ended.IsZero() {
		o.Reason = "its workflow has ended without recording an end"
	}
	if x.Run.ID != "" {
		o.Workflow = &explain.Workflow{ID: x.Run.ID, RunID: x.Run.RunID, Status: x.Run.Status, Link: ui.Link(x.Run.ID, x.Run.RunID), TraceID: x.Run.Trace}
	}
	return o
}

// ranOf is what the record has of an execution: by its run, or where the engine knows none the last one of its kind.
func ranOf(x Execution, i *domain.Instance) *domain.Ran {
	if i == nil {
		return nil
	}
	for n := len(i.Runs) - 1; n >= 0; n-- {
		if r := &i.Runs[n]; r.Operation == x.Operation && (x.Run.RunID == "" || r.RunID == x.Run.RunID) {
			return r
		}
	}
	return nil
}

// stateOf decides the state. An operation that was not accepted has no record; so has an update without a difference,
// which ends well all the same, and all of an owner that was deleted.
func stateOf(x Execution, ran *domain.Ran, recorded bool) State {
	switch {
	case x.Refused != "":
		return Refused
	case (x.Run.Status == explain.Running || x.Run.Status == explain.RunPaused) && (ran == nil || ran.Ended.IsZero()): // the engine's list may be late
		return Running
	case ran == nil && x.Run.Status == explain.Completed && x.Operation.TakesOver():
		return Succeeded
	case ran == nil && x.Run.Status == explain.Failed:
		return Refused
	case ran == nil && x.Run.Status == explain.Canceled:
		return Stopped
	case ran == nil && recorded:
		return Refused
	case ran == nil:
		return Unknown
	case ran.Status.Succeeded():
		return Succeeded
	case ran.Stopped:
		return Stopped
	default:
		return Failed
	}
}

func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func ended(t time.Time) *time.Time {
	t = moment(t)
	return &t
}

// Filter is what is asked for; a zero member lets everything pass.
type Filter struct {
	Project string
	Owner   domain.Key
	Cluster domain.ClusterName
	Kind    domain.Operation
	State   State
	// Within are the scopes to whose operations it is narrowed, or the collections of all scopes of a sort; nil for everywhere.
	Within []domain.Key
	// Ended leaves out what goes on.
	Ended bool
	// Since leaves out what had ended before.
	Since time.Time
}

// Matches says of the state whether it is asked for; the rest is for whoever finds the executions.
func (f Filter) Matches(o *Operation) bool { return f.State == "" || f.State == o.State }

// ParseFilter reads the parameters of a query. Errors are Invalid and name the parameter.
func ParseFilter(v url.Values, now time.Time) (Filter, error) {
	var f Filter
	var p fail.Problems
	if f.Project = v.Get("project"); v.Has("project") {
		domain.CheckName(&p, "project", f.Project)
	}
	if v.Has("owner") {
		f.Owner = readOwner(&p, v.Get("owner"))
	}
	if v.Has("cluster") {
		provider, name, _ := strings.Cut(strings.Replace(v.Get("cluster"), " ", "+", 1), "+")
		f.Cluster = domain.ClusterName{Provider: provider, Name: name}
		if bad(provider) || bad(name) {
			p.Add("cluster", "%q is no cluster; use provider+cluster, with the + sent as %%2B", v.Get("cluster"))
		}
	}
	if kind := v.Get("kind"); v.Has("kind") {
		if !slices.Contains(Kinds, kind) {
			p.Add("kind", "%q is no operation; use one of %s", kind, strings.Join(Kinds, ", "))
		}
		if f.Kind = domain.Operation(kind); kind == "apply" {
			f.Kind = domain.OpInstantiate
		}
	}
	if v.Has("state") {
		if f.State = State(v.Get("state")); !slices.Contains(States, f.State) {
			p.Add("state", "%q is no state of an operation; use one of %s", f.State, stateNames())
		}
	}
	if v.Has("since") {
		f.Since = readSince(&p, v.Get("since"), now)
	}
	return f, p.Err()
}

// readOwner reads the path of an owner.
func readOwner(p *fail.Problems, path string) domain.Key {
	key := domain.Key(strings.TrimPrefix(strings.TrimPrefix(path, "/"), "v2/"))
	if domain.OwnerNoun(key) == nil || !domain.IsOwner(key) {
		p.Add("owner", "%q has no operations; use the path of a deployment intent group, a logical cloud or a cluster below /v2", path)
	}
	return key
}

// readSince reads a time, or how long ago it is.
func readSince(p *fail.Problems, s string, now time.Time) time.Time {
	t, ok := when.Read(s, now)
	if !ok {
		p.Add("since", "%q is no time; use one such as 2026-11-21T05:29:07Z, or how long ago it is, such as 2h30m", s)
	}
	return t
}

func bad(name string) bool {
	var p fail.Problems
	domain.CheckName(&p, "name", name)
	return p.Err() != nil
}

func stateNames() string {
	names := make([]string, len(States))
	for i, s := range States {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}
