package tenantagent

import (
	"context"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/pause"
)

// leaseName is that of the Lease of the agents of a cluster. It is in every cluster and must not change.
const leaseName = "drover-tenant-agent"

// Times of the Lease: for how long it is held, how long its holder tries to renew it before it gives up, and how often
// everybody looks.
const (
	leaseTime  = 15 * time.Second
	leaseRenew = 10 * time.Second
	leaseLook  = 2 * time.Second
)

// lead has work done while the agent has the Lease, until ctx ends. work ends with either of its contexts: with leading when the
// Lease is lost, and then at once. The Lease is given back after work has ended.
func (a *agent) lead(ctx context.Context, work func(ctx, leading context.Context) error) error {
	if a.config.Namespace == "" {
		leading, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		a.state.leads(true)
		return work(ctx, leading)
	}
	for ctx.Err() == nil {
		if err := a.leadOnce(ctx, work); err != nil {
			return err
		}
		if pause.For(ctx, leaseLook) != nil {
			break
		}
	}
	return nil
}

// leadOnce waits for the Lease and has work done until the Lease is lost, or ctx ends.
func (a *agent) leadOnce(ctx context.Context, work func(ctx, leading context.Context) error) error {
	leading, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	begun := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: a.config.Namespace, Name: leaseName}, Client: a.kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: a.config.Identity},
		},
		LeaseDuration: leaseTime, RenewDeadline: leaseRenew, RetryPeriod: leaseLook, Name: leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { begun <- leading },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(leading)
	}()
	defer func() {
		release()
		<-over
		a.giveBack(ctx)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return nil
	case leading := <-begun:
		leading, a.lost = context.WithCancel(leading)
		defer a.lost()
		a.config.Log.InfoContext(ctx, "the agent speaks for the tenant")
		a.state.leads(true)
		defer a.state.leads(false)
		err := work(ctx, leading)
		if leading.Err() != nil && ctx.Err() == nil {
			a.config.Log.WarnContext(ctx, "the agent has lost its Lease")
		}
		return err
	}
}

// giveBack gives the Lease back, so that another agent need not wait until it is over. The elector itself would do so by what it last
// knew: a process that was frozen would give back the Lease of the one that has taken over.
func (a *agent) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseRenew)
	defer cancel()
	leases := a.kube.CoordinationV1().Leases(a.config.Namespace)
	lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != a.config.Identity {
		return
	}
	nobody, soon, now := "", int32(1), metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.AcquireTime, lease.Spec.RenewTime = &nobody, &soon, &now, &now
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		a.config.Log.WarnContext(ctx, "the Lease cannot be given back: another agent waits until it is over", slog.Any("error", err))
	}
}

// stillLeads asks the cluster whether the Lease is the agent's. A process that was frozen learns so that another one has taken
// over, before it displaces that one's stream: its own clock may not have told it yet. It gives up its work then, and does not
// try to renew for longer what it has lost.
func (a *agent) stillLeads(ctx context.Context) error {
	if a.config.Namespace == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := a.kube.CoordinationV1().Leases(a.config.Namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return fail.Wrap(err, fail.Unavailable, "the Lease %s/%s cannot be read: %v", a.config.Namespace, leaseName, err)
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != a.config.Identity {
		a.lost()
		return fail.New(fail.Aborted, "the Lease %s/%s is another agent's", a.config.Namespace, leaseName)
	}
	return nil
}
