package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/when"
)

// maxNotes bounds the messages of a leaf; beyond it resources are Failed without their message.
const maxNotes = 200

// attempt is one attempt at a leaf.
type attempt struct {
	kube      *Kube
	in        LeafInput
	began     lease.Instant
	resources []plan.Resource
	steps     []plan.Step
	halted    bool // no step follows
	reached   bool // something has answered in the cluster's place
	// over is the end of a leaf whose operation has ended, see isOver; nil while that goes on. Then nothing else is loaded.
	over *domain.Leaf

	handing sync.Mutex // of handOn

	mu    sync.Mutex
	state progress
	all   domain.Marks // state.Marks, decoded
}

// progress is what heartbeats carry from one attempt to the next.
type progress struct {
	Marks string        `json:"marks"`
	Notes []domain.Note `json:"notes,omitempty"`
	// Warnings and Unpatchable are domain.Leaf's.
	Warnings    []domain.Note `json:"warnings,omitempty"`
	Unpatchable []string      `json:"unpatchable,omitempty"`
	// Losses are what becomes a warning when its resource is applied.
	Losses []domain.Note `json:"losses,omitempty"`
	// Announced are the marks that the workflow was told last; "" when it has heard nothing yet, and then
	// nothing need be announced: the workflow assumes that everything may have been sent.
	Announced    string              `json:"announced,omitempty"`
	Connectivity domain.Connectivity `json:"connectivity"`
	Error        string              `json:"error,omitempty"` // what stands in the way while Retrying
	// Lost is since when something has stood in the way now and then, Told the error that the workflow was told last, and ToldAt when
	// it was told one, that it was past, or what is waited for.
	Lost   time.Time `json:"lost,omitzero"`
	Told   string    `json:"told,omitempty"`
	ToldAt time.Time `json:"toldAt,omitzero"`
	// Failing is kube.Job's.
	Failing time.Time `json:"failing,omitzero"`
	// Said and SaidReason are the connectivity and the reason that the workflow was told last.
	Said       domain.Connectivity `json:"said,omitempty"`
	SaidReason string              `json:"saidReason,omitempty"`
	// Reported says, of a terminate, that there may be a ResourceBundleState; Report is domain.Leaf's.
	Reported bool   `json:"reported,omitempty"`
	Report   string `json:"report,omitempty"`
	// Reason is what the workflow was told that is waited for.
	Reason string `json:"reason,omitempty"`
	// Sent is when the object of a hook was sent last. Since and Heard are plan.HookWait's once it is waited for; a worker of v0.1.0 notes Since alone.
	Sent  time.Time `json:"sent,omitzero"`
	Since time.Time `json:"since,omitzero"`
	Heard time.Time `json:"heard,omitzero"`
	// Ending is since when objects are waited for that outlive their deletion.
	Ending time.Time `json:"leaving,omitzero"`
}

func (p progress) marks() domain.Marks { return domain.DecodeMarks(p.Marks) }

// past has the progress say nothing of a time to come, which a clock that was ahead has noted: what is measured from there would wait until then.
func (p *progress) past(now time.Time) {
	for _, noted := range []*time.Time{&p.Lost, &p.ToldAt, &p.Failing, &p.Sent, &p.Since, &p.Heard, &p.Ending} {
		*noted = when.Past(*noted, now)
	}
}

// load reads what the attempt is about, and how far the one before has come. Meanwhile heartbeats say what that one has said: the reads may take
// longer than the time after which the attempt counts as lost.
func (a *attempt) load(ctx context.Context) error {
	a.state.Connectivity = domain.ConnectivityUnknown
	var said []func() any
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &a.state); err != nil {
			return fail.Wrap(err, fail.Internal, "read heartbeat details")
		}
		a.state.past(time.Now())
		before := a.state
		said = append(said, func() any { return before })
	}
	stop := beat(ctx, said...)
	defer stop()
	var err error
	if a.over, err = a.isOver(ctx); err != nil || a.over != nil {
		return err
	}
	bundle, err := a.kube.varied(ctx, a.in.Owner, a.in.Bundle, a.in.Overlay)
	if err != nil {
		return err
	}
	a.resources, a.steps = bundle.Resources, a.in.steps(bundle.Resources)
	return a.resume(ctx)
}

// resume takes up where the last attempt ended, or begins.
func (a *attempt) resume(ctx context.Context) error {
	if activity.HasHeartbeatDetails(ctx) {
		if a.state.Said == "" && a.state.Announced != "" { // of a release that did not note it
			a.state.Said, a.state.SaidReason = a.state.Connectivity, a.state.Reason
		}
		a.all = a.state.marks()
		return nil
	}
	marks, err := a.begin(ctx)
	if err != nil {
		return err
	}
	// A bundle may have more than its plan, which leaves out what has gone.
	a.all = domain.NewMarks(len(a.resources), domain.MarkGone)
	copy(a.all, marks)
	a.state.Marks = a.all.Encode()
	return nil
}

// begin is the first attempt's marks.
func (a *attempt) begin(ctx context.Context) (domain.Marks, error) {
	if a.in.Step > 0 {
		return a.goOn(ctx)
	}
	start := plan.Start{
		Operation: a.in.Operation, Prune: a.in.Prune, Installs: a.in.Installs, Inherited: a.in.Inherited, Report: a.in.Report,
		TookOver: a.in.Label != "", Incomplete: a.in.Incomplete,
	}
	if start.Deletes() {
		leaf, err := a.kube.leaves.Leaf(ctx, a.in.LeafID())
		if err != nil && !fail.Is(err, fail.NotFound) {
			return nil, err
		}
		start.Record = leaf
		if a.in.Prune && leaf != nil { // the first round's, which stay as long as what they are about
			a.state.Warnings, a.state.Unpatchable = leaf.Warnings, leaf.Unpatchable
		}
	}
	begins := plan.Begin(a.resources, start)
	a.state.Reported, a.state.Report = begins.Reported, begins.Report
	if a.in.Operation == domain.OpTerminate {
		notes, err := a.hold(ctx, begins.Marks)
		if err != nil {
			return nil, err
		}
		a.state.Notes = notes
	}
	return begins.Marks, nil
}

func (a *attempt) settled() bool {
	if a.in.Prune {
		return a.all.Pruned()
	}
	return a.all.Settled()
}

// mark takes the progress of one resource.
func (a *attempt) mark(i int, m domain.Mark, note string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.all[i]
	a.all[i] = m
	if a.in.Prune {
		a.all[i] = m.Prune()
	}
	if m.Answered() || was.ToLookFor() { // what was looked for was found
		a.state.Connectivity, a.state.Error = domain.ConnectivityAvailable, ""
	}
	if was == domain.MarkEnding || note != "" { // what it waited for is past, or said anew
		a.state.Notes = slices.DeleteFunc(a.state.Notes, func(n domain.Note) bool { return n.Index == i })
	}
	if m == domain.MarkApplied {
		a.state.warnOfLosses(i)
	}
	if note != "" && a.all[i] == domain.MarkGone { // of what is nobody's no row tells
		id := a.resources[i].ResourceID
		a.state.warn(domain.WholeCluster, fmt.Sprintf("%s %s, which the app has no more: %s", id.Kind, id.Name, note))
	}
	if note != "" && a.all[i] == domain.MarkDeleted { // the object may be there: who reads that nothing is left has to know
		a.state.warn(i, note)
	}
	if note != "" && len(a.state.Notes) < maxNotes {
		a.state.Notes = append(a.state.Notes, domain.Note{Index: i, Message: noted(note)})
	}
}

// snapshot is the state for a heartbeat.
func (a *attempt) snapshot() progress {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.state
	p.Marks = a.all.Encode()
	p.Notes, p.Warnings, p.Unpatchable, p.Losses = slices.Clone(p.Notes), slices.Clone(p.Warnings), slices.Clone(p.Unpatchable), slices.Clone(p.Losses)
	return p
}

// end records the leaf, unless another attempt may have done so.
func (a *attempt) end(ctx context.Context) (*domain.Leaf, error) {
	p, writer, info := a.snapshot(), ByAttempt, activity.GetInfo(ctx)
	if info.IsLocalActivity {
		writer = ByTask
	}
	slices.SortStableFunc(p.Warnings, func(x, y domain.Note) int { return cmp.Compare(x.Index, y.Index) })
	slices.SortFunc(p.Notes, func(x, y domain.Note) int { return cmp.Compare(x.Index, y.Index) })
	leaf := domain.Leaf{
		ID: a.in.LeafID(), ContextID: a.in.ContextID, Operation: a.in.Operation, App: a.in.App, Cluster: a.in.Cluster,
		Connectivity: p.Connectivity, Marks: p.Marks, Notes: p.Notes, Warnings: p.Warnings, Unpatchable: p.Unpatchable, LastError: p.Error,
		Report: p.Report, Turn: a.in.Turn(writer, info.Attempt), Next: a.next(),
	}
	ctx, cancel := context.WithTimeout(ctx, policy.Record)
	defer cancel()
	if err := lease.Check(ctx); err != nil {
		return nil, err
	}
	if err := a.kube.leaves.PutLeaf(ctx, leaf); err != nil {
		return nil, err
	}
	if (p.Announced != "" || a.in.Suspect) && p.Connectivity == domain.ConnectivityAvailable {
		if err := a.kube.leaves.SetReachable(ctx, a.in.Cluster, true); err != nil {
			activity.GetLogger(ctx).Warn("record reachability", "cluster", a.in.Cluster, "error", err)
		}
	}
	if p.Connectivity == domain.ConnectivityAvailable {
		a.kube.outages.back(activity.GetLogger(ctx), "work", a.in.Cluster)
	}
	return told(&leaf), nil
}

// told is what a workflow is told of a leaf that is recorded: the rest is in the store, and histories stay small.
func told(leaf *domain.Leaf) *domain.Leaf {
	leaf.Notes, leaf.Warnings, leaf.Unpatchable, leaf.Turn = nil, nil, nil, domain.Turn{}
	return leaf
}
