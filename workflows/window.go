package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/drover-io/drover/internal/domain"
)

// window runs the leaves of an app, some of them at a time: those are at work. A leaf leaves the window when it is done, when
// its cluster does not answer, when it waits for something there, or when it is slow and others wait.
type window struct {
	whole  workflow.Context // never cancelled
	leaves []leafState
	slots  int // how many leaves may be at work at a time
	// begin starts a leaf. It returns at once; whoever does the work says what comes of it with stir, moved and ended.
	// The context is cancelled when the leaf is to stop.
	begin func(ctx workflow.Context, l *leafState)
	// halt has the work of leaves end in order that can be ended from here, and returns on which clusters.
	halt func(ctx workflow.Context) []domain.ClusterName
	// tell is told how the window stands whenever that has changed; nil where nobody wants to know.
	tell func(WindowState)

	crowded bool // a leaf waits for a slot
	moves   int  // how often a leaf has ended or has left the window
	ends    int  // how many leaves have ended
	stirred bool // something has come of the leaves, see gather
	closed  bool // no leaf is at work any more, and none will be
}

// leafState is what an app knows of one cluster.
type leafState struct {
	ClusterProgress
	started, done     bool
	lost              bool        // see AppProgress
	suspect           bool        // see activities.Targets
	installs          bool        // see activities.Targets
	slow              bool        // it has lost its slot in the window, see loosen
	inherited, report string      // see activities.LeafInput
	overlay           domain.Part // this, too
	cancel            workflow.CancelFunc
}

// slide runs all leaves that have work. When ctx is cancelled no more are started, and those at work are stopped.
func (w *window) slide(ctx workflow.Context) error {
	defer func() { w.closed = true }()
	stopped := func() bool { return ctx.Err() != nil }
	workflow.Go(w.whole, func(c workflow.Context) {
		ctx.Done().Receive(c, nil)
		w.stop(c)
	})
	workflow.Go(w.whole, w.loosen)
	workflow.Go(w.whole, w.gather)
	w.say()
	for _, l := range w.order() {
		w.crowded = w.full()
		if err := workflow.Await(w.whole, func() bool { return stopped() || !w.full() }); err != nil {
			return err
		}
		if stopped() {
			break
		}
		w.start(l)
	}
	w.crowded = false
	return workflow.Await(w.whole, w.quiet)
}

// order is that in which leaves are started that have work: those last whose clusters did not answer when they were last
// tried, so that none waits for a slot that one of them has.
func (w *window) order() (order []*leafState) {
	for _, suspect := range []bool{false, true} {
		for i := range w.leaves {
			if l := &w.leaves[i]; !l.done && l.suspect == suspect {
				order = append(order, l)
			}
		}
	}
	return order
}

func (w *window) start(l *leafState) {
	ctx, cancel := workflow.WithCancel(w.whole)
	l.started, l.cancel = true, cancel
	w.say()
	w.begin(ctx, l)
}

// stir notes that something has come of the leaves.
func (w *window) stir() { w.stirred = true }

// moved notes that a leaf may have left the window, or has come back to it.
func (w *window) moved() {
	w.moves++
	w.say()
}

// ended notes that a leaf is done.
func (w *window) ended(l *leafState) {
	l.done = true
	w.ends++
	w.moved()
	w.stir()
}

// gather keeps the app's task for a moment when something has come of its leaves and much is at work, so that a task takes
// what comes of many. For each event that finds none Temporal makes a task of its own, which takes it as long as the event.
func (w *window) gather(ctx workflow.Context) {
	before, at := 0, workflow.Now(ctx)
	for {
		if err := workflow.Await(ctx, func() bool { return w.stirred && w.atWork() >= gatherLeast }); err != nil {
			return
		}
		w.stirred = false
		d := gatherTime(w.atWork(), w.ends-before, workflow.Now(ctx).Sub(at))
		before, at = w.ends, workflow.Now(ctx)
		_ = workflow.ExecuteLocalActivity(once(ctx, briefTimeout), kube.Gather, d).Get(ctx, nil)
	}
}

// gatherTime is how long an app gathers with so many leaves at work, of which so many have ended in the time before. Where Temporal is slow it is
// longer, so that a task takes what comes of several leaves there, too; those at work are enough for as long.
func gatherTime(atWork, ended int, in time.Duration) time.Duration {
	d := min(time.Duration(atWork)*gatherEach, gatherMost)
	if ended == 0 {
		return d
	}
	return max(d, min(in/time.Duration(ended)*time.Duration(atWork)/gatherPart, gatherLongest))
}

// loosen gives the slots of all leaves to others when for patience nobody has left the window, though some wait for a slot:
// that a cluster hangs is known only when its requests have reached their deadline, and no cluster waits so long for another.
func (w *window) loosen(ctx workflow.Context) {
	for {
		if err := workflow.Await(ctx, func() bool { return w.crowded }); err != nil {
			return
		}
		moves := w.moves
		if err := workflow.Sleep(ctx, patience); err != nil || w.closed {
			return
		}
		if w.moves != moves {
			continue
		}
		for i := range w.leaves {
			w.leaves[i].slow = w.leaves[i].slow || w.leaves[i].started
		}
		w.say()
	}
}

// stop ends the leaves that are at work. Those that can be halted come to their end by themselves, which takes half the
// rounds through Temporal of a cancellation; all others are cancelled, and after haltGrace those too.
func (w *window) stop(ctx workflow.Context) {
	halted := w.halt(ctx)
	w.cancel(func(c domain.ClusterName) bool { return !slices.Contains(halted, c) })
	if _, err := workflow.AwaitWithTimeout(ctx, haltGrace, w.quiet); err != nil {
		return
	}
	w.cancel(func(domain.ClusterName) bool { return true })
}

// cancel cancels leaves that were started and are not done.
func (w *window) cancel(which func(domain.ClusterName) bool) {
	for i := range w.leaves {
		if l := &w.leaves[i]; l.open() && which(l.Cluster) {
			l.cancel()
		}
	}
}

// quiet says whether all leaves that were started are done.
func (w *window) quiet() bool {
	return !slices.ContainsFunc(w.leaves, func(l leafState) bool { return l.open() })
}

// idle says whether nothing is at work and nothing waits for a slot: all that is open has left the window.
func (w *window) idle() bool {
	return !slices.ContainsFunc(w.leaves, func(l leafState) bool { return l.atWork() || !l.started && !l.done })
}

func (w *window) full() bool { return w.atWork() >= w.slots }

// atWork counts the leaves that hold a slot.
func (w *window) atWork() (n int) {
	for i := range w.leaves {
		if w.leaves[i].atWork() {
			n++
		}
	}
	return n
}

// WindowState is how the window of an app stands.
type WindowState struct {
	Slots   int
	AtWork  int // leaves that hold a slot
	Outside int // leaves that are open and hold none
	Waiting int // leaves that were not begun
}

// Full says whether no leaf may be begun.
func (s WindowState) Full() bool { return s.AtWork >= s.Slots }

// say tells how the window stands.
func (w *window) say() {
	if w.tell == nil {
		return
	}
	s := WindowState{Slots: w.slots}
	for i := range w.leaves {
		switch l := &w.leaves[i]; {
		case l.done:
		case !l.started:
			s.Waiting++
		case l.atWork():
			s.AtWork++
		default:
			s.Outside++
		}
	}
	w.tell(s)
}

// Windows is told how the windows of apps stand, for who measures them. A workflow never asks it for anything.
type Windows interface {
	// Tell says how the window of a run stands, and End that the run is over, or is not in memory any more.
	Tell(run string, s WindowState)
	End(run string)
}

type windowsKey struct{}

// WithWindows is ctx for a workflow whose window is to be measured.
func WithWindows(ctx workflow.Context, w Windows) workflow.Context {
	return workflow.WithValue(ctx, windowsKey{}, w)
}

// open says whether the leaf was started and is not done.
func (l *leafState) open() bool { return l.started && !l.done }

// atWork says whether the leaf holds a slot in the window.
func (l *leafState) atWork() bool {
	return l.open() && !l.slow && l.Connectivity != domain.ConnectivityRetrying && l.Reason == ""
}
