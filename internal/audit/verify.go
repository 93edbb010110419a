package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options say what Verify may take for granted.
type Options struct {
	// Keys are those that may sign, by fingerprint; with none every key that a checkpoint names counts, and who made the export
	// may have made the key, too.
	Keys map[string]ed25519.PublicKey
	// Partial says that the file has a part of the time: the records of a writer may begin and end anywhere.
	Partial bool
}

// Report is what Verify has found.
type Report struct {
	Records, Checkpoints, Writers int
	First, Last                   time.Time
	// Keys are the fingerprints of those that have signed.
	Keys []string
	// Problems are the first ones, of Found in all.
	Problems []Problem
	Found    int
	// Open are records of commands that were begun, of which nothing says what came of them: the first ones, of Unknown in all. The
	// process died meanwhile, or the command goes on.
	Open    []Record
	Unknown int
	// Tails are records that no checkpoint seals: those behind the last one of a writer that still writes, or that died lately.
	Tails []Tail
}

// Good says whether nothing is wrong.
func (r *Report) Good() bool { return r.Found == 0 }

// Problem is what is wrong at a place.
type Problem struct {
	Line   int    // of the file, 0 when it is of none
	Writer string // "" when it is not known
	Number int64  // of the record, 0 when it is of none
	What   string
}

// String is the problem for people.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Writer != "" {
		fmt.Fprintf(&b, "%s", p.Writer)
		if p.Number > 0 {
			fmt.Fprintf(&b, " %d", p.Number)
		}
		b.WriteString(": ")
	}
	return b.String() + p.What
}

// Tail are records of a writer.
type Tail struct {
	Writer   string
	From, To int64
}

// How much of what is found is told, and how far back hashes are kept to compare them with what others say of them.
const (
	mostTold  = 100
	hashesFor = 256
	// longestLine bounds a line: a checkpoint names many writers.
	longestLine = 16 << 20
)

// Verify checks an export, whose lines are in the order of their IDs. The error is that of reading; what is wrong with the records
// is in the report.
func Verify(from io.Reader, o Options) (*Report, error) {
	v := &verifier{Options: o, report: &Report{}, writers: map[string]*written{}, dropped: map[string]Head{}, keys: map[string]bool{}}
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), longestLine)
	next := block{}
	for n := 1; lines.Scan(); n++ {
		if line := bytes.TrimRight(lines.Bytes(), "\r"); len(line) > 0 {
			next.add(n, line)
		}
		if len(next.text) >= blockSize {
			v.takeAll(&next)
		}
	}
	v.takeAll(&next)
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line is longer than %d bytes: this is no export of audit records", longestLine)
	} else if err != nil {
		return nil, err
	}
	v.end()
	return v.report, nil
}

type verifier struct {
	Options
	report  *Report
	writers map[string]*written
	dropped map[string]Head // up to which records of a writer were dropped, as was stated
	keys    map[string]bool
	above   above
}

// above is the last line whose time can be believed.
type above struct {
	line int
	time time.Time
}

// written is what is known of a writer.
type written struct {
	first, last int64 // 0 while there is no record
	firstLine   int
	prev        string // of the first record
	hash        string // of the last one
	sealed      int64  // up to which checkpoints seal
	own         int64  // its last checkpoint
	ended       int64  // where others say that it has ended
	old         int64  // the last one of those that others say are there, and whose hash is not kept any more
	oldBy       saying
	closed      bool
	gaps        []Tail           // numbers that were left out
	hashes      [hashesFor]named // of the last records, by number
	said        map[int64]saying // of records that others say are there, and that have not come yet
	begun       map[int64]Record
}

// slot is where the hash of a record is kept.
func slot(number int64) int64 { return max(number, 0) % hashesFor }

type named struct {
	number int64
	hash   string
}

// saying is who says that there is a record with a hash.
type saying struct {
	by   string
	line int
	hash string
}

func (v *verifier) problem(line int, writer string, number int64, format string, args ...any) {
	v.report.Found++
	if len(v.report.Problems) < mostTold {
		v.report.Problems = append(v.report.Problems, Problem{line, writer, number, fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) writer(name string) *written {
	w := v.writers[name]
	if w == nil {
		w = &written{said: map[int64]saying{}, begun: map[int64]Record{}}
		v.writers[name] = w
	}
	return w
}

// block are some lines, which are parsed side by side: that is nearly all of the work.
type block struct {
	text  []byte
	lines []parsed
}

// blockSize is from how many bytes on a block has enough lines.
const blockSize = 1 << 20

// parsed is a line, and what it says.
type parsed struct {
	line     int
	from, to int     // in the text of the block
	record   *Record // with an error the one that a notice shows, nil where the line is no notice either
	intact   bool    // the hash of the record is that of the line
	err      error
}

func (b *block) add(line int, text []byte) {
	b.text = append(b.text, text...)
	b.lines = append(b.lines, parsed{line: line, from: len(b.text) - len(text), to: len(b.text)})
}

// parse does so on all processors.
func (b *block) parse() {
	var all sync.WaitGroup
	each := max(1, (len(b.lines)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for some := range slices.Chunk(b.lines, each) {
		all.Go(func() {
			for i := range some {
				p := &some[i]
				var hashed []byte
				if p.record, hashed, p.err = Parse(b.text[p.from:p.to]); p.err == nil {
					p.intact = whole(p.record, hashed)
				} else {
					p.record = noticeIn(b.text[p.from:p.to])
				}
			}
		})
	}
	all.Wait()
}

// takeAll takes the lines of a block in their order, and empties it.
func (v *verifier) takeAll(b *block) {
	b.parse()
	for i := range b.lines {
		v.take(&b.lines[i])
	}
	clear(b.lines)
	b.text, b.lines = b.text[:0], b.lines[:0]
}

func (v *verifier) take(p *parsed) {
	line, r, intact := p.line, p.record, p.intact
	switch {
	case p.err != nil && r != nil:
		v.problem(line, r.Writer, r.Number, "was put into another time: it was stored as %s", r.Key)
		return
	case p.err != nil:
		v.problem(line, "", 0, "%s", p.err)
		return
	}
	v.report.Records++
	if v.report.First.IsZero() || r.Time.Before(v.report.First) {
		v.report.First = r.Time
	}
	if r.Time.After(v.report.Last) {
		v.report.Last = r.Time
	}
	if !intact {
		v.problem(line, r.Writer, r.Number, "was changed: its hash is not that of its members")
		if w := v.writers[r.Writer]; w == nil || r.Number != w.last+1 {
			return // who it is of cannot be believed either
		}
	}
	if intact {
		v.order(line, r)
	}
	w := v.writer(r.Writer)
	if !v.place(w, line, r) {
		return
	}
	w.hashes[slot(r.Number)] = named{r.Number, r.Hash}
	if s, ok := w.said[r.Number]; ok {
		v.same(r.Writer, r.Number, r.Hash, s)
		delete(w.said, r.Number)
	}
	if !intact {
		return
	}
	if r.Number == 1 && r.Checkpoint == nil {
		v.problem(line, r.Writer, r.Number, "is the first record of its writer and no checkpoint, which each one begins with")
	}
	if r.Event == Begun {
		w.begun[r.Number] = *r
	}
	delete(w.begun, r.Begun) // of what is answered
	if r.Checkpoint != nil || r.Signature != "" {
		v.checkpoint(w, line, r)
	}
}

// order says when a record is behind a later one, of whichever writer: those of a writer may all have been put into another time,
// where who asks for the records of a time does not see them.
func (v *verifier) order(line int, r *Record) {
	if r.Time.Before(v.above.time) {
		v.problem(line, r.Writer, r.Number, "is of %s, and behind one of %s (line %d): one of them was put into another time",
			r.Time.Format(time.RFC3339Nano), v.above.time.Format(time.RFC3339Nano), v.above.line)
	}
	v.above = above{line, r.Time}
}

// place finds the place of a record in its chain; false when it has none.
func (v *verifier) place(w *written, line int, r *Record) bool {
	switch {
	case r.Number < 1:
		v.problem(line, r.Writer, r.Number, "has no number")
		return false
	case w.last == 0:
		w.first, w.firstLine, w.prev = r.Number, line, r.Prev
		if r.Number == 1 && r.Prev != "" {
			v.problem(line, r.Writer, r.Number, "cannot be the first record of its writer: it follows another one")
		}
	case r.Number == w.last+1:
		if r.Prev != w.hash {
			v.problem(line, r.Writer, r.Number, "does not follow the record before it, which is another one than was written")
		}
	case r.Number > w.last+1:
		w.gaps = append(w.gaps, Tail{r.Writer, w.last + 1, r.Number - 1})
	default:
		if !w.fill(r.Number) {
			v.problem(line, r.Writer, r.Number, "is there twice, or was put in another place")
			return false
		}
		v.problem(line, r.Writer, r.Number, "is out of order: it comes after number %d", w.last)
		return true
	}
	if w.closed {
		v.problem(line, r.Writer, r.Number, "comes after the writer's end")
	}
	w.last, w.hash = r.Number, r.Hash
	return true
}

// fill takes a number out of the gaps; false when it is in none.
func (w *written) fill(number int64) bool {
	for i, g := range w.gaps {
		if number < g.From || number > g.To {
			continue
		}
		w.gaps = slices.Delete(w.gaps, i, i+1)
		if number < g.To {
			w.gaps = slices.Insert(w.gaps, i, Tail{g.Writer, number + 1, g.To})
		}
		if number > g.From {
			w.gaps = slices.Insert(w.gaps, i, Tail{g.Writer, g.From, number - 1})
		}
		return true
	}
	return false
}

// checkpoint believes what a checkpoint states when its signature is good.
func (v *verifier) checkpoint(w *written, line int, r *Record) {
	if r.Checkpoint == nil {
		v.problem(line, r.Writer, r.Number, "is signed, and is no checkpoint")
		return
	}
	public, known := v.Keys[r.Checkpoint.Key]
	if !known && len(v.Keys) > 0 {
		v.problem(line, r.Writer, r.Number, "is a checkpoint by the key %s, which is none of those that may sign", r.Checkpoint.Key)
		return
	}
	if !known {
		var err error
		if public, err = publicKey(r.Checkpoint.Public); err != nil {
			v.problem(line, r.Writer, r.Number, "is a checkpoint without a key: %s", err)
			return
		}
	}
	signature, err := encoding.DecodeString(r.Signature)
	if err != nil || !ed25519.Verify(public, signed(r.Hash), signature) {
		v.problem(line, r.Writer, r.Number, "is a checkpoint whose signature is not that of the key: it, or what is before it from number %d on, was changed", w.sealed+1)
		return
	}
	v.report.Checkpoints++
	v.keys[Fingerprint(public)] = true
	w.sealed, w.own, w.closed = max(w.sealed, r.Number), max(w.own, r.Number), r.Checkpoint.Closes
	for _, h := range r.Checkpoint.Dropped {
		if v.dropped[h.Writer].Number < h.Number {
			v.dropped[h.Writer] = h
		}
	}
	for _, h := range r.Checkpoint.Heads {
		v.say(h, saying{r.Writer, line, h.Hash})
	}
}

// say compares what a checkpoint says of another writer's record with it, now or when it comes.
func (v *verifier) say(h Head, s saying) {
	w := v.writer(h.Writer)
	if h.Closed {
		w.ended = max(w.ended, h.Number)
	}
	switch kept := w.hashes[slot(h.Number)]; {
	case h.Number > w.last || w.missing(h.Number):
		w.said[h.Number] = s
	case kept.number == h.Number:
		v.same(h.Writer, h.Number, kept.hash, s)
	case h.Number > w.old: // it is long ago: its writer has signed it itself since
		w.old, w.oldBy = h.Number, s
	}
}

func (w *written) missing(number int64) bool {
	return slices.ContainsFunc(w.gaps, func(g Tail) bool { return g.From <= number && number <= g.To })
}

// same compares a record with what was said of it, which seals it.
func (v *verifier) same(writer string, number int64, hash string, s saying) {
	if hash != s.hash {
		v.problem(s.line, writer, number, "is another record than the one of which %s has the hash", s.by)
		return
	}
	w := v.writer(writer)
	w.sealed = max(w.sealed, number)
}

// end says what is missing.
func (v *verifier) end() {
	for _, name := range slices.Sorted(maps.Keys(v.writers)) {
		w := v.writers[name]
		for _, g := range w.gaps {
			v.problem(0, name, 0, "%s missing", numbers(g.From, g.To))
		}
		gone := v.dropped[name]
		v.beginning(name, w, gone)
		last := w.last
		if last == 0 { // all of it may have been dropped, but not an end behind what is there
			last = gone.Number
		}
		if most := slices.Max(append(slices.Collect(maps.Keys(w.said)), 0)); most > last && !v.Partial {
			s := w.said[most]
			v.problem(s.line, name, 0, "%s missing at the end: %s says that they were there", numbers(last+1, most), s.by)
		}
		if w.ended > 0 && w.last > w.ended && w.own <= w.ended {
			v.problem(0, name, w.ended+1, "comes after the end that another writer has stated, and no checkpoint of its own is behind it")
		}
		if w.old > w.own {
			v.problem(w.oldBy.line, name, w.old, "is said to be there by %s, and nothing shows that it is this one: its writer has signed none behind it", w.oldBy.by)
		}
		if w.last == 0 {
			continue
		}
		v.report.Writers++
		if w.sealed < w.last {
			v.report.Tails = append(v.report.Tails, Tail{name, max(w.sealed+1, w.first), w.last})
		}
		for _, number := range slices.Sorted(maps.Keys(w.begun)) {
			v.report.Unknown++
			if len(v.report.Open) < mostTold {
				v.report.Open = append(v.report.Open, w.begun[number])
			}
		}
	}
	v.report.Keys = slices.Sorted(maps.Keys(v.keys))
	slices.SortStableFunc(v.report.Problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
}

// beginning says whether the records of a writer may begin where they do.
func (v *verifier) beginning(name string, w *written, gone Head) {
	switch {
	case w.last == 0 || w.first <= 1 || v.Partial:
	case gone.Number < w.first-1:
		v.problem(w.firstLine, name, w.first, "is the first one of its writer: %s missing, and no checkpoint says that they were dropped", numbers(1, w.first-1))
	case gone.Number == w.first-1 && gone.Hash != w.prev:
		v.problem(w.firstLine, name, w.first, "does not follow the last one of those that were dropped")
	}
}

func numbers(from, to int64) string {
	if from == to {
		return fmt.Sprintf("number %d is", from)
	}
	return fmt.Sprintf("numbers %d to %d are", from, to)
}
