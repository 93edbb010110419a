package activities

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
)

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
