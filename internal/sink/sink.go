// Package sink gives audit records to what is outside of the store, as they were written: a file, or a collector that speaks syslog.
// Nobody waits for a sink. Each has a queue, and what finds no room in it is counted and lost: the store has it.
package sink

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/pause"
)

// target takes lines. It says how many it has taken, also when it fails.
type target interface {
	write(ctx context.Context, lines []audit.Line) (taken int, err error)
	close()
}

// Sink is a queue in front of a target.
type Sink struct {
	name   string
	target target
	log    *slog.Logger
	lost   atomic.Int64
	ended  chan struct{}
	stop   context.CancelFunc

	mu     sync.Mutex // of sending and closing
	closed bool
	queue  chan audit.Line
}

const (
	// queued is how many lines may wait: some minutes of a busy process.
	queued = 10_000
	// together is how many lines are written at once.
	together = 200
	// drain is how long a sink may take for what it has when it is closed.
	drain = 2 * time.Second
	// firstWait and longestWait are how long it waits until it tries again.
	firstWait, longestWait = 200 * time.Millisecond, 10 * time.Second
)

func start(name string, t target, log *slog.Logger) *Sink {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sink{name: name, target: t, log: log, ended: make(chan struct{}), stop: cancel, queue: make(chan audit.Line, queued)}
	go s.run(ctx)
	return s
}

// Name is what the sink is called in metrics.
func (s *Sink) Name() string { return s.name }

// Lost is how many lines have not come there.
func (s *Sink) Lost() int64 { return s.lost.Load() }

// Put has lines written soon.
func (s *Sink) Put(lines []audit.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lines {
		if s.closed {
			s.lost.Add(1)
			continue
		}
		select {
		case s.queue <- l:
		default:
			s.lost.Add(1)
		}
	}
}

// Close writes what is queued, for some seconds at most. A target that hangs in a write is left behind.
func (s *Sink) Close() {
	s.mu.Lock()
	s.closed = true
	close(s.queue)
	s.mu.Unlock()
	late := time.AfterFunc(drain, s.stop)
	defer late.Stop()
	hung := time.NewTimer(2 * drain)
	defer hung.Stop()
	select {
	case <-s.ended:
		s.stop()
		s.target.close()
	case <-hung.C:
		s.log.Warn("a sink of audit records does not come back; what waits for it is lost there", "sink", s.name, "lines", len(s.queue))
	}
}

func (s *Sink) run(ctx context.Context) {
	defer close(s.ended)
	for l := range s.queue {
		s.write(ctx, s.with(l))
	}
}

// with is a line with those that wait behind it.
func (s *Sink) with(l audit.Line) []audit.Line {
	lines := []audit.Line{l}
	for len(lines) < together {
		select {
		case next, ok := <-s.queue:
			if !ok {
				return lines
			}
			lines = append(lines, next)
		default:
			return lines
		}
	}
	return lines
}

// write tries until all lines are written, or the sink is closed.
func (s *Sink) write(ctx context.Context, lines []audit.Line) {
	again := pause.Backoff{First: firstWait, Most: longestWait}
	var fails lasting.Trouble
	for {
		n, err := s.target.write(ctx, lines)
		lines = lines[n:]
		if err == nil {
			if fails.Ends() {
				s.log.Info("audit records are taken again", "sink", s.name)
			}
			return
		}
		if fails.Begins("") {
			s.log.Warn("audit records cannot be given away; they are kept for some time, and then lost there", "sink", s.name, "error", err)
		}
		if again.Wait(ctx) != nil {
			s.lost.Add(int64(len(lines)))
			return
		}
	}
}
