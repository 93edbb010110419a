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
	clustersOf *lru.Cache[domain.Digest, []domain.ClusterName]
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
	recallPlanBytes, recallLeafBytes = 128 << 20, 128 << 20
)

func newRecall() *recall {
	return &recall{
		plans: lru.NewWeighed[domain.Digest, *plan.Plan](recallPlans, recallPlanBytes),
		ended: lru.NewWeighed[ending, []domain.Leaf](recallEnded, recallLeafBytes), clustersOf: lru.New[domain.Digest, []domain.ClusterName](recallClusters),
	}
}

// plan reads a plan, which must not be changed.
func (r *recall) plan(ctx context.Context, records Records, digest domain.Digest) (*plan.Plan, error) {
	if p, ok := r.plans.Get(digest); ok {
		return p, nil
	}
	p, err := stored.JSON[plan.Plan](ctx, records, digest)
	if err == nil {
		r.plans.Add(digest, p, heldOfPlan(p))
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
		n += heldOfLeaf + int64(len(l.Marks)+len(l.LastError)+len(l.Report)) + heldOfNotes(l.Notes) + heldOfNotes(l.Warnings) + heldOfTexts(l.Unpatchable)
	}
	return n
}

func heldOfNotes(notes []domain.Note) (n int64) {
	const perNote = 32 // beside its text
	for i := range notes {
		n += perNote + int64(len(notes[i].Message))
	}
	return n
}

func heldOfTexts(texts []string) (n int64) {
	const perText = 24
	for _, text := range texts {
		n += perText + int64(len(text))
	}
	return n
}

// heldOfPlan is what a plan takes in memory, about. What its targets have grows with the clusters.
func heldOfPlan(p *plan.Plan) (n int64) {
	const perApp, perResource, perTarget, perInherited, perEffect = 1 << 10, 192, 192, 128, 128
	for i := range p.Apps {
		a := &p.Apps[i]
		n += perApp + perResource*int64(len(a.Resources)) + perEffect*int64(len(a.Effects))
		for _, v := range a.Variants {
			n += perEffect * int64(1+len(v.Effects))
		}
		for c := range a.Targets {
			t := &a.Targets[c]
			n += perTarget + int64(len(t.Reason)) + heldOfTexts(t.Passed)
			if in := t.Inherited; in != nil {
				n += perInherited + int64(len(in.Marks)+len(in.Report)) + heldOfNotes(in.Warnings)
			}
		}
	}
	return n
}
