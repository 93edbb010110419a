package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// KeepCertificates keeps the certificates of a logical cloud's user good until the cloud is terminated: each is
// replaced after two thirds of its life. A cluster that does not answer then is tried again and again, beside the
// others. KeepSignal tells that there may be other clusters, RenewSignal has all certificates replaced at once.
func KeepCertificates(ctx workflow.Context, cloud domain.Key) error {
	k := &keeper{keeps: workflow.GetSignalChannel(ctx, KeepSignal), renews: workflow.GetSignalChannel(ctx, RenewSignal)}
	for {
		k.receive()
		var all activities.Renewals
		err := briefly(ctx, lifecycle.Renewals, cloud, &all)
		if err != nil || all.Over {
			return err
		}
		next, err := k.round(ctx, all.Due)
		if err != nil {
			return err
		}
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("next look at %s", next.UTC().Format(time.RFC3339)))
		if info := workflow.GetInfo(ctx); info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > keepEvents {
			k.receive()
			if !k.all {
				return workflow.NewContinueAsNewError(ctx, KeepCertificatesName, cloud)
			}
		}
		awake := func() bool { return k.keeps.Len()+k.renews.Len() > 0 }
		if _, err := workflow.AwaitWithTimeout(ctx, next.Sub(workflow.Now(ctx)), awake); err != nil {
			return err
		}
	}
}

// keeper is one run of KeepCertificates.
type keeper struct {
	keeps, renews workflow.ReceiveChannel
	all           bool // certificates are to be renewed, whatever their age
}

// receive takes the signals that have come.
func (k *keeper) receive() {
	for k.keeps.ReceiveAsync(nil) {
		continue // what there is now is looked at next
	}
	for k.renews.ReceiveAsync(nil) {
		k.all = true
	}
}

// round renews what is due, some clusters at a time, and says when to look again.
func (k *keeper) round(ctx workflow.Context, certificates []activities.Renewal) (next time.Time, err error) {
	now, open, begun := workflow.Now(ctx), 0, false
	next = now.Add(longestKeep)
	// What has long been due has been tried before: it comes last, so that nothing waits for clusters that do not answer.
	slices.SortStableFunc(certificates, func(x, y activities.Renewal) int { return y.At.Compare(x.At) })
	for _, c := range certificates {
		if !k.all && c.At.After(now) {
			if c.At.Before(next) {
				next = c.At
			}
			continue
		}
		if err := workflow.Await(ctx, func() bool { return open < openLeaves }); err != nil {
			break
		}
		open++
		begun = true
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { open-- }()
			if err := workflow.ExecuteActivity(renewing(ctx), kube.RenewCertificate, c.Leaf).Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Error("renew certificate", "cluster", c.Leaf.Cluster, "error", err)
			}
		})
	}
	k.all = false
	// Who cancels the workflow deletes next what a renewal may still make.
	whole, _ := workflow.NewDisconnectedContext(ctx)
	if err := workflow.Await(whole, func() bool { return open == 0 }); err != nil {
		return next, err
	}
	if begun { // what did not get through is due again, and the others say when they are
		next = workflow.Now(ctx).Add(keepAgain)
	}
	return next, ctx.Err()
}
