// Package notify tells subscribers, which are the readers of a stream, how what is known of an owner changes: its status, or
// what else can be asked as a Question. The store has no change streams, so somebody has to look again and again. One feed does
// so for all subscribers that need the same knowledge of the same owner. It reads a cheap sign first (Look.Sign), and evaluates
// only when the sign has changed. From one evaluation it answers each different question once, and compares the answer with the
// one before.
//
// The changes of a question are kept once, for a bounded while, and every subscriber is an index into them. So a subscriber costs
// no memory of its own. One that falls behind what is kept is dropped.
package notify

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/policy"
)

// Extent is how much must be known of an owner to answer a question. It can be compared: questions of equal extents are
// answered from the same look. What knows how to look at it is Looks.
type Extent any

// Looks begins to look at an owner, as far as the extent says. It asks nobody yet.
type Looks func(owner domain.Key, e Extent) Look

// Look looks at one owner for all questions of an extent. It may keep what it knows from one call to the next; its calls come
// one after the other.
type Look interface {
	// Sign is a short text that is another one when the answers to questions of the extent may have become others. It is
	// asked for some times a second. NotFound when there is no such owner.
	Sign(ctx context.Context) (string, error)
	// Snapshot evaluates what is known, for questions that know its type.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Reported says whether that is of what clusters report, which stands no longer than domain.PulseLife unconfirmed.
	Reported() bool
	// Size is how many bytes are kept, about. It is asked for after a snapshot.
	Size() int64
	// Close lets go what is kept.
	Close()
}

// Snapshot is what is known of an owner at a time, for every question of the extent that it was made for. It is read in the
// look that it was made in, and not later.
type Snapshot any

// Question is what a subscriber wants to know.
type Question interface {
	// ID is the same for questions that have the same answers.
	ID() string
	// Extent is how much must be known to answer.
	Extent() Extent
	// Answer answers by a snapshot. before is the last answer, nil for none; when nothing has changed the answer is nil.
	Answer(ctx context.Context, s Snapshot, before Answer) (Answer, error)
}

// Answer is what a question is answered with at a time.
type Answer interface {
	// Document is the whole, one line of JSON, for those who are told by events; nil where nobody is.
	Document() []byte
	// Size is how many bytes it takes, about; what its Look counts is left out.
	Size() int64
	// Since is what has changed since an earlier answer to the same question, one line of JSON, or empty where nobody is told
	// by events. nil when nothing has that is worth an event.
	Since(before Answer) ([]byte, error)
}

// Kind is what an event is about.
type Kind string

// The kinds. The last three end a stream.
const (
	Status  Kind = "status"  // the whole document
	Change  Kind = "change"  // what changed of it: Answer.Since
	End     Kind = "end"     // there is nothing more to tell: the group is gone, or the process stops
	Failed  Kind = "error"   // the status cannot be told any more
	Dropped Kind = "dropped" // the subscriber was too slow
)

// Event is what a subscriber is told.
type Event struct {
	// ID is where a later stream may go on; "" for events that end the stream.
	ID   string
	Kind Kind
	// Data is one line of JSON: the document, the change, or a Reason.
	Data []byte
	// Cause is why the stream ends, nil for other events.
	Cause error
}

// Reason is the data of an event that ends a stream.
type Reason struct {
	Kind   fail.Kind `json:"kind"`
	Reason string    `json:"reason"`
}

// last makes an event that ends a stream. The texts tell what the cause means for it.
func last(kind Kind, cause error, texts ...string) *Event {
	reason := strings.Join(append(texts, fail.TextOf(cause)), ": ")
	data, err := json.Marshal(Reason{fail.KindOf(cause), reason})
	if err != nil {
		panic(err) // two strings
	}
	return &Event{Kind: kind, Data: data, Cause: cause}
}

// Options are the measures of a Hub; what is zero has the default.
type Options struct {
	Interval time.Duration // between two looks at a sign; longer when looking takes long: policy.StreamLook
	Anew     time.Duration // after which a status is evaluated whatever its sign says: policy.StreamAnew
	Linger   time.Duration // for which what nobody is subscribed to is kept for who comes back: policy.StreamLinger
	// Patience is for how long a status that cannot be evaluated is left as it was: policy.StreamPatience. What clusters report
	// stands no longer than domain.PulseLife.
	Patience    time.Duration
	Backlog     int // changes that are kept of a query: DefaultBacklog
	Size        int // bytes of changes that are kept of a query: DefaultSize
	Subscribers int // at a time; more are refused: DefaultSubscribers
	// Views are the different queries at a time: DefaultViews. For one more, that goes which nobody is subscribed to for the longest; else the newest
	// one of the scope that has the most of them, where that has more than the scope of the one more; else it is refused.
	Views int
	// Bytes is what answers, their changes and what is looked with may take together: limits.Streams. What goes beyond makes room as one view too
	// many does, or is refused, and a stream that has been begun ends.
	Bytes int64
	Now   func() time.Time
	Log   *slog.Logger // of what cannot be evaluated; none when nil
	// Turn waits until it is the owner's turn, so that those of one project leave others time; it asks when something is evaluated, and not when
	// it is looked at the sign alone. leave ends the turn. Exhausted or Unavailable when the turn does not come: it is looked again then.
	// Nobody waits when nil.
	Turn func(ctx context.Context, owner domain.Key, asks bool) (leave func(), err error)
}

// The defaults.
const (
	DefaultBacklog     = 256
	DefaultSize        = 1 << 20
	DefaultSubscribers = 10_000
	DefaultViews       = limits.StreamQueries
)

// A look that takes long is followed by a wait that is share times as long, up to policy.LongestStreamLook: a feed takes a fifth of a
// core, and of the database's time, at most.
const share = 4

func (o Options) withDefaults() Options {
	orDuration := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	orNumber := func(n *int, otherwise int) {
		if *n == 0 {
			*n = otherwise
		}
	}
	orDuration(&o.Interval, policy.StreamLook)
	orDuration(&o.Anew, policy.StreamAnew)
	orDuration(&o.Linger, policy.StreamLinger)
	orDuration(&o.Patience, policy.StreamPatience)
	orNumber(&o.Backlog, DefaultBacklog)
	orNumber(&o.Size, DefaultSize)
	orNumber(&o.Subscribers, DefaultSubscribers)
	orNumber(&o.Views, DefaultViews)
	if o.Bytes == 0 {
		o.Bytes = limits.Streams
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Turn == nil {
		o.Turn = func(context.Context, domain.Key, bool) (func(), error) { return func() {}, nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// metrics are what a Hub counts.
type metrics struct {
	subscribers prometheus.Gauge
	evaluations prometheus.Counter
	changes     prometheus.Counter
	dropped     prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		subscribers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "drover_status_subscribers", Help: "Readers of status streams that are connected now.",
		}),
		evaluations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_status_evaluations_total", Help: "Statuses that were evaluated for subscribers.",
		}),
		changes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_status_changes_total", Help: "Changes of documents, each told to all who asked the same query.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "drover_status_subscribers_dropped_total", Help: "Subscribers that were dropped because they were too slow.",
		}),
	}
	for _, c := range []prometheus.Collector{m.subscribers, m.evaluations, m.changes, m.dropped} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
