package activities

import (
	"context"

	"github.com/drover-io/drover/internal/cas"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/outcome"
)

// A write whose answer nobody got may have been done, or be done at any time later: a database that is slow does not know
// that whoever asked has given up. So an activity that finds another revision than the one it has read does not know whether
// somebody else was faster or an attempt before it, and looks again: what is there says which, as each operation finds its
// own in it.

// replace is the store's, with cas.ErrOvertaken for its Conflict. The document was read while the lease was held, which is why it is asked here.
func (l *Control) replace(ctx context.Context, o domain.Object) error {
	if err := lease.Check(ctx); err != nil {
		return err
	}
	return cas.Overtaken(l.Store.Replace(ctx, o))
}

// carryOut does with the owner's document what was decided.
func (l *Control) carryOut(ctx context.Context, o domain.Object, v outcome.Verdict) error {
	switch {
	case !v.Write:
		return v.Refusal
	case v.Refusal != nil:
		return l.refuse(ctx, o, v.Refusal)
	default:
		return l.replace(ctx, o)
	}
}

// refuse makes a refusal the last word: what an earlier attempt has sent is made from the revision that o has, and comes to
// nothing when that is another.
func (l *Control) refuse(ctx context.Context, o domain.Object, refusal error) error {
	if err := l.replace(ctx, o); err != nil {
		return err
	}
	return refusal
}
