package combine

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/expression"
	"github.com/drover-io/drover/internal/limits"
)

// Bounds of a result.
const (
	maxMessages  = limits.TableResult / 2 // bytes of JSON, for errors and warnings
	MaxRowErrors = 20                     // listed of a column; errors of aggregates too
	maxError     = 256                    // bytes of an error's text, and of the paths that it names
)

// Result is the table as it stands: the same for the same rows, whatever was put or dropped before.
func (t *Table) Result() *Result {
	if t.spent != "" {
		return t.program.Without(t.spent)
	}
	r := &Result{Name: t.program.name, ColumnNames: slices.Clone(t.program.columns), Rows: []ResultRow{}}
	t.sort()
	left := budget(maxMessages)
	t.addRowErrors(r, &left)
	t.addWarnings(r, &left)
	var rows []shown
	if t.program.grouped {
		rows, r.TotalRows = t.groupsShown(r, &left)
	} else {
		rows, r.TotalRows = t.rowsShown()
	}
	left += limits.TableResult - maxMessages
	for _, row := range rows {
		cells := make([]Cell, len(row.values))
		size := 16
		for i := range row.values {
			cells[i] = row.values[i].cell()
			size += row.values[i].size()
		}
		if !left.take(size) {
			break
		}
		r.Rows = append(r.Rows, ResultRow{Columns: cells})
	}
	r.Truncated = len(r.Rows) < r.TotalRows
	return r
}

// Without is what is shown of a table of which there is nothing to show, and why.
func (p *Program) Without(why string) *Result {
	return &Result{Name: p.name, ColumnNames: slices.Clone(p.columns), Rows: []ResultRow{}, Errors: []string{why}}
}

// budget is how many bytes are left.
type budget int

func (b *budget) take(size int) bool {
	if int(*b) < size {
		return false
	}
	*b -= budget(size)
	return true
}

// size is how many bytes of JSON a cell takes at the most.
func (v *value) size() int {
	size := 48 + len(v.text)
	if v.class == isObject || v.class == isArray {
		return size
	}
	return size + escapes(v.text) + len(v.textOfNumber())
}

// escapes is how much longer a text is as JSON, at the most.
func escapes(text string) (more int) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= 0x80 {
			more += 5
		}
	}
	return more
}

func (v *value) textOfNumber() string {
	if v.class == isNumber && !v.number.isSmall() {
		return v.number.String()
	}
	return ""
}

func (t *Table) addRowErrors(r *Result, left *budget) {
	if r.TotalRowErrors = t.errors; t.errors == 0 {
		return
	}
	listed := make([]int, 1+len(t.program.columns))
	for _, e := range t.order {
		for _, err := range e.errors {
			if listed[err.number]++; listed[err.number] > MaxRowErrors {
				continue
			}
			out := RowError{WEC: WEC{e.key.ClusterID()}, Object: e.key.Object, Error: err.text}
			if err.number > 0 {
				out.ColumnName = t.program.columns[err.number-1]
			}
			size := 64 + len(out.WEC.ClusterID) + len(out.Object) + len(out.ColumnName) + len(out.Error) +
				escapes(out.ColumnName) + escapes(out.Error)
			if left.take(size) {
				r.RowErrors = append(r.RowErrors, out)
			}
		}
	}
}

func (t *Table) addWarnings(r *Result, left *budget) {
	for number, reported := range t.reported {
		if reported == 0 || t.nulls[number] != reported {
			continue
		}
		of, what := t.program.expression(number), "the filter"
		if of.nullable {
			continue
		}
		if number > 0 {
			what = fmt.Sprintf("column %q", t.program.columns[number-1])
		}
		rows := "in all " + fmt.Sprint(reported) + " rows that have"
		if reported == 1 {
			rows = "in the one row that has"
		}
		text := fmt.Sprintf("%s is null %s reported; is there a typing error in %s?", what, rows, expression.OneLine(of.text, maxError))
		if left.take(len(text) + escapes(text) + 8) {
			r.Warnings = append(r.Warnings, text)
		}
	}
}

// expression is the one of a number.
func (p *Program) expression(number int) *compiled {
	switch first := number - 1; {
	case number == 0:
		return p.filter
	case first < len(p.first):
		return p.first[first]
	default:
		return p.subjects[first-len(p.first)].subject
	}
}

// shown is a row of the table, and where it comes where nothing else decides.
type shown struct {
	values []value
	place  int
	group  *group
}

// rowsShown are the first rows of a table that does not group, and how many there are.
func (t *Table) rowsShown() ([]shown, int) {
	top := t.top()
	for place, e := range t.order {
		if e.kept {
			top.add(shown{values: e.values, place: place})
		}
		if len(t.program.orderBy) == 0 && len(top.rows) == t.program.limit {
			break // those after it come after it in the table
		}
	}
	return top.sorted(), t.rows
}

// groupsShown are the first rows of a table that groups, and how many there are. It adds what their aggregates left out.
func (t *Table) groupsShown(r *Result, left *budget) ([]shown, int) {
	t.aggregate()
	top := t.top()
	for _, g := range t.groups {
		top.add(shown{values: g.values, group: g})
	}
	keys := len(t.program.first)
	for i := range t.program.subjects {
		column := t.program.columns[keys+i]
		for _, text := range t.leftOut(i) {
			if left.take(64 + len(column) + escapes(column) + len(text) + escapes(text)) {
				r.AggregationErrors = append(r.AggregationErrors, AggregationError{column, text})
			}
		}
	}
	return top.sorted(), len(t.groups)
}

// leftOut says what an aggregate left out, in the order of groups: those too that the limit does not show, as with the errors of
// rows.
func (t *Table) leftOut(column int) (texts []string) {
	first := &top{table: t, most: MaxRowErrors}
	all := 0
	for _, g := range t.groups {
		if g.left[column].count > 0 {
			all++
			first.add(shown{values: g.values, group: g})
		}
	}
	for _, row := range first.sorted() {
		texts = append(texts, t.errorOf(row.group, column))
	}
	if more := all - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and the same in %d more groups", more))
	}
	return texts
}

// compare is the order of rows: by orderBy, then by the keys of groups, or by cluster.
func (t *Table) compare(a, b shown) int {
	for _, o := range t.program.orderBy {
		v, w := &a.values[o.column], &b.values[o.column]
		c := v.compare(w)
		if o.descending && v.class != isNull && w.class != isNull {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	if t.program.grouped {
		for i := range t.program.first {
			if c := a.values[i].compare(&b.values[i]); c != 0 {
				return c
			}
		}
	}
	return cmp.Compare(a.place, b.place)
}

// top keeps the first rows, so many at the most, with the last of them on top.
type top struct {
	table *Table
	most  int
	rows  []shown
}

func (t *Table) top() *top { return &top{table: t, most: t.program.limit} }

// Len, Less, Swap, Push and Pop are how container/heap knows it.
func (t *top) Len() int           { return len(t.rows) }
func (t *top) Less(i, j int) bool { return t.table.compare(t.rows[i], t.rows[j]) > 0 }
func (t *top) Swap(i, j int)      { t.rows[i], t.rows[j] = t.rows[j], t.rows[i] }

// Push is heap's.
func (t *top) Push(row any) { t.rows = append(t.rows, row.(shown)) }

// Pop is heap's.
func (t *top) Pop() any {
	last := t.rows[len(t.rows)-1]
	t.rows = t.rows[:len(t.rows)-1]
	return last
}

func (t *top) add(row shown) {
	if len(t.rows) < t.most {
		heap.Push(t, row)
	} else if t.table.compare(row, t.rows[0]) < 0 {
		t.rows[0] = row
		heap.Fix(t, 0)
	}
}

func (t *top) sorted() []shown {
	slices.SortFunc(t.rows, t.table.compare)
	return t.rows
}
