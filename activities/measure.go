package activities

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/measure"
	"github.com/drover-io/drover/internal/policy"
)

// Measure has what goes on in this worker measured until end is called. (It is no method: those are activities.)
func Measure(k *Kube, w *Watch) (end func()) {
	measure.OperationsEnded.Begin()
	ends := []func(){
		measure.Size(measure.CacheBundles, k.bundles.Len),
		measure.Read(func(say measure.Say) {
			open, stuck := k.pending.count(time.Now())
			for reason, n := range open {
				say(measure.LeavesOpen, float64(n), reason)
			}
			for reason, n := range stuck {
				say(measure.LeavesStuck, float64(n), reason)
			}
			for use, s := range map[string]slots{measure.SlotsTries: k.tries, measure.SlotsGathers: k.gatherers, measure.SlotsSilent: k.silent} {
				say(measure.Slots, float64(len(s)), use, "used")
				say(measure.Slots, float64(cap(s)), use, "size")
			}
		}, measure.LeavesOpen, measure.LeavesStuck, measure.Slots),
		measure.Read(w.measure, measure.Clusters, measure.ClusterUnheard, measure.WatchAge),
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// openLeaves are those that this worker works on, or has made the last attempt at. Each is counted until the next attempt is due,
// which another worker may make, so that the sum over all workers is right. The zero value is ready to use.
type openLeaves struct {
	mu     sync.Mutex
	of     map[string]openLeaf // by run of its workflow
	sorted int                 // how many there were when those that are over were last forgotten
}

// fewOpen is of how many leaves nobody looks which are over, unless they are measured.
const fewOpen = 1_000

type openLeaf struct {
	working bool
	reason  string    // of the last attempt's failure, which stays while the next one goes on; "" before there is one
	since   time.Time // when the first attempt was due
	begun   time.Time // when the attempt did that goes on
	until   time.Time
}

// begin says that an attempt begins, and when the first one was due.
func (o *openLeaves) begin(run string, due time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]openLeaf{}
	}
	o.of[run] = openLeaf{working: true, reason: o.of[run].reason, since: due, begun: time.Now()}
}

// end says that it has ended, and that another one is due after a wait; there is none without a reason.
func (o *openLeaves) end(run, reason string, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if reason == "" {
		delete(o.of, run)
		return
	}
	o.of[run] = openLeaf{reason: reason, since: o.of[run].since, until: time.Now().Add(wait)}
	if len(o.of) > 2*max(o.sorted, fewOpen) { // nobody may gather metrics
		o.forget(time.Now())
	}
}

// forget leaves out those of which another attempt is due elsewhere. With the mutex.
func (o *openLeaves) forget(now time.Time) {
	maps.DeleteFunc(o.of, func(_ string, l openLeaf) bool { return !l.working && now.After(l.until) })
	o.sorted = len(o.of)
}

// count is how many there are by reason, those that have none being forgotten; and how many of those that have failed are stuck, by the
// reason of their last failure.
func (o *openLeaves) count(now time.Time) (open, stuck map[string]int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	open = map[string]int{measure.Working: 0, measure.Unreachable: 0, measure.Refusing: 0, measure.Waiting: 0, measure.Broken: 0}
	stuck = map[string]int{measure.Unreachable: 0, measure.Refusing: 0, measure.Waiting: 0, measure.Broken: 0}
	o.forget(now)
	for _, l := range o.of {
		if l.working {
			open[measure.Working]++
		} else {
			open[l.reason]++
		}
		overcome := l.working && now.Sub(l.begun) > measure.Overcome // as where a hook is waited for: what the last attempt failed with is over
		if l.reason != "" && !overcome && now.Sub(l.since) > measure.StuckAfter {
			stuck[l.reason]++
		}
	}
	return open, stuck
}

// openReason is why the leaf is open after the attempt; "" when it is not, as far as the attempt knows.
func (a *attempt) openReason(ctx context.Context, err error) string {
	switch {
	case err == nil, ctx.Err() != nil, !fail.KindOf(err).Retryable(), errors.Is(err, ErrNotAtOnce):
		return "" // the activity that comes after a try at once is another attempt
	case errors.Is(err, errWorkerStops), errors.Is(err, errPanics):
		return measure.Broken
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.state.Reason != "":
		return measure.Waiting
	case a.state.Connectivity != domain.ConnectivityRetrying:
		return measure.Broken
	case a.reached:
		return measure.Refusing
	default:
		return measure.Unreachable
	}
}

// waitAfter is how long it takes after an attempt's failure until the next one begins.
func waitAfter(err error, attempt int32) time.Duration {
	if err == nil {
		return 0
	}
	wait := fail.RetryAfterOf(err)
	if wait == 0 {
		wait = policy.Doubling{First: policy.FirstWork, Most: policy.LongestWork}.Nth(int(attempt) - 1)
	}
	return wait + policy.HandedOut
}

// measure tells of the clusters that are watched here. Those that were not heard for longest are told of first.
func (w *Watch) measure(say measure.Say) {
	type silent struct {
		cluster domain.ClusterName
		since   time.Time
	}
	var (
		unheard          []silent
		heard, away      int
		youngest, oldest time.Time
		now              = w.Now()
	)
	w.going.Range(func(key, _ any) bool {
		c := &key.(*shard).contacts
		c.mu.Lock()
		defer c.mu.Unlock()
		for name, x := range c.of {
			since := c.since[name]
			switch {
			case x.Connected:
				heard++
				if youngest.IsZero() || since.After(youngest) {
					youngest = since
				}
				if oldest.IsZero() || since.Before(oldest) {
					oldest = since
				}
			case x.Reason == domain.Unreported:
				away++
			default:
				if !x.LastSeen.IsZero() {
					since = x.LastSeen
				}
				unheard = append(unheard, silent{name, since})
			}
		}
		return true
	})
	say(measure.Clusters, float64(heard), measure.Heard)
	say(measure.Clusters, float64(len(unheard)), measure.Unheard)
	say(measure.Clusters, float64(away), measure.Unreported)
	if heard > 0 {
		say(measure.WatchAge, now.Sub(youngest).Seconds(), "youngest")
		say(measure.WatchAge, now.Sub(oldest).Seconds(), "oldest")
	}
	slices.SortFunc(unheard, func(a, b silent) int { return a.since.Compare(b.since) })
	for _, s := range unheard[:min(len(unheard), measure.MostClusters)] {
		say(measure.ClusterUnheard, now.Sub(s.since).Seconds(), s.cluster.Provider, s.cluster.Name)
	}
}
