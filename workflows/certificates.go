package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

// keptRenewals names the change by which a run of KeepCertificates with a long history goes on as a new one also when all
// certificates are to be replaced.
const keptRenewals = "kept-renewals"

// KeepRun is what one run of KeepCertificates hands to the next. Who starts the first one says nothing of it, nor does a worker of
// v0.1.0.
type KeepRun struct {
	All   bool       `json:"all,omitempty"`   // all certificates are to be replaced in the next round, whatever their age
	Next  time.Time  `json:"next,omitzero"`   // when to look again, zero for at once
	Round *KeepRound `json:"round,omitempty"` // that goes on, nil for none
}

// KeepRound is a round of renewals, of which a part may be done. However many clusters the cloud has, it is as short.
type KeepRound struct {
	All   bool                     `json:"all,omitempty"`   // of all certificates
	Began time.Time                `json:"began"`           // what is due by then is replaced
	After *activities.RenewalPlace `json:"after,omitempty"` // where the next part begins
}

// KeepCertificates keeps the certificates of a logical cloud's user good until the cloud is terminated: each is
// replaced after two thirds of its life. A cluster that does not answer then is tried again and again, beside the
// others. KeepSignal tells that there may be other clusters, RenewSignal has all certificates replaced at once.
// A round of many clusters is done in parts, and goes on in the next run where the history gets long.
func KeepCertificates(ctx workflow.Context, cloud domain.Key, in KeepRun) error {
	kept := workflow.GetVersion(ctx, keptRenewals, workflow.DefaultVersion, 1) != workflow.DefaultVersion
	k := &keeper{
		KeepRun: in, cloud: cloud,
		keeps: workflow.GetSignalChannel(ctx, KeepSignal), renews: workflow.GetSignalChannel(ctx, RenewSignal),
	}
	for {
		if !k.Next.IsZero() {
			awake := func() bool { return k.keeps.Len()+k.renews.Len() > 0 }
			if _, err := workflow.AwaitWithTimeout(ctx, max(k.Next.Sub(workflow.Now(ctx)), 0), awake); err != nil {
				return err
			}
		}
		k.receive()
		if over, err := k.round(ctx); err != nil || over {
			return err
		}
		if k.Round == nil {
			workflow.SetCurrentDetails(ctx, fmt.Sprintf("next look at %s", k.Next.UTC().Format(time.RFC3339)))
		}
		if !k.full(ctx) {
			continue
		}
		next := k.Next
		k.receive() // last: what comes later has Temporal repeat this task
		if k.Round != nil || !k.All || kept {
			return workflow.NewContinueAsNewError(ctx, KeepCertificatesName, k.cloud, k.KeepRun)
		}
		k.Next = next // as runs that began with v0.1.0 do
	}
}

// keeper is one run of KeepCertificates.
type keeper struct {
	KeepRun
	cloud         domain.Key
	keeps, renews workflow.ReceiveChannel
	open          int // renewals
}

// receive takes the signals that have come.
func (k *keeper) receive() {
	for k.keeps.ReceiveAsync(nil) {
		k.Next = time.Time{}
	}
	for k.renews.ReceiveAsync(nil) {
		k.All, k.Next = true, time.Time{}
	}
}

// full says that the history is long enough for a new run.
func (k *keeper) full(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > keepEvents
}

// round begins a round or goes on with it, and waits for the renewals that it began. It is not over where the history gets
// long first: Round says how far it is. Else Next says when to look again.
func (k *keeper) round(ctx workflow.Context) (over bool, err error) {
	if k.Round == nil {
		k.Round, k.All = &KeepRound{All: k.All, Began: workflow.Now(ctx)}, false
	}
	begun := k.Round.After != nil
	for {
		var part activities.Renewals
		part, err = k.part(ctx)
		if err != nil || part.Over {
			over = part.Over
			break
		}
		begun = begun || len(part.Clusters) > 0
		if err = k.renew(ctx, part); err != nil {
			break
		}
		k.Next = workflow.Now(ctx).Add(longestKeep)
		if !part.Next.IsZero() && part.Next.Before(k.Next) {
			k.Next = part.Next
		}
		if k.Round.After = part.Last; part.Last == nil {
			k.Round = nil
			break
		}
		if k.full(ctx) {
			break
		}
	}
	// Who cancels the workflow deletes next what a renewal may still make.
	whole, _ := workflow.NewDisconnectedContext(ctx)
	if err := workflow.Await(whole, func() bool { return k.open == 0 }); err != nil {
		return over, err
	}
	if err == nil {
		err = ctx.Err()
	}
	switch {
	case k.Round != nil, k.All: // it goes on, or all were asked for when the run before ended
		k.Next = time.Time{}
	case begun: // what did not get through is due again, and the others say when they are
		k.Next = workflow.Now(ctx).Add(keepAgain)
	}
	return over, err
}

// part reads the next clusters of the round.
func (k *keeper) part(ctx workflow.Context) (out activities.Renewals, err error) {
	in := activities.RenewalsPart{By: k.Round.Began, All: k.Round.All, After: k.Round.After, Most: keepPart}
	if err := brieflyWith(ctx, lifecycle.Renewals, &out, k.cloud, &in); err != nil {
		return out, err
	}
	k.pick(workflow.Now(ctx), &out)
	return out, nil
}

// pick has of what a worker of v0.1.0 has read, which is all, what is due now.
func (k *keeper) pick(now time.Time, out *activities.Renewals) {
	slices.SortStableFunc(out.Due, func(x, y activities.Renewal) int { return y.At.Compare(x.At) })
	for _, c := range out.Due {
		if !k.Round.All && c.At.After(now) {
			out.Next = c.At // the earlier come later
			continue
		}
		out.Leaf = c.Leaf
		out.Clusters = append(out.Clusters, c.Leaf.Cluster)
	}
}

// renew begins the renewals of a part, some at a time.
func (k *keeper) renew(ctx workflow.Context, part activities.Renewals) error {
	all := k.Round.All
	for _, c := range part.Clusters {
		if err := workflow.Await(ctx, func() bool { return k.open < openLeaves }); err != nil {
			return err
		}
		k.open++
		in := part.Leaf
		in.Cluster = c
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { k.open-- }()
			if err := workflow.ExecuteActivity(renewing(ctx, all), kube.RenewCertificate, in).Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Error("renew certificate", "cluster", in.Cluster, "error", err)
			}
		})
	}
	return nil
}
