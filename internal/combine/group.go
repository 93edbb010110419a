package combine

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
)

// group are the rows that are equal in the keys.
type group struct {
	name    string
	rows    int
	changed bool    // and values have to be made anew
	values  []value // of the keys, then of the aggregates
	left    []leftOut
	running []accumulator // while the values are made
}

// leftOut are the values of a column that its aggregate could not use.
type leftOut struct {
	count int
	first []*leftValue // three at the most, in the order of rows
}

// leftValue is one of them.
type leftValue struct {
	place int // of the row
	key   Key
	value value
}

func (l *leftOut) add(place int, e *entry, v value) {
	if l.count++; len(l.first) < 3 {
		l.first = append(l.first, &leftValue{place, e.key, v})
	}
}

// accumulator makes an aggregate of the values of a column in a group, in the order of rows.
type accumulator struct {
	kind       domain.AggregatorType
	rows, used int
	small      int64 // with whole and parts, the sum
	whole      *big.Int
	parts      *big.Rat
	doubles    bool
	best, time value // of the numbers, and of the times; null before there is one
	others     leftOut
	times      leftOut
}

func newAccumulator(kind domain.AggregatorType) accumulator {
	return accumulator{kind: kind, best: null, time: null}
}

func (a *accumulator) add(place int, e *entry, v *value) {
	a.rows++
	if a.kind == domain.AggregatorCount {
		return
	}
	switch v.class {
	case isNull:
	case isNumber:
		a.used++
		if a.kind == domain.AggregatorSum || a.kind == domain.AggregatorAvg {
			a.sum(v.number)
		} else {
			a.better(&a.best, v)
		}
	case isTime:
		a.times.add(place, e, *v)
		a.better(&a.time, v)
	default:
		a.others.add(place, e, *v)
	}
}

// better takes the value for the best one where MIN or MAX does; of equal ones the first stays.
func (a *accumulator) better(best, v *value) {
	if best.class == isNull {
		*best = *v
		return
	}
	if c := v.compare(best); a.kind == domain.AggregatorMin && c < 0 || a.kind == domain.AggregatorMax && c > 0 {
		*best = *v
	}
}

func (a *accumulator) sum(n number) {
	if n.isSmall() {
		sum := a.small + n.small
		if (sum > a.small) == (n.small > 0) {
			a.small = sum
			return
		}
		if a.whole == nil {
			a.whole = new(big.Int)
		}
		a.whole.Add(a.whole, big.NewInt(n.small))
		return
	}
	if a.parts == nil {
		a.parts = new(big.Rat)
	}
	a.doubles = a.doubles || n.double != 0
	a.parts.Add(a.parts, n.rat())
}

// result is the aggregate, and what it left out.
func (a *accumulator) result() (value, leftOut) {
	left := a.others
	stamps := (a.kind == domain.AggregatorMin || a.kind == domain.AggregatorMax) && a.used == 0
	if !stamps && a.times.count > 0 {
		left.count += a.times.count
		left.first = slices.Concat(a.others.first, a.times.first)
		slices.SortFunc(left.first, func(v, w *leftValue) int { return cmp.Compare(v.place, w.place) })
		left.first = left.first[:min(3, len(left.first))]
	}
	switch a.kind {
	case domain.AggregatorCount:
		return value{class: isNumber, number: integer(int64(a.rows))}, left
	case domain.AggregatorSum:
		return value{class: isNumber, number: a.total(1)}, left
	case domain.AggregatorAvg:
		if a.used == 0 {
			return null, left
		}
		return value{class: isNumber, number: a.total(int64(a.used))}, left
	default:
		if stamps {
			return a.time, left
		}
		return a.best, left
	}
}

// total is the sum divided by a count.
func (a *accumulator) total(by int64) number {
	if by == 1 && a.whole == nil && a.parts == nil {
		return integer(a.small)
	}
	sum := new(big.Rat).SetInt64(a.small)
	if a.whole != nil {
		sum.Add(sum, new(big.Rat).SetInt(a.whole))
	}
	if a.parts != nil {
		sum.Add(sum, a.parts)
	}
	return ofRat(sum.Quo(sum, new(big.Rat).SetInt64(by)), a.doubles)
}

// aggregate makes the values of the groups that have changed.
func (t *Table) aggregate() {
	keys := len(t.program.first)
	changed := false
	for _, g := range t.groups {
		if g.changed {
			columns := make([]accumulator, len(t.program.subjects))
			for i := range columns {
				columns[i] = newAccumulator(t.program.subjects[i].Type)
			}
			g.running, changed = columns, true
			g.values = make([]value, keys+len(columns))
			g.left = make([]leftOut, len(columns))
		}
	}
	if !changed {
		return
	}
	for place, e := range t.order {
		g := e.group
		if g == nil || !g.changed {
			continue
		}
		columns := g.running
		if len(columns) > 0 && columns[0].rows == 0 {
			copy(g.values, e.values[:keys])
		}
		for i := range columns {
			columns[i].add(place, e, &e.values[keys+i])
		}
	}
	for _, g := range t.groups {
		for i := range g.running {
			g.values[keys+i], g.left[i] = g.running[i].result()
		}
		g.running, g.changed = nil, false
	}
}

// errorOf says what an aggregate of a group left out, "" for nothing.
func (t *Table) errorOf(g *group, column int) string {
	left := g.left[column]
	if left.count == 0 {
		return ""
	}
	shown := make([]string, 0, len(left.first)+1)
	for _, v := range left.first {
		is := v.value.string()
		if v.value.class == isBool {
			is = fmt.Sprint(v.value.number.small == 1)
		}
		if v.value.class == isString {
			is = fmt.Sprintf("%q", is)
		}
		where := v.key.ClusterID()
		if v.key.Object != "" {
			where = v.key.Object + " on " + where
		}
		shown = append(shown, fmt.Sprintf("%s (%s %s)", where, v.value.typeName(), is))
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
	of := "clusters"
	if left.count == 1 {
		of = "cluster"
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
