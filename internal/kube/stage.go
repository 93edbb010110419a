package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
)

// work takes the stages in order. One in which something is to be retried is the last one.
func (r *run) work(ctx context.Context, stages [][]int, do func(ctx context.Context, stage []int) error) Outcome {
	for _, stage := range stages {
		err := r.announce(ctx, stage)
		if err == nil {
			err = do(ctx, stage)
		}
		if err != nil {
			return Outcome{Retry: err, Reached: r.reached()}
		}
	}
	return Outcome{Reached: r.reached()}
}

func (r *run) reached() bool { return r.answers.Load() != r.heard }

func (r *run) announce(ctx context.Context, stage []int) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.BeforeStage != nil:
		return r.BeforeStage(ctx, stage)
	default:
		return nil
	}
}

// failures says what those of a pass are about.
type failures int

const (
	ofNone failures = iota
	ofSome          // resources, of a cluster that answers
	ofAll           // the cluster, or the end of the context
)

// mixed are the indices in another order in each pass, where a pass may be given up before it has come to all of them: those that fail would be the same
// ones for ever, and what is behind them would never be tried. The first one stays, so that the message is the same from try to try.
func (r *run) mixed(indices []int) []int {
	if r.Failing.IsZero() || len(indices) <= r.mostFailures() {
		return indices
	}
	indices = slices.Clone(indices)
	rest := indices[1:]
	rand.Shuffle(len(rest), func(a, b int) { rest[a], rest[b] = rest[b], rest[a] })
	return indices
}

// mostFailures is how many there are in a pass without a success between, after which it is given up.
func (r *run) mostFailures() int { return 2 * r.config.Parallel }

// each does the step for every index, Config.Parallel at a time. A step returns nil when the resource is
// settled, be it by a refusal. One that fails does not hold up the others, unless the cluster as a whole
// seems to be the reason; what is under way is cut off then if there is no way to the cluster at all. The
// error is that of the first index that is to be retried, or the cause of ctx's end.
func (r *run) each(ctx context.Context, indices []int, step func(ctx context.Context, i int) error) (failures, error) {
	work, cut := context.WithCancel(ctx)
	defer cut()
	p := &pass{indices: indices, limit: r.mostFailures()}
	var wg sync.WaitGroup
	for range min(len(indices), r.config.Parallel) {
		wg.Go(func() {
			for work.Err() == nil {
				i, answers, ok := p.take()
				if !ok {
					return
				}
				err := panics.Do(work, func() error { return step(work, i) })
				if work.Err() != nil && errors.Is(err, context.Canceled) {
					return
				}
				p.done(i, answers, err)
				if isNoWay(err) {
					cut()
				}
			}
		})
	}
	wg.Wait()
	switch {
	case p.settled == len(indices):
		return ofNone, nil
	case ctx.Err() != nil:
		return ofAll, context.Cause(ctx)
	case p.all:
		return ofAll, r.about(p.first, p.err)
	default:
		return ofSome, r.about(p.first, p.err)
	}
}

// about is err as the product's error, which says what it is about unless that is the whole cluster.
func (r *run) about(i int, err error) error {
	kind := kindOf(err)
	var known *fail.Error
	if isOfCluster(err) || !errors.As(kind, &known) {
		return kind
	}
	id := r.Resources[i].ResourceID
	e := fail.Wrap(err, known.Kind, "%s %s: %s", id.Kind, id.Name, known.Text())
	e.RetryAfter = known.RetryAfter
	return e
}

// pass is one pass over indices, shared by those who work on it.
type pass struct {
	indices []int
	limit   int // of failures without a success between, after which the pass is given up

	mu      sync.Mutex
	next    int // position of the first index that nobody took
	settled int
	answers int // steps that ended with an answer of the cluster's
	streak  int // failures since the last success
	over    bool
	all     bool // a failure is about the cluster, or may be
	first   int  // the lowest index that failed, so that the message is the same from try to try
	err     error
}

// take gives out an index, and how many answers there were until then; ok is false when there are no more
// indices, or no more should be begun.
func (p *pass) take() (i, answers int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.next == len(p.indices) {
		return 0, 0, false
	}
	p.next++
	return p.indices[p.next-1], p.answers, true
}

// done takes the outcome of a step, and what take said. A step that was in vain for a whole deadline, while
// no other was answered, says that nothing is.
func (p *pass) done(i, answers int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.settled++
		p.answers++
		p.streak = 0
		return
	}
	if p.err == nil || i < p.first {
		p.first, p.err = i, err
	}
	p.streak++
	p.all = p.all || isOfCluster(err) || isSlow(err)
	if p.streak >= p.limit || isOfCluster(err) || isSlow(err) && p.answers == answers {
		p.over = true
	}
	if !isSlow(err) {
		p.answers++
	}
}
