package activities

import (
	"context"
	"errors"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lease"
)

// A write whose answer nobody got may have been done, or be done at any time later: a database that is slow does not know
// that whoever asked has given up. So an activity that finds another revision than the one it has read does not know whether
// somebody else was faster or an attempt before it, and looks again: what is there says which, as each operation finds its
// own in it.

// errOvertaken says that a compare-and-set has found another revision.
var errOvertaken = errors.New("overtaken by another write")

// again does something anew, from what is there then, as long as it is overtaken.
func again(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, errOvertaken) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// replace is the store's, with errOvertaken for its Conflict. The document was read while the lease was held, which is why it is asked here.
func (l *Lifecycle) replace(ctx context.Context, o domain.Object) error {
	if err := lease.Check(ctx); err != nil {
		return err
	}
	err := l.Store.Replace(ctx, o)
	if fail.Is(err, fail.Conflict) {
		return errOvertaken
	}
	return err
}

// refuse makes a refusal the last word: what an earlier attempt has sent is made from the revision that o has, and comes to
// nothing when that is another.
func (l *Lifecycle) refuse(ctx context.Context, o domain.Object, refusal error) error {
	if err := l.replace(ctx, o); err != nil {
		return err
	}
	return refusal
}
