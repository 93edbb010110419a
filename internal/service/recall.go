package service

import (
	"context"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/stored"
)

// recall keeps what status queries read again and again and what does not change: plans, which have their
// content's digest as a name, and the leaves of operations that have ended.
type recall struct {
	plans *lru.Weighed[domain.Digest, *plan.Plan]
	ended *lru.Weighed[ending, []domain.Leaf]
	// clustersOf are those of plans; they are kept of many more plans than the plans themselves are.
	clustersOf *lru.Weighed[domain.Digest, []domain.ClusterName]
}

// ending is one end of one operation on a context. The record's own time makes it another one when the
// context is worked on again.
type ending struct {
	contextID string
	status    domain.ContextStatus
	at        time.Time
}

// Bounds of recall: plans and contexts are many or large, hardly ever both.
const (
	recallPlans    = 32
	recallEnded    = 32
	recallClusters = maxWatched // or a look at that many groups would find none

	// What all of them may take in memory, about. Leaves that take more by themselves are read each time.
	recallPlanBytes, recallLeafBytes, recallClusterBytes = 128 << 20, 128 << 20, 128 << 20
)

func newRecall() *recall {
	return &recall{
		plans:      lru.NewWeighed[domain.Digest, *plan.Plan](recallPlans, recallPlanBytes),
		ended:      lru.NewWeighed[ending, []domain.Leaf](recallEnded, recallLeafBytes),
		clustersOf: lru.NewWeighed[domain.Digest, []domain.ClusterName](recallClusters, recallClusterBytes),
	}
}

// plan reads a plan, which must not be changed.
func (r *recall) plan(ctx context.Context, records Records, digest domain.Digest) (*plan.Plan, error) {
	if p, ok := r.plans.Get(digest); ok {
		return p, nil
	}
	p, err := stored.JSON[plan.Plan](ctx, records, digest)
	if err == nil {
		r.plans.Add(digest, p, p.Weight())
	}
	return p, err
}

// leaves reads the leaves of a context, which must not be changed. The record i was read before them: of an
// operation that has ended, all leaves are in the store by then.
func (r *recall) leaves(ctx context.Context, records Records, i *domain.Instance) ([]domain.Leaf, error) {
	key := ending{i.ContextID, i.Status, i.Ended}
	if leaves, ok := r.ended.Get(key); ok {
		return leaves, nil
	}
	leaves, err := records.Leaves(ctx, i.ContextID)
	if err == nil && !i.Ended.IsZero() && !i.Status.InProgress() {
		if held := heldOfLeaves(leaves); held <= recallLeafBytes {
			r.ended.Add(key, leaves, held)
		}
	}
	return leaves, err
}

// heldOfLeaf is what a leaf takes in memory beside its marks and what is said of it: its members and its names.
const heldOfLeaf = 800

// heldOfLeaves is what leaves take in memory, about.
func heldOfLeaves(leaves []domain.Leaf) (n int64) {
	for i := range leaves {
		l := &leaves[i]
		n += heldOfLeaf + int64(len(l.Marks)+len(l.LastError)+len(l.Report)) + domain.WeightOfNotes(l.Notes) + domain.WeightOfNotes(l.Warnings) + domain.WeightOfTexts(l.Unpatchable)
	}
	return n
}
