package combine

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
)

// group are the rows that are equal in the keys.
type group struct {
	name    string
	rows    int
	changed bool          // and values have to be made anew
	values  []value       // of the keys, then of the aggregates
	whole   []int         // of each key, how many rows have it otherwise than as a double
	columns []accumulator // of the aggregates
	left    []leftOut     // by them
}

// leftOut are the values of a column that its aggregate could not use.
type leftOut struct {
	count int
	first []*entry // three at the most, in the order of rows
}

// accumulator makes an aggregate of the values of a column in a group. Values come and go, and what it is does not depend on how
// they came: sums are exact, and what is the first of something is so by its value or its key.
type accumulator struct {
	used   int   // numbers
	sum    exact // of them, for SUM and AVG
	best   queue // of them by value, for MIN and MAX
	times  queue // by value, for MIN and MAX
	dated  queue // the same by key: they are left out where there are numbers
	others queue // by key
}

// enter takes the value of an entry into account, leave out of it.
func (a *accumulator) enter(c *column, e *entry) {
	switch v := c.of(e); {
	case v.class == isNull:
	case v.class == isNumber && c.sums():
		a.used++
		a.sum.add(v.number)
	case v.class == isNumber:
		a.used++
		a.best.enter(&c.byValue, e)
	case v.class == isTime && !c.sums():
		a.times.enter(&c.byValue, e)
		a.dated.enter(&c.byKey, e)
	default:
		a.others.enter(&c.byKey, e)
	}
}

func (a *accumulator) leave(c *column, e *entry) {
	switch v := c.of(e); {
	case v.class == isNull:
	case v.class == isNumber && c.sums():
		a.used--
		a.sum.subtract(v.number)
	case v.class == isNumber:
		a.used--
		a.best.leave(&c.byValue, e)
	case v.class == isTime && !c.sums():
		a.times.leave(&c.byValue, e)
		a.dated.leave(&c.byKey, e)
	default:
		a.others.leave(&c.byKey, e)
	}
}

// result is the aggregate of a group of so many rows, and what it left out.
func (a *accumulator) result(c *column, rows int) (value, leftOut) {
	left := leftOut{len(a.others.entries), a.others.first(&c.byKey, maxLeftShown)}
	if a.used > 0 && len(a.dated.entries) > 0 {
		left.count += len(a.dated.entries)
		left.first = append(left.first, a.dated.first(&c.byKey, maxLeftShown)...)
		slices.SortFunc(left.first, func(e, f *entry) int { return e.key.Compare(f.key) })
		left.first = left.first[:min(maxLeftShown, len(left.first))]
	}
	switch {
	case c.kind == domain.AggregatorCount:
		return value{class: isNumber, number: integer(int64(rows))}, left
	case c.kind == domain.AggregatorSum:
		return value{class: isNumber, number: a.sum.over(1)}, left
	case c.kind == domain.AggregatorAvg && a.used > 0:
		return value{class: isNumber, number: a.sum.over(int64(a.used))}, left
	case len(a.best.entries) > 0:
		return *c.of(a.best.entries[0]), left
	case len(a.times.entries) > 0:
		return *c.of(a.times.entries[0]), left
	default:
		return null, left
	}
}

// column is an aggregate of a table.
type column struct {
	kind    domain.AggregatorType
	value   int     // which of an entry's values is its subject
	byValue ranking // so that the first one is the aggregate
	byKey   ranking
}

func columnsOf(p *Program) []column {
	columns := make([]column, len(p.subjects))
	for i := range columns {
		c := &columns[i]
		c.kind, c.value = p.subjects[i].Type, len(p.first)+i
		c.byValue = ranking{place: 2 * i, before: func(e, f *entry) bool { return c.better(c.of(e), c.of(f)) }}
		c.byKey = ranking{place: 2*i + 1, before: func(e, f *entry) bool { return e.key.Compare(f.key) < 0 }}
	}
	return columns
}

func (c *column) of(e *entry) *value { return &e.values[c.value] }

// sums says whether it is made of the sum.
func (c *column) sums() bool { return c.kind == domain.AggregatorSum || c.kind == domain.AggregatorAvg }

// better says whether MIN or MAX is v and not w. Of equal numbers it is the one that is no double, which has all its digits; two
// that are the same in that too are written alike.
func (c *column) better(v, w *value) bool {
	by := v.compare(w)
	if c.kind == domain.AggregatorMax {
		by = -by
	}
	return by < 0 || by == 0 && v.number.double == 0 && w.number.double != 0
}

// ranking is an order in which entries are queued; place is which of their places it uses.
type ranking struct {
	place  int
	before func(e, f *entry) bool
}

// queue is a heap of entries, so that the first one is at hand, and each can leave.
type queue struct{ entries []*entry }

func (q *queue) enter(r *ranking, e *entry) { heap.Push(&queued{q, r}, e) }

func (q *queue) leave(r *ranking, e *entry) { heap.Remove(&queued{q, r}, int(e.places[r.place])) }

// first are the first ones, so many at the most, which are few.
func (q *queue) first(r *ranking, most int) []*entry {
	if len(q.entries) == 0 {
		return nil
	}
	found := slices.Clone(q.entries[:min(len(q.entries), 1<<most-1)]) // the first n are within n levels of a heap
	slices.SortFunc(found, func(e, f *entry) int {
		if r.before(e, f) {
			return -1
		}
		return 1
	})
	return found[:min(most, len(found))]
}

// queued is a queue as container/heap knows it.
type queued struct {
	*queue
	*ranking
}

// Len, Less, Swap, Push and Pop are heap's.
func (q *queued) Len() int           { return len(q.entries) }
func (q *queued) Less(i, j int) bool { return q.before(q.entries[i], q.entries[j]) }
func (q *queued) Swap(i, j int) {
	q.entries[i], q.entries[j] = q.entries[j], q.entries[i]
	q.entries[i].places[q.place], q.entries[j].places[q.place] = int32(i), int32(j)
}

// Push is heap's.
func (q *queued) Push(e any) {
	e.(*entry).places[q.place] = int32(len(q.entries))
	q.entries = append(q.entries, e.(*entry))
}

// Pop is heap's.
func (q *queued) Pop() any {
	end := len(q.entries) - 1
	last := q.entries[end]
	q.entries[end] = nil
	q.entries = fit(q.entries[:end])
	return last
}

// fit moves what is left into an array of its own when it is less than a quarter of the old one, which would stay as large as it has
// ever been. Each move is paid by those that have left since the one before.
func fit(entries []*entry) []*entry {
	const few = 64
	if cap(entries) > few && len(entries) < cap(entries)/4 {
		return slices.Clone(entries)
	}
	return entries
}

// join takes an entry into its group, and part out of it.
func (t *Table) join(g *group, e *entry) {
	g.rows++
	g.changed = true
	for i := range g.whole {
		if e.values[i].number.double == 0 {
			g.whole[i]++
		}
	}
	for i := range t.columns {
		g.columns[i].enter(&t.columns[i], e)
	}
}

func (t *Table) part(g *group, e *entry) {
	g.rows--
	g.changed = true
	for i := range g.whole {
		if e.values[i].number.double == 0 {
			g.whole[i]--
		}
	}
	for i := range t.columns {
		g.columns[i].leave(&t.columns[i], e)
	}
}

// newGroup is one without rows, of the keys of an entry; nil for the only one there is.
func (t *Table) newGroup(name string, e *entry) *group {
	keys := len(t.program.first)
	g := &group{
		name: name, changed: true, values: make([]value, keys+len(t.columns)), whole: make([]int, keys),
		columns: make([]accumulator, len(t.columns)), left: make([]leftOut, len(t.columns)),
	}
	if e != nil {
		copy(g.values, e.values[:keys])
	}
	return g
}

// aggregate makes the values of the groups that have changed.
func (t *Table) aggregate() {
	keys := len(t.program.first)
	for _, g := range t.groups {
		if !g.changed {
			continue
		}
		for i := range g.whole { // a number that one row has with all its digits is shown with them
			if v := &g.values[i]; v.class == isNumber {
				v.number = v.number.as(g.whole[i] == 0)
			}
		}
		for i := range g.columns {
			g.values[keys+i], g.left[i] = g.columns[i].result(&t.columns[i], g.rows)
		}
		g.changed = false
	}
}

// maxLeftShown is how many of the values that were left out an error names.
const maxLeftShown = 3

// errorOf says what an aggregate of a group left out, "" for nothing.
func (t *Table) errorOf(g *group, column int) string {
	left := g.left[column]
	if left.count == 0 {
		return ""
	}
	shown := make([]string, 0, len(left.first)+1)
	for _, e := range left.first {
		v := t.columns[column].of(e)
		is := v.string()
		if v.class == isBool {
			is = fmt.Sprint(v.number.small == 1)
		}
		if v.class == isString {
			is = fmt.Sprintf("%q", is)
		}
		where := e.key.ClusterID()
		if e.key.Object != "" {
			where = e.key.Object + " on " + where
		}
		shown = append(shown, fmt.Sprintf("%s (%s %s)", where, v.typeName(), is))
	}
	if left.count > len(shown) {
		shown = append(shown, "…")
	}
	in := ""
	if keys := len(t.program.first); keys > 0 {
		parts := make([]string, keys)
		for i := range keys {
			parts[i] = t.program.columns[i] + " " + g.values[i].inWords()
		}
		in = " in the group of " + strings.Join(parts, ", ")
	}
	of := "cluster"
	if left.first[0].key.Object != "" { // a cluster has several
		of = "row"
	}
	if left.count > 1 {
		of += "s"
	}
	return fmt.Sprintf("left out %d %s%s, of which it can use no value: %s", left.count, of, in, strings.Join(shown, ", "))
}

// inWords is a value as it stands in a message.
func (v *value) inWords() string {
	switch v.class {
	case isNull:
		return "null"
	case isBool:
		return fmt.Sprint(v.number.small == 1)
	case isNumber:
		return v.number.String()
	case isString:
		return fmt.Sprintf("%q", shorten(v.text))
	default:
		return shorten(v.string())
	}
}
