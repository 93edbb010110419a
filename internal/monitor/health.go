package monitor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/internal/bundle"
	"github.com/drover-io/drover/internal/pause"
)

var (
	// unheardAfter is how long a kind may go without a watch until its statuses are old, and a status without being written until
	// the Lease is not renewed. With what passes until that is looked at, it is as long as the agent itself may be silent.
	unheardAfter = bundle.LeaseDuration - bundle.LeaseRenewal
	// listenEvery is how often that is looked at.
	listenEvery = bundle.LeaseRenewal
)

// mostSilence is how long a watch may say nothing that has sent bookmarks, as API servers do every minute: one that is
// stuck is made anew.
const mostSilence = 5 * time.Minute

// health knows which kinds are heard: those whose informer has a watch open. An informer tells nobody when its lists fail, for
// ever perhaps, and goes on showing what it knew; so its requests, which it makes anyway, are listened to.
type health struct {
	index *index
	now   func() time.Time

	mu sync.Mutex
	of map[schema.GroupKind]*kindHealth
}

// kindHealth is what is known of one kind's requests.
type kindHealth struct {
	health  *health
	open    *stream   // the watch; nil for none
	heard   bool      // there was a watch at some time
	since   time.Time // there is none
	failure error     // why there is none; nil where no request has failed since
}

func newHealth(x *index, now func() time.Time) *health {
	return &health{index: x, now: now, of: map[schema.GroupKind]*kindHealth{}}
}

// informer makes one whose requests are listened to. It is a cache.Options.NewInformer.
func (h *health) informer(lw toolscache.ListerWatcher, o runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	heard := &kindHealth{health: h, since: h.now()}
	kind := o.GetObjectKind().GroupVersionKind().GroupKind()
	h.mu.Lock()
	h.of[kind] = heard
	h.mu.Unlock()
	requests := toolscache.ToListerWatcherWithContext(lw)
	listened := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := requests.ListWithContext(ctx, options)
			heard.answered(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			w, err := requests.WatchWithContext(ctx, options)
			heard.answered(err)
			if err != nil {
				return nil, err
			}
			return heard.listen(w, options.SendInitialEvents != nil && *options.SendInitialEvents), nil
		},
	}
	if known[kind] {
		return toolscache.NewSharedIndexInformer(listened, o, resync, indexers)
	}
	return toolscache.NewSharedIndexInformer(listed{listened}, o, resync, indexers)
}

// listed is a kind whose objects are listed before they are watched. Otherwise a watch begins with what there is, and says where that ends. Some servers of
// aggregated APIs (Calico's, Antrea's) take such a watch and never say so: nothing of the kind would be known, for ever.
type listed struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported is asked by client-go.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

// forget says that the kind is not watched any more.
func (h *health) forget(kind schema.GroupKind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, kind)
}

// Start has the statuses say which kinds are not heard, until ctx ends. It implements manager.Runnable.
func (h *health) Start(ctx context.Context) error {
	for pause.For(ctx, listenEvery) == nil {
		h.index.setUnheard(h.unheard())
	}
	return nil
}

// unheard are the kinds that are not heard, sorted. Watches that are stuck are ended.
func (h *health) unheard() []bundle.Unheard {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	var list []bundle.Unheard
	for kind, x := range h.of {
		switch {
		case x.open != nil && x.open.bookmarked && now.Sub(x.open.last) > mostSilence:
			x.open.Interface.Stop()
		case x.open == nil && now.Sub(x.since) > unheardAfter:
			u := bundle.Unheard{GroupKind: kind, Reason: "the API server does not answer"}
			if x.heard {
				u.Since = x.since
			}
			if x.failure != nil {
				u.Reason = x.failure.Error()
			}
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b bundle.Unheard) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// answered notes how a request was answered.
func (x *kindHealth) answered(err error) {
	x.health.mu.Lock()
	defer x.health.mu.Unlock()
	x.fail(err)
}

// fail notes why there is no watch, and not the same failure again, which may be called another word each time: that would
// have the statuses written again and again. The lock is held.
func (x *kindHealth) fail(err error) {
	if err != nil && (x.failure == nil || apierrors.ReasonForError(err) != apierrors.ReasonForError(x.failure)) {
		x.failure = err
	}
}

// hear says that a watch tells of changes. The lock is held.
func (x *kindHealth) hear(s *stream) { x.open, x.heard, x.failure = s, true, nil }

// listen passes on what a watch tells. One that begins with all objects says nothing of changes until it has told them.
func (x *kindHealth) listen(w apiwatch.Interface, initial bool) apiwatch.Interface {
	s := &stream{Interface: w, kindHealth: x, initial: initial, result: make(chan apiwatch.Event), done: make(chan struct{})}
	x.health.mu.Lock()
	defer x.health.mu.Unlock()
	s.last = x.health.now()
	if !initial {
		x.hear(s)
	}
	go s.pass()
	return s
}

// stream is a watch that is listened to.
type stream struct {
	apiwatch.Interface
	kindHealth *kindHealth
	result     chan apiwatch.Event
	done       chan struct{} // closed by stop
	stop       sync.Once
	initial    bool // it tells what there is

	last       time.Time // when it said something
	bookmarked bool      // it has sent a bookmark
}

// ResultChan implements apiwatch.Interface.
func (s *stream) ResultChan() <-chan apiwatch.Event { return s.result }

// Stop implements apiwatch.Interface.
func (s *stream) Stop() {
	s.stop.Do(func() { close(s.done) })
	s.Interface.Stop()
}

// pass passes on events until there are no more, or nobody wants them.
func (s *stream) pass() {
	defer close(s.result)
	defer s.ended()
	for event := range s.Interface.ResultChan() {
		s.note(event)
		select {
		case s.result <- event:
		case <-s.done:
			return
		}
	}
}

// note takes note of an event.
func (s *stream) note(event apiwatch.Event) {
	s.kindHealth.health.mu.Lock()
	defer s.kindHealth.health.mu.Unlock()
	s.last = s.kindHealth.health.now()
	switch event.Type {
	case apiwatch.Error:
		s.kindHealth.fail(apierrors.FromObject(event.Object))
	case apiwatch.Bookmark:
		s.bookmarked = true
		if s.initial && endsInitial(event.Object) {
			s.initial = false
			s.kindHealth.hear(s)
		}
	default: // a change, which need not be understood here
	}
}

// endsInitial says whether a bookmark is the one that ends what there was when the watch began.
func endsInitial(bookmark runtime.Object) bool {
	o, err := meta.Accessor(bookmark)
	return err == nil && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// ended says that the watch is over.
func (s *stream) ended() {
	s.kindHealth.health.mu.Lock()
	defer s.kindHealth.health.mu.Unlock()
	if s.kindHealth.open == s {
		s.kindHealth.open, s.kindHealth.since = nil, s.kindHealth.health.now()
	}
}
