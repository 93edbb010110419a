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
	bytes       int64  // all weights of feeds and views
	made        uint64 // the number of the last view
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
	if v == nil && h.views >= h.options.Views && !h.makeRoom() && !h.take(domain.ScopeOf(owner), 1, numbers) {
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
		h.made++
		v.made = h.made
		f.hurry()
	}
	v.subscribers++
	h.subscribers++
	h.metrics.subscribers.Set(float64(h.subscribers))
	return v, nil
}

// errFull is why what is too large is not streamed.
var errFull = fail.New(fail.Unavailable, "what is being streamed takes as much memory as it may; try again later, or ask for less of the status")

// errShared is why a stream ends for those of others.
var errShared = fail.New(fail.Unavailable,
	"others ask for streams, too, and have less room for theirs than what is streamed here takes; try again later, or ask for fewer different queries")

// fits makes room for more bytes of a scope, and says whether that went well. What becomes less always does. With the mutex.
func (h *Hub) fits(scope domain.Key, more int64) bool {
	for more > 0 && h.bytes+more > h.options.Bytes {
		if !h.makeRoom() && !h.take(scope, more, weights) {
			return false
		}
	}
	return true
}

// measure is what there is only so much of: of says how much a feed has, and frees how much of that goes with one of its views.
type measure struct {
	of    func(*feed) int64
	frees func(*feed, *view) int64
}

var (
	numbers = measure{
		of:    func(f *feed) int64 { return int64(len(f.views)) },
		frees: func(*feed, *view) int64 { return 1 },
	}
	weights = measure{
		of: func(f *feed) int64 {
			n := f.weight
			for _, v := range f.views {
				n += v.weight
			}
			return n
		},
		frees: func(f *feed, v *view) int64 {
			if len(f.views) == 1 {
				return v.weight + f.weight
			}
			return v.weight
		},
	}
)

// take makes room for more of a scope by ending a view of the scope that has the most, the newest one, and says whether there was one: all of it is
// not for who has asked first. What is left there is no less than what the other scope has then. So nobody loses anything to who has as much, and who has lost a view does not
// take it back. With the mutex.
func (h *Hub) take(scope domain.Key, more int64, m measure) bool {
	has := map[domain.Key]int64{}
	for key, f := range h.feeds {
		has[domain.ScopeOf(key.owner)] += m.of(f)
	}
	var most domain.Key
	found := false
	for of, n := range has {
		if of != scope && (!found || n > has[most]) {
			most, found = of, true
		}
	}
	var of *feed
	var newest *view
	for key, f := range h.feeds {
		if !found || domain.ScopeOf(key.owner) != most {
			continue
		}
		for _, v := range f.views {
			frees := m.frees(f, v)
			if frees > 0 && has[most]-frees >= has[scope]+more && (newest == nil || v.made > newest.made) {
				of, newest = f, v
			}
		}
	}
	if newest == nil {
		return false
	}
	newest.finish(last(Failed, errShared))
	h.drop(of, newest)
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
	h.drop(of, oldest)
	return true
}

// drop forgets a view to make room, and its feed with its last one. With the mutex.
func (h *Hub) drop(f *feed, v *view) {
	f.remove(v)
	if len(f.views) == 0 {
		h.forget(f)
		f.stop()
	}
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
