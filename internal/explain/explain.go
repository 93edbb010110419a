// Package explain says why an owner is not as it was asked to be: which operation waits for which cluster, app or resource,
// who asked for it and when, what the last error was and when it is tried again. The package does no I/O: what is known comes
// in as a Situation. What it means goes out as an Explanation, which fits on one screen however many clusters there are.
package explain

import (
	"fmt"
	"iter"
	"net/url"
	"slices"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/view"
)

// Situation is all that is known of an owner and of its last app context.
type Situation struct {
	Now     time.Time
	Key     domain.Key
	Noun    *domain.Noun
	History domain.History
	// May are the operations that the owner's state allows now.
	May []domain.Operation

	// Instance is the record of the last app context, nil when there never was one; Status is where it stands, which
	// differs from the record's when the workflow of an operation is gone.
	Instance *domain.Instance
	Status   domain.ContextStatus
	// Run is that of the last operation on the context. Starting is an operation that runs and is not accepted yet,
	// nil for none.
	Run      Run
	Starting *Run
	// Warnings are about what was asked for and is never done, however the operations end: intents of controllers, for example.
	Warnings []string
	// Earlier are the records of the owner's earlier contexts of which clusters have something again, in the order of their ids.
	Earlier []*domain.Instance
	// Silent is why the workflow engine could not be asked, "" when it answered.
	Silent string

	// Only is the one cluster that is of interest, nil for all.
	Only     *domain.ClusterName
	View     view.Source       // as far as it is known
	Attempts map[Place]Attempt // at work that goes on; what Places asked for
	// Reported are the rows of what clusters report, judged and in detail, nil for nothing. An error ends it.
	Reported iter.Seq2[*view.Row, error]

	UI WebUI
}

// Run is the run of a workflow.
type Run struct {
	Operation domain.Operation
	ID        string
	RunID     string // "" when the engine does not know the run, any more or yet
	Status    RunStatus
	By        string // who asked for it, "" when nobody said
	Trace     string // the id of its trace, "" where none was recorded
	Started   time.Time
	// End is why the run is closed although it did not come to its own end.
	End string
	// Paused is set while the run is.
	Paused *Pause
	// Steps are the activities of the run itself that are under way.
	Steps []Attempt
	// Children are the ids of the first runs that it has begun and that go on.
	Children []string
	// Task is set while the run waits for a worker that takes its next step, and Below while a run that it has begun does: the one that
	// waits longest of those that were looked at.
	Task, Below *Task
}

// RunStatus is where a run stands.
type RunStatus string

// The statuses of a run. The empty status stands for a run that the engine does not know.
const (
	Running    RunStatus = "Running"
	RunPaused  RunStatus = "Paused" // it goes on when somebody wishes
	Completed  RunStatus = "Completed"
	Failed     RunStatus = "Failed"
	Canceled   RunStatus = "Canceled"
	Terminated RunStatus = "Terminated"
	TimedOut   RunStatus = "TimedOut"
)

// Task is a workflow's task that no worker has done.
type Task struct {
	Workflow string // the id of the workflow
	Since    time.Time
	Attempt  int
}

// Place is a piece of work, one app on one cluster.
type Place struct {
	App     string
	Cluster domain.ClusterName
}

// Attempt is where work stands that is tried until it gets through.
type Attempt struct {
	Step      string // the activity; "" when none is under way
	ID, RunID string // of the workflow
	Since     time.Time
	Number    int       // of the attempt, from 1
	Trying    bool      // it is being tried now
	Begun     time.Time // when the attempt that is being tried began
	Last      time.Time // when the last attempt ended, zero for never
	Next      time.Time // when the next one begins, zero when that is not known
	Error     string    // what the last attempt failed with
	Late      bool      // that attempt took too long
	Paused    *Pause    // nil unless somebody has paused it in Temporal
	Task      *Task     // set while its workflow waits for a worker that takes its next step
}

// Pause is that of an activity or a run, which nothing but a person ends.
type Pause struct {
	Activity string // its id in its workflow, "" for the run as a whole
	By, Why  string // "" when nobody said
}

// failure is what the work fails with, "" while an attempt is well: it has come further than the one before. Of work that took
// too long the next attempt cannot say that.
func (a *Attempt) failure(now time.Time) string {
	if a.Trying && !a.Late && !a.Begun.IsZero() && now.Sub(a.Begun) > policy.Outlasts {
		return ""
	}
	return a.Error
}

// WebUI is where runs can be looked at; the zero value is nowhere.
type WebUI struct{ URL, Namespace string }

// Link is the page of a run, "" where there is none.
func (w WebUI) Link(id, runID string) string {
	if w.URL == "" || runID == "" {
		return ""
	}
	return fmt.Sprintf("%s/namespaces/%s/workflows/%s/%s", w.URL, url.PathEscape(w.Namespace), url.PathEscape(id), url.PathEscape(runID))
}

// Explanation is the answer. Its times are UTC.
type Explanation struct {
	Resource domain.Key `json:"resource"` // its path below /v2
	Title    string     `json:"kind"`     // what it is, such as deployment intent group
	// what was asked for last is done and holds, as far as anybody can say: see unknown
	AsWished  bool                 `json:"asWished"`
	Summary   string               `json:"summary"`            // the whole in one sentence
	State     domain.State         `json:"state"`              // the last thing that a user asked for
	Since     time.Time            `json:"since,omitzero"`     // when that was, where it is known
	Status    domain.ContextStatus `json:"status,omitempty"`   // where the app context stands
	ContextID string               `json:"instance,omitempty"` // the id of the app context
	Operation *Operation           `json:"operation,omitempty"`
	// Reasons are why it is not as wished, the gravest first; MoreReasons is how many were left out.
	Reasons     []Reason `json:"reasons"`
	MoreReasons int      `json:"moreReasons,omitempty"` // how many reasons were left out
	// Warnings are what was asked for and nothing brings about, and what users should know of what is applied.
	Warnings []string `json:"warnings,omitempty"`
	// Effects are what intents of the group have made of resources before they were applied, and which, such as "sink
	// Deployment/fw0-sink on 2 clusters: annotation k8s.v1.cni.cncf.io/networks by ovnaction intent vfw".
	Effects []string `json:"effects,omitempty"`
	// Unknown is what could not be found out.
	Unknown []string `json:"unknown,omitempty"`
	// May are the operations that can be asked for now, as their URLs have them.
	May []string `json:"may,omitempty"`
	// Cluster is, of a cluster, what runs there.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Judged is, of a workload, what rules say of it, and of a workload rule, what it says of workloads to which it does not apply:
	// expression by expression, those first that come nearest.
	Judged     []Judged `json:"judged,omitempty"`
	MoreJudged int      `json:"moreJudged,omitempty"` // how many were left out

	now time.Time
}

// Operation is the last one, as its URL has it.
type Operation struct {
	Operation domain.Operation `json:"operation"`       // as its URL has it
	By        string           `json:"by,omitempty"`    // who asked for it
	Since     time.Time        `json:"since"`           // when it began
	Ended     *time.Time       `json:"ended,omitempty"` // when it ended; missing while it goes on
	Workflow  *Workflow        `json:"workflow,omitempty"`
}

// Workflow names a run; Link is its page in the Web UI where that is configured.
type Workflow struct {
	ID     string    `json:"id"`               // the id of the workflow
	RunID  string    `json:"runID,omitempty"`  // the id of the run
	Status RunStatus `json:"status,omitempty"` // where the run stands
	Link   string    `json:"link,omitempty"`   // its page in Temporal's Web UI
	// TraceID is that of its trace, where traces are recorded.
	TraceID string `json:"traceID,omitempty"`
}

// Reason is one reason, for all that share it.
type Reason struct {
	Kind Kind   `json:"kind"` // the kind of reason, for programs
	Text string `json:"text"` // the reason in words
	// Error is what was said: of the first where more share it.
	Error     string    `json:"error,omitempty"`
	Clusters  int       `json:"clusters,omitempty"`  // how many clusters share it
	Resources int       `json:"resources,omitempty"` // how many resources share it
	Examples  []Example `json:"examples,omitempty"`  // some of the places that share it
	More      int       `json:"more,omitempty"`      // places beside the examples
	Do        string    `json:"do,omitempty"`        // what a user can do
}

// Example is one of those that share a reason.
type Example struct {
	App         string     `json:"app,omitempty"`         // the app
	Cluster     string     `json:"cluster,omitempty"`     // the cluster, as provider+cluster
	Resource    string     `json:"resource,omitempty"`    // the resource
	Step        string     `json:"step,omitempty"`        // what is being done there
	Error       string     `json:"error,omitempty"`       // the error, where it is not the reason's
	Since       *time.Time `json:"since,omitempty"`       // since when
	LastSeen    *time.Time `json:"lastSeen,omitempty"`    // when it was last reported
	Attempt     int        `json:"attempt,omitempty"`     // counts the attempts, from 1
	Trying      bool       `json:"trying,omitempty"`      // it is being tried now; else, and without nextAttempt or paused, it waits for a worker
	Paused      bool       `json:"paused,omitempty"`      // somebody has paused it in Temporal
	LastAttempt *time.Time `json:"lastAttempt,omitempty"` // when the last attempt ended
	NextAttempt *time.Time `json:"nextAttempt,omitempty"` // when the next one begins
	Workflow    *Workflow  `json:"workflow,omitempty"`
}

// One screen.
const (
	maxReasons  = 5
	maxExamples = 3
)

// Of explains a situation. It reads Situation.Reported to its end, once, where it matters.
func Of(s *Situation) *Explanation {
	d := &decision{s: s}
	d.operation()
	d.leaves()
	d.reported()
	d.asked()
	return d.explanation()
}

// Places are the pieces of work about which Attempts has to say something: the examples of Of.
func Places(s *Situation) []Place {
	d := &decision{s: s, placing: true}
	d.leaves()
	var places []Place
	for _, r := range d.sorted() {
		if !r.kind.tried() {
			continue
		}
		for _, at := range r.examples {
			places = append(places, at.Place)
		}
	}
	return places
}

// explanation puts the answer together.
func (d *decision) explanation() *Explanation {
	s := d.s
	last := s.History.Last()
	e := &Explanation{
		Resource: s.Key, Title: s.Noun.Title, State: s.History.State(), Since: last.Time.UTC(), Status: s.Status,
		Reasons: []Reason{}, Warnings: append(slices.Clip(s.Warnings), d.warnings()...), Effects: d.effects(), Unknown: d.unknown, now: s.Now.UTC(),
	}
	if s.Instance != nil {
		e.ContextID = s.Instance.ContextID
	}
	e.Operation = d.lastOperation()
	for _, op := range s.May {
		e.May = append(e.May, d.verb(op))
	}
	groups := d.sorted()
	for _, g := range groups[:min(len(groups), maxReasons)] {
		e.Reasons = append(e.Reasons, d.reason(g))
	}
	e.MoreReasons = len(groups) - len(e.Reasons)
	e.AsWished = len(groups) == 0 && !s.Status.InProgress() && (len(s.Warnings) == 0 || d.ended())
	e.Summary = d.summary(e)
	return e
}

// lastOperation is the operation that the reasons are about, nil when there never was one.
func (d *decision) lastOperation() *Operation {
	s := d.s
	run := &s.Run
	o := &Operation{Operation: run.Operation}
	switch {
	case s.Starting != nil:
		run = s.Starting
		o.Operation, o.Since = run.Operation, run.Started
	case s.Instance == nil, run.ID == "": // there was none, or none that is a workflow
		return nil
	case run.Started.IsZero(): // the engine does not know it: the record has when its context began
		o.Since = s.Instance.Accepted
	default:
		o.Since = run.Started
	}
	o.Operation, o.By, o.Since = domain.Operation(d.verb(o.Operation)), run.By, o.Since.UTC()
	if s.Starting == nil && !s.Instance.Ended.IsZero() {
		o.Ended = at(s.Instance.Ended)
	}
	o.Workflow = &Workflow{ID: run.ID, RunID: run.RunID, Status: run.Status, Link: s.UI.Link(run.ID, run.RunID), TraceID: run.Trace}
	return o
}

// at is a time as it is shown, nil for never.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}
