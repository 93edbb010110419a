package combined

import (
	"context"
	"iter"
	"time"

	"github.com/drover-io/drover/internal/combine"
	"github.com/drover-io/drover/internal/panics"
)

// A table whose expressions take long must not keep others, nor who asks. So rows are taken in passes: in each of them a table has
// a slice of time, and leaves for the next pass what it has not come to. The slices get longer, up to combine.TableTime, with which
// a table is given up. Between two passes, and within one, whoever asks may go away: what has been taken stays.

// firstSlice is how long the expressions of a table may run in the first pass. It is much more than tables of thousands of rows
// mostly take, for which each pass costs the decoding of what clusters report once more.
var firstSlice = 500 * time.Millisecond

// sliceGrowth is how much longer the next slice is than what the quickest of the unfinished tables has taken.
const sliceGrowth = 4

// unfinished stands in place of the rows of a table that has left some: half a number is never shown.
const unfinished = "the table is not there yet: its expressions take long; ask again"

// unfinishedOnce does so where nobody goes on with it.
const unfinishedOnce = "the table is not there: its expressions take too long for one request; ask for fewer objects by tests, or store the collector " +
	"and name it in a status intent, whose tables go on when you ask again"

// fault is why a table is given up that panics: by itself, so that a table which nobody has foreseen never ends the others of its group.
const fault = "it cannot be evaluated, which is a fault of Drover's own; the API's log has it"

// table is that of a collector in an item.
type table struct {
	program *combine.Program
	rows    *combine.Table  // nil for one that is broken
	broken  *combine.Result // in its place
	wants   func(o *Object) bool
	// left are the rows that it has not taken yet; nil for none.
	left map[combine.Key]struct{}
	// again is a new attempt at a table that was given up, until it has all rows: then it takes its place.
	again *combine.Table
	// was is what it took in memory when it was given up for what all take together, or less (Set.Retry); 0 when it never was.
	was int64
}

// live is what takes rows.
func (t *table) live() *combine.Table {
	if t.again != nil {
		return t.again
	}
	return t.rows
}

// put takes a row, or leaves it for later when the table has taken more than a slice of time. It says whether something else may
// be shown now.
func (t *table) put(ctx context.Context, row *combine.Row, slice time.Duration) (changed bool) {
	live := t.live()
	if live.GivenUp() {
		return false
	}
	if live.Taken() > slice {
		changed = t.left == nil
		t.leave(row.Key)
		return changed
	}
	// That a request ends, or a look of a stream, must not give up tables that are kept: whoever has more rows looks at ctx.
	changed, err := panics.Value(ctx, func() (bool, error) { return live.Put(context.WithoutCancel(ctx), row), nil })
	if err != nil {
		live.GiveUp(fault)
		changed = true
	}
	return t.took(row.Key) || changed && t.again == nil && t.left == nil
}

func (t *table) leave(key combine.Key) {
	if t.left == nil {
		t.left = map[combine.Key]struct{}{}
	}
	t.left[key] = struct{}{}
}

// took notes that a row is not left any more, and says whether the table is finished by that.
func (t *table) took(key combine.Key) bool {
	if t.live().GivenUp() {
		return t.finish()
	}
	if t.left == nil {
		return false
	}
	delete(t.left, key)
	return len(t.left) == 0 && t.finish()
}

// finish is when nothing is left.
func (t *table) finish() bool {
	t.left = nil
	if t.again != nil {
		t.rows, t.again = t.again, nil
	}
	t.rows.Whole()
	return true
}

// giveUp gives up what takes rows.
func (t *table) giveUp(why string) {
	t.live().GiveUp(why)
	t.finish()
}

func (t *table) drop(key combine.Key) {
	t.live().Drop(key)
	t.took(key)
}

// result is what is shown; why stands in place of rows while some are left.
func (t *table) result(why string) *combine.Result {
	switch {
	case t.rows == nil:
		return t.broken
	case t.left != nil && t.again == nil:
		return t.program.Without(why)
	}
	// What is shown is for all who ask, whoever has asked first.
	r, err := panics.Value(context.Background(), func() (*combine.Result, error) { return t.rows.Result(), nil })
	if err != nil {
		t.rows.GiveUp(fault)
		return t.program.Without(combine.GivenUp + fault)
	}
	return r
}

// retry begins anew a table that was given up.
func (t *table) retry(keys iter.Seq[combine.Key]) {
	t.again = combine.NewTable(t.program)
	for key := range keys {
		t.leave(key)
	}
	if t.left == nil {
		t.finish()
	}
}
