package service

import (
	"context"
	"sync"

	"github.com/drover-io/drover/internal/access"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// looks are those at clusters that go on: one of a cluster at the most.
type looks struct {
	mu sync.Mutex
	at map[domain.Key]*look // by cluster
}

func newLooks() *looks { return &looks{at: map[domain.Key]*look{}} }

// look is one that goes on.
type look struct {
	question string
	askers   int // who still want it; guarded by the mutex of looks
	end      context.CancelFunc
	done     chan struct{}
	seen     *access.Seen
	err      error
}

// share looks at a cluster, or shares the look of somebody who asks the same now. Who asks another thing waits until that is over. A look ends
// when the last one who asked for it has gone: what is begun and left again and again would go on without anybody who counts it.
func (l *looks) share(ctx context.Context, cluster domain.Key, question string, see func(context.Context) (*access.Seen, error)) (*access.Seen, error) {
	for {
		it, mine := l.join(ctx, cluster, question, see)
		select {
		case <-it.done:
		case <-ctx.Done():
			if mine {
				l.leave(it)
			}
			return nil, context.Cause(ctx)
		}
		if mine {
			return it.seen, it.err
		}
	}
}

// join has the look that goes on, a new one where there is none. mine says whether it answers the question.
func (l *looks) join(ctx context.Context, cluster domain.Key, question string, see func(context.Context) (*access.Seen, error)) (it *look, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it = l.at[cluster]; it != nil {
		if mine = it.question == question && it.askers > 0; mine { // one that nobody wants any more is being ended
			it.askers++
		}
		return it, mine
	}
	looking, end := context.WithTimeout(context.WithoutCancel(ctx), policy.ClusterCheck)
	it = &look{question: question, askers: 1, end: end, done: make(chan struct{})}
	l.at[cluster] = it
	go func() {
		defer end()
		it.seen, it.err = panics.Value(looking, func() (*access.Seen, error) { return see(looking) })
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.at, cluster)
		close(it.done)
	}()
	return it, true
}

// leave is told that one who asked has gone.
func (l *looks) leave(it *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it.askers--; it.askers == 0 {
		it.end()
	}
}
