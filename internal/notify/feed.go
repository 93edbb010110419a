package notify

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/lasting"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// feed looks at one group for all whose questions about it need the same knowledge.
type feed struct {
	hub     *Hub
	key     feedKey
	ctx     context.Context // the hub's, or less
	stop    context.CancelFunc
	looking Look             // what the feed's own goroutine looks with
	views   map[string]*view // by query; guarded by the hub's mutex
	hasten  chan struct{}    // has one in it when somebody waits for a document
	weight  int64            // what the hub has counted of looking; guarded by its mutex
	gone    bool             // the hub has forgotten it; the same

	// What the feed's own goroutine knows.
	sign      string
	evaluated time.Time       // the last time that went well
	fails     lasting.Trouble // the last look failed
}

func newFeed(h *Hub, key feedKey) *feed {
	ctx, stop := context.WithCancel(h.ctx)
	return &feed{
		hub: h, key: key, ctx: ctx, stop: stop, looking: h.looks(key.owner, key.extent), views: map[string]*view{}, hasten: make(chan struct{}, 1),
	}
}

// hurry makes the feed look at once.
func (f *feed) hurry() {
	select {
	case f.hasten <- struct{}{}:
	default:
	}
}

// run looks until nobody asks any more, there is nothing to ask about, or the feed is stopped: with the hub, or to make room for others.
func (f *feed) run() {
	defer f.looking.Close()
	defer f.stop()
	o, ctx := &f.hub.options, f.ctx
	pause := time.NewTimer(0)
	defer pause.Stop()
	f.evaluated = o.Now()
	for {
		select {
		case <-ctx.Done():
			f.finish(last(End, errStopping))
			return
		case <-f.hasten:
		case <-pause.C:
		}
		begun := o.Now()
		err := panics.Do(ctx, func() error { return f.look(ctx) }) // a status that panics ends its own streams, and no others
		if ctx.Err() != nil {
			continue
		}
		f.log(err)
		if end := f.verdict(err); end != nil {
			f.finish(end)
			return
		}
		if f.abandoned() {
			return
		}
		pause.Reset(max(o.Interval, min(share*o.Now().Sub(begun), policy.LongestStreamLook)))
	}
}

// look looks at the sign, and evaluates the status when that says so.
func (f *feed) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, policy.StreamLookTime)
	defer cancel()
	// The sign comes first: what changes after it makes the next one another.
	sign, err := f.signed(ctx)
	if err != nil {
		return err
	}
	views, fresh := f.all()
	if sign == f.sign && !fresh && f.hub.options.Now().Sub(f.evaluated) < f.hub.options.Anew {
		return nil
	}
	leave, err := f.hub.options.Turn(ctx, f.key.owner, true)
	if err != nil {
		return err
	}
	defer leave()
	f.hub.metrics.evaluations.Inc()
	snapshot, err := f.looking.Snapshot(ctx)
	if err != nil {
		return err
	}
	if !f.weigh(f.looking.Size()) {
		return errFull
	}
	renderings := make([]rendering, 0, len(views))
	for _, v := range views {
		r := v.render(ctx, snapshot)
		if r.err != nil && fail.KindOf(r.err).Retryable() {
			return r.err
		}
		renderings = append(renderings, r)
	}
	f.publish(renderings)
	f.sign, f.evaluated = sign, f.hub.options.Now()
	return nil
}

// signed is the sign, when it is the owner's turn.
func (f *feed) signed(ctx context.Context) (string, error) {
	leave, err := f.hub.options.Turn(ctx, f.key.owner, false)
	if err != nil {
		return "", err
	}
	defer leave()
	return f.looking.Sign(ctx)
}

// again says whether a look may go well later: what the store cannot say now, and what had no turn.
func again(err error) bool { return fail.KindOf(err).Retryable() || fail.Is(err, fail.Exhausted) }

// all are the views, and whether one of them has no answer yet.
func (f *feed) all() (views []*view, fresh bool) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	for _, v := range f.views {
		if v.end == nil {
			views = append(views, v)
			fresh = fresh || v.answer == nil
		}
	}
	return views, fresh
}

func (f *feed) publish(renderings []rendering) {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	scope := domain.ScopeOf(f.key.owner)
	for _, r := range renderings {
		if r.view.end != nil { // for others, while it was looked
			continue
		}
		if r.err != nil { // of this query alone
			r.view.finish(last(Failed, r.err))
			f.remove(r.view)
			continue
		}
		weighs := r.view.weighs(r)
		if !h.fits(scope, weighs-r.view.weight) {
			r.view.finish(last(Failed, errFull))
			f.remove(r.view)
			continue
		}
		if r.view.take(r, &h.options) {
			h.metrics.changes.Inc()
		}
		if f.has(r.view) { // else it has made room for others, or for itself
			h.weigh(&r.view.weight, r.view.weighs(rendering{}))
		}
	}
}

// weigh counts what is kept to look with, and says whether there is room for it.
func (f *feed) weigh(size int64) bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	fits := f.hub.fits(domain.ScopeOf(f.key.owner), size-f.weight)
	if !f.gone {
		f.hub.weigh(&f.weight, size)
	}
	return fits
}

// has says whether a view is there. With the mutex.
func (f *feed) has(v *view) bool { return f.views[v.question.ID()] == v }

// remove forgets a view, if it is there: it may have gone to make room while it was looked for its answer. Its subscribers still see how it ended.
// With the mutex.
func (f *feed) remove(v *view) {
	if f.has(v) {
		delete(f.views, v.question.ID())
		f.hub.views--
		f.hub.weigh(&v.weight, 0)
	}
}

// log logs the first of looks that fail in a row. That a group is not there is no failure.
func (f *feed) log(err error) {
	switch {
	case err == nil || fail.Is(err, fail.NotFound):
		f.fails.Ends()
	case f.fails.Begins(""):
		f.hub.options.Log.Warn("a status that is streamed cannot be evaluated", slog.String("owner", string(f.key.owner)), slog.Any("error", err))
	}
}

// verdict says how the feed ends after a look, nil when it does not. What may succeed later is tried again for as long
// as the last document may stand; who waits for a first one is told at once.
func (f *feed) verdict(err error) *Event {
	switch {
	case err == nil:
		return nil
	case fail.Is(err, fail.NotFound):
		return last(End, err, "there is nothing to tell of any more")
	case errors.Is(err, errFull): // what it keeps goes with it
		return last(Failed, err)
	case !again(err), f.hub.options.Now().Sub(f.evaluated) > f.patience():
		return last(Failed, err, "nobody knows the status any more")
	}
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	for _, v := range f.views {
		if v.answer == nil {
			v.finish(last(Failed, err))
			f.remove(v)
		}
	}
	return nil
}

// patience is for how long a document may stand while the status cannot be evaluated.
func (f *feed) patience() time.Duration {
	if f.looking.Reported() {
		return min(f.hub.options.Patience, domain.PulseLife)
	}
	return f.hub.options.Patience
}

// finish ends all subscriptions, and the feed.
func (f *feed) finish(e *Event) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	for _, v := range f.views {
		v.finish(e)
		f.remove(v)
	}
	f.hub.forget(f)
}

// abandoned forgets views that have had no subscriber for long, and the feed when it has no more.
func (f *feed) abandoned() bool {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range f.views {
		if v.subscribers == 0 && h.options.Now().Sub(v.left) > h.options.Linger {
			f.remove(v)
		}
	}
	if len(f.views) > 0 {
		return false
	}
	h.forget(f)
	return true
}
