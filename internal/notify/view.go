package notify

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// view is one question of a feed: its answer, and the last changes that led there. All but question, epoch and begun is
// guarded by the hub's mutex.
type view struct {
	question Question
	epoch    string        // begins the ids of its events: nobody else's do
	begun    chan struct{} // closed when there is an answer, or an end

	answer  Answer  // nil before the first one
	number  uint64  // of the last event
	backlog []Event // the last changes, the last one's number is number
	size    int     // bytes in it
	weight  int64   // what the hub has counted of all that
	end     *Event  // nil as long as there is none

	changed     chan struct{} // closed, and replaced, with every event
	made        uint64        // counts the views of the hub
	subscribers int
	left        time.Time // when the last subscriber left
}

func newView(q Question) *view {
	return &view{question: q, epoch: rand.Text(), begun: make(chan struct{}), changed: make(chan struct{})}
}

// id is that of the event with a number.
func (v *view) id(number uint64) string { return v.epoch + "-" + strconv.FormatUint(number, 10) }

// after is the number of the event with the id, if what came after it is known.
func (v *view) after(id string) (number uint64, known bool) {
	text, ours := strings.CutPrefix(id, v.epoch+"-")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, ours && err == nil && number <= v.number && number >= v.oldest()
}

// oldest is the number of the event before the oldest change that is kept.
func (v *view) oldest() uint64 { return v.number - uint64(len(v.backlog)) }

// rendering is what a view's next answer brings, made without the mutex.
type rendering struct {
	view   *view
	answer Answer // nil when it is the last one
	change []byte // nil when there is none, or it is the first answer
	err    error
}

// render answers the view's question by a snapshot. Only the feed's own goroutine does so, and nobody else changes the
// answer.
func (v *view) render(ctx context.Context, s Snapshot) rendering {
	r := rendering{view: v}
	if r.answer, r.err = v.question.Answer(ctx, s, v.answer); r.err == nil && r.answer != nil && v.answer != nil {
		r.change, r.err = r.answer.Since(v.answer)
	}
	return r
}

// take makes a rendering the view's answer, and says whether that is a change. With the mutex.
func (v *view) take(r rendering, o *Options) bool {
	if r.answer == nil {
		return false
	}
	first := v.answer == nil
	v.answer = r.answer
	switch {
	case first:
		close(v.begun)
	case r.change != nil:
		v.number++
		v.backlog = append(v.backlog, Event{ID: v.id(v.number), Kind: Change, Data: r.change})
		v.size += len(r.change)
		v.trim(o)
		v.tell()
	}
	return r.change != nil
}

// weighs is how many bytes it takes with a rendering.
func (v *view) weighs(r rendering) int64 {
	n := int64(v.size) + int64(len(r.change))
	switch {
	case r.answer != nil:
		n += r.answer.Size()
	case v.answer != nil:
		n += v.answer.Size()
	}
	return n
}

// trim forgets the oldest changes, but not the last one.
func (v *view) trim(o *Options) {
	for len(v.backlog) > 1 && (len(v.backlog) > o.Backlog || v.size > o.Size) {
		v.size -= len(v.backlog[0].Data)
		v.backlog[0] = Event{} // the array keeps it otherwise
		v.backlog = v.backlog[1:]
	}
}

// finish ends all subscriptions to the view. With the mutex.
func (v *view) finish(e *Event) {
	if v.end != nil {
		return
	}
	v.end = e
	if v.answer == nil {
		close(v.begun)
	}
	v.tell()
}

func (v *view) tell() {
	close(v.changed)
	v.changed = make(chan struct{})
}
