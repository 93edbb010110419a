package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// decide works out the entry that a write of workloads adds to a tenant's book. encoded has the values of w.Put, in its order.
func decide(w *domain.WorkloadWrite, b *book, encoded []put) (puts []put, written domain.WorkloadsWritten, err error) {
	d := &deciding{w: w, book: b, encoded: encoded, change: map[string][]byte{}, count: len(b.values), bytes: b.bytes}
	d.written.Lacks = map[string]domain.Room{}
	// Deletions come first: a Pod and the one that takes its place may come together, where there is room for one.
	for _, step := range []func() error{d.unlisted, d.deleted, d.kept, d.put} {
		if err := step(); err != nil {
			return nil, d.written, err
		}
	}
	puts, err = d.puts()
	return puts, d.written, err
}

// deciding is one call of decide. Its steps are unlisted, deleted, kept and put, in this order.
type deciding struct {
	w       *domain.WorkloadWrite
	book    *book
	encoded []put

	change  map[string][]byte // values by id, after the steps so far; nil for a workload that is removed
	count   int               // workloads of the tenant after the steps so far
	bytes   int64             // their bytes
	goes    map[string]bool   // the ids of w.Delete, once deleted has run
	yields  *yielding         // nil until a put lacks room
	written domain.WorkloadsWritten
}

// yielding are the workloads that make room for others.
type yielding struct {
	ids   []string // in the order in which they are removed
	bytes int64    // of all of them
}

// unlisted removes the workloads that a Whole write does not list. It holds them instead when Guard says that there are too many.
func (d *deciding) unlisted() error {
	if !d.w.Whole {
		return nil
	}
	listed := make(map[string]bool, len(d.encoded)+len(d.w.Keep))
	for _, p := range d.encoded {
		listed[p.id] = true
	}
	for _, id := range d.w.Keep {
		listed[id] = true
	}
	var missing []string
	there := 0
	for id, value := range d.book.values {
		if isGone(value) {
			continue
		}
		if there++; !listed[id] {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	if d.w.Guard > 0 && len(missing)*100 > d.w.Guard*there {
		d.written.Held = missing
		for _, id := range missing {
			if err := d.restate(id, func(one *domain.Workload) { one.Held = true }); err != nil {
				return err
			}
		}
		return nil
	}
	for _, id := range missing {
		if err := d.remove(id); err != nil {
			return err
		}
	}
	return nil
}

// deleted removes the workloads of w.Delete.
func (d *deciding) deleted() error {
	d.goes = make(map[string]bool, len(d.w.Delete))
	for _, id := range d.w.Delete {
		if err := d.remove(id); err != nil {
			return err
		}
		d.goes[id] = true
	}
	return nil
}

// kept restores the workloads of w.Keep.
func (d *deciding) kept() error {
	for _, id := range d.w.Keep {
		if err := d.restore(id); err != nil {
			return err
		}
	}
	return nil
}

// put stores the workloads of w.Put for which there is room, and notes in written.Lacks what the others lack.
func (d *deciding) put() error {
	for i, p := range d.encoded {
		if d.goes[p.id] {
			continue
		}
		have, stored := d.size(p.id)
		if stored && d.w.Put[i].Bare { // no rule would match it without its labels and its node
			if err := d.restore(p.id); err != nil {
				return err
			}
			continue
		}
		room := domain.Room{Bytes: int64(len(p.id)+len(p.value)) - have}
		if !stored {
			room.Count = 1
		}
		if !d.fits(room) {
			d.yield(room)
		}
		if !d.fits(room) {
			d.written.Lacks[p.id] = room
			if err := d.restore(p.id); err != nil {
				return err
			}
			continue
		}
		delete(d.written.Lacks, p.id)
		d.count, d.bytes, d.change[p.id] = d.count+room.Count, d.bytes+room.Bytes, p.value
	}
	return nil
}

// puts are the changes that differ from what is stored, sorted by id. They complete written.
func (d *deciding) puts() (puts []put, err error) {
	for _, id := range slices.Sorted(maps.Keys(d.change)) {
		value, before := d.change[id], d.book.values[id]
		if (value == nil) == (before == nil) && slices.Equal(value, before) {
			continue
		}
		if err := refuseNewerValue(id, before); err != nil {
			return nil, err
		}
		d.written.Changed = append(d.written.Changed, id)
		puts = append(puts, put{id, value})
	}
	d.written.Over, d.written.Count = slices.Sorted(maps.Keys(d.written.Lacks)), d.count
	return puts, nil
}

// size is how many bytes a workload takes after the steps so far; false when it is not there.
func (d *deciding) size(id string) (int64, bool) {
	value, changed := d.change[id]
	if !changed {
		value = d.book.values[id]
	}
	if value == nil {
		return 0, false
	}
	return int64(len(id) + len(value)), true
}

// restate keeps a stored workload, in the state that set gives it.
func (d *deciding) restate(id string, set func(*domain.Workload)) error {
	one := &domain.Workload{}
	if err := decode(d.book.values[id], one); err != nil {
		return unopened(fail.Wrap(err, fail.Internal, "workload %q cannot be read", id))
	}
	set(one)
	value, err := encodeValue(one)
	have, _ := d.size(id)
	d.bytes, d.change[id] = d.bytes-have+int64(len(id)+len(value)), value
	return err
}

// restore takes Held and Gone from a stored workload that its cluster has, unless this write has changed it, or is to delete it.
func (d *deciding) restore(id string) error {
	value := d.book.values[id]
	_, touched := d.change[id]
	stays := value == nil || touched || d.goes[id] || !isHeld(value) && !isGone(value)
	if stays || isNewer(id, value) {
		return nil
	}
	return d.restate(id, func(one *domain.Workload) { one.Held, one.Gone = false, time.Time{} })
}

// remove marks a workload with w.Gone. It drops the workload at once when w.Gone is zero, or when the workload is not stored yet.
func (d *deciding) remove(id string) error {
	_, there := d.size(id)
	switch {
	case !there:
	case d.w.Gone.IsZero() || d.book.values[id] == nil:
		d.drop(id)
	case !isGone(d.book.values[id]):
		return d.restate(id, func(one *domain.Workload) { one.Held, one.Gone = false, d.w.Gone })
	}
	return nil
}

// drop takes a workload out of the book.
func (d *deciding) drop(id string) {
	have, _ := d.size(id)
	d.count, d.bytes, d.change[id] = d.count-1, d.bytes-have, nil
}

// fits says whether there is room within w.Count and w.Bytes.
func (d *deciding) fits(room domain.Room) bool {
	return (d.w.Count == 0 || room.Count <= 0 || d.count+room.Count <= d.w.Count) && (d.w.Bytes == 0 || d.bytes+room.Bytes <= d.w.Bytes)
}

// yield drops workloads that are gone until there is room. It drops none when all of them together would not make enough.
func (d *deciding) yield(room domain.Room) {
	if d.yields == nil {
		d.yields = &yielding{ids: d.goneFirst()}
		for _, id := range d.yields.ids {
			have, _ := d.size(id)
			d.yields.bytes += have
		}
	}
	y := d.yields
	if !d.fits(domain.Room{Count: room.Count - len(y.ids), Bytes: room.Bytes - y.bytes}) {
		return
	}
	for len(y.ids) > 0 && !d.fits(room) {
		id := y.ids[0]
		have, _ := d.size(id)
		y.ids, y.bytes = y.ids[1:], y.bytes-have
		d.drop(id)
	}
}

// goneFirst are the ids of the workloads that are gone after the steps so far, and that this write does not put. Those that have been gone for
// longest come first.
func (d *deciding) goneFirst() []string {
	said := make(map[string]bool, len(d.encoded))
	for _, p := range d.encoded {
		said[p.id] = true
	}
	since := map[string]time.Time{}
	for id, stored := range d.book.values {
		value := stored
		if changed, ok := d.change[id]; ok {
			value = changed
		}
		if at, gone := bson.Raw(value).Lookup("gone").TimeOK(); gone && !said[id] && !isNewer(id, stored) {
			since[id] = at
		}
	}
	return slices.SortedFunc(maps.Keys(since), func(a, b string) int { return cmp.Or(since[a].Compare(since[b]), cmp.Compare(a, b)) })
}
