package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/lease"
)

// SetMoment has the clocks of the machine tell what a test says.
func (m *Matcher) SetMoment(c lease.Clock) { m.moment = c }

// KeptPrograms is how many collectors are kept compiled.
func (t *Tables) KeptPrograms() int { return t.programs.Len() }

// Fill has others take all the room of answers that comes with no turn, but so many bytes, until free is called.
func (t *Tables) Fill(ctx context.Context, tb testing.TB, but int64) (free func()) {
	var parts []*part
	for n := range 2 {
		p, err := t.answers.join(by(ctx, fmt.Sprint("other", n)))
		require.NoError(tb, err)
		require.NoError(tb, p.hold(mostAnswers.each()-but/2))
		parts = append(parts, p)
	}
	return ended(parts)
}

// Begin has the caller take all its turns, until free is called.
func (t *Tables) Begin(ctx context.Context, tb testing.TB) (free func()) {
	var parts []*part
	for range mostAnswers.turns / 2 {
		p, err := t.answers.begin(ctx)
		require.NoError(tb, err)
		parts = append(parts, p)
	}
	return ended(parts)
}

func ended(parts []*part) func() {
	return func() {
		for _, p := range parts {
			p.end()
		}
	}
}

// SetWait sets how long who asks waits for a turn, and how long that and a look may take.
func (t *Tables) SetWait(d time.Duration) { t.answers.wait, t.answers.limit = d, d }

// Parts is how many answers have room, or wait for it.
func (t *Tables) Parts() (n int) {
	t.answers.mu.Lock()
	defer t.answers.mu.Unlock()
	for _, mine := range t.answers.of {
		n += mine.n
	}
	return n
}

// Askers are the callers of whom answers have room, or wait for it, sorted.
func (t *Tables) Askers() []string {
	t.answers.mu.Lock()
	defer t.answers.mu.Unlock()
	return slices.Sorted(maps.Keys(t.answers.of))
}

// Kept is of how many queries there are tables, which somebody reads or did.
func (t *Tables) Kept() int {
	t.keeper.mu.Lock()
	defer t.keeper.mu.Unlock()
	return len(t.keeper.kept)
}

// KeptSizes are what the sets and the answers take in memory that are kept and that nobody uses.
func (t *Tables) KeptSizes() (sets, answers int64) {
	t.keeper.mu.Lock()
	defer t.keeper.mu.Unlock()
	for _, k := range t.keeper.kept {
		sets, answers = sets+k.set.Size(), answers+k.answer.size()
	}
	return sets, answers
}

// Idle says whether nobody has anything of the room of answers.
func (t *Tables) Idle() bool {
	idle := t.answers.rest.TryAcquire(t.answers.sizes.rest)
	if idle {
		t.answers.rest.Release(t.answers.sizes.rest)
	}
	return idle && t.Parts() == 0
}

// SetMostAnswers sets what an answer may have in memory and as JSON for the time of a test, and what tables have that are made meanwhile as limits.Answers
// is to limits.Tables and limits.TablesJSON.
func SetMostAnswers(t *testing.T, tables, json int64) {
	before, most := mostTables, mostAnswers
	t.Cleanup(func() { mostTables, mostAnswers = before, most })
	SetMostJSON(t, json)
	mostTables, mostAnswers = tables, answerSizes{turns: most.turns, first: 10, rest: 2 * (tables + 2*json)}
}

// SetMostJSON sets what an answer may have as JSON for the time of a test, or until free is called.
func SetMostJSON(t *testing.T, bytes int64) (free func()) {
	before := mostJSON
	free = func() { mostJSON = before }
	t.Cleanup(free)
	mostJSON = bytes
	return free
}
