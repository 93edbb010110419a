package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/share"
	"github.com/drover-io/drover/internal/stored"
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
	going                    *goingOn
}

// NewKube makes the activities. agent is what installs the agent into a cluster.
func NewKube(clusters Clusters, leaves Leaves, reporter Reporter, reports Reports, agent []plan.Resource) *Kube {
	return &Kube{
		clusters: clusters, leaves: leaves, reporter: reporter, reporting: newReporting(reports, agent),
		bundles: lru.NewWeighed[bundleKey, *plan.Bundle](decodedBundles, decodedBytes), Plans: newPlans(), bundleReads: share.New[*plan.Bundle](),
		going: newGoingOn(),
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
	a := &attempt{kube: k, in: in, began: lease.Now()}
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
	if err := a.load(ctx); err != nil || a.over != nil {
		return a.over, err
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
