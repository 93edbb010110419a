package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// OperationInput starts an operation.
type OperationInput struct {
	domain.Scope
	domain.Seen
	Goal domain.Goal `json:"goal,omitzero"`
	By   string      `json:"by,omitempty"` // who asked for it, as far as somebody said so
}

var lifecycle *activities.Control // names the methods; never called

// Instantiate renders, places and plans, records the new state, and applies every app to its clusters. What a terminate
// has left of the context before is then pruned.
func Instantiate(ctx workflow.Context, in OperationInput) (*activities.Outcome, error) {
	o, err := begin(ctx, in)
	if err != nil {
		return nil, err
	}
	prepared, err := o.prepare()
	if err != nil {
		return o.refuse(err)
	}
	if err := o.record(&prepared); err != nil {
		return o.refuse(err)
	}
	o.accept(prepared)
	o.endEarlier(prepared.From)
	return o.bring(prepared)
}

// Update is update, rollback and migrate. It plans the way from what an app context has in clusters to what is wanted, and
// records that a new context takes over. Then it applies what is new or differs; when all of that is applied, it prunes what is
// not wanted any more. Without a difference it ends before it has recorded anything.
func Update(ctx workflow.Context, in OperationInput) (*activities.Outcome, error) {
	o, err := begin(ctx, in)
	if err != nil {
		return nil, err
	}
	prepared, err := o.prepareChange()
	if err != nil {
		return o.refuse(err)
	}
	if prepared.Unchanged {
		o.accept(prepared)
		return o.leave()
	}
	if err := o.record(&prepared); err != nil {
		return o.refuse(err)
	}
	o.accept(prepared)
	return o.bring(prepared)
}

// Terminate records the new state, ends whatever is still going on in the context, and deletes from the
// clusters all that may be there, and then what is there all the same.
func Terminate(ctx workflow.Context, in OperationInput) (*activities.Outcome, error) {
	o, err := begin(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := o.record(nil); err != nil {
		return o.refuse(err)
	}
	o.accept(activities.Prepared{})
	prepared, err := o.supersede()
	if err != nil {
		return nil, err
	}
	o.expect(prepared)
	o.remove(prepared)
	left := o.sweep(prepared)
	out, err := o.finish(prepared, left)
	if err == nil && out.Status == domain.ContextTerminated {
		o.lookAfterItself(prepared)
		o.stopWatching(prepared)
	}
	return o.close(out, err)
}

// bring brings clusters in line with the plan: it applies, and when all of that is applied prunes what there is of a
// context that this one takes over from.
func (o *operation) bring(prepared activities.Prepared) (*activities.Outcome, error) {
	o.startWatching(prepared)
	o.expect(prepared)
	o.apply(prepared)
	reason := ""
	if prepared.Label != "" {
		reason = o.unapplied()
		if reason == "" {
			o.prune(prepared)
		}
	}
	out, err := o.finish(prepared, reason)
	// One that has failed may have emptied clusters all the same.
	if err == nil && prepared.Leaving && (out.Plan != "" || out.Status == domain.ContextInstantiated) {
		o.narrowWatching(prepared, out.Plan)
	}
	if err == nil {
		o.keepCertificates(out)
	}
	return o.close(out, err)
}

// leave ends an update that has nothing to do.
func (o *operation) leave() (*activities.Outcome, error) {
	o.ended = true
	out := &activities.Outcome{Status: domain.ContextInstantiated}
	o.keepCertificates(out) // references that came again have no certificates yet
	return o.close(out, nil)
}

// operation is one run of a root workflow.
type operation struct {
	in OperationInput
	// whole is never cancelled: what must be recorded is recorded. work is cancelled by a stop.
	whole, work workflow.Context
	cancelWork  workflow.CancelFunc
	cancelled   bool // from Temporal's side

	asked      bool // somebody waits for it to be accepted
	answered   bool // accepted or refused
	acceptance Acceptance
	refusal    error

	stopping, stopRecorded bool
	// unsure says of one that was stopped before it was recorded that it may be all the same: a worker that died has done so in the workflow's own
	// task, and nobody has heard of it.
	unsure    bool
	stoppedBy string // who asked for that
	ended     bool   // too late to stop
	atOnce    bool   // see soonest
	calls     int    // that go on beside the operation, see beside
	failed    int    // resources of apps of whose end nothing is known
	lost      int    // see AppProgress

	reach  domain.Digest // see activities.RemnantsResult
	unseen bool          // the look for remnants has failed

	progress OperationProgress
	apps     []*appRun // as in progress
	// reporting is what besides says.
	reporting int
	news      bool // the table of progress is not up to date
}

// begin sets up a run: what it can be asked, and what ends it.
func begin(ctx workflow.Context, in OperationInput) (*operation, error) {
	in.Began = workflow.GetInfo(ctx).WorkflowStartTime.UnixNano()
	o := &operation{in: in}
	o.whole, _ = workflow.NewDisconnectedContext(ctx)
	o.work, o.cancelWork = workflow.WithCancel(o.whole)
	o.progress.Status = domain.ContextInstantiating
	if in.Operation == domain.OpTerminate {
		o.progress.Status = domain.ContextTerminating
	}
	if err := o.handle(); err != nil {
		return nil, err
	}
	o.atOnce = workflow.GetVersion(o.whole, triesAtOnce, workflow.DefaultVersion, 1) != workflow.DefaultVersion
	if o.atOnce { // an older worker passes over the marker of a change, and would go on in its own way: this is what it fails at
		workflow.SideEffect(o.whole, func(workflow.Context) any { return nil })
	}
	workflow.Go(o.whole, func(c workflow.Context) { // a person cancels in the Web UI, or a terminate does
		ctx.Done().Receive(c, nil)
		o.cancelled = true
		o.stop()
	})
	workflow.Go(o.whole, func(c workflow.Context) {
		workflow.GetSignalChannel(c, StopSignal).Receive(c, nil)
		o.stop()
	})
	workflow.Go(o.whole, o.listen)
	workflow.Go(o.whole, o.lack)
	workflow.Go(o.whole, o.draw)
	return o, nil
}

// prepare renders, places and plans. It is an activity also where it is quick: what it comes to must be in the history before anything is
// recorded. Who did both in one task, and died, would plan again for an owner that has the operation already.
func (o *operation) prepare() (prepared activities.Prepared, err error) {
	err = workflow.ExecuteActivity(preparing(o.work), lifecycle.Prepare, o.in.Scope).Get(o.work, &prepared)
	return prepared, err
}

// prepareChange plans the way from what is there to what is wanted. It is an activity, as prepare.
func (o *operation) prepareChange() (prepared activities.Prepared, err error) {
	in := activities.ChangeInput{Scope: o.in.Scope, Goal: o.in.Goal}
	err = workflow.ExecuteActivity(preparing(o.work), lifecycle.PrepareChange, in).Get(o.work, &prepared)
	return prepared, err
}

// soonest does what is mostly done in no time: at once, in the run's own task, and as an activity where that has not got through. An activity
// costs Temporal two transactions and a further task of the run's. It must be such that doing it again, after something that was done later, comes to
// the same.
func (o *operation) soonest(ctx workflow.Context, options func(workflow.Context) workflow.Context, activity, in, out any) error {
	if o.atOnce {
		err := workflow.ExecuteLocalActivity(atOnce(ctx), activity, in).Get(ctx, out)
		if err == nil || !retryable(err) {
			return err
		}
	}
	return workflow.ExecuteActivity(options(ctx), activity, in).Get(ctx, out)
}

// triesAtOnce is the change by which an operation ends the one before, and tells watches, in its own task, see soonest and lasting.
const triesAtOnce = "tries-at-once"

// stopsLook is the change by which a stop looks whether an operation is recorded of which the workflow does not know it.
const stopsLook = "stops-look"

// lateLooks is the change by which an operation for which nobody waits looks, before it is refused, whether it is recorded.
const lateLooks = "late-looks"

// record changes the owner's state by compare-and-set. From here on the context exists. Of one for which nobody waits any more it looks whether that
// was done: a worker that died may have done so in the workflow's own task, and nobody has heard of it.
func (o *operation) record(prepared *activities.Prepared) error {
	late, err := o.late()
	if err != nil {
		return err
	}
	if o.stopping {
		o.unsure = workflow.GetVersion(o.whole, stopsLook, workflow.DefaultVersion, 1) != workflow.DefaultVersion
		return temporal.NewCanceledError()
	}
	record := lifecycle.Record
	if late {
		if workflow.GetVersion(o.whole, lateLooks, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
			return toTemporal(fail.New(fail.Timeout, "nobody waits for it any more: the %s of %s was asked for more than %s ago", o.in.Operation, domain.NameOwner(o.in.Owner), policy.Accept))
		}
		workflow.SideEffect(o.whole, func(workflow.Context) any { return nil }) // as in begin
		record = lifecycle.RecordLate
	}
	in := activities.RecordInput{
		Scope: o.in.Scope, Seen: o.in.Seen, Prepared: prepared,
		Goal: o.in.Goal, By: o.in.By, RunID: workflow.GetInfo(o.whole).WorkflowExecution.RunID,
	}
	return briefly(o.whole, record, in, nil)
}

// supersede ends the operation that may still be going on in the context, and loads the plan.
func (o *operation) supersede() (prepared activities.Prepared, err error) {
	err = o.soonest(o.whole, waiting, lifecycle.Supersede, o.in.Scope, &prepared)
	return prepared, err
}

// finish records how the operation ended, from what the leaves left in the store. The reason is why it did not do all
// that it was to do, "" when it did.
func (o *operation) finish(prepared activities.Prepared, reason string) (*activities.Outcome, error) {
	o.ended = true
	if o.stopping {
		_ = workflow.Await(o.whole, func() bool { return o.stopRecorded })
	}
	in := activities.FinishInput{
		Scope: o.in.Scope, Plan: prepared.Plan, Stopped: o.stopping, Reason: reason, NotStarted: o.notStarted(),
		Left: reason != "" && o.in.Operation == domain.OpTerminate, Lost: o.lost > 0, Sound: o.lost == 0,
	}
	var out activities.Outcome
	err := briefly(o.whole, lifecycle.Finish, in, &out)
	if err != nil {
		return nil, err
	}
	o.progress.Status = out.Status
	o.table() // nothing else may be done any more
	return &out, nil
}

// close waits for what goes on beside the operation, of which nobody who asks for its status need know. A run that fails
// is one whose records are not to be trusted.
func (o *operation) close(out *activities.Outcome, err error) (*activities.Outcome, error) {
	_ = workflow.Await(o.whole, func() bool { return o.calls == 0 && workflow.AllHandlersFinished(o.whole) })
	if err == nil && o.lost > 0 {
		return nil, toTemporal(fail.New(fail.Internal, "the work on %d clusters did not come to its own end", o.lost))
	}
	if err == nil && o.cancelled {
		return nil, temporal.NewCanceledError(out.Status)
	}
	return out, err
}
