package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/internal/fail"
)

// trial is a part of the report that keeps what it has measured when something fails, and says what that was.
type trial struct {
	*testing.T
	figures []figure
	why     []string // what has failed
}

// trialTimeout bounds a trial: what waits for something that never comes fails by then.
const trialTimeout = 6 * time.Minute

// unfinished is what trials have measured since TestReport has asked: one that fails returns nothing.
var unfinished struct {
	figures []figure
	why     []string
}

// tried is a part of the report that a trial measures.
func tried(measure func(context.Context, *trial)) func(context.Context, *testing.T) []figure {
	return func(ctx context.Context, t *testing.T) []figure {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(ctx, trialTimeout, fail.New(fail.Timeout, "the part has taken longer than %s", trialTimeout))
		defer cancel()
		p := &trial{T: t}
		defer func() {
			unfinished.figures, unfinished.why = append(unfinished.figures, p.figures...), append(unfinished.why, p.why...)
		}()
		loads := []float64{load()}
		defer func() {
			p.add(values("load_"+strings.ReplaceAll(p.part(), "-", "_"), "load average of the machine before and after the part "+p.part(), "load",
				append(loads, load())))
		}()
		measure(ctx, p)
		return nil
	}
}

// part is the name of the part.
func (p *trial) part() string {
	_, name, _ := strings.Cut(p.Name(), "/")
	return name
}

// Errorf notes why the part fails.
func (p *trial) Errorf(format string, args ...any) {
	p.Helper()
	p.why = append(p.why, fmt.Sprintf(format, args...))
	p.T.Errorf(format, args...)
}

// add adds to the report.
func (p *trial) add(figures ...figure) {
	for _, f := range figures {
		p.Logf("%s: min %.2f, median %.2f, p95 %.2f, max %.2f %s %s", f.Key, f.Min, f.Median, f.P95, f.Max, f.Unit, f.Goal)
	}
	p.figures = append(p.figures, figures...)
}

// most is a figure of one value that is to be at most so much, and least one that is to be at least that.
func most(key, what, unit string, value, bound float64) figure {
	return goal(values(key, what, unit, []float64{value}), fmt.Sprintf("≤ %g", bound), value <= bound)
}

func least(key, what, unit string, value, bound float64) figure {
	return goal(values(key, what, unit, []float64{value}), fmt.Sprintf("≥ %g", bound), value >= bound)
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
