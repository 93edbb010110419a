package activities

import (
	"context"
	"errors"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/plan"
)

// rendersAtOnce is how many charts of a group are rendered at a time at the most, however many processes there are: each is in memory
// with its bundle until its turn comes.
const rendersAtOnce = 4

// rendering is the rendering of one app's chart, which others are rendered beside.
type rendering struct {
	done   chan struct{} // closed when it has ended
	bundle *plan.Bundle
	err    error
	leave  func() // gives back the place in memory
}

// renderEach renders the charts of all apps, some at a time, and gives them to use in the order of the apps. So what is refused, and what it is
// refused for, is the same whatever takes how long. In a rehearsal that keeps no bundles there is one at a time, and one more for each place that
// the draft gets.
func (l *Control) renderEach(ctx context.Context, w *wanted, d *draft, use func(app *domain.App, bundle *plan.Bundle) error) (err error) {
	work, cancel := context.WithCancel(ctx)
	g := panics.New(work)
	begun := make([]*rendering, 0, len(w.apps))
	atOnce := min(l.Charts.AtOnce(), rendersAtOnce)
	used := 0
	defer func() {
		cancel()
		_ = g.Wait() // they have no error: each has that of its own
		for _, r := range begun[used:] {
			r.leave()
		}
		if err != nil && fail.KindOf(err).Retryable() && errors.Is(ctx.Err(), context.DeadlineExceeded) { // a refusal says more
			err = fail.Wrap(err, fail.Timeout, "planning deployment intent group %q took too long: %d of its %d apps were rendered in time, app %q was not",
				w.group.Name, used, len(w.apps), w.apps[used].Name)
		}
	}()
	for n, app := range w.apps {
		if n < len(begun) { // what was ahead is the one at a time now
			begun[n].leave()
			begun[n].leave = func() {}
		}
		for len(begun) < min(n+atOnce, len(w.apps)) {
			leave, ok := func() {}, true
			if len(begun) > n {
				leave, ok = d.ahead()
			}
			if !ok {
				break
			}
			r, app := &rendering{done: make(chan struct{}), leave: leave}, w.apps[len(begun)]
			begun = append(begun, r)
			g.Go(func() error {
				defer close(r.done)
				r.err = panics.Do(work, func() (err error) {
					r.bundle, err = l.render(work, w, app)
					return err
				})
				return nil
			})
		}
		r := begun[n]
		<-r.done
		bundle, err := r.bundle, r.err
		r.bundle = nil // it may be large
		if err == nil {
			err = use(app, bundle)
		}
		if err != nil {
			return err
		}
		used++
	}
	return nil
}

// ahead is a place for a bundle that is there before its turn; false for none.
func (d *draft) ahead() (leave func(), ok bool) {
	switch {
	case !d.rehearsal || d.keeps:
		return func() {}, true
	case d.spare != nil:
		return d.spare()
	default:
		return nil, false
	}
}
