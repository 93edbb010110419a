package notify

import (
	"bytes"
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/status"
)

// view is one query of a feed: its document, and the last changes that led there. All but query, epoch and begun is
// guarded by the hub's mutex.
type view struct {
	query status.Query
	epoch string        // begins the ids of its events: nobody else's do
	begun chan struct{} // closed when there is a document, or an end

	document []byte // nil before the first one
	image    *status.Image
	number   uint64  // of the last event
	backlog  []Event // the last changes, the last one's number is number
	size     int     // bytes in it
	end      *Event  // nil as long as there is none

	changed  chan struct{} // closed, and replaced, with every event
	watchers int
	left     time.Time // when the last watcher left
}

func newView(q status.Query) *view {
	return &view{query: q, epoch: rand.Text(), begun: make(chan struct{}), changed: make(chan struct{})}
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

// rendering is what a view's next document brings, made without the mutex.
type rendering struct {
	view     *view
	document []byte
	image    *status.Image
	change   []byte // nil when there is none, or it is the first document
	err      error
}

// render makes the view's document of a snapshot. Only the feed's own goroutine does so, and nobody else changes
// document and image.
func (v *view) render(s Snapshot) rendering {
	var b bytes.Buffer
	r := rendering{view: v}
	if r.err = s.Write(&b, v.query); r.err != nil {
		return r
	}
	r.document = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if bytes.Equal(r.document, v.document) {
		return rendering{view: v}
	}
	if r.image, r.err = status.NewImage(v.query, r.document, v.image); r.err == nil && v.image != nil {
		r.change, r.err = status.Change(v.image, r.image)
	}
	return r
}

// take makes a rendering the view's document, and says whether that is a change. With the mutex.
func (v *view) take(r rendering, o *Options) bool {
	if r.document == nil {
		return false
	}
	first := v.document == nil
	v.document, v.image = r.document, r.image
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

// trim forgets the oldest changes, but not the last one.
func (v *view) trim(o *Options) {
	for len(v.backlog) > 1 && (len(v.backlog) > o.Backlog || v.size > o.Size) {
		v.size -= len(v.backlog[0].Data)
		v.backlog[0] = Event{} // the array keeps it otherwise
		v.backlog = v.backlog[1:]
	}
}

// finish ends all watches of the view. With the mutex.
func (v *view) finish(e *Event) {
	if v.end != nil {
		return
	}
	v.end = e
	if v.document == nil {
		close(v.begun)
	}
	v.tell()
}

func (v *view) tell() {
	close(v.changed)
	v.changed = make(chan struct{})
}
