package service

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// answers have the memory of what requests ask of tables at a time. A part of it comes with turns, of which each has as much as most answers take; what takes
// more has it of the rest. So nobody waits who holds something already: two would wait for each other. What streams keep is counted by who streams
// (limits.Streams), and what nobody reads by the keeper.
type answers struct {
	sizes answerSizes
	wait  time.Duration // for a turn, at the most: policy.ReadWait but in tests
	limit time.Duration // for the wait and the look, at the most: policy.Tables but in tests
	turns *semaphore.Weighted
	rest  *semaphore.Weighted

	mu sync.Mutex
	of map[string]*askers // by caller, those that have some
}

// answerSizes are the turns, the bytes that come with each, and those of the rest.
type answerSizes struct{ turns, first, rest int64 }

// mostAnswers are limits.Answers but in tests.
var mostAnswers = answerSizes{turns: limits.AnswersAtOnce, first: limits.AnswerFirst, rest: limits.Answers - limits.AnswersAtOnce*limits.AnswerFirst}

// each is how many bytes of the rest one caller has at the most.
func (s answerSizes) each() int64 { return s.rest / 2 }

// askers are those of one caller, who has half of the turns and of the rest at the most.
type askers struct {
	who         string
	turns, rest *semaphore.Weighted
	n           int // parts, and who wait for one; guarded by the mutex of answers
}

func newAnswers(s answerSizes) *answers {
	return &answers{sizes: s, wait: policy.ReadWait, limit: policy.Tables, turns: semaphore.NewWeighted(s.turns), rest: semaphore.NewWeighted(s.rest), of: map[string]*askers{}}
}

// part is what one answer has of the room. It may be used by one goroutine at a time.
type part struct {
	all   *answers
	mine  *askers // nil when it has ended
	turn  bool    // it has one
	taken int64   // bytes of the rest
}

// begin waits for a turn, which end gives back. Exhausted when there is none in time.
func (a *answers) begin(ctx context.Context) (*part, error) {
	p, err := a.join(ctx)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	if err = p.mine.turns.Acquire(wait, 1); err == nil {
		if err = a.turns.Acquire(wait, 1); err != nil {
			p.mine.turns.Release(1)
		}
	}
	p.turn = err == nil
	if ctx.Err() != nil { // who has gone meanwhile has no use for it
		err = context.Cause(ctx)
	} else if err != nil {
		err = errAnswers()
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// join is for what needs no turn, and has all that it takes of the rest.
func (a *answers) join(ctx context.Context) (*part, error) {
	by, err := caller.IdentityOf(ctx)
	if err != nil {
		return nil, err
	}
	return &part{all: a, mine: a.enter(by.String())}, nil
}

// enter is a caller who has a part, until exit.
func (a *answers) enter(who string) *askers {
	a.mu.Lock()
	defer a.mu.Unlock()
	mine := a.of[who]
	if mine == nil {
		mine = &askers{who: who, turns: semaphore.NewWeighted(a.sizes.turns / 2), rest: semaphore.NewWeighted(a.sizes.each())}
		a.of[who] = mine
	}
	mine.n++
	return mine
}

func (a *answers) exit(mine *askers) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if mine.n--; mine.n == 0 {
		delete(a.of, mine.who)
	}
}

// beginPart is answers.begin or answers.join.
type beginPart func(context.Context) (*part, error)

// orInTurn does what needs a part without a turn, and with one where the rest has no room: what is little has it then.
func orInTurn[T any](a *answers, do func(beginPart) (T, error)) (T, error) {
	if v, err := do(a.join); !fail.Is(err, fail.Exhausted) {
		return v, err
	}
	return do(a.begin)
}

// room is a part that has room for so many bytes, with the errors of hold.
func (begin beginPart) room(ctx context.Context, bytes int64) (*part, error) {
	p, err := begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.hold(bytes); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// hold has room for so many bytes in all. Invalid where it can never have it, and Exhausted when others have it, or others of this caller.
func (p *part) hold(bytes int64) error {
	if p.turn {
		bytes -= p.all.sizes.first
	}
	need := bytes - p.taken
	switch ahead := p.taken / 4; {
	case need <= 0:
		return nil
	case bytes > p.all.sizes.each():
		return fail.New(fail.Invalid, "what is asked of combined status and objects takes more memory than one caller may have for it; ask for fewer objects or collectors")
	case need < ahead && p.take(ahead): // it is not asked for each row
		return nil
	case p.take(need):
		return nil
	default:
		return errAnswers()
	}
}

func (p *part) take(bytes int64) bool {
	if !p.mine.rest.TryAcquire(bytes) {
		return false
	}
	if !p.all.rest.TryAcquire(bytes) {
		p.mine.rest.Release(bytes)
		return false
	}
	p.taken += bytes
	return true
}

// give gives back some of the rest.
func (p *part) give(bytes int64) {
	p.all.rest.Release(bytes)
	p.mine.rest.Release(bytes)
	p.taken -= bytes
}

// giveTurn gives its turn back, if it has one.
func (p *part) giveTurn() {
	if p.turn {
		p.all.turns.Release(1)
		p.mine.turns.Release(1)
		p.turn = false
	}
}

// over ends it, and is one that has so many bytes of what it had. That one needs no turn where the rest has the bytes instead, so that nobody waits for who is
// slow to take an answer. It has room for the bytes already.
func (p *part) over(bytes int64) *part {
	next := *p
	p.mine = nil
	if need := bytes - next.taken; need <= 0 || next.take(need) {
		next.giveTurn()
	}
	if next.turn {
		bytes -= next.all.sizes.first
	}
	if more := next.taken - max(bytes, 0); more > 0 {
		next.give(more)
	}
	return &next
}

// move has it be another caller's, and says whether that one has room for it. All together have as much as before.
func (p *part) move(who string) bool {
	to := p.all.enter(who)
	if !to.rest.TryAcquire(p.taken) {
		p.all.exit(to)
		return false
	}
	if p.turn && !to.turns.TryAcquire(1) {
		to.rest.Release(p.taken)
		p.all.exit(to)
		return false
	}
	p.mine.rest.Release(p.taken)
	if p.turn {
		p.mine.turns.Release(1)
	}
	p.all.exit(p.mine)
	p.mine = to
	return true
}

// end gives back what it has. One that has ended has nothing.
func (p *part) end() {
	if p.mine == nil {
		return
	}
	p.give(p.taken)
	p.giveTurn()
	p.all.exit(p.mine)
	p.mine = nil
}

// errAnswers tells who asks that what others ask takes the room.
func errAnswers() error {
	return &fail.Error{
		Kind: fail.Exhausted, RetryAfter: policy.ReadLater,
		Message: "what is asked of combined status and objects takes all the memory that there is for it: try again later, or ask for fewer objects or collectors",
	}
}
