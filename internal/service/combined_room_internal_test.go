package service

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// TestAnswersHaveTurns: one caller leaves half of them to others, and who waits in vain is told so in time.
func TestAnswersHaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnswers(mostAnswers)
		var parts []*part
		take := func(who string, n int) {
			t.Helper()
			for range n {
				p, err := a.begin(by(t.Context(), who))
				require.NoError(t, err)
				parts = append(parts, p)
			}
		}
		refused := func(who string) {
			t.Helper()
			began := time.Now()
			_, err := a.begin(by(t.Context(), who))
			require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
			require.Equal(t, policy.ReadLater, fail.RetryAfterOf(err))
			require.Equal(t, policy.ReadWait, time.Since(began))
		}
		take("one", limits.AnswersAtOnce/2)
		refused("one")
		for i := range limits.AnswersAtOnce / 2 {
			take(fmt.Sprint(i), 1)
		}
		refused("other")

		leaving, leave := context.WithCancel(by(t.Context(), "other"))
		left, had := make(chan error), make(chan *part)
		go func() {
			_, err := a.begin(leaving)
			left <- err
		}()
		go func() {
			p, err := a.begin(by(t.Context(), "one"))
			if err == nil {
				had <- p
			}
		}()
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		parts[0].end()
		parts[0] = <-had
		for _, p := range parts {
			p.end()
		}
		require.Empty(t, a.of)
		require.True(t, a.turns.TryAcquire(limits.AnswersAtOnce))
	})
}

// TestAnswersShareTheRoom: each has what comes with its turn, and beside it as much as others leave; one caller leaves half.
func TestAnswersShareTheRoom(t *testing.T) {
	half := mostAnswers.each()
	a := newAnswers(mostAnswers)
	var parts []*part
	begun := func(who string) *part {
		t.Helper()
		p, err := a.begin(by(t.Context(), who))
		require.NoError(t, err)
		parts = append(parts, p)
		return p
	}
	refused := func(p *part, bytes int64) {
		t.Helper()
		err := p.hold(bytes)
		require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
		require.Positive(t, fail.RetryAfterOf(err))
	}
	large := begun("one")
	require.NoError(t, large.hold(limits.AnswerFirst))
	require.NoError(t, large.hold(limits.AnswerFirst+half))
	require.NoError(t, large.hold(limits.AnswerFirst+half), "it has that already")
	small := begun("one")
	require.NoError(t, small.hold(limits.AnswerFirst))
	refused(small, limits.AnswerFirst+1)
	err := small.hold(limits.AnswerFirst + half + 1)
	require.True(t, fail.Is(err, fail.Invalid), "it can never have that: %v", err)
	require.ErrorContains(t, err, "ask for fewer objects")
	kept, err := a.join(by(t.Context(), "one"))
	require.NoError(t, err)
	parts = append(parts, kept)
	refused(kept, 1)

	other, third := begun("two"), begun("three")
	for n := range half / 1000 { // a little at a time, so that nothing is left for what would be taken ahead
		require.NoError(t, other.hold(limits.AnswerFirst+1000*n))
	}
	require.NoError(t, other.hold(limits.AnswerFirst+half))
	refused(third, limits.AnswerFirst+1)
	large.end()
	require.NoError(t, third.hold(limits.AnswerFirst+half))
	for _, p := range parts[1:] {
		p.end()
	}
	require.Empty(t, a.of)
	require.True(t, a.rest.TryAcquire(mostAnswers.rest))
}

// TestAPartIsHandedOver: what is made of an answer has room already, and no more than it needs. The turn goes back where the rest has room instead.
func TestAPartIsHandedOver(t *testing.T) {
	for name, c := range map[string]struct {
		held, bytes, others int64 // others: what others of the caller have of the rest then
		taken               int64
		turn                bool
	}{
		"a large one that becomes small":   {held: 100, bytes: 20, taken: 20},
		"a small one":                      {held: 5, bytes: 3, taken: 3},
		"a large one that stays":           {held: 100, bytes: 100, taken: 100},
		"a small one, where there is none": {held: 5, bytes: 3, others: 100, turn: true},
		"one that has some of the rest":    {held: 60, bytes: 55, others: 50, taken: 45, turn: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAnswers(answerSizes{turns: 2, first: 10, rest: 200})
			p, err := a.begin(by(t.Context(), "one"))
			require.NoError(t, err)
			defer p.end()
			require.NoError(t, p.hold(c.held))
			other, err := a.join(by(t.Context(), "one"))
			require.NoError(t, err)
			require.NoError(t, other.hold(c.others))
			next := p.over(c.bytes)
			require.Equal(t, c.taken, next.taken)
			require.Equal(t, c.turn, next.turn)
			p.end()
			next.end()
			next.end()
			other.end()
			require.Empty(t, a.of)
			require.True(t, a.rest.TryAcquire(200))
			require.True(t, a.turns.TryAcquire(2))
		})
	}
}

// TestAPartIsMoved to who has room for it, and for its turn.
func TestAPartIsMoved(t *testing.T) {
	for name, c := range map[string]struct {
		turn   bool  // the caller to whom it goes has one already
		others int64 // what that one has of the rest
		want   bool
	}{
		"to who has nothing": {want: true},
		"to who has room":    {others: 60, want: true},
		"to who has less":    {others: 61},
		"to who has no turn": {turn: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAnswers(answerSizes{turns: 2, first: 10, rest: 200})
			p, err := a.begin(by(t.Context(), "one"))
			require.NoError(t, err)
			require.NoError(t, p.hold(50))
			begin := a.join
			if c.turn {
				begin = a.begin
			}
			other, err := begin(by(t.Context(), "two"))
			require.NoError(t, err)
			require.NoError(t, other.hold(c.others))
			require.Equal(t, c.want, p.move(other.mine.who))
			require.Equal(t, c.want, p.mine == other.mine)
			require.False(t, a.rest.TryAcquire(200-40-c.others+1))
			if c.want {
				require.Len(t, a.of, 1)
			}
			p.end()
			other.end()
			require.Empty(t, a.of)
			require.True(t, a.rest.TryAcquire(200))
			require.True(t, a.turns.TryAcquire(2))
		})
	}
}

// TestWhatAStreamKeepsIsFree for requests, as long as one keeps it. What had room with it may have it later.
func TestWhatAStreamKeepsIsFree(t *testing.T) {
	a := newAnswers(answerSizes{turns: 2, first: 10, rest: 200})
	p, err := a.join(by(t.Context(), "one"))
	require.NoError(t, err)
	defer p.end()
	tables := &Tables{keeper: newKeeper(time.Now)}
	l, ok := tables.Look("g", tablesExtent{})
	require.True(t, ok)
	k := l.(*tablesLook).kept
	require.NoError(t, k.hold(1000), "no request uses it")
	k.room, k.free = p, 80
	require.NoError(t, k.hold(90))
	require.EqualValues(t, 10, p.taken)
	require.True(t, fail.Is(k.hold(181), fail.Invalid))
	require.NoError(t, k.hold(110))
	l.Close()
	err = k.hold(110)
	require.True(t, fail.Is(err, fail.Exhausted), "%v", err)
	require.NoError(t, k.hold(90))
	require.EqualValues(t, 90, p.taken)
	k.free = 0
	require.True(t, fail.Is(k.hold(110), fail.Invalid), "no stream had any of it")
}
