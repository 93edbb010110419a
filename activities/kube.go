package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/share"
	"github.com/drover-io/drover/internal/stored"
	"github.com/drover-io/drover/internal/when"
)

// Clusters does the work on clusters.
type Clusters interface {
	Get(ctx context.Context, name domain.ClusterName) (*kube.Cluster, error)
	Since(ctx context.Context, name domain.ClusterName, at time.Time) (*kube.Cluster, error)
}

// Leaves keeps the ends of leaves, and which clusters answer.
type Leaves interface {
	stored.Blobs
	PutLeaf(ctx context.Context, leaf domain.Leaf) error
	Leaf(ctx context.Context, id string) (*domain.Leaf, error)
	SetReachable(ctx context.Context, c domain.ClusterName, reachable bool) error
}

// Reporter tells the workflow of a leaf what its activity sees.
type Reporter interface {
	// Contact fails with Exhausted once the workflow takes no more signals.
	Contact(ctx context.Context, workflowID, runID string, c Contact) error
	// Lacking tells the workflow of an operation what an app lacks to be Ready.
	Lacking(ctx context.Context, workflowID, runID string, l Lacking) error
}

// Kube applies to clusters and deletes from them.
type Kube struct {
	clusters Clusters
	leaves   Leaves
	reporter Reporter
	*reporting
	// Users and References are for logical clouds of level 1: to act for their users, and to keep their certificates.
	Users      Users
	References References
	// Records are for the removal of remnants.
	Records Records
	// Rules are for apps that are waited for.
	Rules ReadinessRules
	// Secrets opens what is sealed in plans; nil when there is nothing.
	Secrets Opener
	// Installation is the id of the installation, which objects say that hold what others have, see spare.
	Installation string
	// Plans are those of terminates, see attempt.hold, and of apps that are waited for.
	Plans *Plans
	// bundles are decoded manifests: a thousand clusters take the same ones.
	bundles *lru.Weighed[bundleKey, *plan.Bundle]
	// All leaves of an operation have the same bundles, and begin together: one of them reads and decodes.
	bundleReads *share.Reads[*plan.Bundle]
	// running are the attempts of this worker, by the run of their workflow: a *halting.
	running sync.Map
	// tries are leaves in their workflow's own task; gatherers see Gather, and silent BoundSilent.
	tries, gatherers, silent slots
	outages                  outages
	pending                  openLeaves
}

// decodedBundles and decodedBytes bound Kube.bundles. heldOfResource is what a resource takes beside its manifest.
const (
	decodedBundles, decodedBytes = 64, limits.Bundle
	heldOfResource               = 256
)

const (
	// maxNotes bounds the messages of a leaf; beyond it resources are Failed without their message.
	maxNotes = 200
	// maxWarnings bounds the warnings of a leaf, maxDropped those about fields of one resource, and maxShared those about what others have, too,
	// but for the one that says so.
	maxWarnings, maxDropped, maxShared = 200, 16, 20
	// maxWarning bounds a warning in bytes, and maxWarned all those of a leaf.
	maxWarning, maxWarned = 1 << 10, 64 << 10
)

// NewKube makes the activities. agent is what installs the agent into a cluster.
func NewKube(clusters Clusters, leaves Leaves, reporter Reporter, reports Reports, agent []plan.Resource) *Kube {
	return &Kube{
		clusters: clusters, leaves: leaves, reporter: reporter, reporting: newReporting(reports, agent),
		bundles: lru.NewWeighed[bundleKey, *plan.Bundle](decodedBundles, decodedBytes), Plans: newPlans(), bundleReads: share.New[*plan.Bundle](),
	}
}

// ApplyToCluster applies one app's resources to one cluster, records the end and returns it. It fails,
// to be tried again, as long as the cluster does not let it through; a resource that the cluster refuses
// does not fail it. Cancelled, it records how far it came and succeeds.
func (k *Kube) ApplyToCluster(ctx context.Context, in LeafInput) (*domain.Leaf, error) {
	return k.work(ctx, in)
}

// DeleteFromCluster is ApplyToCluster's reverse.
func (k *Kube) DeleteFromCluster(ctx context.Context, in LeafInput) (*domain.Leaf, error) {
	return k.work(ctx, in)
}

func (k *Kube) work(ctx context.Context, in LeafInput) (end *domain.Leaf, err error) {
	info := activity.GetInfo(ctx)
	a := &attempt{kube: k, in: in}
	k.pending.begin(info.WorkflowExecution.RunID, info.ScheduledTime)
	err = errPanics
	defer func() {
		k.pending.end(info.WorkflowExecution.RunID, a.openReason(ctx, err), waitAfter(err, info.Attempt))
	}()
	return k.try(ctx, info, a)
}

// errPanics is what an attempt has ended with that has not returned.
var errPanics = errors.New("it panics")

// try makes the attempt.
func (k *Kube) try(ctx context.Context, info activity.Info, a *attempt) (end *domain.Leaf, err error) {
	in := a.in
	if info.IsLocalActivity {
		leave, ok := k.tries.enter()
		if !ok {
			return nil, ErrNotAtOnce
		}
		defer leave()
	}
	if err := a.load(ctx); err != nil {
		return nil, err
	}
	if in.Step == 0 && a.settled() && !a.state.Reported && !a.holds() {
		a.halted = true
		return a.end(ctx)
	}
	stop := beat(ctx, func() any { return a.snapshot() })
	defer stop()
	leave, err := a.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	cluster, admin, err := k.clients(ctx, in)
	if err != nil {
		return nil, err
	}

	work, cancel := whileHeld(ctx)
	defer cancel(nil)
	run, halt := info.WorkflowExecution.RunID, &halting{in: in, local: info.IsLocalActivity, cancel: cancel, done: make(chan struct{})}
	k.running.Store(run, halt)
	defer func() {
		k.running.CompareAndDelete(run, halt)
		halt.end = end
		close(halt.done)
	}()
	outcome := a.step(work, cluster, admin)
	a.reached = outcome.Reached || outcome.Waits != ""
	lost := lease.Check(ctx)
	switch {
	case info.IsLocalActivity && (work.Err() != nil || outcome.Retry != nil):
		// The activity that comes after this one begins anew and is the one to tell of the cluster.
		return nil, ErrNotAtOnce
	case lost != nil: // what it has seen is no word on the cluster: it may be another attempt's doing
		return nil, lost
	case temporal.IsCanceledError(context.Cause(ctx)), errors.Is(context.Cause(work), errHalted):
		a.halted = true
		return a.end(context.WithoutCancel(ctx))
	case ctx.Err() != nil: // nobody has stopped it: a heartbeat did not get through, say. Another attempt goes on
		return nil, context.Cause(ctx)
	case errors.Is(context.Cause(work), errWorkerStops):
		activity.RecordHeartbeat(ctx, a.snapshot())
		return nil, errWorkerStops
	case errors.Is(outcome.Retry, kube.ErrReplaced): // the cluster has done nothing: the next attempt goes on at once
		activity.RecordHeartbeat(ctx, a.snapshot())
		return nil, outcome.Retry
	case outcome.Waits != "":
		return nil, a.await(ctx, outcome)
	case outcome.Retry != nil:
		return nil, a.retry(ctx, outcome)
	default:
		return a.end(ctx)
	}
}

// clients are those of the leaf's cluster: one for its resources, and the administrator's for what makes the cluster
// report. They are the same but in a logical cloud of level 1. Their credentials are those of now: another cluster may have been registered
// in this name a moment ago, and what is applied to the one before is lost.
func (k *Kube) clients(ctx context.Context, in LeafInput) (cluster, admin *kube.Cluster, err error) {
	if admin, err = k.clusters.Since(ctx, in.Cluster, time.Now()); err != nil || in.User == "" {
		return admin, admin, err
	}
	cluster, err = k.Users.Since(ctx, kube.User{Cloud: in.User, ClusterName: in.Cluster}, admin.Made())
	return cluster, admin, err
}

// errWorkerStops hands the activity over to another worker.
var errWorkerStops = &fail.Error{Kind: fail.Unavailable, Message: "worker stops", RetryAfter: policy.HandOver}

// untilWorkerStops ends with ctx, with errWorkerStops, or by cancel, which must be called.
func untilWorkerStops(ctx context.Context) (work context.Context, cancel context.CancelCauseFunc) {
	work, cancel = context.WithCancelCause(ctx)
	go func() {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			cancel(errWorkerStops)
		case <-work.Done():
		}
	}()
	return work, cancel
}

// whileHeld is untilWorkerStops for what works on clusters: it ends with lease.ErrLost, too, when the lease is lost. It is
// no more than a hint: before a write the lease itself is asked.
func whileHeld(ctx context.Context) (work context.Context, cancel context.CancelCauseFunc) {
	work, cancel = untilWorkerStops(ctx)
	go func() {
		select {
		case <-lease.Lost(ctx):
			cancel(lease.ErrLost)
		case <-work.Done():
		}
	}()
	return work, cancel
}

// Halt ends the calling workflow's attempt if it is this worker's, and returns the leaf as the attempt has
// recorded it; nil when it has not, or is another worker's, which learns of its cancellation by a heartbeat.
func (k *Kube) Halt(ctx context.Context) (*domain.Leaf, error) {
	running, ok := k.running.Load(activity.GetInfo(ctx).WorkflowExecution.RunID)
	if !ok {
		return nil, nil
	}
	r := running.(*halting)
	r.cancel(errHalted)
	select {
	case <-r.done:
		return r.end, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// HaltApp ends all attempts that this worker has at an app in an operation, and returns on which clusters. Each
// records how far it came, and its activity succeeds.
func (k *Kube) HaltApp(_ context.Context, in HaltInput) (halted []domain.ClusterName, err error) {
	k.running.Range(func(_, running any) bool {
		r := running.(*halting)
		if !r.local && r.in.Scope == in.Scope && r.in.App == in.App {
			r.cancel(errHalted)
			halted = append(halted, r.in.Cluster)
		}
		return true
	})
	return halted, nil
}

// halting is an attempt that can be halted.
type halting struct {
	in     LeafInput
	local  bool // in the workflow's own task, after which comes another attempt
	cancel context.CancelCauseFunc
	done   chan struct{}
	end    *domain.Leaf // once it is done: what it recorded, nil for nothing
}

var errHalted = errors.New("halted")

// bundle is that of a plan for an owner.
func (k *Kube) bundle(ctx context.Context, owner domain.Key, digest domain.Digest) (*plan.Bundle, error) {
	b, ok := k.decoded(owner, digest)
	measure.Looked(measure.CacheBundles, ok)
	if ok {
		return b, nil
	}
	of := bundleKey{domain.ScopeOf(owner), digest}
	return k.bundleReads.Get(ctx, of.String(), func(ctx context.Context) (*plan.Bundle, error) {
		if b, ok := k.decoded(owner, digest); ok { // by the read before this one
			return b, nil
		}
		return k.decode(ctx, owner, digest)
	})
}

// decode reads a bundle and keeps it.
func (k *Kube) decode(ctx context.Context, owner domain.Key, digest domain.Digest) (*plan.Bundle, error) {
	b, err := stored.JSON[plan.Bundle](ctx, k.leaves, digest)
	if err != nil {
		return nil, err
	}
	key, weight := bundleKey{digest: digest}, int64(0)
	for i := range b.Resources {
		if plan.MayBeSealed(b.Resources[i].Manifest) {
			key.scope = domain.ScopeOf(owner)
		}
		if err := k.open(owner, &b.Resources[i]); err != nil {
			return nil, err
		}
		weight += heldOf(&b.Resources[i])
	}
	k.bundles.Add(key, b, weight)
	return b, nil
}

// decoded is a bundle that is kept, which is used by that.
func (k *Kube) decoded(owner domain.Key, digest domain.Digest) (b *plan.Bundle, ok bool) {
	if b, ok = k.bundles.Get(bundleKey{"", digest}); !ok {
		b, ok = k.bundles.Get(bundleKey{domain.ScopeOf(owner), digest})
	}
	return b, ok
}

// heldOf is what a resource takes in memory, about.
func heldOf(r *plan.Resource) int64 { return heldOfResource + int64(len(r.Manifest)) }

// bundleKey names a decoded bundle. One with sealed values is decoded for each scope.
type bundleKey struct {
	scope  domain.Key    // "" for one without
	digest domain.Digest // or those of a bundle and an overlay
}

// String is the key as a text.
func (k bundleKey) String() string { return string(k.scope) + " " + string(k.digest) }

// open opens what is sealed in a resource for the owner's project. It stays in this process.
func (k *Kube) open(owner domain.Key, r *plan.Resource) (err error) {
	if k.Secrets != nil {
		r.Manifest, err = plan.Open(owner, r.Manifest, k.Secrets.Open)
	}
	return err
}

// varied is a bundle with an overlay, "" for none. Such bundles share what they have in common, which is counted with the bundle alone: one of
// which the bundle is not kept is not kept either, or what it holds would not be counted.
func (k *Kube) varied(ctx context.Context, owner domain.Key, digest domain.Digest, overlay domain.Part) (*plan.Bundle, error) {
	if overlay == "" {
		return k.bundle(ctx, owner, digest)
	}
	both := bundleKey{domain.ScopeOf(owner), digest + "+" + domain.Digest(overlay)}
	kept := func() (*plan.Bundle, bool) {
		b, ok := k.bundles.Get(both)
		if ok {
			k.decoded(owner, digest) // is used after it, so that it is forgotten after it
		}
		return b, ok
	}
	if b, ok := kept(); ok {
		return b, nil
	}
	return k.bundleReads.Get(ctx, both.String(), func(ctx context.Context) (*plan.Bundle, error) {
		if b, ok := kept(); ok { // by the read before this one
			return b, nil
		}
		return k.vary(ctx, owner, both, digest, overlay)
	})
}

// vary makes a bundle with an overlay, and keeps it by a key.
func (k *Kube) vary(ctx context.Context, owner domain.Key, both bundleKey, digest domain.Digest, overlay domain.Part) (*plan.Bundle, error) {
	base, err := k.bundle(ctx, owner, digest)
	if err != nil {
		return nil, err
	}
	o, err := stored.Part[plan.Overlay](ctx, k.leaves, overlay)
	if err != nil {
		return nil, err
	}
	weight := heldOfResource * int64(len(base.Resources))
	for i := range o.Resources {
		if err := k.open(owner, &o.Resources[i].Resource); err != nil {
			return nil, err
		}
		weight += heldOf(&o.Resources[i].Resource)
	}
	b := o.On(base)
	k.bundles.Add(both, b, weight)
	if of, ok := k.decoded(owner, digest); !ok || of != base {
		k.bundles.Remove(both)
	}
	return b, nil
}

// attempt is one attempt at a leaf.
type attempt struct {
	kube      *Kube
	in        LeafInput
	resources []plan.Resource
	steps     []plan.Step
	halted    bool // no step follows
	reached   bool // something has answered in the cluster's place

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

// announce tells the workflow, before a stage is sent, that its resources may be in the cluster from now
// on, if the workflow has heard of the leaf before.
func (a *attempt) announce(ctx context.Context, stage []int) error {
	a.try(stage)
	p := a.snapshot()
	if p.Announced == "" || !p.unannounced(stage) {
		return nil
	}
	return a.tell(ctx, Contact{Connectivity: p.Connectivity, Marks: p.Marks, Error: p.Error, Reason: p.Reason})
}

// unannounced says whether something of the stage is about to be sent of which the workflow does not know yet that it may be.
func (p progress) unannounced(stage []int) bool {
	now, told := p.marks(), domain.DecodeMarks(p.Announced)
	goes := func(m domain.Mark) bool { return m.ToDelete() && !m.Unsent() }
	return slices.ContainsFunc(stage, func(i int) bool {
		return i >= len(told) || now[i] != told[i] && (!goes(now[i]) || !goes(told[i]))
	})
}

// try marks a stage as sent before it is. What is announced stays so, whether its requests get out or not:
// the workflow is told once, not with every attempt. And of what is about to be deleted nobody can say from
// now on that it is still there.
func (a *attempt) try(stage []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range stage {
		if m := a.all[i]; m.ToDelete() || a.state.Announced != "" {
			a.all[i] = m.Send()
		}
	}
}

// retry tells the workflow that the cluster does not let the work through, unless it knows all of it.
func (a *attempt) retry(ctx context.Context, o kube.Outcome) error {
	p := a.snapshot()
	lost, text, now := p.Said != domain.ConnectivityRetrying, fail.TextOf(o.Retry), time.Now()
	a.kube.outages.gone(activity.GetLogger(ctx), "work", a.in.Cluster, o.Retry)
	a.mu.Lock()
	a.state.Connectivity, a.state.Error, a.state.Reason = domain.ConnectivityRetrying, text, ""
	if a.state.Lost.IsZero() {
		a.state.Lost = now
	}
	switch {
	case !o.Reached: // what it says when it is back may be for a moment
		a.state.Failing = time.Time{}
	case a.state.Failing.IsZero():
		a.state.Failing = now
	}
	a.mu.Unlock()
	news := lost && p.Told == "" || (lost || p.Told != "" && p.Told != text) && p.due(now, p.Lost)
	if news || p.Marks != p.Announced {
		if err := a.tell(ctx, Contact{Connectivity: domain.ConnectivityRetrying, Marks: p.Marks, Error: text}); err != nil {
			return err
		}
		a.mu.Lock()
		a.state.Told, a.state.ToldAt = text, now
		a.mu.Unlock()
	}
	if lost && news && !o.Reached {
		if err := lease.Check(ctx); err != nil { // another worker may have come through meanwhile
			return err
		}
		if err := a.kube.leaves.SetReachable(ctx, a.in.Cluster, false); err != nil {
			activity.GetLogger(ctx).Warn("record reachability", "cluster", a.in.Cluster, "error", err)
		}
	}
	activity.RecordHeartbeat(ctx, a.snapshot())
	return o.Retry
}

// due says whether the workflow is to be told that something else stands in the way than it knows, or is waited for, or nothing. That is told the less
// often the longer it has gone on, so that neither a cluster which answers now and then for weeks nor objects that go one by one fill histories.
func (p progress) due(now, since time.Time) bool {
	return now.Sub(p.ToldAt) >= max(now.Sub(since)/4, policy.TellAgain)
}

// toldNotes bounds how many notes the workflow is told: a history is no place for a thousand of the same kind.
const toldNotes = 10

// await tells the workflow for which objects the leaf waits, unless it knows, or was told something a moment ago. What waits holds no slot anywhere: the error
// has the attempt made again later.
func (a *attempt) await(ctx context.Context, o kube.Outcome) error {
	now := time.Now()
	a.mu.Lock()
	a.state.Connectivity, a.state.Error, a.state.Reason = domain.ConnectivityAvailable, "", o.Waits
	a.state.Failing = time.Time{}
	if a.state.Ending.IsZero() {
		a.state.Ending = now
	}
	since := a.state.Ending
	if a.state.Said == domain.ConnectivityRetrying && !a.state.Lost.IsZero() {
		since = a.state.Lost
	}
	if lately := now.Add(-4 * policy.TellLongest); since.Before(lately) { // whoever looks into it after days waits no longer for what comes of that
		since = lately
	}
	passed := now.Sub(a.state.Ending)
	a.mu.Unlock()
	p := a.snapshot()
	if news := p.Said != p.Connectivity || p.SaidReason != p.Reason || p.Announced != p.Marks; news && p.due(now, since) {
		if err := a.tell(ctx, Contact{Connectivity: p.Connectivity, Marks: p.Marks, Reason: p.Reason, Notes: p.ending()}); err != nil {
			return err
		}
		a.mu.Lock()
		a.state.ToldAt = now
		a.mu.Unlock()
	}
	activity.RecordHeartbeat(ctx, a.snapshot())
	again := fail.Wrap(o.Retry, fail.Unavailable, "%s", o.Waits)
	again.RetryAfter = waitAgain(passed)
	return again
}

// waitAgain is the wait before what outlives its deletion is looked at again, when it was waited for so long.
func waitAgain(passed time.Duration) time.Duration {
	return min(max(passed/4, policy.FirstEnding), policy.LongestEnding)
}

// ending are the notes on what outlives its deletion, toldNotes of them at most.
func (p progress) ending() (notes []domain.Note) {
	marks := p.marks()
	for _, n := range p.Notes {
		if marks[n.Index] == domain.MarkEnding {
			notes = append(notes, n)
		}
	}
	slices.SortFunc(notes, func(x, y domain.Note) int { return cmp.Compare(x.Index, y.Index) })
	return notes[:min(len(notes), toldNotes)]
}

// tell tells the workflow. One that takes no more is none to wait for: work goes to its end, which is told by the activity's result.
func (a *attempt) tell(ctx context.Context, c Contact) error {
	if err := lease.Check(ctx); err != nil {
		return err
	}
	run := activity.GetInfo(ctx).WorkflowExecution
	err := a.kube.reporter.Contact(ctx, run.ID, run.RunID, c)
	if fail.Is(err, fail.Exhausted) {
		activity.GetLogger(ctx).Warn("tell of a cluster", "cluster", a.in.Cluster, "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Announced, a.state.Said, a.state.SaidReason = c.Marks, c.Connectivity, c.Reason
	return nil
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
	leaf.Notes, leaf.Warnings, leaf.Unpatchable, leaf.Turn = nil, nil, nil, domain.Turn{} // they are in the store; histories stay small
	return &leaf, nil
}
