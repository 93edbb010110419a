package workflows

import (
	"cmp"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// OperationInput starts an operation.
type OperationInput struct {
	domain.Scope
	domain.Seen
	Goal domain.Goal `json:"goal,omitzero"`
	By   string      `json:"by,omitempty"` // who asked for it, as far as somebody said so
}

var lifecycle *activities.Lifecycle // names the methods; never called

// Instantiate renders, places and plans, records the new state, and applies every app to its clusters. What a terminate
// has left of the context before is then pruned.
func Instantiate(ctx workflow.Context, in OperationInput) (*activities.Outcome, error) {
	o, err := begin(ctx, in)
	if err != nil {
		return nil, err
	}
	prepared, err := o.prepare()
	if err == nil {
		err = o.record(&prepared)
	}
	if o.settle(prepared, err); err != nil {
		return o.refused(err)
	}
	o.endEarlier(prepared.From)
	return o.bring(prepared)
}

// Terminate records the new state, ends whatever is still going on in the context, and deletes from the
// clusters all that may be there, and then what is there all the same.
func Terminate(ctx workflow.Context, in OperationInput) (*activities.Outcome, error) {
	o, err := begin(ctx, in)
	if err != nil {
		return nil, err
	}
	err = o.record(nil)
	if o.settle(activities.Prepared{}, err); err != nil {
		return o.refused(err)
	}
	prepared, err := o.supersede()
	if err != nil {
		return nil, err
	}
	o.expect(prepared)
	o.fanOut(prepared, false)
	left := o.sweep(prepared)
	out, err := o.finish(prepared, left)
	if err == nil && out.Status == domain.ContextTerminated {
		if o.reach != "" {
			o.lookAfter(o.remnants(prepared))
		}
		o.watch(watcher.StopWatching, prepared, "")
	}
	return o.close(out, err)
}

// operation is one run of a root workflow.
type operation struct {
	in OperationInput
	// whole is never cancelled: what must be recorded is recorded. work is cancelled by a stop.
	whole, work workflow.Context
	cancelWork  workflow.CancelFunc
	cancelled   bool // from Temporal's side

	asked      bool // somebody waits for it to be accepted
	settled    bool // accepted or refused
	acceptance Acceptance
	refusal    error

	stopping, stopRecorded bool
	stoppedBy              string // who asked for that
	ended                  bool   // too late to stop
	watching               int    // calls to the watches that are not answered
	failed                 int    // resources of apps of whose end nothing is known
	lost                   int    // see AppProgress

	reach domain.Digest // see activities.RemnantsResult

	progress OperationProgress
	apps     []*appRun // as in progress
}

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
	return o, nil
}

// handle registers what can be asked of the run.
func (o *operation) handle() error {
	if err := workflow.SetQueryHandler(o.whole, ProgressQuery, func() (OperationProgress, error) {
		return o.progress, nil
	}); err != nil {
		return fmt.Errorf("set query handler: %w", err)
	}
	if err := workflow.SetUpdateHandler(o.whole, AcceptUpdate, func(ctx workflow.Context) (Acceptance, error) {
		o.asked = true
		if err := workflow.Await(ctx, func() bool { return o.settled }); err != nil {
			return Acceptance{}, err
		}
		return o.acceptance, o.refusal
	}); err != nil {
		return fmt.Errorf("set update handler: %w", err)
	}
	if err := workflow.SetUpdateHandler(o.whole, StopUpdate, func(ctx workflow.Context, by string) error {
		if !o.stopping {
			o.stoppedBy = by
		}
		if !o.stop() {
			return toTemporal(fail.New(fail.Conflict, "%s is not %s", o.in.Owner.Name(), o.progress.Status))
		}
		return workflow.Await(ctx, func() bool { return o.stopRecorded })
	}); err != nil {
		return fmt.Errorf("set update handler: %w", err)
	}
	return nil
}

// stop ends the work in order; false when there is nothing to stop any more.
func (o *operation) stop() bool {
	switch {
	case o.stopping:
		return true
	case o.ended:
		return false
	}
	o.stopping = true
	o.cancelWork()
	workflow.Go(o.whole, func(ctx workflow.Context) {
		// Before the state change there is no state to fall back from.
		_ = workflow.Await(ctx, func() bool { return o.settled })
		if o.refusal == nil {
			if err := briefly(ctx, lifecycle.RecordStop, activities.StopInput{Scope: o.in.Scope, By: o.stoppedBy}, nil); err != nil {
				workflow.GetLogger(ctx).Error("record stop", "error", err)
			}
		}
		o.stopRecorded = true
	})
	return true
}

// prepare renders, places and plans.
func (o *operation) prepare() (prepared activities.Prepared, err error) {
	err = workflow.ExecuteActivity(preparing(o.work), lifecycle.Prepare, o.in.Scope).Get(o.work, &prepared)
	return prepared, err
}

// awaited refuses an operation for whose acceptance nobody waits: whoever asked for it was told long ago that it failed, and
// may have asked for another one since. That is one which the engine has taken while it lost what came with it, or took up
// too late.
func (o *operation) awaited() error {
	if !o.asked { // what came with the start comes right after it
		turn := false
		workflow.Go(o.whole, func(workflow.Context) { turn = true })
		_ = workflow.Await(o.whole, func() bool { return turn })
	}
	left := AcceptTime - workflow.Now(o.whole).Sub(workflow.GetInfo(o.whole).WorkflowStartTime)
	if !o.asked && !o.stopping && left > 0 {
		if _, err := workflow.AwaitWithTimeout(o.whole, left, func() bool { return o.asked || o.stopping }); err != nil {
			return err
		}
	}
	if !o.stopping && (!o.asked || left <= 0) {
		return toTemporal(fail.New(fail.Timeout, "nobody waits for it any more: %s was asked for more than %s ago", o.in.Operation, AcceptTime))
	}
	return nil
}

// record changes the owner's state by compare-and-set. From here on the context exists.
func (o *operation) record(prepared *activities.Prepared) error {
	if err := o.awaited(); err != nil {
		return err
	}
	if o.stopping {
		return temporal.NewCanceledError()
	}
	in := activities.RecordInput{
		Scope: o.in.Scope, Seen: o.in.Seen, Prepared: prepared,
		Goal: o.in.Goal, By: o.in.By, RunID: workflow.GetInfo(o.whole).WorkflowExecution.RunID,
	}
	return briefly(o.whole, lifecycle.Record, in, nil)
}

// settle answers whoever waits for the operation to be accepted.
func (o *operation) settle(prepared activities.Prepared, refusal error) {
	o.acceptance = Acceptance{Warnings: prepared.Warnings, Revision: prepared.Revision}
	o.refusal = refusal
	o.settled = true
	if refusal != nil {
		_ = workflow.Await(o.whole, func() bool { return workflow.AllHandlersFinished(o.whole) })
	}
}

// refused is the end of a run that did nothing. What is for whoever asked to mend is the run's result, as nothing has
// failed; in the Web UI it is Completed, and says what was refused.
func (o *operation) refused(err error) (*activities.Outcome, error) {
	if e, ok := FromTemporal(err); ok && !e.Kind.Retryable() {
		workflow.SetCurrentDetails(o.whole, "Refused: "+e.Text())
		if err := workflow.UpsertMemo(o.whole, map[string]any{RefusedMemo: clip(e.Text())}); err != nil {
			workflow.GetLogger(o.whole).Warn("tell of the refusal", "error", err)
		}
		return &activities.Outcome{Refused: e.Text()}, nil
	}
	return nil, err
}

// supersede ends the operation that may still be going on in the context, and loads the plan.
func (o *operation) supersede() (prepared activities.Prepared, err error) {
	err = workflow.ExecuteActivity(waiting(o.whole), lifecycle.Supersede, o.in.Scope).Get(o.whole, &prepared)
	return prepared, err
}

// expect shows what is before the operation.
func (o *operation) expect(prepared activities.Prepared) {
	for _, app := range prepared.Apps {
		p := AppProgress{App: app.Name, Clusters: app.Clusters, Counts: Counts(app.Counts)}
		if app.Counts == nil {
			p.Counts = Counts{domain.ResourcePending: app.Resources * app.Clusters}
		}
		o.progress.Apps = append(o.progress.Apps, p)
		o.apps = append(o.apps, &appRun{PreparedApp: app, prepared: prepared})
	}
	o.show()
}

// fanOut runs a child per app that has work, when the apps that it needs are there, and waits for all of them.
func (o *operation) fanOut(prepared activities.Prepared, prune bool) {
	open := 0
	for i, app := range prepared.Apps {
		if app.Work != nil && (prune && app.Work.Prune == 0 || !prune && app.Work.Apply == 0) {
			o.progress.Apps[i].Done = app.Clusters
			o.apps[i].ended, o.apps[i].deployed = true, true
			continue
		}
		o.progress.Apps[i].Done = 0 // each round goes over all clusters
		in := AppInput{
			Scope: o.in.Scope, App: app, Plan: prepared.Plan, Namespace: prepared.Namespace,
			User: prepared.User, Unsettled: prepared.Unsettled, To: app.Clusters, Label: prepared.Label, Prune: prune,
		}
		open++
		workflow.Go(o.work, func(ctx workflow.Context) {
			defer func() { open--; o.apps[i].ended = true }()
			if !prune && !o.admit(ctx, i) {
				return
			}
			var result AppProgress
			if err := startApp(ctx, in, AppID(in.Scope, app.Name, 0, 0)).Get(ctx, &result); err != nil {
				workflow.GetLogger(ctx).Error("app", "app", app.Name, "error", err)
				o.failed += app.Resources * app.Clusters
				o.lost += app.Clusters
				return
			}
			o.lost += result.Lost
			o.progress.Apps[i] = result
			o.apps[i].deployed = result.Done == result.Clusters && result.Failed == 0
			o.show()
		})
	}
	_ = workflow.Await(o.whole, func() bool { return open == 0 })
}

// listen takes the reports of the apps.
func (o *operation) listen(ctx workflow.Context) {
	reports := workflow.GetSignalChannel(ctx, ProgressSignal)
	for {
		var p AppProgress
		reports.Receive(ctx, &p)
		for i := range o.progress.Apps {
			if o.progress.Apps[i].App == p.App && o.progress.Apps[i].Done <= p.Done {
				o.progress.Apps[i] = p
			}
		}
		o.show()
	}
}

func (o *operation) show() { workflow.SetCurrentDetails(o.whole, o.progress.table()) }

// watch tells the watches of the context's clusters, beside whatever else goes on; left is for NarrowWatching.
func (o *operation) watch(activity any, prepared activities.Prepared, left domain.Digest) {
	o.watching++
	workflow.Go(o.whole, func(ctx workflow.Context) {
		defer func() { o.watching-- }()
		// Until then all that there is belongs to the operation: a short one is over before.
		if _, err := workflow.AwaitWithTimeout(ctx, watchDelay, func() bool { return o.ended }); err != nil {
			return
		}
		in := activities.WatchingInput{
			ContextID: cmp.Or(prepared.Label, o.in.ContextID), Plan: prepared.Plan, Left: left,
			Began: workflow.GetInfo(ctx).WorkflowStartTime,
		}
		if err := workflow.ExecuteActivity(waiting(ctx), activity, in).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Error("watch", "error", err)
		}
	})
}

// finish records how the operation ended, from what the leaves left in the store.
func (o *operation) finish(prepared activities.Prepared, reason string) (*activities.Outcome, error) {
	o.ended = true
	if o.stopping {
		_ = workflow.Await(o.whole, func() bool { return o.stopRecorded })
	}
	in := activities.FinishInput{
		Scope: o.in.Scope, Plan: prepared.Plan, Stopped: o.stopping, Reason: reason, Held: o.held(),
		Left: reason != "" && o.in.Operation == domain.OpTerminate,
	}
	var out activities.Outcome
	if err := briefly(o.whole, lifecycle.Finish, in, &out); err != nil {
		return nil, err
	}
	o.progress.Status = out.Status
	o.show()
	return &out, nil
}

// close waits for what goes on beside the operation, of which nobody who asks for its status need know. A run that fails
// is one whose records are not to be trusted.
func (o *operation) close(out *activities.Outcome, err error) (*activities.Outcome, error) {
	_ = workflow.Await(o.whole, func() bool { return o.watching == 0 && workflow.AllHandlersFinished(o.whole) })
	if err == nil && o.lost > 0 {
		return nil, toTemporal(fail.New(fail.Internal, "the work on %d clusters did not come to its own end", o.lost))
	}
	if err == nil && o.cancelled {
		return nil, temporal.NewCanceledError(out.Status)
	}
	return out, err
}
