package combine

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/limits"
)

// TableTime is how long the expressions of a table may run before it is whole. What other tables take in between does not count.
const TableTime = 10 * time.Second

// tableTime is TableTime but in tests.
var tableTime = TableTime

// slots are for evaluations that go on at once: half the cores have something else to do.
var slots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Table holds what a collector's expressions gave on the rows of one object, or of several. It may be used by one goroutine at a
// time.
type Table struct {
	program *Program
	entries map[Key]*entry
	order   []*entry // in the order of keys when sorted
	sorted  bool
	groups  map[string]*group // by key; only of a program that groups
	columns []column          // of its aggregates
	// reported and nulls count, of each expression, the rows of reporting clusters that it was evaluated on, and on which it was null.
	reported, nulls []int
	kept            int           // bytes of text
	rows, errors    int           // entries that are kept, and errors of all
	taken           time.Duration // by the expressions since the table was whole
	spent           string        // why the table was given up; "" when it was not
}

// entry is what was evaluated on a row.
type entry struct {
	key    Key
	kept   bool
	values []value // of select; or of groupBy, then of the subjects
	errors []rowError
	group  *group  // nil where the row is in none
	places []int32 // in the queues of the group, two for each aggregate
	// counted are the expressions that count for warnings on this row, null those that were null; bits by number, the filter's is 0.
	counted, null uint64
}

// rowError is of an expression, by its number: 0 for the filter, the others from 1.
type rowError struct {
	number int
	text   string
}

// NewTable makes an empty one.
func NewTable(p *Program) *Table {
	expressions := 1 + len(p.first) + len(p.subjects)
	t := &Table{
		program: p, entries: map[Key]*entry{}, sorted: true, groups: map[string]*group{},
		reported: make([]int, expressions), nulls: make([]int, expressions),
	}
	if t.columns = columnsOf(p); p.grouped && len(p.first) == 0 {
		t.groups[""] = t.newGroup("", nil) // the one row that there is, whatever comes
	}
	return t
}

// Put adds a row, or replaces the one with the same key, and says whether anything of the table may have changed by it. The
// expressions run now: in all of the process at most on half the cores at once. When they have taken TableTime since the table
// was whole, when cells and errors are longer than limits.Table, or when ctx ends, the table is given up: its result has errors and
// no rows, and stays so.
func (t *Table) Put(ctx context.Context, row *Row) bool {
	if t.spent != "" {
		return false
	}
	if ctx.Err() != nil {
		return t.giveUp(context.Cause(ctx).Error())
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return t.giveUp(context.Cause(ctx).Error())
	}
	e := t.evaluate(row)
	if t.taken > tableTime {
		return t.giveUp("its expressions have taken longer than " + TableTime.String() + "; simplify them, or filter rows")
	}
	if !e.kept {
		e.values = nil
	}
	old := t.entries[row.Key]
	if old != nil && old.equal(e) {
		return false
	}
	if old != nil {
		t.leave(old)
		key, places := old.key, old.places
		*old = *e
		old.key, old.places = key, places
		e = old
	} else {
		t.entries[row.Key] = e
		t.sorted = t.sorted && (len(t.order) == 0 || t.order[len(t.order)-1].key.Compare(e.key) < 0)
		t.order = append(t.order, e)
	}
	t.enter(e)
	if t.kept > limits.Table {
		return t.giveUp("its cells and errors are longer than " + strconv.Itoa(limits.Table>>20) + " MiB together; select less, or filter rows")
	}
	return true
}

// evaluate runs the expressions in the slot that it has got, and gives that back whatever becomes of them.
func (t *Table) evaluate(row *Row) *entry {
	began := time.Now()
	defer func() {
		t.taken += time.Since(began)
		<-slots
	}()
	return t.program.evaluate(row)
}

// Whole says that all rows have been put. What is put after that is a change, and has a time of its own.
func (t *Table) Whole() { t.taken = 0 }

// Taken is how long its expressions have run since the table was whole.
func (t *Table) Taken() time.Duration { return t.taken }

// GivenUp says whether the table has been given up.
func (t *Table) GivenUp() bool { return t.spent != "" }

// Size is what the table takes in memory: between half and twice of it. One that was given up has its head yet.
func (t *Table) Size() int64 {
	const (
		perTable, perName   = 1 << 10, 100 // of its head, and of a column there beside its name
		perRow, perValue    = 280, 60      // of an entry with what names it, and of a value beside its text
		perGroup, perColumn = 300, 250     // of a group, and of what makes a column of it
		perPlace            = 16           // of a value that is queued
	)
	columns := len(t.program.first) + len(t.program.subjects)
	return int64(perTable + perName*columns + t.program.named + t.kept + len(t.order)*perRow + t.rows*(perValue*columns+perPlace*len(t.columns)) + len(t.groups)*(perGroup+perColumn*len(t.columns)))
}

// GivenUp stands in an error before why a table was given up.
const GivenUp = "the table has been given up: "

// GiveUp gives the table up: its result has that as an error and no rows, and stays so.
func (t *Table) GiveUp(why string) { t.giveUp(why) }

func (t *Table) giveUp(why string) bool {
	t.spent = GivenUp + why
	t.entries, t.order, t.groups = nil, nil, nil
	t.kept, t.rows, t.errors = 0, 0, 0 // it holds no rows any more, see Size
	return true
}

// Drop takes a row out, and says whether it was there.
func (t *Table) Drop(key Key) bool {
	e := t.entries[key]
	if e == nil {
		return false
	}
	t.leave(e)
	delete(t.entries, key)
	t.sort()
	i, _ := slices.BinarySearchFunc(t.order, key, func(e *entry, k Key) int { return e.key.Compare(k) })
	t.order = fit(slices.Delete(t.order, i, i+1))
	return true
}

// Len is how many rows of the input there are.
func (t *Table) Len() int { return len(t.order) }

// Evaluate makes a whole table.
func Evaluate(ctx context.Context, p *Program, rows iter.Seq[*Row]) *Result {
	t := NewTable(p)
	for row := range rows {
		t.Put(ctx, row)
	}
	return t.Result()
}

func (t *Table) sort() {
	if !t.sorted {
		slices.SortFunc(t.order, func(a, b *entry) int { return a.key.Compare(b.key) })
		t.sorted = true
	}
}

// enter takes an entry into account, leave out of it.
func (t *Table) enter(e *entry) {
	t.count(e, 1)
	if !t.program.grouped || !e.kept {
		return
	}
	keys := len(t.program.first)
	var name []byte
	for i := range keys {
		name = e.values[i].appendKey(name)
	}
	g := t.groups[string(name)]
	if g == nil {
		g = t.newGroup(string(name), e)
		t.groups[g.name] = g
	}
	if e.group = g; e.places == nil {
		e.places = make([]int32, 2*len(t.columns))
	}
	t.join(g, e)
}

func (t *Table) leave(e *entry) {
	t.count(e, -1)
	g := e.group
	if g == nil {
		return
	}
	t.part(g, e)
	if e.group = nil; g.rows == 0 && len(t.program.first) > 0 {
		delete(t.groups, g.name)
	}
}

func (t *Table) count(e *entry, by int) {
	for i := range e.values {
		t.kept += by * e.values[i].keeps()
	}
	for i := range e.errors {
		t.kept += by * len(e.errors[i].text)
	}
	if t.errors += by * len(e.errors); e.kept {
		t.rows += by
	}
	for i := range t.reported {
		if e.counted>>i&1 == 1 {
			t.reported[i] += by
		}
		if e.null>>i&1 == 1 {
			t.nulls[i] += by
		}
	}
}

// equal says whether two entries of a key give the same table.
func (e *entry) equal(f *entry) bool {
	return e.kept == f.kept && e.counted == f.counted && e.null == f.null && slices.Equal(e.errors, f.errors) &&
		slices.EqualFunc(e.values, f.values, func(v, w value) bool { return v.same(&w) })
}

// same says whether two values are shown alike.
func (v *value) same(w *value) bool {
	return v.class == w.class && v.text == w.text && v.nanos == w.nanos && v.number.compare(w.number) == 0 &&
		v.number.double == w.number.double
}

// evaluate runs all expressions on a row.
func (p *Program) evaluate(row *Row) *entry {
	in := &input{row: row}
	e := &entry{key: row.Key}
	reported := row.Returned != nil
	note := func(number int, v *value) {
		if reported {
			e.counted |= 1 << number
			if v.class == isNull {
				e.null |= 1 << number
			}
		}
	}
	fault := func(number int, expression *compiled, err error) {
		e.errors = append(e.errors, rowError{number, expression.why(in, err)})
		if reported {
			e.counted |= 1 << number // it is not null
		}
	}
	if p.filter != nil {
		keep, err := p.filter.bool(in)
		if err != nil {
			fault(0, p.filter, err)
			return e
		}
		note(0, &keep)
		if keep.class == isNull || keep.number.small == 0 {
			return e
		}
	}
	e.kept = true
	e.values = make([]value, len(p.first)+len(p.subjects))
	for i, expression := range p.first {
		v, err := expression.value(in)
		if err == nil && p.grouped && (v.class == isObject || v.class == isArray) {
			err = errorText("is of type " + v.typeName() + ", by which rows cannot be grouped")
		}
		if err != nil {
			fault(1+i, expression, err)
			e.kept = e.kept && !p.grouped // a row without a key is in no group
			v = null
		} else {
			note(1+i, &v)
		}
		e.values[i] = v
	}
	for i := range p.subjects {
		v, number := &e.values[len(p.first)+i], 1+len(p.first)+i
		*v = null
		expression := p.subjects[i].subject
		if expression == nil || !e.kept {
			continue
		}
		got, err := expression.value(in)
		if err != nil {
			fault(number, expression, err)
			continue
		}
		note(number, &got)
		*v = subject(got)
	}
	return e
}

// bool evaluates a filter: true, false or null.
func (e *compiled) bool(in *input) (value, error) {
	v, err := e.value(in)
	if err == nil && v.class != isBool && v.class != isNull {
		err = errorText("is of type " + v.typeName() + ", not bool")
	}
	return v, err
}

func (e *compiled) value(in *input) (value, error) {
	v, err := e.eval(in)
	if err != nil {
		return null, err
	}
	return valueOf(v)
}

// subject is a value as aggregates need it: a number, a time, null, or in few words what is neither.
func subject(v value) value {
	switch v.class {
	case isNumber, isTime, isNull:
		return v
	case isString:
		if n, ok := ofQuantity(v.text); ok {
			return value{class: isNumber, number: n}
		}
		return value{class: isString, text: shorten(v.text)}
	default:
		return value{class: v.class, text: shorten(v.text), number: v.number}
	}
}

// maxShown is how much of a value stands in an error.
const maxShown = 64

// shorten cuts a text, and lets go of what it is a part of.
func shorten(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:maxShown]), "") + "…"
}
