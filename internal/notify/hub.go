package notify

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/status"
)

// Hub has the subscribers of one process.
type Hub struct {
	looks   Looks
	options Options
	metrics *metrics
	ctx     context.Context // of the feeds; ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup // feeds

	mu          sync.Mutex
	feeds       map[feedKey]*feed
	subscribers int
	views       int
	bytes       int64 // all weights of feeds and views
	closed      bool
}

// feedKey tells apart what is looked at: what groups of questions need to know.
type feedKey struct {
	owner  domain.Key
	extent Extent
}

// New makes a hub, whose figures the registerer shows.
func New(looks Looks, o Options, r prometheus.Registerer) (*Hub, error) {
	m, err := newMetrics(r)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Hub{
		looks: looks, options: o.withDefaults(), metrics: m, ctx: ctx, stop: stop, feeds: map[feedKey]*feed{},
	}, nil
}

// Close ends all subscriptions in order, refuses more, and waits until nothing is looked at any more.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.running.Wait()
}

// errStopping is why subscriptions end with their process.
var errStopping = fail.New(fail.Unavailable, "the server stops; connect again to go on")

// Subscribe begins a stream of what a query is answered with. The first event is the whole document, unless after is the id of an event
// of the same query and what came after it is still known: then it is the first change after that. Errors are those
// of the query itself; Unavailable when there are too many subscribers.
func (h *Hub) Subscribe(ctx context.Context, owner domain.Key, q status.Query, after string) (*Subscription, error) {
	return h.SubscribeTo(ctx, owner, document{q.For(status.SubjectOf(owner))}, after)
}

// SubscribeTo is Subscribe for any question.
func (h *Hub) SubscribeTo(ctx context.Context, owner domain.Key, q Question, after string) (*Subscription, error) {
	v, err := h.join(owner, q)
	if err != nil {
		return nil, err
	}
	s := &Subscription{hub: h, view: v}
	select {
	case <-v.begun:
	case <-ctx.Done():
		s.Close()
		return nil, context.Cause(ctx)
	}
	if err := s.begin(after); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// join finds the view of a question, or makes it, and the feed that it needs.
func (h *Hub) join(owner domain.Key, q Question) (*view, error) {
	key, id := feedKey{owner, q.Extent()}, q.ID()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, errStopping
	case h.subscribers >= h.options.Subscribers:
		return nil, fail.New(fail.Unavailable, "%d status streams are open, which is as many as can be; try again later", h.subscribers)
	}
	var v *view
	if f := h.feeds[key]; f != nil {
		v = f.views[id]
	}
	if v == nil && h.views >= h.options.Views && !h.makeRoom() {
		return nil, fail.New(fail.Unavailable, "%d different queries are being streamed, which is as many as can be; try again later", h.views)
	}
	f := h.feeds[key] // not before there is room: it may have gone for that
	if f == nil {
		f = newFeed(h, key)
		h.feeds[key] = f
		h.running.Go(f.run)
	}
	if v == nil {
		v = newView(q)
		f.views[id] = v
		h.views++
		f.hurry()
	}
	v.subscribers++
	h.subscribers++
	h.metrics.subscribers.Set(float64(h.subscribers))
	return v, nil
}

// errFull is why what is too large is not streamed.
var errFull = fail.New(fail.Unavailable, "what is being streamed takes as much memory as it may; try again later, or ask for less of the status")

// fits makes room for more bytes, and says whether that went well. What becomes less always does. With the mutex.
func (h *Hub) fits(more int64) bool {
	for more > 0 && h.bytes+more > h.options.Bytes {
		if !h.makeRoom() {
			return false
		}
	}
	return true
}

// weigh notes how many bytes something takes now. With the mutex.
func (h *Hub) weigh(weight *int64, now int64) {
	h.bytes += now - *weight
	*weight = now
}

// makeRoom forgets the view that has been without a subscriber for the longest, and says whether there was one: what is kept for who may come
// back keeps nobody out who is there. Its feed ends with its last view, else who asks for one group after the other would have more of them than
// there are views. With the mutex.
func (h *Hub) makeRoom() bool {
	var of *feed
	var oldest *view
	for _, f := range h.feeds {
		for _, v := range f.views {
			if v.subscribers == 0 && (oldest == nil || v.left.Before(oldest.left)) {
				of, oldest = f, v
			}
		}
	}
	if oldest == nil {
		return false
	}
	of.remove(oldest)
	if len(of.views) == 0 {
		h.forget(of)
		of.stop()
	}
	return true
}

// forget makes room for another feed of the same key, if there is none yet. With the mutex.
func (h *Hub) forget(f *feed) {
	if h.feeds[f.key] == f {
		delete(h.feeds, f.key)
	}
	f.gone = true
	h.weigh(&f.weight, 0)
}

// leave counts a subscriber out.
func (h *Hub) leave(v *view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscribers--
	h.metrics.subscribers.Set(float64(h.subscribers))
	if v.subscribers--; v.subscribers == 0 {
		v.left = h.options.Now()
	}
}
