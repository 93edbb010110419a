package observe

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/pause"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/policy"
)

// reporters is how many apps are read and reported at a time.
const reporters = 4

// Run watches until ctx ends, and returns the cause of that.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.quit()
	again := pause.Backoff{First: w.config.RetryFirst, Most: w.config.RetryMost}
	for {
		good, err := panics.Value(ctx, func() (bool, error) { return w.session(ctx) })
		if errors.Is(err, errMany) {
			w.makeRoom()
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errKinds), errors.Is(err, errRoom), errors.Is(err, errAnother), errors.Is(err, kube.ErrReplaced):
			continue
		case w.auto != nil && errors.Is(err, errNoDefinition): // the agent was removed
			w.auto.withoutAgent()
			continue
		case good:
			again.Reset()
			continue
		}
		w.lost(ctx, err)
		if errors.Is(err, errNoDefinition) && w.awaitDefinition(ctx) {
			again.Reset() // it will be served in a moment
		}
		if err := again.Wait(ctx); err != nil {
			return err
		}
	}
}

// session follows the cluster until it cannot be asked, and says whether that took a while.
func (w *Watcher) session(ctx context.Context) (good bool, err error) {
	c, err := w.config.Clusters.Get(ctx, w.config.Cluster)
	if err != nil {
		return false, err
	}
	if err := w.probe(ctx, c); err != nil {
		return false, err
	}
	defer func() { w.heard = time.Now() }()
	if w.auto != nil {
		if err := w.auto.choose(ctx, c); err != nil {
			return false, err
		}
	}
	if err := w.source.sync(ctx, c); err != nil {
		return false, err
	}
	if err := w.contact(ctx); err != nil {
		return false, err
	}
	connected := time.Now()
	g, ctx := panics.WithContext(ctx)
	g.Go(func() error { return w.source.follow(ctx, c) })
	g.Go(func() error { return w.report(ctx, c) })
	if w.auto != nil && w.auto.resources != nil {
		g.Go(func() error { return w.auto.await(ctx, c) })
	}
	err = g.Wait()
	return time.Since(connected) >= policy.GoodSession, err
}

// probe makes sure that the cluster answers, and that it is where the last session left it: a session that goes on there may have nothing to list.
func (w *Watcher) probe(ctx context.Context, c *kube.Cluster) error {
	if w.said != nil && w.said.Connected {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.config.Probe)
		defer cancel()
	}
	if err := c.Ping(ctx); err != nil {
		return err
	}
	return w.rewind(ctx, c)
}

// rewind has everything listed anew where the cluster is behind what was heard of it: it was restored from a backup, or another one was made in its
// place. Versions of the objects in its database grow. An API server takes a watch from a version that is still to come, says nothing of what
// happens until then, and does not say that it has never come so far. One that was not heard for long may have been restored and have come further since:
// it is listed anew in any case, once. How long that is does not depend on the sink, of which a worker may have been cut off, too.
func (w *Watcher) rewind(ctx context.Context, c *kube.Cluster) error {
	feeds := w.feeds()
	now := time.Now()
	silent := max(now.Sub(w.heard), now.Round(0).Sub(w.heard.Round(0))) // by the time of day, too, as the other clock stands still while the machine is suspended
	if !w.heard.IsZero() && silent > policy.Remembers {
		listAnew(feeds)
		return nil
	}
	heard := uint64(0)
	for _, f := range feeds {
		heard = max(heard, f.reached())
	}
	if heard == 0 {
		return nil
	}
	for _, f := range feeds {
		if f.reached() == 0 {
			continue
		}
		version, err := c.Version(ctx, f.Path)
		if kube.IsAnswer(err) { // it may be gone, or forbidden by now, and another one says as much
			continue
		}
		if err != nil {
			return err
		}
		if now := number(version); now != 0 && now < heard {
			listAnew(feeds)
		}
		return nil
	}
	return nil
}

// listAnew has the next sync list what feeds have.
func listAnew(feeds []*feed) {
	for _, f := range feeds {
		f.version = ""
	}
}

// feeds are all that have begun.
func (w *Watcher) feeds() []*feed {
	var feeds []*feed
	if w.source != nil {
		feeds = w.source.feeds()
	}
	if w.auto != nil {
		feeds = append(feeds, w.auto.lease.feed)
	}
	return feeds
}

// unstored is the error of a sink that answers, and does not take what is said of an app.
type unstored struct{ error }

// Unwrap implements errors.Unwrap.
func (u unstored) Unwrap() error { return u.error }

// told is the error of a sink: it may be about one app alone.
func told(err error) error {
	if err == nil || fail.IsUnanswered(err) {
		return err
	}
	return unstored{err}
}

// report reports what is queued until ctx ends or something fails, which is queued again. What only one app cannot be told of is
// no end: the others have nothing to do with it.
func (w *Watcher) report(ctx context.Context, c *kube.Cluster) error {
	g, ctx := panics.WithContext(ctx)
	g.SetLimit(reporters)
	for {
		id, err := w.queue.take(ctx)
		if err != nil {
			_ = g.Wait() // its error is the cause of ctx's end, which err is
			return err
		}
		g.Go(func() error {
			defer w.queue.done(id)
			err := w.reportOne(ctx, c, id)
			switch {
			case err == nil:
				w.queue.succeeded(id)
			case ctx.Err() == nil && errors.As(err, new(unstored)):
				w.queue.later(id, policy.Doubling{First: w.config.RetryFirst, Most: w.config.RetryMost})
				return nil
			default:
				w.queue.again(id)
			}
			return err
		})
	}
}

// makeRoom takes out of the queue what nobody needs to be told: of what there is nothing in the cluster, and the sink has nothing. A
// session reports when it has listed, so that a queue that is full of those would stay full.
func (w *Watcher) makeRoom() {
	held := w.source.held()
	w.queue.keep(func(id string) bool {
		_, known := w.has(id)
		return known || held[id]
	})
}

func (w *Watcher) reportOne(ctx context.Context, c *kube.Cluster, id string) error {
	app := domain.ObservedApp{Cluster: w.config.Cluster}
	var ok bool
	if app.ContextID, app.App, ok = strings.Cut(id, "-"); !ok {
		return nil // it is not a label of ours
	}
	o, err := w.source.observe(ctx, c, id)
	if errors.Is(err, errBeingWritten) {
		return nil // what follows will be queued
	}
	if err != nil {
		return err
	}
	before, known := w.has(id)
	if o == nil {
		if !known {
			return nil
		}
		if err := w.config.Sink.Delete(ctx, app); err != nil {
			return told(err)
		}
		w.forget(id)
		return nil
	}
	o.ObservedApp = app
	digest := o.Digest()
	if digest == before {
		return nil
	}
	kept, err := w.config.Sink.Put(ctx, o)
	switch {
	case err != nil:
		return told(err)
	case kept:
		w.remember(id, digest)
	default:
		w.forget(id)
	}
	return nil
}

func (w *Watcher) has(id string) (domain.Digest, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	digest, ok := w.sent[id]
	return digest, ok
}

func (w *Watcher) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sent, id)
}

func (w *Watcher) remember(id string, digest domain.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[id] = digest
}

// contact says that the cluster is heard, unless its agent is silent.
func (w *Watcher) contact(ctx context.Context) error {
	now := time.Now()
	reason, since := w.source.silence(now)
	if reason != "" {
		return w.say(ctx, domain.Watch{Reason: reason, LastSeen: since})
	}
	return w.say(ctx, domain.Watch{Connected: true, LastSeen: now})
}

// lost says that the cluster is not heard. Where the sink does not answer it is said after the next session.
func (w *Watcher) lost(ctx context.Context, err error) {
	now := domain.Watch{Reason: fail.TextOf(err)}
	switch {
	case w.said == nil:
	case w.said.Connected:
		now.LastSeen = time.Now()
	default:
		now.LastSeen = w.said.LastSeen
	}
	_ = w.say(ctx, now)
}

// say tells the sink what has changed. A session's parts that call it are not at work at the same time.
func (w *Watcher) say(ctx context.Context, now domain.Watch) error {
	now.Cluster = w.config.Cluster
	if w.said != nil && w.said.Connected == now.Connected && w.said.Reason == now.Reason {
		return nil
	}
	if err := w.config.Sink.Contact(ctx, now); err != nil {
		return err
	}
	w.said = &now
	return nil
}

// labelled selects what belongs to any deployment, and deployment what belongs to one.
const labelled = plan.DeploymentLabel

func deployment(id string) string { return plan.DeploymentLabel + "=" + id }
