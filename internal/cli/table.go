package cli

import (
	"io"
	"strings"
	"sync/atomic"
	"unicode"

	"golang.org/x/text/width"
)

// table prints rows below heads, each column as wide as its widest cell. Rows that come after a flush keep to the widths.
type table struct {
	out    io.Writer
	heads  []string
	widths []int
	rows   [][]string
	begun  bool
}

func newTable(out io.Writer, heads ...string) *table {
	return &table{out: out, heads: heads, widths: make([]int, len(heads))}
}

// row adds a row. Cells that are empty show as such.
func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// flush prints what was added.
func (t *table) flush() error {
	rows := t.rows
	if !t.begun {
		rows = append([][]string{t.heads}, rows...)
	}
	for _, r := range rows {
		for i, cell := range r {
			t.widths[i] = max(t.widths[i], cellsOf(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			line.WriteString(cell)
			if i < len(r)-1 {
				line.WriteString(strings.Repeat(" ", t.widths[i]-cellsOf(cell)+3))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	t.begun, t.rows = true, nil
	_, err := io.WriteString(t.out, b.String())
	return err
}

// cellsOf is how many places of a terminal a text takes: two for a character of East Asian scripts and for most emoji, none for what is put onto the one before.
func cellsOf(text string) (n int) {
	for _, r := range text {
		n += cellsOfRune(r)
	}
	return n
}

func cellsOfRune(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// printable is a text on one line, with nothing in it that a terminal would act on: names and reasons come from clusters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		default:
			return r
		}
	}, text)
}

// people is a writer for people: what a terminal would act on is left out, but for breaks and tabs. Names, reasons and texts come from
// clusters, charts and other users. The command's own escapes, programs that it starts, and data for programs go around it.
type people struct {
	to       io.Writer
	terminal bool
	lost     atomic.Pointer[error] // why something could not be written, of which those that say something take no notice
}

// Write writes what is left of a whole text.
func (p *people) Write(text []byte) (int, error) {
	shown := strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, string(text))
	if _, err := io.WriteString(p.to, shown); err != nil {
		p.lost.CompareAndSwap(nil, &err)
		return 0, err
	}
	return len(text), nil
}

// bare is what a writer for people writes to.
func bare(out io.Writer) io.Writer {
	if p, ok := out.(*people); ok {
		return p.to
	}
	return out
}

// forPrograms is a writer for what programs read, which comes as it is unless it goes to a terminal.
func forPrograms(out io.Writer) io.Writer {
	if p, ok := out.(*people); ok && !p.terminal {
		return p.to
	}
	return out
}
