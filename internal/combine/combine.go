// Package combine makes tables of what clusters report of an object, as status collectors ask for them: docs/combined-status.md
// has the rules. It also makes the one status that all clusters' together are (Aggregate). It decides from values alone.
//
// How it is used:
//
//	program, err := combine.Compile(name, &collector.Spec) // once for a collector; Check is the same for who only asks
//	table := combine.NewTable(program)                     // once for an object
//	for each target { table.Put(ctx, &row) }               // again for each target that changes: true where the table may have changed
//	table.Drop(key)                                        // a target has left
//	result := table.Result()                               // the same as that of a new table with the rows that there are now
package combine

import (
	"context"
	"iter"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// Program is a collector, compiled. It may be used by many goroutines at once.
type Program struct{ name string }

// Check says all that is wrong with a spec, its expressions included, in the order of its members. The error is Invalid, with a
// field for each fault, such as spec.groupBy[0].def with "line 1, column 9: undeclared reference to 'x'". It finds what
// StatusCollectorSpec.Validate finds, so that one of the two is enough.
func Check(spec *domain.StatusCollectorSpec) error {
	_, err := Compile("", spec)
	return err
}

// Compile prepares a collector. The error is Check's.
func Compile(name string, _ *domain.StatusCollectorSpec) (*Program, error) {
	return nil, fail.New(fail.Internal, "collector %s: not there yet", name)
}

// Broken is the result of a collector that does not compile, with what is wrong as errors. The others go on.
func Broken(name string, spec *domain.StatusCollectorSpec, err error) *Result {
	return &Result{Name: name, ColumnNames: spec.Columns(), Rows: []ResultRow{}, Errors: []string{fail.TextOf(err)}}
}

// Table holds what a collector's expressions gave on the rows of one object, or of several. It may be used by one goroutine at a
// time.
type Table struct{ program *Program }

// NewTable makes an empty one.
func NewTable(p *Program) *Table { return &Table{program: p} }

// Put adds a row, or replaces the one with the same key, and says whether anything of the table may have changed by it. The
// expressions run now, at most half the cores' worth of them at once in the process. When ctx ends, whose deadline is to be
// TableTime after the first Put of a whole table, the table is given up: its result has errors and no rows, and stays so.
func (t *Table) Put(context.Context, *Row) bool { return false }

// Drop takes a row out, and says whether it was there.
func (t *Table) Drop(Key) bool { return false }

// Len is how many rows of the input there are.
func (t *Table) Len() int { return 0 }

// Result is the table as it stands.
func (t *Table) Result() *Result {
	return &Result{Name: t.program.name, ColumnNames: []string{}, Rows: []ResultRow{}}
}

// Evaluate makes a whole table within TableTime.
func Evaluate(ctx context.Context, p *Program, rows iter.Seq[*Row]) *Result {
	ctx, cancel := context.WithTimeout(ctx, TableTime)
	defer cancel()
	t := NewTable(p)
	for row := range rows {
		t.Put(ctx, row)
	}
	return t.Result()
}
