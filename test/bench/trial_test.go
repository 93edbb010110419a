package bench

import (
	"context"
	"fmt"
	"iter"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// trial is a part of the report that keeps what it has measured when something fails or its time is over, and says what that was.
type trial struct {
	*testing.T
	*measures
	finals []func() []figure
}

// measures is what a part, with all of its stages, has measured.
type measures struct {
	figures []figure
	why     []string // what has failed
	left    []string // rounds that were left out
	part    float64  // of the rounds that may be left out
}

// try measures a part within a time. What it has measured is there even if it fails, runs out of time or panics.
func try(t *testing.T, name string, rounds float64, bound time.Duration, measure func(context.Context, *trial)) *measures {
	t.Helper()
	m := &measures{part: rounds}
	loads := []float64{load()}
	ended := t.Run(name, func(t *testing.T) { // its processes end before the next part's begin
		ctx, cancel := context.WithTimeoutCause(t.Context(), bound,
			fail.New(fail.Timeout, "the part has taken longer than the %s that it may", bound.Round(time.Second)))
		defer cancel()
		p := &trial{T: t, measures: m}
		defer p.close()
		defer func() {
			if p.Skipped() {
				m.left = append(m.left, name+": left out, as its output says")
			}
		}()
		measure(ctx, p)
	})
	if !ended && len(m.why) == 0 {
		m.why = append(m.why, "see the output of the benchmark")
	}
	key := "load_" + strings.NewReplacer("-", "_", "/", "_").Replace(name)
	m.figures = append(m.figures, values(key, "load average of the machine before and after the part "+name, "load", append(loads, load())))
	return m
}

// stage is a part of the part whose processes end before the next one's begin. What comes after it goes on if it fails.
func (p *trial) stage(name string, measure func(*trial)) {
	p.Helper()
	p.Run(name, func(t *testing.T) {
		stage := &trial{T: t, measures: p.measures}
		defer stage.close()
		measure(stage)
	})
}

// finally has figures made of what there is at the end, whatever ended it. Figures of nothing are left out.
func (p *trial) finally(figures func() []figure) { p.finals = append(p.finals, figures) }

// close is the end of the trial, in order or not.
func (p *trial) close() {
	p.Helper()
	died := recover()
	for _, figures := range p.finals {
		p.add(figures()...)
	}
	if died != nil {
		p.Logf("%s", debug.Stack())
		p.Errorf("it panicked: %v", died)
	}
}

// rounds are as many rounds as the machine has time for: all, or fewer on a slow one, and not less than least. When the time that is
// left is less than the longest round took, there are no more.
func (p *trial) rounds(ctx context.Context, all, least int) iter.Seq[int] {
	n := few(all, least, p.part)
	if quick() {
		n = 1
	}
	return func(yield func(int) bool) {
		var longest time.Duration
		for i := range n {
			began := time.Now()
			if end, ok := ctx.Deadline(); i > 0 && ok && time.Until(end) < longest {
				p.left = append(p.left, fmt.Sprintf("%s: %d of %d rounds, as there was no time for more", p.Name(), i, n))
				return
			}
			if !yield(i) {
				return
			}
			longest = max(longest, time.Since(began))
		}
	}
}

// Errorf notes why the part fails.
func (p *trial) Errorf(format string, args ...any) {
	p.Helper()
	p.why = append(p.why, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
	p.T.Errorf(format, args...)
}

// add adds to the report.
func (p *trial) add(figures ...figure) {
	for _, f := range figures {
		if f.N == 0 {
			continue
		}
		p.Logf("%s: min %.2f, median %.2f, p95 %.2f, max %.2f %s %s", f.Key, f.Min, f.Median, f.P95, f.Max, f.Unit, f.Goal)
		p.figures = append(p.figures, f)
	}
}

// most is a figure of one value that is to be at most so much, and least one that is to be at least that.
func most(key, what, unit string, value, bound float64) figure {
	return atMost(values(key, what, unit, []float64{value}), bound)
}

func least(key, what, unit string, value, bound float64) figure {
	return goal(values(key, what, unit, []float64{value}), fmt.Sprintf("≥ %g", bound), value >= bound)
}

// atMost is a figure whose median is to be at most so much.
func atMost(f figure, bound float64) figure {
	return goal(f, fmt.Sprintf("≤ %g", bound), f.Median <= bound)
}

// until waits for a condition.
func (p *trial) until(ctx context.Context, every time.Duration, what string, is func() bool) {
	p.Helper()
	for !is() {
		select {
		case <-ctx.Done():
			p.Errorf("%s: %v", what, context.Cause(ctx))
			p.FailNow()
		case <-time.After(every):
		}
	}
}

// load is the load average of the last minute.
func load() float64 {
	data, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(data), " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}
