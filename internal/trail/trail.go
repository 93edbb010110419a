// Package trail writes the audit records of a process (decision 0051). What many requests have to record at the same time is one
// call of the store, and is in the store when a request goes on.
package trail

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/when"
)

// Store keeps the records. Its errors are fail errors.
type Store interface {
	// PutAudit stores lines in their order, and says how many from the first one on are there, also with an error. One that is
	// there already is stored.
	PutAudit(ctx context.Context, lines []audit.Line) (stored int, err error)
	AuditLines(ctx context.Context, from, to string, backwards bool, take func(audit.Line) (more bool, err error)) error
	AuditDays(ctx context.Context) ([]string, error)
	DropAuditDay(ctx context.Context, day string) error
	PutAuditor(ctx context.Context, p audit.Presence) error
	Auditors(ctx context.Context) ([]audit.Presence, error)
	DeleteAuditor(ctx context.Context, writer string) error
}

// Sink gets the records, too, when they are stored. It does not wait, and loses what it cannot take.
type Sink interface{ Put(lines []audit.Line) }

// Config is what a trail needs.
type Config struct {
	Store Store
	// Process begins the writer's name, such as "api".
	Process string
	// Key signs checkpoints; Keys are those by which other writers' count, by fingerprint.
	Key  *audit.Key
	Keys map[string]ed25519.PublicKey
	// Ring are the keys of all writers, by which each knows what others have written; Key alone when there are none.
	Ring []*audit.Key
	// Secret keys the digests of documents.
	Secret []byte
	// Wait is how long a write may take; policy.AuditWrite when 0.
	Wait time.Duration
	// Keep is for how long records are kept.
	Keep  time.Duration
	Sinks []Sink
	Log   *slog.Logger
	Now   func() time.Time
	// Clock has to agree with Now before records are dropped, and must not be far ahead of it when they are written; nil for nobody who is asked.
	Clock when.Clock
}

// Trail writes the records of one process. Its methods may be called concurrently.
type Trail struct {
	Config
	writer string

	mu      sync.Mutex
	waiting []entry
	kept    []entry // that could not be written, and that nobody waits for
	unsure  int     // how many are in pending since the store has failed
	closing *entry  // the last record, behind all others
	running bool
	closed  bool
	lost    int   // records that nobody waits for, and for which there is no room
	late    error // why nothing can be recorded: the clock is behind the database's
	refused refusals
	done    sync.WaitGroup

	// These are of commitAll alone, of which one runs at a time.
	chain   *audit.Chain
	pending []pending       // that may be stored, and may not
	behind  bool            // the clock is, of the last record
	fails   lasting.Trouble // what is pending could not be stored the last time

	stood sync.Mutex
	last  time.Time // of the last record that is stored
	told  int64     // the number of the last record that is no checkpoint, and is stored
	seal  stated
	named map[string]int64 // Checkpoint.Told of other writers, as this one has last named them
}

// stated is the last checkpoint that is stored.
type stated struct {
	line string
	told int64 // the record before it that is none
}

type pending struct {
	line   audit.Line
	record *audit.Record
}

type entry struct {
	record  audit.Record
	outcome chan<- outcome // nil when nobody waits
}

type outcome struct {
	number int64
	err    error
}

const (
	// mostKept is how many records may wait for the store that nobody waits for.
	mostKept = 10_000
	// mostAtOnce is how many records are in one call of the store.
	mostAtOnce = 500
)

var errClosed = fail.New(fail.Unavailable, "the audit log is closed")

// New makes a trail; Begin begins it.
func New(c Config) *Trail {
	c.Wait = cmp.Or(c.Wait, policy.AuditWrite)
	if len(c.Ring) == 0 {
		c.Ring = []*audit.Key{c.Key}
	}
	writer := c.Process + "-" + strings.ToLower(rand.Text()[:16])
	return &Trail{Config: c, writer: writer, chain: audit.NewChain(writer), named: map[string]int64{}, refused: newRefusals()}
}

// Writer is the name of the trail in its records.
func (t *Trail) Writer() string { return t.writer }

// Write stores a record, and says what number it has. Unavailable when it cannot be stored; with a number it may be, later.
func (t *Trail) Write(ctx context.Context, r audit.Record) (number int64, err error) {
	written := make(chan outcome, 1)
	if !t.add(entry{r, written}) {
		return 0, errClosed
	}
	select {
	case o := <-written:
		return o.number, o.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Later stores a record when that is possible: at once, or when the store is back.
func (t *Trail) Later(r audit.Record) { t.add(entry{record: r}) }

// Digest is the digest of a document in records, by its SHA-256.
func (t *Trail) Digest(sum []byte) string { return audit.Digest(t.Secret, sum) }

// Unwritten is how many records wait for the store to be there, also of those that it may have, and how many were lost since too
// many did.
func (t *Trail) Unwritten() (kept, lost int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.kept) + t.unsure, t.lost
}

func (t *Trail) add(e entry) bool {
	e.record = e.record.Bounded()
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.refusal() && !t.closed && t.refused.waiting == mostRefused {
		t.refused.more(e.record)
		return false
	}
	if t.closed || e.outcome == nil && len(t.kept)+len(t.waiting) >= mostKept {
		t.lost++
		return false
	}
	if e.refusal() {
		t.refused.waiting++
	}
	t.waiting = append(t.waiting, e)
	t.start()
	return true
}

// start has somebody commit what waits.
func (t *Trail) start() {
	if !t.running {
		t.running = true
		t.done.Go(t.commitAll)
	}
}

// again has what could not be written be tried once more.
func (t *Trail) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept)+t.unsure > 0 && !t.closed {
		t.start()
	}
}

// end has a record written behind all others. What comes later is refused.
func (t *Trail) end(ctx context.Context, r audit.Record) error {
	written := make(chan outcome, 1)
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return errClosed
	}
	t.closed, t.closing = true, &entry{r, written}
	t.start()
	t.mu.Unlock()
	select {
	case o := <-written:
		return o.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// commitAll stores until nothing waits, or the store fails: then all who wait are told, and what nobody waits for is kept until
// something else is to be written, or again is called.
func (t *Trail) commitAll() {
	for batch, more := t.next(); more; batch, more = t.next() {
		if err := t.commit(batch); err != nil {
			t.refuse(err)
			return
		}
	}
}

// next takes what waits, and before it as much of what was kept as there is room for: nobody waits for that. There is more to do with
// nothing of it, too, where what was taken before is not known to be stored.
func (t *Trail) next() (batch []entry, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), mostAtOnce)
	k := min(len(t.kept), mostAtOnce-n)
	batch = slices.Concat(t.kept[:k], t.waiting[:n])
	t.kept, t.waiting = slices.Clone(t.kept[k:]), slices.Clone(t.waiting[n:])
	for _, e := range batch {
		if e.refusal() {
			t.refused.waiting--
		}
	}
	if len(batch) == 0 && t.closing != nil {
		batch, t.closing = []entry{*t.closing}, nil
	}
	t.running = len(batch) > 0 || t.unsure > 0
	return batch, t.running
}

// commit stores a batch behind what was stored before, or nothing of it. What may have been stored already, since no answer came,
// has its place in the chain, so that it comes first, as it was. The error is that of the store.
func (t *Trail) commit(batch []entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), t.Wait)
	defer cancel()
	err := t.flush(ctx)
	if err == nil {
		err = t.behindDatabase()
	}
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.answer(batch, err)
		return err
	}
	t.compare()
	outcomes := make([]outcome, len(batch))
	for i, e := range batch {
		line, r, err := t.chain.Add(e.record, t.Now(), t.Key)
		if outcomes[i].err = err; err != nil { // it cannot be encoded, which no record is known to do
			t.Log.Error("an audit record cannot be written", "error", err)
			continue
		}
		outcomes[i].number = r.Number
		t.pending = append(t.pending, pending{line, &r})
	}
	err = t.flush(ctx)
	for i, e := range batch {
		if outcomes[i].err == nil {
			outcomes[i].err = err
		}
		if e.outcome != nil {
			e.outcome <- outcomes[i]
		}
	}
	return err
}

// compare says in the log, once, when the clock is behind the last record: those of a writer do not go back, so that all have its time until
// that has come. Another writer has times of its own.
func (t *Trail) compare() {
	was, until := t.behind, t.chain.Time()
	if t.behind = until.Sub(t.Now()) > policy.ClockSkew; t.behind && !was {
		t.Log.Error("the clock was ahead: audit records have the time of the last one until that has come, or this process is started anew", "until", until)
	}
}

// behindDatabase is why nothing can be recorded, as compareDatabase has found; nil when it can.
func (t *Trail) behindDatabase() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.late
}

// flush stores what is pending.
func (t *Trail) flush(ctx context.Context) error {
	if len(t.pending) == 0 {
		return nil
	}
	lines := make([]audit.Line, len(t.pending))
	for i, p := range t.pending {
		lines[i] = p.line
	}
	stored, err := panics.Value(ctx, func() (int, error) { return t.Store.PutAudit(ctx, lines) })
	if stored > 0 {
		t.have(ctx, lines[:stored])
	}
	switch {
	case err != nil && t.fails.Begins(""): // each command that is refused for it says so, too
		t.Log.Warn("audit records cannot be written", "records", len(t.pending), "error", err)
	case err == nil && t.fails.Ends():
		t.Log.Info("audit records are written again")
	}
	t.mu.Lock()
	t.unsure = len(t.pending)
	t.mu.Unlock()
	if err != nil {
		return fail.Wrap(err, fail.Unavailable, "the audit log cannot be written at the moment")
	}
	return nil
}

// have takes lines that are stored out of what is pending.
func (t *Trail) have(ctx context.Context, lines []audit.Line) {
	for _, s := range t.Sinks {
		_ = panics.Do(ctx, func() error { s.Put(lines); return nil })
	}
	t.stood.Lock()
	defer t.stood.Unlock()
	for _, p := range t.pending[:len(lines)] {
		t.last = p.record.Time
		if p.record.Checkpoint == nil {
			t.told = p.record.Number
			continue
		}
		t.seal = stated{string(p.line.Text), t.told}
	}
	t.pending = slices.Clone(t.pending[len(lines):])
}

// refuse ends commitAll: everybody who waits is told at once.
func (t *Trail) refuse(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer(t.waiting, err)
	if t.closing != nil {
		t.answer([]entry{*t.closing}, err)
	}
	t.waiting, t.closing, t.running = nil, nil, false
}

// answer tells those who wait, and keeps what nobody waits for. The caller has locked t.mu.
func (t *Trail) answer(entries []entry, err error) {
	for _, e := range entries {
		if e.outcome != nil {
			e.outcome <- outcome{err: err}
			continue
		}
		if e.refusal() {
			if t.refused.waiting == mostRefused {
				t.refused.more(e.record)
				continue
			}
			t.refused.waiting++
		}
		t.kept = append(t.kept, e)
	}
}
