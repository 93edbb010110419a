package app

import (
	"context"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/engine"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/policy"
)

// whole is what each API process says of the whole installation, when it is asked for metrics: what Temporal knows.
type whole struct {
	backlogs func(ctx context.Context) ([]engine.Backlog, error)
	running  func(ctx context.Context) (map[domain.Operation]int64, error)
	now      func() time.Time

	mu      sync.Mutex
	read    time.Time
	queues  []engine.Backlog
	open    map[domain.Operation]int64
	answers bool
}

// measureWhole has it measured until end is called.
func (p *Parts) measureWhole() (end func()) {
	w := &whole{now: time.Now, running: p.engine.RunningByOperation, backlogs: func(ctx context.Context) ([]engine.Backlog, error) {
		return p.engine.Backlogs(ctx, p.config.Temporal.Namespace)
	}}
	return measure.Read(w.say, measure.Backlog, measure.BacklogAge, measure.OperationsRunning)
}

// say asks Temporal, unless it was asked just now. Where it does not answer nothing is said: a gap is seen, old figures are not.
func (w *whole) say(say measure.Say) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now(); now.Sub(w.read) >= policy.Measured {
		w.read, w.answers = now, w.look() == nil
	}
	if !w.answers {
		return
	}
	for _, q := range w.queues {
		say(measure.Backlog, float64(q.Tasks), q.Queue, q.Task)
		say(measure.BacklogAge, q.Age.Seconds(), q.Queue, q.Task)
	}
	for op, n := range w.open {
		say(measure.OperationsRunning, float64(n), string(op))
	}
}

func (w *whole) look() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), policy.Measure)
	defer cancel()
	if w.queues, err = w.backlogs(ctx); err != nil {
		return err
	}
	w.open, err = w.running(ctx)
	return err
}
