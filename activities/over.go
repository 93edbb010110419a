package activities

import (
	"context"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/outcome"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/share"
)

// goingOn knows which operations go on by the records of their contexts. Leaves of an operation begin together, and one of them reads its record.
type goingOn struct {
	reads *share.Reads[*domain.Instance]
	seen  *lru.Cache[domain.Scope, time.Time] // when it was read last that an operation goes on
}

// seenOperations bounds goingOn.seen.
const seenOperations = 1024

func newGoingOn() *goingOn {
	return &goingOn{reads: share.New[*domain.Instance](), seen: lru.New[domain.Scope, time.Time](seenOperations)}
}

// over says whether the operation has ended by the record of its context, see outcome.Over. One without a beginning is none of a run, and is not.
func (g *goingOn) over(ctx context.Context, records Records, s domain.Scope) (bool, error) {
	if s.Began == 0 {
		return false, nil
	}
	now := time.Now()
	at, known := g.seen.Get(s)
	if known && now.Sub(at).Abs() < policy.GoesOn {
		return false, nil
	}
	i, err := g.reads.Get(ctx, s.ContextID, func(ctx context.Context) (*domain.Instance, error) {
		return recordOf(ctx, records, s.ContextID)
	})
	switch {
	case err != nil && known: // what was seen going on goes on while nobody answers
		return false, nil
	case err != nil:
		return false, err
	case outcome.Over(i, s):
		return true, nil
	default:
		g.seen.Add(s, now)
		return false, nil
	}
}

// isOver looks whether the leaf's operation has ended, as it has when Temporal's database was restored and the store was not: then nothing is sent. What
// is recorded of the leaf since the operation began is its end. Conflict when nothing is.
func (a *attempt) isOver(ctx context.Context) (end *domain.Leaf, err error) {
	over, err := a.kube.going.over(ctx, a.kube.Records, a.in.Scope)
	if err != nil || !over {
		return nil, err
	}
	leaf, err := a.kube.leaves.Leaf(ctx, a.in.LeafID())
	switch {
	case err == nil && leaf.Turn.Began >= a.in.Began:
		return told(leaf), nil
	case err == nil || fail.Is(err, fail.NotFound):
		return nil, fail.New(fail.Conflict, "the %s of %s has ended, as the record of app context %s says: nothing is done for it any more",
			a.in.Operation, domain.NameOwner(a.in.Owner), a.in.ContextID)
	default:
		return nil, err
	}
}
