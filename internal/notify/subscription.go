package notify

import (
	"context"
	"io"

	"github.com/drover-io/drover/internal/fail"
)

// Subscription is one subscriber's. It is for one goroutine at a time, and must be closed.
type Subscription struct {
	hub    *Hub
	view   *view
	at     uint64 // number of the last event that was given
	whole  bool   // a document has been given, or is known from an earlier subscription
	ended  bool
	closed bool
}

// errSlow is why a subscriber is dropped.
var errSlow = fail.New(fail.Unavailable, "the reader is too slow: changes that it has not read are not kept any more; connect again to go on")

// begin finds the place to go on. It is the error that came in place of a first document.
func (s *Subscription) begin(after string) error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.view.answer == nil {
		return s.view.end.Cause
	}
	if number, known := s.view.after(after); known {
		s.at, s.whole = number, true
	}
	return nil
}

// Next waits for the next event. After one that ends the stream it is io.EOF; when ctx ends first it is that.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for {
		event, changed, err := s.poll()
		if changed == nil {
			return event, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// poll gives the next event if there is one, else what tells that there may be.
func (s *Subscription) poll() (event Event, changed <-chan struct{}, err error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	v := s.view
	switch {
	case s.ended:
		return Event{}, nil, io.EOF
	case !s.whole:
		s.at, s.whole = v.number, true
		return Event{ID: v.id(v.number), Kind: Status, Data: v.answer.Document()}, nil, nil
	case s.at < v.oldest():
		s.ended = true
		s.hub.metrics.dropped.Inc()
		return *last(Dropped, errSlow), nil, nil
	case s.at < v.number:
		event = v.backlog[s.at-v.oldest()]
		s.at++
		return event, nil, nil
	case v.end != nil:
		s.ended = true
		return *v.end, nil, nil
	default:
		return Event{}, v.changed, nil
	}
}

// Latest waits until the answer is another one than that last given, by Next or by Latest, and gives it. A
// slow reader misses what was in between. The first one is given at once. After the stream has ended it is the cause
// of that.
func (s *Subscription) Latest(ctx context.Context) (Answer, error) {
	for {
		answer, changed, err := s.latest()
		if changed == nil {
			return answer, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *Subscription) latest() (answer Answer, changed <-chan struct{}, err error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	v := s.view
	switch {
	case !s.whole || s.at < v.number:
		s.at, s.whole = v.number, true
		return v.answer, nil, nil
	case v.end != nil:
		return nil, nil, v.end.Cause
	default:
		return nil, v.changed, nil
	}
}

// TooSlow counts that a reader of Latest was dropped: it misses what is in between, and only who sends to it sees that it takes nothing.
func (s *Subscription) TooSlow() { s.hub.metrics.dropped.Inc() }

// Close ends the subscription.
func (s *Subscription) Close() {
	if !s.closed {
		s.closed = true
		s.hub.leave(s.view)
	}
}
