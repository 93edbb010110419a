package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/policy"
)

// handle registers what can be asked of the run.
func (o *operation) handle() error {
	if err := workflow.SetQueryHandler(o.whole, ProgressQuery, func() (OperationProgress, error) {
		return o.progress, nil
	}); err != nil {
		return fmt.Errorf("set query handler: %w", err)
	}
	if err := workflow.SetUpdateHandler(o.whole, AcceptUpdate, func(ctx workflow.Context) (Acceptance, error) {
		o.asked = true
		if err := workflow.Await(ctx, func() bool { return o.answered }); err != nil {
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
			return toTemporal(fail.New(fail.Conflict, "%s is not instantiating or terminating: its operation has just ended", domain.NameOwner(o.in.Owner)))
		}
		return workflow.Await(ctx, func() bool { return o.stopRecorded })
	}); err != nil {
		return fmt.Errorf("set update handler: %w", err)
	}
	return nil
}

// late says of an operation that nobody waits for its acceptance, or nobody can any more: whoever asked for it was told long ago that it failed, and may
// have asked for another one since. The engine has taken it and lost what came with it, or took it up too late, or no worker was there for the task that
// records it.
func (o *operation) late() (bool, error) {
	if !o.asked { // what came with the start comes right after it
		turn := false
		workflow.Go(o.whole, func(workflow.Context) { turn = true })
		_ = workflow.Await(o.whole, func() bool { return turn })
	}
	left := policy.Accept - workflow.Now(o.whole).Sub(workflow.GetInfo(o.whole).WorkflowStartTime)
	if !o.asked && !o.stopping && left > 0 {
		if _, err := workflow.AwaitWithTimeout(o.whole, left, func() bool { return o.asked || o.stopping }); err != nil {
			return false, err
		}
	}
	return !o.stopping && (!o.asked || left <= 0), nil
}

// accept answers whoever waits that the operation goes on.
func (o *operation) accept(prepared activities.Prepared) {
	o.acceptance = Acceptance{Warnings: prepared.Warnings, Revision: prepared.Revision}
	o.answered = true
}

// refuse answers whoever waits that the operation is not begun, and ends a run that did nothing. What is for whoever asked to
// mend is the run's result, as nothing has failed; in the Web UI it is Completed, and says what was refused.
func (o *operation) refuse(err error) (*activities.Outcome, error) {
	o.refusal, o.answered = err, true
	_ = workflow.Await(o.whole, func() bool { return workflow.AllHandlersFinished(o.whole) && (!o.unsure || o.stopRecorded) })
	e, ok := FromTemporal(err)
	if !ok || e.Kind.Retryable() {
		return nil, err
	}
	workflow.SetCurrentDetails(o.whole, "Refused: "+e.Text())
	if err := workflow.UpsertMemo(o.whole, map[string]any{RefusedMemo: clip(e.Text())}); err != nil {
		workflow.GetLogger(o.whole).Warn("tell of the refusal", "error", err)
	}
	return &activities.Outcome{Refused: e.Text()}, nil
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
		// Before the state change there is no state to fall back from; where nobody knows whether it was made, the store is asked.
		_ = workflow.Await(ctx, func() bool { return o.answered })
		if o.refusal == nil || o.unsure {
			if err := briefly(ctx, lifecycle.RecordStop, activities.StopInput{Scope: o.in.Scope, By: o.stoppedBy}, nil); err != nil {
				workflow.GetLogger(ctx).Error("record stop", "error", err)
			}
		}
		o.stopRecorded = true
	})
	return true
}
