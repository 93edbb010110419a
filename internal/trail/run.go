package trail

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/when"
)

// Begin begins the trail by a checkpoint, which names the writers that there are with the last records that are found of them, and
// with their ends those of the dead. So the first thing that a process does after a crash is to seal what the one before it has left.
// Unavailable when the clock is behind the database's.
func (t *Trail) Begin(ctx context.Context) error {
	if err := t.compareDatabase(ctx); err != nil {
		return err
	}
	found, err := t.everyOther(ctx)
	if err != nil {
		return err
	}
	if err := t.name(ctx, found); err != nil {
		return err
	}
	return t.alive(ctx)
}

// Run seals what was written, looks after other writers and drops what was kept long enough, until ctx ends.
func (t *Trail) Run(ctx context.Context) {
	seal, look, drop := time.NewTicker(policy.AuditSeal), time.NewTicker(policy.AuditLook), time.NewTicker(policy.AuditDrop)
	defer seal.Stop()
	defer look.Stop()
	defer drop.Stop()
	t.run(ctx, seal.C, look.C, drop.C)
}

func (t *Trail) run(ctx context.Context, seal, look, drop <-chan time.Time) {
	t.try(ctx, "drop audit records", t.Drop, nil)
	var unsealed, unseen lasting.Trouble
	for {
		select {
		case <-ctx.Done():
			return
		case <-seal:
			t.tellRefused()
			t.again()
			t.try(ctx, "seal audit records", t.Seal, &unsealed)
		case <-look:
			t.try(ctx, "look after other writers of audit records", t.Look, &unseen)
		case <-drop:
			t.try(ctx, "drop audit records", t.Drop, nil)
		}
	}
}

// try logs what fails; it is done again in its time. Of what is done every few seconds fails is its trouble, which
// is logged when it begins and when it has ended.
func (t *Trail) try(ctx context.Context, what string, do func(context.Context) error, fails *lasting.Trouble) {
	err := panics.Do(ctx, func() error { return do(ctx) })
	if ctx.Err() != nil {
		return
	}
	switch {
	case err != nil && (fails == nil || fails.Begins("")):
		t.Log.WarnContext(ctx, "audit", "task", what, "error", err)
	case err == nil && fails != nil && fails.Ends():
		t.Log.InfoContext(ctx, "audit goes on", "task", what)
	}
}

// Close seals everything and says that nothing comes after it. What is written then is refused.
func (t *Trail) Close(ctx context.Context) error {
	t.tellRefused()
	if err := t.compareDatabase(ctx); err != nil { // whoever stops a process may just have set its clock right
		t.Log.WarnContext(ctx, "audit", "task", "compare the clock", "error", err)
	}
	if err := t.end(ctx, audit.Record{Event: audit.Sealed, Checkpoint: &audit.Checkpoint{Closes: true}}); err != nil {
		return err
	}
	t.done.Wait() // nothing is left to do
	return t.ended(ctx)
}

// Seal makes a checkpoint of what is not sealed, if there is any.
func (t *Trail) Seal(ctx context.Context) error {
	t.stood.Lock()
	open := t.told > t.seal.told
	t.stood.Unlock()
	if !open {
		return nil
	}
	if err := t.compareDatabase(ctx); err != nil {
		return err
	}
	if err := t.state(ctx, audit.Checkpoint{}); err != nil {
		return err
	}
	return t.alive(ctx)
}

// Look names other writers that have written, or died, since they were named, and says that this one is alive.
func (t *Trail) Look(ctx context.Context) error {
	if err := t.compareDatabase(ctx); err != nil {
		return err
	}
	found, err := t.newOthers(ctx)
	if err != nil {
		return err
	}
	if len(found.heads) > 0 {
		if err := t.name(ctx, found); err != nil {
			return err
		}
	}
	return t.alive(ctx)
}

// compareDatabase refuses records from now on while the time that they would have is far behind the database's clock, and allows them again when it is not:
// those of today would be in a day that is dropped early, or at once. The database's time is not taken for them, which who has the database could choose.
func (t *Trail) compareDatabase(ctx context.Context) error {
	t.stood.Lock()
	at := t.last
	t.stood.Unlock()
	if now := t.Now(); now.After(at) { // those of a writer do not go back
		at = now
	}
	d, err := when.Ahead(ctx, at, t.Clock)
	if err != nil {
		return err
	}
	if d < -policy.ClockWrong {
		err = fail.Wrap(audit.ErrClock, fail.Unavailable, "this clock is %s behind the database's, so that nothing can be recorded: set them right", (-d).Round(time.Second))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late = err
	return err
}

// state writes a checkpoint.
func (t *Trail) state(ctx context.Context, c audit.Checkpoint) error {
	_, err := t.Write(ctx, audit.Record{Event: audit.Sealed, Checkpoint: &c})
	return err
}

// alive says that the writer is alive, and where its records are.
func (t *Trail) alive(ctx context.Context) error { return t.Store.PutAuditor(ctx, t.presence()) }

// ended says that it has ended.
func (t *Trail) ended(ctx context.Context) error {
	p := t.presence()
	p.Closed = true
	return t.Store.PutAuditor(ctx, p)
}

func (t *Trail) presence() audit.Presence {
	t.stood.Lock()
	defer t.stood.Unlock()
	return audit.Presence{Writer: t.writer, Checkpoint: t.seal.line, Seen: t.Now().UTC(), Keep: t.Keep}
}

// others are what is to be named of other writers.
type others struct {
	heads []audit.Head
	told  map[string]int64 // Checkpoint.Told of each, or closedTold
	dead  []audit.Presence // those that nobody has closed
}

// closedTold marks a writer that was named with its end.
const closedTold = -1

// fewHeads is how many heads a checkpoint may have that stays the last one. That is in what a process says of itself, which all others read again
// and again: of processes that die at their start, each of which names all before it, it would grow by the square.
const fewHeads = 8

// stateAll states what may have many heads, and what is said after that in a checkpoint without.
func (t *Trail) stateAll(ctx context.Context, c audit.Checkpoint) error {
	if err := t.state(ctx, c); err != nil || len(c.Heads)+len(c.Dropped) <= fewHeads {
		return err
	}
	return t.state(ctx, audit.Checkpoint{})
}

// name states the heads of others. Only then the dead are closed: who dies before leaves it to another one.
func (t *Trail) name(ctx context.Context, o *others) error {
	if err := t.stateAll(ctx, audit.Checkpoint{Heads: o.heads}); err != nil {
		return err
	}
	t.stood.Lock()
	maps.Copy(t.named, o.told)
	t.stood.Unlock()
	for _, p := range o.dead {
		p.Closed, p.Seen = true, t.Now().UTC() // what names it is not older
		if err := t.Store.PutAuditor(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// other is another writer, as its presence and what it has signed last say.
type other struct {
	audit.Presence
	stated *audit.Record
	closes bool // it has signed that it has ended
	dead   bool // nobody has seen it for long, nor said that it has ended
	named  bool // by this one
	told   int64
}

// closed says whether it has ended, whoever says so.
func (o *other) closed() bool { return o.closes || o.Closed || o.dead }

// over says whether its end was named: nothing is to be said of it any more.
func (o *other) over() bool { return (o.closes || o.Closed) && o.named && o.told == closedTold }

// news says whether there is something to be said of it that was not.
func (o *other) news() bool { return o.closed() || !o.named || o.told < o.stated.Checkpoint.Told }

// presentOthers are the other writers of which something may be to be said. Those that were not seen for long are taken for dead: what is
// found of them is named as their end. Should one live, it says so, and goes on. Of what presences say only what is signed is believed:
// where one is said to have ended, and has not signed that, what is there is named.
func (t *Trail) presentOthers(ctx context.Context) ([]other, error) {
	present, err := t.Store.Auditors(ctx)
	if err != nil {
		return nil, err
	}
	t.stood.Lock()
	named := maps.Clone(t.named)
	t.stood.Unlock()
	var found []other
	for _, p := range present {
		if p.Writer == t.writer {
			continue
		}
		r, ok := p.Stated(t.Keys)
		if !ok {
			t.Log.WarnContext(ctx, "what a writer of audit records says of itself is not signed by a key that is known", "writer", p.Writer)
			continue
		}
		o := other{Presence: p, stated: r, closes: r.Checkpoint.Closes}
		o.dead = !o.closes && !p.Closed && t.Now().Sub(p.Seen) > policy.AuditDead
		if o.told, o.named = named[p.Writer]; !o.over() {
			found = append(found, o)
		}
	}
	return found, nil
}

// everyOther names all other writers, each by the last record that is stored of it.
func (t *Trail) everyOther(ctx context.Context) (*others, error) {
	present, err := t.presentOthers(ctx)
	if err != nil {
		return nil, err
	}
	return t.toName(ctx, present, func(*other) bool { return true })
}

// newOthers names those of which something is to be said that was not: those that go on by what they have signed, those that have ended
// by the last record that is stored of them.
func (t *Trail) newOthers(ctx context.Context) (*others, error) {
	present, err := t.presentOthers(ctx)
	if err != nil {
		return nil, err
	}
	return t.toName(ctx, slices.DeleteFunc(present, func(o other) bool { return !o.news() }), (*other).closed)
}

// toName names writers: those that look says by the last record that is stored of them, the others by what they have signed. However many they are,
// the log is read once.
func (t *Trail) toName(ctx context.Context, writers []other, look func(*other) bool) (*others, error) {
	heads, at, from := make([]audit.Head, len(writers)), map[string]int{}, ""
	for i := range writers {
		o := &writers[i]
		heads[i] = o.head()
		if o.closes || !look(o) { // nothing comes after what closes
			continue
		}
		if place := audit.PlaceOf(o.stated); len(at) == 0 || place < from {
			from = place
		}
		at[o.Writer] = i
	}
	if err := t.follow(ctx, heads, at, from); err != nil {
		return nil, err
	}
	found := &others{told: map[string]int64{}}
	for i := range writers {
		found.add(&writers[i], heads[i])
	}
	return found, nil
}

// head is what it has signed last.
func (o *other) head() audit.Head {
	head := audit.HeadOf(o.stated)
	head.Closed = o.closed()
	return head
}

// add is to name a writer by a head of it.
func (o *others) add(one *other, head audit.Head) {
	o.heads, o.told[one.Writer] = append(o.heads, head), one.stated.Checkpoint.Told
	if head.Closed {
		o.told[one.Writer] = closedTold
	}
	if one.dead {
		o.dead = append(o.dead, one.Presence)
	}
}

// follow moves heads of writers to the last records that are stored of them, from a place on. at says which head is whose.
func (t *Trail) follow(ctx context.Context, heads []audit.Head, at map[string]int, from string) error {
	if len(at) == 0 {
		return nil
	}
	return t.Store.AuditLines(ctx, from, "", false, func(l audit.Line) (bool, error) {
		writer := path.Base(path.Dir(l.ID))
		i, known := at[writer]
		if !known {
			return true, nil
		}
		if r, ok := audit.Follows(heads[i], l.Text, t.Ring); ok {
			closed := heads[i].Closed
			heads[i] = audit.HeadOf(r)
			heads[i].Closed = closed
		}
		return true, nil
	})
}

// Drop drops the days that were kept for as long as any process keeps them, and states up to which records of whom first.
func (t *Trail) Drop(ctx context.Context) error {
	if t.Keep <= 0 {
		return nil
	}
	days, err := t.Store.AuditDays(ctx)
	if err != nil {
		return err
	}
	present, err := t.Store.Auditors(ctx)
	if err != nil {
		return err
	}
	keep := t.longest(ctx, present)
	all, kept := days, t.Now().UTC().Add(-keep)
	days = slices.DeleteFunc(slices.Clone(all), func(day string) bool { return day >= audit.Day(kept) })
	if len(days) == 0 {
		return nil
	}
	if err := t.believe(ctx, days, all); err != nil {
		return err
	}
	dropped, forgotten, err := t.droppable(ctx, keep, kept, present)
	if err != nil {
		return err
	}
	if err := t.stateAll(ctx, audit.Checkpoint{Dropped: dropped}); err != nil {
		return err
	}
	for _, day := range days {
		if err := t.Store.DropAuditDay(ctx, day); err != nil {
			return err
		}
		t.Log.InfoContext(ctx, "audit records were kept long enough and are dropped", "day", day)
	}
	for _, writer := range forgotten {
		if err := t.Store.DeleteAuditor(ctx, writer); err != nil {
			return err
		}
	}
	return nil
}

// longest is for how long records are kept: a process that was told a shorter time than another one must not drop what that one keeps.
func (t *Trail) longest(ctx context.Context, present []audit.Presence) time.Duration {
	keep, by := t.Keep, ""
	for _, p := range present {
		if p.Keep > keep && (!p.Closed || t.Now().Sub(p.Seen) < policy.AuditHeard) {
			keep, by = p.Keep, p.Writer
		}
	}
	if by != "" {
		t.Log.WarnContext(ctx, "another process keeps audit records for longer, which counts: give --audit-keep to all alike", "keeps", t.Keep, "other", by, "longer", keep)
	}
	return keep
}

// believe refuses to drop days by a clock that may be ahead: one that another clock contradicts, and one by which all days but the
// present one were kept long enough. When the installation was off for that long, they go a day later.
func (t *Trail) believe(ctx context.Context, old, all []string) error {
	now := t.Now().UTC()
	d, err := when.Ahead(ctx, now, t.Clock)
	if err != nil {
		return err
	}
	if d.Abs() > policy.ClockWrong {
		return fail.New(fail.Unavailable, "this clock and the database's are %s apart, so that nothing is dropped: set them right", d.Round(time.Second))
	}
	before := slices.DeleteFunc(slices.Clone(all), func(day string) bool { return day >= audit.Day(now) })
	if len(before) == len(old) {
		return fail.New(fail.Unavailable, "by this clock all audit records of earlier days, up to %s, were kept long enough; they are dropped when "+
			"there are records of another day, in case that the clock is ahead", old[len(old)-1])
	}
	return nil
}

// droppable are the last records before the day of a time, of all writers, and what was said to be dropped there of writers that are
// not forgotten. Writers that have ended before it are to be forgotten when that is stated. A record counts when it is in its place, and is not behind what a signature says
// was there: who can write to the store, and has no key, must not have it said that more was dropped than there was.
func (t *Trail) droppable(ctx context.Context, keep time.Duration, kept time.Time, present []audit.Presence) (heads []audit.Head, forgotten []string, err error) {
	first := audit.Day(kept)
	chains := map[string]*oldChain{}
	of := func(writer string) *oldChain {
		if chains[writer] == nil {
			chains[writer] = &oldChain{}
		}
		return chains[writer]
	}
	said := map[string]audit.Head{}
	// What is behind the last checkpoint of a day was signed on the next one.
	err = t.Store.AuditLines(ctx, "", audit.Day(kept.AddDate(0, 0, 1)), false, func(l audit.Line) (bool, error) {
		r, err := audit.Whole(l.Text)
		if err != nil || l.ID != audit.PlaceOf(r) {
			return true, nil //nolint:nilerr // what is no record has no place in a chain
		}
		old, signed := l.Day() < first, r.Signed(t.Keys)
		if old {
			of(r.Writer).take(r, signed)
		}
		if !signed {
			return true, nil
		}
		of(r.Writer).sign(r.Number)
		for _, h := range r.Checkpoint.Heads {
			of(h.Writer).sign(h.Number)
		}
		for _, h := range r.Checkpoint.Dropped {
			if old {
				said[h.Writer] = h
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, p := range present {
		if r, ok := p.Stated(t.Keys); ok && audit.Day(r.Time) <= first { // a later one says nothing of those days
			of(p.Writer).sign(r.Number)
		}
	}
	last := map[string]audit.Head{}
	for writer, c := range chains {
		if h := c.last(); h.Number > 0 {
			last[writer] = h
		}
	}
	for _, p := range present {
		h, was := said[p.Writer] // it may still be named, also one that has ended
		if _, later := last[p.Writer]; was && !later {
			last[p.Writer] = h
		}
		// It is forgotten when it is stated for the last time: what names it is not newer than that.
		_, stated := last[p.Writer]
		if p.Closed && (stated && audit.Day(p.Seen) < first || audit.Day(p.Seen.Add(2*keep)) < first) {
			forgotten = append(forgotten, p.Writer)
		}
	}
	heads = slices.Collect(maps.Values(last))
	slices.SortFunc(heads, func(a, b audit.Head) int { return strings.Compare(a.Writer, b.Writer) })
	return heads, forgotten, nil
}

// oldChain is what is found of a writer in old days.
type oldChain struct {
	heads  []audit.Head // the last one that a signature covers, and those behind it
	signed int64        // up to which there is a signature
}

// take takes a record that follows the last one. One that is signed and does not shows that those before it are others than were
// written.
func (c *oldChain) take(r *audit.Record, signed bool) {
	if n := len(c.heads); n > 0 && (r.Number != c.heads[n-1].Number+1 || r.Prev != c.heads[n-1].Hash) {
		if !signed {
			return
		}
		c.heads = nil
	}
	c.heads = append(c.heads, audit.HeadOf(r))
	c.trim()
}

func (c *oldChain) sign(number int64) {
	if number > c.signed {
		c.signed = number
		c.trim()
	}
}

// trim forgets what is before the last one that a signature covers.
func (c *oldChain) trim() {
	n := 0
	for n < len(c.heads) && c.heads[n].Number <= c.signed {
		n++
	}
	if n > 1 {
		c.heads = slices.Delete(c.heads, 0, n-1)
	}
}

// last is the last record that a signature covers; number 0 when there is none.
func (c *oldChain) last() audit.Head {
	if len(c.heads) == 0 || c.heads[0].Number > c.signed {
		return audit.Head{}
	}
	return c.heads[0]
}
