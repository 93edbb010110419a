package trail_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/mongotest"
	"github.com/drover-io/drover/internal/policy"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/trail"
)

var (
	key   = audit.NewKey(bytes.Repeat([]byte{7}, 32))
	trust = map[string]ed25519.PublicKey{key.Stated().Key: key.Public()}
)

// weather is the store with what may happen to it.
type weather struct {
	*store.Store
	down    atomic.Bool  // nothing is stored
	refused atomic.Int64 // calls, as it was down
	lost    atomic.Bool  // it is stored, and nobody hears of it
	some    atomic.Int64 // so many are stored in each call, which fails then
	puts    atomic.Int64
	gets    atomic.Int64             // how often the log was read
	hear    func(lines []audit.Line) // before they are stored
}

var errWeather = fail.New(fail.Timeout, "the database does not answer in time")

func (w *weather) AuditLines(ctx context.Context, from, to string, backwards bool, take func(audit.Line) (bool, error)) error {
	w.gets.Add(1)
	return w.Store.AuditLines(ctx, from, to, backwards, take)
}

func (w *weather) PutAudit(ctx context.Context, lines []audit.Line) (int, error) {
	if w.down.Load() {
		w.refused.Add(1)
		return 0, errWeather
	}
	w.puts.Add(1)
	if w.hear != nil {
		w.hear(lines)
	}
	if n := w.some.Load(); n > 0 {
		stored, err := w.Store.PutAudit(ctx, lines[:min(len(lines), int(n))])
		return stored, cmp.Or[error](err, errWeather)
	}
	if stored, err := w.Store.PutAudit(ctx, lines); err != nil {
		return stored, err
	}
	if w.lost.Load() {
		return 0, errWeather
	}
	return len(lines), nil
}

// clock is what a test sets.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func open(t testing.TB) *weather { return &weather{Store: storetest.Open(t, store.Config{})} }

func begin(t testing.TB, w *weather, c *clock) *trail.Trail {
	t.Helper()
	return keeping(t, w, c, 30*24*time.Hour)
}

func keeping(t testing.TB, w *weather, c *clock, keep time.Duration) *trail.Trail {
	t.Helper()
	tr := trail.New(trail.Config{
		Store: w, Process: "test", Key: key, Keys: trust, Secret: []byte("secret"), Keep: keep,
		Log: slog.New(slog.DiscardHandler), Now: c.now, Wait: mongotest.Timeout,
	})
	require.NoError(t, tr.Begin(t.Context()))
	return tr
}

func command(name string) audit.Record {
	return audit.Record{Event: audit.Answered, Verb: "put", Noun: "projects", Key: "projects/" + name, Result: audit.Done}
}

// export is what is stored.
func export(t testing.TB, s trail.Store) (lines []audit.Line) {
	t.Helper()
	require.NoError(t, s.AuditLines(t.Context(), "", "", false, func(l audit.Line) (bool, error) {
		lines = append(lines, l)
		return true, nil
	}))
	return lines
}

func verify(t testing.TB, lines []audit.Line) *audit.Report {
	t.Helper()
	var b bytes.Buffer
	for _, l := range lines {
		fmt.Fprintf(&b, "%s\n", l.Text)
	}
	report, err := audit.Verify(&b, audit.Options{Keys: trust})
	require.NoError(t, err)
	return report
}

// keys are those of the records, in their order.
func keys(t testing.TB, lines []audit.Line) (keys []string) {
	t.Helper()
	for _, l := range lines {
		r, _, err := audit.Parse(l.Text)
		require.NoError(t, err)
		if r.Key != "" {
			keys = append(keys, r.Key)
		}
	}
	return keys
}

// TestManyAtATime: what many record at the same time is in the store when they go on, in fewer calls than there are records.
func TestManyAtATime(t *testing.T) {
	w := open(t)
	tr := begin(t, w, newClock())
	const n = 300
	var writers sync.WaitGroup
	for i := range n {
		writers.Go(func() {
			number, err := tr.Write(t.Context(), command(fmt.Sprint("p", i)))
			if err != nil || number == 0 {
				t.Error(number, err)
			}
		})
	}
	writers.Wait()
	require.Less(t, w.puts.Load(), int64(n), "they share calls")
	lines := export(t, w)
	require.Len(t, keys(t, lines), n)
	require.NoError(t, tr.Close(t.Context()))
	report := verify(t, export(t, w))
	require.Empty(t, report.Problems)
	require.Empty(t, report.Tails, "the end is sealed")
	require.Equal(t, n+2, report.Records)
	_, err := tr.Write(t.Context(), command("late"))
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
}

// TestTheStoreIsAway: what cannot be stored is refused, and is not in the log; what nobody waits for comes when the store is back.
func TestTheStoreIsAway(t *testing.T) {
	w := open(t)
	tr := begin(t, w, newClock())
	write := func(name string) error {
		_, err := tr.Write(t.Context(), command(name))
		return err
	}
	require.NoError(t, write("before"))
	w.down.Store(true)
	require.True(t, fail.Is(write("pending"), fail.Unavailable)) // it may be stored, for all that is known
	require.True(t, fail.Is(write("refused"), fail.Unavailable))
	tr.Later(command("later"))
	require.True(t, fail.Is(write("refused again"), fail.Unavailable))
	w.down.Store(false)
	require.NoError(t, write("after"))
	require.NoError(t, tr.Close(t.Context()))
	lines := export(t, w)
	require.Equal(t, []string{"projects/before", "projects/pending", "projects/later", "projects/after"}, keys(t, lines))
	require.Empty(t, verify(t, lines).Problems)
}

// TestAnAnswerWaitsForTheStore: a record that could not be stored, and that nobody waits for any more, is there when the store is
// back, though nothing else is written. Until then it counts as one that waits.
func TestAnAnswerWaitsForTheStore(t *testing.T) {
	w, c := open(t), newClock()
	tr := begin(t, w, c)
	seal := make(chan time.Time)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { tr.RunAt(ctx, seal, nil, nil) })
	defer running.Wait()
	defer cancel()
	seal <- c.now()
	w.down.Store(true)
	number, err := tr.Write(t.Context(), command("done"))
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.NotZero(t, number, "nobody writes it once more")
	waits, _ := tr.Unwritten()
	require.Equal(t, 1, waits)
	seal <- c.now()
	seal <- c.now()
	waits, _ = tr.Unwritten()
	require.Equal(t, 1, waits)
	w.down.Store(false)
	require.Eventually(t, func() bool {
		seal <- c.now()
		waits, _ := tr.Unwritten()
		return waits == 0 && len(verify(t, export(t, w)).Tails) == 0
	}, 10*time.Second, 5*time.Millisecond)
	lines := export(t, w)
	require.Equal(t, []string{"projects/done"}, keys(t, lines))
	require.Empty(t, verify(t, lines).Problems)
}

// TestMuchIsKept: while the store is away whoever waits is told so, however much waits that nobody waits for; all of that comes later.
func TestMuchIsKept(t *testing.T) {
	w := open(t)
	tr := begin(t, w, newClock())
	w.down.Store(true)
	const n = 1200
	for i := range n {
		tr.Later(command(fmt.Sprint("kept", i)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), mongotest.Timeout)
	defer cancel()
	for range 3 {
		_, err := tr.Write(ctx, command("refused"))
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	}
	require.Error(t, trail.New(trail.Config{Store: w, Log: slog.New(slog.DiscardHandler), Now: time.Now, Key: key}).Close(ctx))
	w.down.Store(false)
	_, err := tr.Write(ctx, command("after"))
	require.NoError(t, err)
	require.NoError(t, tr.Close(ctx))
	lines := export(t, w)
	got := keys(t, lines)
	require.Subset(t, got, []string{"projects/kept0", "projects/kept1199", "projects/after"})
	require.GreaterOrEqual(t, len(got), n+1)
	require.Empty(t, verify(t, lines).Problems)
}

// TestNothingComesAfterTheEnd: what is to be recorded while a trail is closed is refused, or is before the end.
func TestNothingComesAfterTheEnd(t *testing.T) {
	w := open(t)
	tr := begin(t, w, newClock())
	w.hear = func(lines []audit.Line) {
		if bytes.Contains(lines[len(lines)-1].Text, []byte(`"closes":true`)) {
			tr.Later(command("late"))
		}
	}
	require.NoError(t, tr.Close(t.Context()))
	require.Eventually(t, func() bool {
		_, lost := tr.Unwritten()
		return lost > 0 || len(keys(t, export(t, w))) > 0
	}, mongotest.Timeout, time.Millisecond)
	require.Empty(t, verify(t, export(t, w)).Problems)
}

// TestAnswersAreLost: what was stored, though nobody heard of it, is there once.
func TestAnswersAreLost(t *testing.T) {
	w := open(t)
	tr := begin(t, w, newClock())
	w.lost.Store(true)
	for i := range 3 {
		_, err := tr.Write(t.Context(), command(fmt.Sprint("p", i)))
		require.Error(t, err)
	}
	w.lost.Store(false)
	_, err := tr.Write(t.Context(), command("last"))
	require.NoError(t, err)
	require.NoError(t, tr.Close(t.Context()))
	lines := export(t, w)
	require.Equal(t, []string{"projects/p0", "projects/last"}, keys(t, lines))
	require.Empty(t, verify(t, lines).Problems)
}

// TestAStoreThatPanics is like one that does not answer: who waits is told so, and the log goes on when it is over.
func TestAStoreThatPanics(t *testing.T) {
	w := open(t)
	tr := begin(t, w, newClock())
	w.hear = func([]audit.Line) { panic("defect") }
	_, err := tr.Write(t.Context(), command("pending"))
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	w.hear = nil
	_, err = tr.Write(t.Context(), command("after"))
	require.NoError(t, err)
	require.NoError(t, tr.Close(t.Context()))
	lines := export(t, w)
	require.Equal(t, []string{"projects/pending", "projects/after"}, keys(t, lines))
	require.Empty(t, verify(t, lines).Problems)
}

// TestALittleAtATime: what a call has stored before it failed is not stored again, so that a batch that is too much for one call gets
// there in several.
func TestALittleAtATime(t *testing.T) {
	w := open(t)
	tr := begin(t, w, newClock())
	w.down.Store(true)
	const n = 100
	for i := range n {
		tr.Later(command(fmt.Sprint("p", i)))
	}
	_, err := tr.Write(t.Context(), command("refused"))
	require.Error(t, err)
	w.some.Store(30)
	w.down.Store(false)
	for range n / 30 {
		_, err = tr.Write(t.Context(), command("refused"))
		require.Error(t, err)
	}
	w.some.Store(0)
	require.NoError(t, tr.Close(t.Context()))
	lines := export(t, w)
	require.GreaterOrEqual(t, len(keys(t, lines)), n)
	require.Empty(t, verify(t, lines).Problems)
}

// TestWhoDoesNotWait: a caller who leaves gets its record all the same.
func TestWhoDoesNotWait(t *testing.T) {
	w := open(t)
	tr := begin(t, w, newClock())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tr.Write(ctx, command("left"))
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, tr.Close(t.Context()))
	require.Equal(t, []string{"projects/left"}, keys(t, export(t, w)))
}

// TestSeal: what was written is sealed once, and nothing is written where nothing was.
func TestSeal(t *testing.T) {
	w := open(t)
	tr := begin(t, w, newClock())
	require.NoError(t, tr.Seal(t.Context()))
	require.Len(t, export(t, w), 1)
	_, err := tr.Write(t.Context(), command("p"))
	require.NoError(t, err)
	require.Len(t, verify(t, export(t, w)).Tails, 1)
	require.NoError(t, tr.Seal(t.Context()))
	require.Empty(t, verify(t, export(t, w)).Tails)
	require.NoError(t, tr.Seal(t.Context()))
	require.Len(t, export(t, w), 3)
}

// TestRun: each thing that is to be done from time to time is done at its time.
func TestRun(t *testing.T) {
	const day = 24 * time.Hour
	w, c := open(t), newClock()
	tr := begin(t, w, c)
	writes := func(name string) {
		t.Helper()
		_, err := tr.Write(t.Context(), command(name))
		require.NoError(t, err)
	}
	comes := func(what string, is func() bool) {
		t.Helper()
		require.Eventually(t, is, 10*time.Second, 5*time.Millisecond, what)
	}
	has := func(name string) func() bool {
		return func() bool { return slices.Contains(keys(t, export(t, w)), "projects/"+name) }
	}
	hasNot := func(name string) func() bool { return func() bool { return !has(name)() } }
	writes("old")
	c.advance(35 * day)
	writes("kept")
	c.advance(day)
	seal, look, drop := make(chan time.Time), make(chan time.Time), make(chan time.Time)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { tr.RunAt(ctx, seal, look, drop) })
	defer running.Wait()
	defer cancel()
	comes("what was kept long enough goes at once", hasNot("old"))
	require.True(t, has("kept")())

	c.advance(20 * day)
	writes("later")
	c.advance(15 * day)
	drop <- c.now()
	comes("and from time to time", hasNot("kept"))
	require.True(t, has("later")())

	c.advance(time.Minute)
	look <- c.now()
	comes("it says that it is alive", func() bool {
		present, err := w.Auditors(t.Context())
		require.NoError(t, err)
		return len(present) == 1 && present[0].Seen.Equal(c.now())
	})

	writes("open")
	require.NotEmpty(t, verify(t, export(t, w)).Tails)
	seal <- c.now()
	comes("it seals", func() bool { return len(verify(t, export(t, w)).Tails) == 0 })

	w.down.Store(true)
	tr.Later(command("first"))
	comes("it is refused", func() bool { return w.refused.Load() == 1 })
	tr.Later(command("waits")) // behind the first one, which has its place in the chain
	comes("both are kept", func() bool { kept, _ := tr.Unwritten(); return kept == 2 })
	w.down.Store(false)
	comes("what could not be written is tried again", func() bool {
		seal <- c.now() // more than one, as it may just be ending
		return has("waits")()
	})

	refusal := audit.Record{Event: audit.Answered, Result: "unauthorized", From: "192.0.2.1:1"}
	for tr.Admits(refusal) { // until there are too many
	}
	seal <- c.now()
	comes("it says how many refusals have no record", func() bool {
		return slices.ContainsFunc(export(t, w), func(l audit.Line) bool {
			r, _, err := audit.Parse(l.Text)
			return err == nil && r.More == 1
		})
	})
}

// TestWritersNameEachOther: what one has written, another one's checkpoint names; two that have nothing to write do not go on to
// name each other for ever.
func TestWritersNameEachOther(t *testing.T) {
	w, c := open(t), newClock()
	a := begin(t, w, c)
	b := begin(t, w, c)
	for i := range 3 {
		c.advance(time.Second)
		_, err := a.Write(t.Context(), command(fmt.Sprint("p", i)))
		require.NoError(t, err)
	}
	require.NoError(t, a.Seal(t.Context()))
	require.NoError(t, b.Look(t.Context()))
	lines := export(t, w)
	for range 3 {
		require.NoError(t, a.Look(t.Context()))
		require.NoError(t, b.Look(t.Context()))
	}
	require.LessOrEqual(t, len(export(t, w)), len(lines)+1, "a has named b once")

	without := func(writer string) (rest []audit.Line) {
		for _, l := range export(t, w) {
			if !strings.Contains(l.ID, "/"+writer+"/") {
				rest = append(rest, l)
			}
		}
		return rest
	}
	require.Empty(t, verify(t, export(t, w)).Problems)
	require.Contains(t, fmt.Sprint(verify(t, without(a.Writer())).Problems), b.Writer()+" says")
	require.False(t, verify(t, without(b.Writer())).Good())
}

// TestTheDeadAreClosed: of a writer that is not seen any more another one seals what it has left; if it was not dead, it goes on.
func TestTheDeadAreClosed(t *testing.T) {
	w, c := open(t), newClock()
	dead := begin(t, w, c)
	_, err := dead.Write(t.Context(), command("last"))
	require.NoError(t, err)
	lives := begin(t, w, c)
	require.Empty(t, verify(t, export(t, w)).Tails, "the first thing that a process does is to seal what others have left")
	_, err = dead.Write(t.Context(), command("the very last"))
	require.NoError(t, err)
	c.advance(policy.AuditDead + time.Second)
	require.NoError(t, lives.Look(t.Context()))
	lines := export(t, w)
	require.Empty(t, verify(t, lines).Tails)
	require.NoError(t, lives.Look(t.Context()))
	require.Len(t, export(t, w), len(lines), "it is said once")

	_, err = dead.Write(t.Context(), command("not dead"))
	require.NoError(t, err)
	require.NoError(t, dead.Close(t.Context()))
	require.NoError(t, lives.Close(t.Context()))
	require.Empty(t, verify(t, export(t, w)).Problems)
}

// TestTheLogIsReadOnce at a start, however many have died without an end.
func TestTheLogIsReadOnce(t *testing.T) {
	w, c := open(t), newClock()
	for range 5 {
		_, err := begin(t, w, c).Write(t.Context(), command("last"))
		require.NoError(t, err)
	}
	w.gets.Store(0)
	lives := begin(t, w, c)
	require.EqualValues(t, 1, w.gets.Load())
	require.NoError(t, lives.Close(t.Context()))
	require.Empty(t, verify(t, export(t, w)).Tails, "the last records of all are named")
}

// TestStartsThatAreKilled: each names all before it, and what they say of themselves is small however many they are.
func TestStartsThatAreKilled(t *testing.T) {
	const starts = 50
	w, c := open(t), newClock()
	for range starts {
		begin(t, w, c)
	}
	present, err := w.Auditors(t.Context())
	require.NoError(t, err)
	require.Len(t, present, starts)
	for _, p := range present {
		require.Less(t, len(p.Checkpoint), 2<<10)
		stated, ok := p.Stated(trust)
		require.True(t, ok)
		require.LessOrEqual(t, stated.Number, int64(2))
	}
	require.NoError(t, begin(t, w, c).Close(t.Context()))
	lines := export(t, w)
	require.Empty(t, verify(t, lines).Problems)
	require.Empty(t, verify(t, lines).Tails)
	for i, l := range lines {
		if !bytes.Contains(l.Text, []byte(`"closes":true`)) { // nobody has come after it
			require.False(t, verify(t, slices.Delete(slices.Clone(lines), i, i+1)).Good(), "without %s", l.ID)
		}
	}
}

// TestWhoDiesWhileItClosesTheDead: a writer counts as closed when its end is stated, and not before; and what a presence says without
// a signature is not believed.
func TestWhoDiesWhileItClosesTheDead(t *testing.T) {
	w, c := open(t), newClock()
	dead := begin(t, w, c)
	lives := begin(t, w, c)
	_, err := dead.Write(t.Context(), command("last"))
	require.NoError(t, err)
	c.advance(policy.AuditDead + time.Second)
	w.down.Store(true)
	require.Error(t, lives.Look(t.Context()))
	w.down.Store(false)
	closed := func() bool {
		present, err := w.Auditors(t.Context())
		require.NoError(t, err)
		for _, p := range present {
			if p.Writer == dead.Writer() {
				return p.Closed
			}
		}
		t.Fatal("it is forgotten")
		return false
	}
	require.False(t, closed())
	require.NotEmpty(t, verify(t, export(t, w)).Tails)
	present, err := w.Auditors(t.Context())
	require.NoError(t, err)
	for _, p := range present {
		if p.Writer == dead.Writer() {
			p.Closed = true // by who can write to the store
			require.NoError(t, w.PutAuditor(t.Context(), p))
		}
	}
	next := begin(t, w, c)
	require.NotContains(t, fmt.Sprint(verify(t, export(t, w)).Tails), dead.Writer())
	require.NoError(t, next.Close(t.Context()))
	require.Empty(t, verify(t, export(t, w)).Problems)
}

// TestForgedLinesAreNotDropped: who can write to the store cannot have it signed that more was dropped than there was.
func TestForgedLinesAreNotDropped(t *testing.T) {
	const day = 24 * time.Hour
	w, c := open(t), newClock()
	busy := begin(t, w, c)
	forge := func(writer string, number int64, at time.Time) {
		r := audit.Record{Writer: writer, Number: number, Time: at.UTC(), Event: audit.Answered, Prev: "00"}
		text, err := json.Marshal(r)
		require.NoError(t, err)
		text = text[:len(text)-1]
		sum := sha256.Sum256(text)
		text = append(text, fmt.Sprintf(`,"hash":"%x"}`, sum)...)
		read, err := audit.Whole(text)
		require.NoError(t, err)
		_, err = w.PutAudit(t.Context(), []audit.Line{{ID: audit.PlaceOf(read), Text: text}})
		require.NoError(t, err)
	}
	start := c.now()
	forge(busy.Writer(), 35, start.Add(-time.Hour))
	for i := range 40 {
		c.advance(day)
		_, err := busy.Write(t.Context(), command(fmt.Sprint("day", i)))
		require.NoError(t, err)
		require.NoError(t, busy.Seal(t.Context()))
		if i == 0 {
			forge(busy.Writer(), 1_000_000_000, start.Add(2*time.Hour))
			forge("nobody", 1_000_000_000, start.Add(2*time.Hour))
		}
	}
	require.NoError(t, busy.Drop(t.Context()))
	stated := 0
	for _, l := range export(t, w) {
		r, err := audit.Whole(l.Text)
		require.NoError(t, err)
		if r.Checkpoint == nil {
			continue
		}
		for _, h := range r.Checkpoint.Dropped {
			stated++
			require.Equal(t, busy.Writer(), h.Writer)
			require.Less(t, h.Number, int64(30))
		}
	}
	require.Equal(t, 1, stated)
	require.Empty(t, verify(t, export(t, w)).Problems)
}

// TestTheLongestKeepCounts: a process that keeps records for less drops nothing of what another one keeps, also while all are started
// anew; what that one was told counts no more when it has long ended.
func TestTheLongestKeepCounts(t *testing.T) {
	const day = 24 * time.Hour
	w, c := open(t), newClock()
	long := keeping(t, w, c, 365*day)
	_, err := long.Write(t.Context(), command("old"))
	require.NoError(t, err)
	require.NoError(t, long.Seal(t.Context()))
	c.advance(100 * day)
	short := begin(t, w, c)
	_, err = short.Write(t.Context(), command("later"))
	require.NoError(t, err)
	c.advance(day)
	require.NoError(t, long.Look(t.Context()))
	require.NoError(t, short.Drop(t.Context()))
	require.Contains(t, keys(t, export(t, w)), "projects/old")
	require.NoError(t, long.Close(t.Context()))
	require.NoError(t, short.Drop(t.Context()))
	require.Contains(t, keys(t, export(t, w)), "projects/old")
	c.advance(2 * day)
	require.NoError(t, short.Drop(t.Context()))
	require.NotContains(t, keys(t, export(t, w)), "projects/old")
	require.Contains(t, keys(t, export(t, w)), "projects/later")
	require.Empty(t, verify(t, export(t, w)).Problems)
}

// TestDrop: what was kept long enough goes by whole days, and what is left can be verified; what goes without being stated cannot.
func TestDrop(t *testing.T) {
	const day = 24 * time.Hour
	w, c := open(t), newClock()
	gone := begin(t, w, c)
	_, err := gone.Write(t.Context(), command("long ago"))
	require.NoError(t, err)
	require.NoError(t, gone.Close(t.Context()))
	idle := begin(t, w, c) // it has nothing to write for long
	busy := begin(t, w, c)
	for i := range 80 {
		c.advance(day)
		_, err := busy.Write(t.Context(), command(fmt.Sprint("day", i)))
		require.NoError(t, err)
		require.NoError(t, busy.Seal(t.Context()))
		require.NoError(t, busy.Drop(t.Context()))
		require.NoError(t, idle.Look(t.Context()))
		if i%20 == 0 {
			require.Empty(t, verify(t, export(t, w)).Problems, "day %d", i)
		}
	}
	_, err = idle.Write(t.Context(), command("at last"))
	require.NoError(t, err)
	lines := export(t, w)
	require.Empty(t, verify(t, lines).Problems)
	require.NotContains(t, keys(t, lines), "projects/day40")
	days, err := w.AuditDays(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, len(days), 32)
	require.NoError(t, w.DropAuditDay(t.Context(), days[0]))
	require.False(t, verify(t, export(t, w)).Good(), "a day that nobody said was dropped")
}

// TestAnEndThatIsStatedStaysExplained: a writer that had nothing to write for longer than records are kept, and died then, is named
// with its end by others, and has none left. What was said to be dropped of it is there for as long as that.
func TestAnEndThatIsStatedStaysExplained(t *testing.T) {
	const day = 24 * time.Hour
	w, c := open(t), newClock()
	idle := begin(t, w, c)
	busy := begin(t, w, c)
	for i := range 110 {
		c.advance(day)
		_, err := busy.Write(t.Context(), command(fmt.Sprint("day", i)))
		require.NoError(t, err)
		require.NoError(t, busy.Seal(t.Context()))
		require.NoError(t, busy.Drop(t.Context()))
		require.NoError(t, busy.Look(t.Context()))
		if i < 40 {
			require.NoError(t, idle.Look(t.Context()))
		}
		if i == 75 {
			begin(t, w, c) // it names all that there are
		}
		if i > 40 {
			require.Empty(t, verify(t, export(t, w)).Problems, "day %d", i)
		}
	}
	present, err := w.Auditors(t.Context())
	require.NoError(t, err)
	for _, p := range present {
		require.NotEqual(t, idle.Writer(), p.Writer, "it is forgotten at last")
	}
}

// TestAClockThatIsAhead drops nothing: another clock contradicts it, or everything would go at once.
func TestAClockThatIsAhead(t *testing.T) {
	const day = 24 * time.Hour
	w, c, other := open(t), newClock(), newClock()
	tr := trail.New(trail.Config{
		Store: w, Process: "test", Key: key, Keys: trust, Keep: 30 * day, Log: slog.New(slog.DiscardHandler), Now: c.now, Wait: mongotest.Timeout,
		Clock: func(context.Context) (time.Time, error) { return other.now(), nil },
	})
	require.NoError(t, tr.Begin(t.Context()))
	write := func() {
		t.Helper()
		_, err := tr.Write(t.Context(), command("p"))
		require.NoError(t, err)
		require.NoError(t, tr.Seal(t.Context()))
	}
	days := func() int {
		t.Helper()
		all, err := w.AuditDays(t.Context())
		require.NoError(t, err)
		return len(all)
	}
	for range 3 {
		c.advance(day)
		other.advance(day)
		write()
	}
	there := days()
	c.advance(100 * day)
	write()
	require.ErrorContains(t, tr.Drop(t.Context()), "2400h0m0s apart")
	other.advance(100 * day) // it may be the same machine's
	err := tr.Drop(t.Context())
	require.ErrorContains(t, err, "in case that the clock is ahead")
	require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	require.Equal(t, there+1, days())
	for range 2 {
		c.advance(day)
		other.advance(day)
		write()
	}
	require.NoError(t, tr.Drop(t.Context()))
	require.Equal(t, 3, days())
	require.Empty(t, verify(t, export(t, w)).Problems)
}

// TestAClockThatIsBehind: what is written today must not be in a day that another process drops at once. The times of records are not the database's to say.
func TestAClockThatIsBehind(t *testing.T) {
	const day = 24 * time.Hour
	w, c, database := open(t), newClock(), newClock()
	with := func() *trail.Trail {
		return trail.New(trail.Config{
			Store: w, Process: "test", Key: key, Keys: trust, Keep: 30 * day, Log: slog.New(slog.DiscardHandler), Now: c.now, Wait: mongotest.Timeout,
			Clock: func(context.Context) (time.Time, error) { return database.now(), nil },
		})
	}
	refused := func(err error, by string) {
		t.Helper()
		require.ErrorIs(t, err, audit.ErrClock)
		require.ErrorContains(t, err, "this clock is "+by+" behind the database's, so that nothing can be recorded: set them right")
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
	}
	c.advance(-42 * day)
	refused(with().Begin(t.Context()), "1008h0m0s")
	require.Empty(t, export(t, w))

	c.advance(42*day + policy.ClockWrong)
	tr := with()
	require.NoError(t, tr.Begin(t.Context()), "ahead")
	write := func() error {
		_, err := tr.Write(t.Context(), command("p"))
		return err
	}
	require.NoError(t, write())
	c.advance(-2 * policy.ClockWrong)
	require.NoError(t, tr.Seal(t.Context()))
	c.advance(-day)
	require.NoError(t, write(), "it has the time of the last one, which is right")
	require.NoError(t, tr.Seal(t.Context()))

	database.advance(42 * day) // of a machine that was suspended and does not know
	require.NoError(t, write())
	refused(tr.Seal(t.Context()), "1007h0m0s")
	there := len(export(t, w))
	refused(write(), "1007h0m0s")
	tr.Later(command("later"))
	refused(tr.Look(t.Context()), "1007h0m0s")
	require.Len(t, export(t, w), there)
	c.advance(43*day + policy.ClockWrong)
	require.NoError(t, tr.Look(t.Context()))
	require.NoError(t, write())
	require.NoError(t, tr.Close(t.Context()))
	require.Empty(t, verify(t, export(t, w)).Problems)
	require.Equal(t, audit.Day(c.now()), export(t, w)[there].Day())
	require.Len(t, export(t, w), there+3, "what nobody waits for is kept until then")

	tr = with()
	require.NoError(t, tr.Begin(t.Context()))
	database.advance(43 * day)
	require.Error(t, tr.Look(t.Context()))
	tr.Later(command("kept"))
	c.advance(43 * day)
	require.NoError(t, tr.Close(t.Context()), "it is stopped as soon as the clock is right")
	require.Contains(t, keys(t, export(t, w)), "projects/kept")
	require.Empty(t, verify(t, export(t, w)).Problems)
}

// TestAClockThatWasAhead: records of a writer do not go back, so that the log says once that their time is wrong, and until when.
func TestAClockThatWasAhead(t *testing.T) {
	w, c := open(t), newClock()
	var said bytes.Buffer
	tr := trail.New(trail.Config{
		Store: w, Process: "test", Key: key, Keys: trust, Secret: []byte("secret"), Log: slog.New(slog.NewTextHandler(&said, nil)), Now: c.now, Wait: mongotest.Timeout,
	})
	write := func() {
		t.Helper()
		_, err := tr.Write(t.Context(), command("p"))
		require.NoError(t, err)
	}
	write()
	c.advance(-policy.ClockSkew)
	write()
	require.Empty(t, said.String(), "that is no more than clocks may differ")
	for n := range 2 {
		c.advance(24 * time.Hour)
		write()
		ahead := c.now()
		c.advance(-24 * time.Hour)
		write()
		write()
		require.Equal(t, n+1, strings.Count(said.String(), "the clock was ahead"))
		require.Contains(t, said.String(), "until="+ahead.Format("2006-01-02T15:04:05"))
		c.advance(24 * time.Hour)
		write()
	}
}

// TestAStoreThatIsAwayIsSaidOnce, however often it is tried meanwhile, and so is that it is back.
func TestAStoreThatIsAwayIsSaidOnce(t *testing.T) {
	w, c := open(t), newClock()
	var said bytes.Buffer
	tr := trail.New(trail.Config{
		Store: w, Process: "test", Key: key, Keys: trust, Secret: []byte("secret"), Log: slog.New(slog.NewTextHandler(&said, nil)), Now: c.now, Wait: mongotest.Timeout,
	})
	seal, ended := make(chan time.Time), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		tr.RunAt(ctx, seal, nil, nil)
	}()
	for range 2 {
		_, err := tr.Write(t.Context(), command("p"))
		require.NoError(t, err)
		w.down.Store(true)
		for range 4 {
			seal <- c.now()
		}
		_, err = tr.Write(t.Context(), command("p"))
		require.True(t, fail.Is(err, fail.Unavailable), "%v", err)
		w.down.Store(false)
		for range 3 {
			seal <- c.now()
		}
	}
	cancel()
	<-ended
	for _, line := range []string{
		`level=WARN msg="audit records cannot be written"`, `level=INFO msg="audit records are written again"`,
		`level=WARN msg=audit task="seal audit records"`, `level=INFO msg="audit goes on" task="seal audit records"`,
	} {
		require.Equal(t, 2, strings.Count(said.String(), line), "%s\n%s", line, said.String())
	}
	require.Equal(t, 8, strings.Count(said.String(), "\n"), said.String())
}

// TestKill kills a process while it writes. What it said was stored is there, what is left can be verified, and once another
// process has begun nothing of it can be taken away unseen.
func TestKill(t *testing.T) {
	if uri := os.Getenv(childURI); uri != "" {
		child(t, uri)
		return
	}
	config := storetest.Config(t)
	s := storetest.Open(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // kills
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), childURI+"="+config.URI, childDatabase+"="+config.Database)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "stored "); ok {
			said = append(said, name)
		}
		if len(said) == 200 {
			cancel()
		}
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, -1, exit.ExitCode(), "it was killed")

	w := &weather{Store: s}
	lines := export(t, s)
	require.Subset(t, keys(t, lines), said)
	report := verify(t, lines)
	require.Empty(t, report.Problems)
	require.NotEmpty(t, report.Tails, "it had no time to seal them")
	require.NoError(t, begin(t, w, newClock()).Close(t.Context()))
	lines = export(t, s)
	require.Empty(t, verify(t, lines).Problems)
	require.Empty(t, verify(t, lines).Tails)
	for i := range lines {
		rest := append(append([]audit.Line{}, lines[:i]...), lines[i+1:]...)
		if strings.Contains(lines[i].ID, "/child-") {
			require.False(t, verify(t, rest).Good(), "without %s", lines[i].ID)
		}
	}
}

const childURI, childDatabase = "DROVER_TRAIL_TEST_URI", "DROVER_TRAIL_TEST_DATABASE"

// child writes until it is killed.
func child(t *testing.T, uri string) {
	s, err := store.Open(store.Config{URI: uri, Database: os.Getenv(childDatabase), Timeout: mongotest.Timeout, Keys: storetest.Keys})
	require.NoError(t, err)
	tr := trail.New(trail.Config{
		Store: s, Process: "child", Key: key, Keys: trust, Log: slog.New(slog.DiscardHandler), Now: newClock().now,
		Wait: mongotest.Timeout,
	})
	require.NoError(t, tr.Begin(t.Context()))
	var out sync.Mutex
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				r := command(fmt.Sprintf("p%d-%d", w, i))
				if _, err := tr.Write(t.Context(), r); err != nil {
					t.Error(err)
					return
				}
				out.Lock()
				_, err := fmt.Println("stored " + r.Key)
				out.Unlock()
				if errors.Is(err, os.ErrClosed) {
					return
				}
			}
		})
	}
	writers.Wait()
}

func BenchmarkWrite(b *testing.B) {
	w := open(b)
	tr := begin(b, w, newClock())
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := tr.Write(b.Context(), command("p")); err != nil {
				b.Error(err)
			}
		}
	})
}

// TestStrangersDoNotFillTheLog: some addresses that are refused all day have few records, and neither hide another one nor have what is
// kept of identities forgotten. An IPv6 network is one address.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	c := newClock()
	tr := begin(t, open(t), c)
	from := func(who, address string) bool {
		r := audit.Record{Event: audit.Answered, Verb: "GET", From: address, Who: &audit.Who{Kind: "anonymous"}, Result: "Forbidden"}
		if who != "" {
			r.Who = &audit.Who{Kind: "user", Name: who}
		}
		return tr.Admits(r)
	}
	flood := func(n int) (admitted int) {
		for range n {
			for i := range 20 {
				if from("", fmt.Sprintf("192.0.2.%d:4711", i+1)) {
					admitted++
				}
			}
			c.advance(time.Second)
		}
		return admitted
	}
	flood(12 * 60 * 60)
	require.Less(t, flood(12*60*60), 5_000, "once they have had their first records")
	require.False(t, from("", "192.0.2.1:4711"))
	require.True(t, from("", "198.51.100.1:4711"), "who was not seen before is not hidden")
	require.True(t, from("alice", "192.0.2.1:4711"))
	for from("alice", "192.0.2.1:4711") {
	}
	var of int
	for i := range 20_000 {
		if from("", fmt.Sprintf("[2001:db8::%x]:4711", i+1)) {
			of++
		}
		_ = from("", fmt.Sprintf("10.1.%d.%d:4711", i/256, i%256))
	}
	require.LessOrEqual(t, of, 20, "one network")
	require.False(t, from("alice", "192.0.2.1:4711"), "it is known that she has had hers")
}

// TestRefusalsThatComeTooFast: they are counted for each address, for each identity and in all, and one record says how many have
// none; what came of commands has room beside those that wait for the store.
func TestRefusalsThatComeTooFast(t *testing.T) {
	w, c := open(t), newClock()
	tr := begin(t, w, c)
	refusal := func(who, from string) audit.Record {
		r := audit.Record{Event: audit.Answered, Verb: "get", From: from + ":4711", Who: &audit.Who{Kind: "anonymous"}, Result: "Unauthorized"}
		if who != "" {
			r.Who, r.Result = &audit.Who{Kind: "user", Name: who}, "Forbidden"
		}
		return r
	}
	admitted := func(n int, who string, from func(i int) string) (admitted int) {
		for i := range n {
			if tr.Admits(refusal(who, from(i))) {
				admitted++
			}
		}
		return admitted
	}
	host := func(name string) func(int) string { return func(int) string { return name } }
	require.Equal(t, 20, admitted(50, "", host("192.0.2.1")))
	require.Equal(t, 80+100, admitted(200, "", func(i int) string { return fmt.Sprint("host", i) }), "of all addresses, and of those that have none yet")
	require.Equal(t, 100, admitted(150, "alice", host("192.0.2.1")))
	require.Equal(t, 100, admitted(150, "bob", host("192.0.2.1")))
	for i := range 150 { // one who speaks for all tenants may name as many as it likes
		asked := refusal("tenant", "192.0.2.1")
		asked.Who = &audit.Who{Kind: "tenant", Name: fmt.Sprint("made-up-", i), By: "certificate of cloud-admin.local"}
		require.Equal(t, i < 100, tr.Admits(asked))
	}
	for i := range 50 { // names that are only said are no identities
		said := refusal("", "192.0.2.1")
		said.Who = &audit.Who{Kind: "open", Name: fmt.Sprint("made up ", i)}
		require.False(t, tr.Admits(said))
	}
	c.advance(time.Second)
	require.Equal(t, 2, admitted(50, "", host("192.0.2.1")))
	require.Equal(t, 8, admitted(50, "", func(i int) string { return fmt.Sprint("host", i) }))

	w.down.Store(true)
	const n = 1500
	for range n {
		r := refusal("alice", "192.0.2.1")
		r.Request = strings.Repeat("x", 64<<10)
		tr.Later(r)
	}
	answer := command("answer")
	answer.Begun = 1
	tr.Later(answer)
	w.down.Store(false)
	require.NoError(t, tr.Close(t.Context()))
	lines := export(t, w)
	require.Contains(t, keys(t, lines), "projects/answer")
	records, more := 0, map[string]int64{}
	for _, l := range lines {
		r, _, err := audit.Parse(l.Text)
		require.NoError(t, err)
		more[r.Result] += r.More
		if r.Verb == "get" {
			records++
		}
	}
	require.Equal(t, int64(30+20+50+48+42), more["Unauthorized"])
	require.Equal(t, int64(150+n-records), more["Forbidden"])
	require.Less(t, records, n)
	require.Empty(t, verify(t, lines).Problems)
}
