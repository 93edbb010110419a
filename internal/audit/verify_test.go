package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/audit"
)

var (
	key   = audit.NewKey(bytes.Repeat([]byte{1}, 32))
	other = audit.NewKey(bytes.Repeat([]byte{2}, 32))
	trust = map[string]ed25519.PublicKey{audit.Fingerprint(key.Public()): key.Public()}
	start = time.Date(2026, 11, 23, 1, 2, 3, 456789000, time.UTC)
)

// log is an export in the making.
type log struct {
	t      testing.TB
	at     time.Time
	lines  []audit.Line
	chains map[string]*audit.Chain
}

func newLog(t testing.TB) *log {
	return &log{t: t, at: start, chains: map[string]*audit.Chain{}}
}

func (l *log) add(writer string, r audit.Record) audit.Record {
	if l.chains[writer] == nil {
		l.chains[writer] = audit.NewChain(writer)
	}
	l.at = l.at.Add(time.Millisecond)
	line, written, err := l.chains[writer].Add(r, l.at, key)
	require.NoError(l.t, err)
	l.lines = append(l.lines, line)
	return written
}

// command has two records.
func (l *log) command(writer, name string) {
	r := audit.Record{
		Event: audit.Begun, Who: &audit.Who{Kind: "user", Name: "alice@example.org", By: "oidc"}, From: "192.0.2.1:4711", Verb: "put",
		Noun: "projects", Key: "projects/" + name, Request: "r-" + name, Trace: "t-" + name,
	}
	begun := l.add(writer, r)
	r.Event, r.Begun, r.Result = audit.Answered, begun.Number, audit.Done
	r.Before, r.After, r.Workflow = "hmac-sha256:00", "hmac-sha256:11", "w-"+name
	l.add(writer, r)
}

func (l *log) seal(writer string, c audit.Checkpoint) {
	l.add(writer, audit.Record{Event: audit.Sealed, Checkpoint: &c})
}

func text(lines []audit.Line) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		b.Write(l.Text)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func verify(t testing.TB, lines []audit.Line, o audit.Options) *audit.Report {
	t.Helper()
	report, err := audit.Verify(bytes.NewReader(text(lines)), o)
	require.NoError(t, err)
	return report
}

// two writers: api ends in order, worker still writes, and each names the other.
func two(t testing.TB) *log {
	l := newLog(t)
	l.seal("api", audit.Checkpoint{})
	l.seal("worker", audit.Checkpoint{Heads: []audit.Head{l.chains["api"].Head()}})
	for i := range 5 {
		l.command("api", fmt.Sprint("p", i))
		l.add("worker", audit.Record{Event: audit.Ended, Verb: "instantiate", Key: fmt.Sprint("projects/p", i), Result: audit.Done, Workflow: "w"})
	}
	l.seal("worker", audit.Checkpoint{Heads: []audit.Head{l.chains["api"].Head()}})
	l.seal("api", audit.Checkpoint{Closes: true, Heads: []audit.Head{l.chains["worker"].Head()}})
	closed := l.chains["api"].Head()
	closed.Closed = true
	l.seal("worker", audit.Checkpoint{Heads: []audit.Head{closed}})
	return l
}

func TestVerify(t *testing.T) {
	l := two(t)
	require.True(t, slices.IsSortedFunc(l.lines, func(a, b audit.Line) int { return strings.Compare(a.ID, b.ID) }))
	report := verify(t, l.lines, audit.Options{Keys: trust})
	require.Empty(t, report.Problems)
	require.True(t, report.Good())
	require.Equal(t, 2, report.Writers)
	require.Equal(t, len(l.lines), report.Records)
	require.Equal(t, 5, report.Checkpoints)
	require.Empty(t, report.Tails)
	require.Zero(t, report.Unknown)
	require.Equal(t, []string{audit.Fingerprint(key.Public())}, report.Keys)
	require.True(t, verify(t, l.lines, audit.Options{}).Good(), "by the keys that it names")
	none := map[string]ed25519.PublicKey{audit.Fingerprint(other.Public()): other.Public()}
	require.False(t, verify(t, l.lines, audit.Options{Keys: none}).Good(), "a key that may not sign")
}

// TestWhatIsBegunAndNotSealed: a process died between beginning a command and its answer, and before a checkpoint. That is said,
// and is no forgery.
func TestWhatIsBegunAndNotSealed(t *testing.T) {
	l := newLog(t)
	l.seal("api", audit.Checkpoint{})
	l.command("api", "p")
	l.add("api", audit.Record{Event: audit.Begun, Verb: "delete", Noun: "projects", Key: "projects/p"})
	report := verify(t, l.lines, audit.Options{Keys: trust})
	require.True(t, report.Good(), "%v", report.Problems)
	require.Equal(t, []audit.Tail{{Writer: "api", From: 2, To: 4}}, report.Tails)
	require.Equal(t, 1, report.Unknown)
	require.Equal(t, "delete", report.Open[0].Verb)

	// Its successor seals what it finds.
	found := l.chains["api"].Head()
	found.Closed = true
	l.seal("next", audit.Checkpoint{Heads: []audit.Head{found}})
	require.Empty(t, verify(t, l.lines, audit.Options{Keys: trust}).Tails)
	cut := slices.Delete(slices.Clone(l.lines), 3, 4)
	report = verify(t, cut, audit.Options{Keys: trust})
	require.False(t, report.Good(), "the last record of the one that died is gone")
	require.Contains(t, report.Problems[0].What, "number 4 is missing at the end: next says")
}

// TestTampering: whatever is done to sealed records shows, and it is said where.
func TestTampering(t *testing.T) {
	l := two(t)
	at := func(writer string, number int) int { // the index of a line
		return slices.IndexFunc(l.lines, func(one audit.Line) bool {
			return strings.HasSuffix(one.ID, fmt.Sprintf("/%s/%012d", writer, number))
		})
	}
	last := len(l.lines) - 1
	for name, c := range map[string]struct {
		change func([]audit.Line) []audit.Line
		want   string
	}{
		"one is taken out": {func(all []audit.Line) []audit.Line { return slices.Delete(all, at("api", 4), at("api", 4)+1) }, "api: number 4 is missing"},
		"three are taken out": {func(all []audit.Line) []audit.Line {
			return slices.DeleteFunc(all, func(one audit.Line) bool {
				return strings.HasSuffix(one.ID, "4") && strings.Contains(one.ID, "/api/") || strings.HasSuffix(one.ID, "/api/000000000005")
			})
		}, "api: numbers 4 to 5 are missing"},
		"two are swapped": {func(all []audit.Line) []audit.Line {
			all[at("api", 3)], all[at("api", 4)] = all[at("api", 4)], all[at("api", 3)]
			return all
		}, "api 3: is out of order"},
		"one is there twice": {func(all []audit.Line) []audit.Line { return slices.Insert(all, at("api", 5), all[at("api", 4)]) }, "api 4: is there twice"},
		"one is put at the end": {func(all []audit.Line) []audit.Line {
			return append(slices.Delete(all, at("api", 4), at("api", 4)+1), all[at("api", 4)])
		}, "api"},
		"the first one is taken out": {func(all []audit.Line) []audit.Line { return slices.Delete(all, 0, 1) }, "is the first one of its writer: number 1 is missing"},
		"the end of a writer is cut off": {func(all []audit.Line) []audit.Line {
			return slices.Delete(all, at("api", 12), at("api", 12)+1)
		}, "number 12 is missing at the end: worker says"},
		"the last records of a writer are cut off": {func(all []audit.Line) []audit.Line {
			return slices.DeleteFunc(all, func(one audit.Line) bool {
				_, number, _ := strings.Cut(one.ID, "/api/")
				return number > "000000000007"
			})
		}, "numbers 8 to 12 are missing at the end"},
		"a writer is taken out": {func(all []audit.Line) []audit.Line {
			return slices.DeleteFunc(all, func(one audit.Line) bool { return strings.Contains(one.ID, "/api/") })
		}, "numbers 1 to 12 are missing at the end: worker says"},
		"the other writer is taken out": {func(all []audit.Line) []audit.Line {
			return slices.DeleteFunc(all, func(one audit.Line) bool { return strings.Contains(one.ID, "/worker/") })
		}, "are missing at the end: api says"},
		"the names of writers are swapped": {func(all []audit.Line) []audit.Line {
			for i := range all {
				all[i].Text = []byte(strings.NewReplacer(`"writer":"api"`, `"writer":"worker"`, `"writer":"worker"`, `"writer":"api"`).Replace(string(all[i].Text)))
			}
			return all
		}, "was changed"},
		"a checkpoint loses its signature": {func(all []audit.Line) []audit.Line {
			before, _, _ := bytes.Cut(all[last].Text, []byte(`,"signature":`))
			all[last].Text = append(slices.Clone(before), '}')
			return all
		}, "is a checkpoint whose signature is not that of the key"},
		"something else is in between": {func(all []audit.Line) []audit.Line { return slices.Insert(all, 3, audit.Line{Text: []byte(`{"a":1}`)}) }, "line 4: is no record"},
		"nonsense behind the hash": {func(all []audit.Line) []audit.Line {
			all[4].Text = append(bytes.TrimSuffix(slices.Clone(all[4].Text), []byte("}")), []byte(`,"verb":"get"}`)...)
			return all
		}, "its hash is not its end"},
	} {
		t.Run(name, func(t *testing.T) {
			report := verify(t, c.change(slices.Clone(l.lines)), audit.Options{Keys: trust})
			require.False(t, report.Good())
			require.Contains(t, fmt.Sprint(report.Problems), c.want)
			require.Equal(t, report.Found, len(report.Problems))
		})
	}
}

// TestPutIntoAnotherTime: who can write to the database puts records of a writer where who asks for those of a time does not see
// them, and leaves them in their order.
func TestPutIntoAnotherTime(t *testing.T) {
	l := two(t)
	ofAPI := func(one audit.Line) bool { return strings.Contains(one.ID, "/api/") }
	var api, rest []audit.Line
	for _, one := range l.lines {
		if ofAPI(one) {
			api = append(api, one)
		} else {
			rest = append(rest, one)
		}
	}
	half := len(api) / 2
	for name, lines := range map[string][]audit.Line{
		"all of a writer, earlier": slices.Concat(api, rest),
		"its first half, earlier": slices.Concat(api[:half], slices.DeleteFunc(slices.Clone(l.lines), func(one audit.Line) bool {
			return slices.ContainsFunc(api[:half], func(moved audit.Line) bool { return moved.ID == one.ID })
		})),
		"all of a writer, later": slices.Concat(rest, api),
	} {
		for _, partial := range []bool{false, true} {
			report := verify(t, lines, audit.Options{Keys: trust, Partial: partial})
			require.Contains(t, fmt.Sprint(report.Problems), "one of them was put into another time", name)
		}
	}
}

// TestEveryMemberCounts: each byte of each line is changed, to one that JSON takes in the same place where there is one.
func TestEveryMemberCounts(t *testing.T) {
	l := newLog(t)
	l.seal("api", audit.Checkpoint{})
	l.command("api", "p")
	l.seal("worker", audit.Checkpoint{Heads: []audit.Head{l.chains["api"].Head()}})
	l.seal("api", audit.Checkpoint{Closes: true})
	whole := text(l.lines)
	marks := regexp.MustCompile(`"mark":"([^"]*)"`).FindAllSubmatchIndex(whole, -1) // which only processes check
	require.Len(t, marks, 2)
	for i := range whole {
		if whole[i] == '\n' || slices.ContainsFunc(marks, func(m []int) bool { return m[2] <= i && i < m[3] }) {
			continue
		}
		changed := slices.Clone(whole)
		switch c := changed[i]; {
		case c >= '0' && c < '9', c >= 'a' && c < 'z', c >= 'A' && c < 'Z':
			changed[i]++
		case c == '9':
			changed[i] = '8'
		default:
			changed[i] = 'x'
		}
		report, err := audit.Verify(bytes.NewReader(changed), audit.Options{Keys: trust})
		require.NoError(t, err)
		require.False(t, report.Good(), "byte %d of %s", i, whole[max(0, i-40):min(len(whole), i+40)])
	}
}

// TestForgedChains: who knows how records are made makes them anew, with other content, from a place on. No key signs them.
func TestForgedChains(t *testing.T) {
	l := two(t)
	var forged []audit.Line
	chains := map[string]*audit.Chain{}
	for _, line := range l.lines {
		r, _, err := audit.Parse(line.Text)
		require.NoError(t, err)
		if chains[r.Writer] == nil {
			chains[r.Writer] = audit.NewChain(r.Writer)
		}
		signs := key
		if r.Number > 4 && r.Checkpoint != nil {
			signs = other
		}
		if r.Number == 4 && r.Who != nil {
			r.Who.Name = "bob@example.org"
		}
		made, _, err := chains[r.Writer].Add(*r, r.Time, signs)
		require.NoError(t, err)
		forged = append(forged, made)
	}
	report := verify(t, forged, audit.Options{Keys: trust})
	require.False(t, report.Good())
	require.Contains(t, fmt.Sprint(report.Problems), "none of those that may sign")
	require.Equal(t, []audit.Tail{{Writer: "api", From: 2, To: 12}, {Writer: "worker", From: 2, To: 8}}, report.Tails)
}

// TestDropped: what was kept long enough is dropped up to a place that a checkpoint states, and not a record more.
func TestDropped(t *testing.T) {
	l := two(t)
	cut := func(line audit.Line) bool { return line.ID < l.lines[9].ID }
	heads := map[string]audit.Head{}
	for _, line := range l.lines {
		if r, _, err := audit.Parse(line.Text); cut(line) {
			require.NoError(t, err)
			heads[r.Writer] = audit.Head{Writer: r.Writer, Number: r.Number, Hash: r.Hash}
		}
	}
	l.seal("worker", audit.Checkpoint{Dropped: []audit.Head{heads["api"], heads["worker"]}})
	require.True(t, verify(t, l.lines, audit.Options{Keys: trust}).Good(), "stated, and not dropped yet")
	rest := slices.DeleteFunc(slices.Clone(l.lines), cut)
	report := verify(t, rest, audit.Options{Keys: trust})
	require.Empty(t, report.Problems)
	require.False(t, verify(t, slices.Delete(slices.Clone(rest), 0, 1), audit.Options{Keys: trust}).Good(), "one more")
	require.False(t, verify(t, rest[:len(rest)-1], audit.Options{Keys: trust}).Good(), "nobody says that they were")
	require.True(t, verify(t, rest[:len(rest)-1], audit.Options{Keys: trust, Partial: true}).Good())
}

// TestDroppedIsNoEnd: that records were dropped excuses a beginning that is missing, and no end.
func TestDroppedIsNoEnd(t *testing.T) {
	l := two(t)
	l.seal("worker", audit.Checkpoint{Dropped: []audit.Head{{Writer: "api", Number: 1_000_000, Hash: "00"}}})
	last := slices.DeleteFunc(slices.Clone(l.lines), func(line audit.Line) bool {
		r, _, err := audit.Parse(line.Text)
		require.NoError(t, err)
		return r.Writer == "api" && r.Number > 3
	})
	require.Contains(t, fmt.Sprint(verify(t, last, audit.Options{Keys: trust}).Problems), "missing at the end")
}

// TestHeadsOfLongAgo: what is said of a record whose hash is not kept any more counts when its writer has signed what is behind it.
func TestHeadsOfLongAgo(t *testing.T) {
	l := newLog(t)
	l.seal("api", audit.Checkpoint{})
	early := l.chains["api"].Head()
	for i := range 300 {
		l.command("api", fmt.Sprint("p", i))
		if i == 4 {
			early = l.chains["api"].Head()
		}
	}
	l.seal("worker", audit.Checkpoint{Heads: []audit.Head{early}})
	require.Contains(t, fmt.Sprint(verify(t, l.lines, audit.Options{Keys: trust}).Problems), "nothing shows that it is this one")
	l.seal("api", audit.Checkpoint{})
	require.Empty(t, verify(t, l.lines, audit.Options{Keys: trust}).Problems)
}

// TestForgedBehindTheEnd: who has no key cannot put records behind a writer's end, nor make up a writer.
func TestForgedBehindTheEnd(t *testing.T) {
	l := newLog(t)
	l.seal("api", audit.Checkpoint{})
	l.command("api", "p")
	end := l.chains["api"].Head()
	end.Closed = true
	l.seal("next", audit.Checkpoint{Heads: []audit.Head{end}})
	require.Empty(t, verify(t, l.lines, audit.Options{Keys: trust}).Problems)
	line, _, err := l.chains["api"].Add(audit.Record{Event: audit.Answered, Key: "forged"}, l.at, other)
	require.NoError(t, err)
	for want, keys := range map[bool][]*audit.Key{true: {key, other}, false: {key}} {
		_, ok := audit.Follows(end, line.Text, keys)
		require.Equal(t, want, ok)
	}
	report := verify(t, append(slices.Clone(l.lines), line), audit.Options{Keys: trust})
	require.Contains(t, fmt.Sprint(report.Problems), "comes after the end that another writer has stated")
	l.command("nobody", "p")
	require.Contains(t, fmt.Sprint(verify(t, l.lines, audit.Options{Keys: trust}).Problems), "which each one begins with")
}

// TestNothingOfCallersBreaksARecord: texts that callers choose, such as ids and addresses, come back as they were, or shorter.
func TestNothingOfCallersBreaksARecord(t *testing.T) {
	for _, bad := range []string{"\xff\xfe", `","hash":"00"}`, "\n{}", "\u2028<script>", strings.Repeat("ä", 5000), "\x00"} {
		l := newLog(t)
		l.seal("api", audit.Checkpoint{})
		l.add("api", audit.Record{Event: audit.Answered, Key: bad, Request: bad, Who: &audit.Who{Kind: "user", Name: bad}})
		l.seal("api", audit.Checkpoint{})
		require.True(t, verify(t, l.lines, audit.Options{Keys: trust}).Good(), "%q", bad)
		require.Less(t, len(l.lines[1].Text), 20_000)
	}
}

func TestKeys(t *testing.T) {
	data, err := json.Marshal(audit.Keys{Keys: []audit.PublicKey{key.Stated(), other.Stated()}})
	require.NoError(t, err)
	keys, err := audit.ParseKeys(data)
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.Equal(t, key.Public(), keys[key.Stated().Key])
	for _, bad := range []string{"", "{}", `{"keys":[{"public":"AAAA"}]}`, `{"keys":[{"public":"!"}]}`} {
		_, err := audit.ParseKeys([]byte(bad))
		require.Error(t, err, bad)
	}
}

// TestDigests: who has no secret cannot try guesses, and what is not there has none.
func TestDigests(t *testing.T) {
	sum := []byte("a sum")
	require.Empty(t, audit.Digest([]byte("secret"), nil))
	require.NotEqual(t, audit.Digest([]byte("secret"), sum), audit.Digest([]byte("another"), sum))
	require.Equal(t, audit.Digest([]byte("secret"), sum), audit.Digest([]byte("secret"), sum))
}

// TestVerifyOfManyLines: lines are parsed side by side, and taken one after the other.
func TestVerifyOfManyLines(t *testing.T) {
	l := newLog(t)
	l.seal("api", audit.Checkpoint{})
	for i := range 4_000 {
		l.command("api", fmt.Sprint("p", i))
	}
	l.seal("api", audit.Checkpoint{})
	data := text(l.lines)
	require.Greater(t, len(data), 2<<20)
	report, err := audit.Verify(bytes.NewReader(data), audit.Options{Keys: trust})
	require.NoError(t, err)
	require.True(t, report.Good(), "%v", report.Problems)
	require.Equal(t, len(l.lines), report.Records)
	at := len(l.lines) - 100
	l.lines[at].Text = bytes.Replace(l.lines[at].Text, []byte(`"p`), []byte(`"q`), 1)
	l.lines = slices.Delete(l.lines, 50, 51)
	report = verify(t, l.lines, audit.Options{Keys: trust})
	lines := make([]int, 0, len(report.Problems))
	for _, p := range report.Problems {
		lines = append(lines, p.Line)
	}
	require.Contains(t, lines, at, "the line behind the one that is missing has moved up: %v", report.Problems)
}

func BenchmarkVerify(b *testing.B) {
	l := newLog(b)
	l.seal("api", audit.Checkpoint{})
	for i := range 10_000 {
		l.command("api", fmt.Sprint("p", i))
		if i%100 == 99 {
			l.seal("api", audit.Checkpoint{})
		}
	}
	data := text(l.lines)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		report, err := audit.Verify(bytes.NewReader(data), audit.Options{Keys: trust})
		if err != nil || !report.Good() {
			b.Fatal(err, report.Problems)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(l.lines))/b.Elapsed().Seconds(), "records/s")
}

func FuzzVerify(f *testing.F) {
	f.Add(text(two(f).lines))
	f.Add([]byte(`{"writer":"a","number":-1,"event":"checkpoint","checkpoint":{"key":"","public":""},"hash":"","signature":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if report, err := audit.Verify(bytes.NewReader(data), audit.Options{}); err == nil && report.Found < len(report.Problems) {
			t.Fatal("more problems than were found")
		}
	})
}
