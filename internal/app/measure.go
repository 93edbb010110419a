package app

import (
	"context"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// whole is what each API process says of the whole installation, when it is asked for metrics: what Temporal knows.
type whole struct {
	backlogs func(ctx context.Context) ([]engine.Backlog, error)
	running  func(ctx context.Context) (map[domain.Operation]int64, error)
	now      func() time.Time

	mu     sync.Mutex
	read   time.Time
	queues []engine.Backlog           // none when Temporal has not said
	open   map[domain.Operation]int64 // likewise
}

// measureWhole has it measured until end is called.
func (p *Parts) measureWhole() (end func()) {
	w := &whole{now: time.Now, running: p.engine.RunningByOperation, backlogs: func(ctx context.Context) ([]engine.Backlog, error) {
		return p.engine.Backlogs(ctx, p.config.Temporal.Namespace)
	}}
	return measure.Read(w.say, measure.Backlog, measure.BacklogAge, measure.OperationsRunning)
}

// say asks Temporal, unless it was asked just now. Of what it does not answer nothing is said: a gap is seen, old figures are not.
func (w *whole) say(say measure.Say) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now(); now.Sub(w.read) >= policy.Measured {
		w.read = now
		w.look()
	}
	for _, q := range w.queues {
		say(measure.Backlog, float64(q.Tasks), q.Queue, q.Task)
		say(measure.BacklogAge, q.Age.Seconds(), q.Queue, q.Task)
	}
	for op, n := range w.open {
		say(measure.OperationsRunning, float64(n), string(op))
	}
}

// look asks for both at once. They come from different parts of Temporal, of which one may be slow while the other answers.
func (w *whole) look() {
	ctx, cancel := context.WithTimeout(context.Background(), policy.Measure)
	defer cancel()
	w.queues, w.open = nil, nil
	g := panics.New(ctx)
	g.Go(func() error { return answer(ctx, &w.queues, w.backlogs) })
	g.Go(func() error { return answer(ctx, &w.open, w.running) })
	_ = g.Wait() // the gap says it
}

// answer puts there what is answered, and nothing with an error.
func answer[T any](ctx context.Context, there *T, ask func(ctx context.Context) (T, error)) error {
	found, err := ask(ctx)
	if err == nil {
		*there = found
	}
	return err
}
