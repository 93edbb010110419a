package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
)

// ErrNotAtOnce (Unavailable) hands what could not be done in a workflow's task over to an activity: nothing has failed yet.
var ErrNotAtOnce = fail.New(fail.Unavailable, "not done at once")

// BoundTasks bounds how many of the workflow tasks that a worker does at a time may wait: what is to be done in others must
// not have to wait for those. Half of them may try leaves at once, of which one whose cluster hangs holds its task until
// it is given up; what comes beyond is left to activities. A quarter may gather. Without it there is no bound. Call it
// before the worker starts. (It is no method: those are activities.)
func BoundTasks(k *Kube, tasks int) {
	k.tries, k.gatherers = make(slots, max(tasks/2, 1)), make(slots, max(tasks/4, 1))
}

// inTime is the error of an attempt: ErrNotAtOnce where the time of the workflow's task was over, of which nobody need know more.
func inTime(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && triedAtOnce(ctx) {
		return ErrNotAtOnce
	}
	return err
}

// triedAtOnce says whether an activity is tried in the workflow's own task.
func triedAtOnce(ctx context.Context) bool {
	return activity.IsActivity(ctx) && activity.GetInfo(ctx).IsLocalActivity
}

// Gather keeps the calling workflow's task for a time: what happens meanwhile to the workflow comes together in the next
// task. Where too many gather, it does not.
func (k *Kube) Gather(ctx context.Context, d time.Duration) error {
	leave, ok := k.gatherers.enter()
	if !ok {
		return nil
	}
	defer leave()
	return pause.For(ctx, d)
}

// slots bound what goes on at a time; nil bounds nothing.
type slots chan struct{}

// enter takes a slot, which leave gives back; ok is false when there is none.
func (p slots) enter() (leave func(), ok bool) {
	if p == nil {
		return func() {}, true
	}
	select {
	case p <- struct{}{}:
		return func() { <-p }, true
	default:
		return nil, false
	}
}
