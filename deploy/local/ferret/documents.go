package ferret

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// How many bytes of documents are remembered, with what it takes to find one, and how large one may be.
const (
	mostKept   = 32 << 20
	toFind     = 200
	largestOne = 1 << 16
)

// documents remembers documents by their _id, and ids of which there is none, so that FerretDB need not be asked again: it takes ten times as
// long for one as SQLite does, as it goes over the names of all collections and decodes the document member by member.
//
// All commands come through the front, so what is remembered is what is stored. A command that writes forgets what it is about before FerretDB gets it.
// What was read, or written, is remembered only when no command that writes the same was under way meanwhile: it may have come before or after.
type documents struct {
	seed maphash.Seed

	mu          sync.Mutex
	collections map[string]*kept // by database.collection
	used        *list.List       // of *one, that first which was used last
	size        int
	all         turn // of commands of which it is not known what they write
}

// kept is what is remembered of a collection, and what is being written there. A turn is another one as a write begins, and as it ends.
type kept struct {
	documents map[string]*list.Element // by keyOf
	whole     turn                     // of any document
	of        [256]turn
}

// one is a document, or nil for none.
type one struct {
	in       *kept
	key      string
	document bson.Raw
}

func (o *one) size() int { return toFind + len(o.key) + len(o.document) }

type turn struct {
	number uint64
	under  int // writes under way
}

func (t *turn) move(by int) {
	t.number++
	t.under += by
}

func newDocuments() *documents {
	return &documents{seed: maphash.MakeSeed(), collections: map[string]*kept{}, used: list.New()}
}

func (d *documents) collection(name string) *kept {
	k := d.collections[name]
	if k == nil {
		k = &kept{documents: map[string]*list.Element{}}
		d.collections[name] = k
	}
	return k
}

func (d *documents) turnOf(k *kept, id bson.RawValue) *turn {
	return &k.of[maphash.Bytes(d.seed, id.Value)%uint64(len(k.of))]
}

func keyOf(id bson.RawValue) string { return string(rune(id.Type)) + string(id.Value) }

// find is the document that has an id; not known when FerretDB has to be asked, and nil when there is none.
func (d *documents) find(collection string, id bson.RawValue) (document bson.Raw, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.collection(collection).documents[keyOf(id)]
	if e == nil {
		return nil, false
	}
	d.used.MoveToFront(e)
	return e.Value.(*one).document, true
}

// reading is a question to FerretDB under way.
type reading struct {
	documents   *documents
	kept        *kept
	turn        *turn // nil when what is asked for is being written
	number, all uint64
}

// read begins a question for one document or, without an id, for many.
func (d *documents) read(collection string, id bson.RawValue) reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := d.collection(collection)
	t := &k.whole
	if id.Value != nil {
		t = d.turnOf(k, id)
	}
	r := reading{documents: d, kept: k, turn: t, number: t.number, all: d.all.number}
	if t.under > 0 || d.all.under > 0 {
		r.turn = nil
	}
	return r
}

// is remembers what a document was found to be; nil for none.
func (r reading) is(id bson.RawValue, document bson.Raw) {
	d := r.documents
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.turn != nil && r.turn.number == r.number && d.all.number == r.all {
		d.keep(r.kept, keyOf(id), document)
	}
}

// isOne remembers what a find by _id has found.
func (r reading) isOne(id bson.RawValue, found []bson.Raw) {
	switch {
	case !isKeptBy(id):
	case len(found) == 0:
		r.is(id, nil)
	default:
		r.is(id, found[0])
	}
}

// keep remembers a copy of a document. mu is held.
func (d *documents) keep(k *kept, key string, document bson.Raw) {
	d.drop(k.documents[key])
	if len(document) > largestOne {
		return
	}
	o := &one{in: k, key: key, document: bytes.Clone(document)}
	for d.size+o.size() > mostKept {
		d.drop(d.used.Back())
	}
	k.documents[key] = d.used.PushFront(o)
	d.size += o.size()
}

// drop forgets a document; nil is none. mu is held.
func (d *documents) drop(e *list.Element) {
	if e == nil {
		return
	}
	o := d.used.Remove(e).(*one)
	delete(o.in.documents, o.key)
	d.size -= o.size()
}

// writing is a command under way that writes documents of one collection, or whatever there is.
type writing struct {
	documents *documents
	kept      *kept // nil for whatever there is
	ids       []bson.RawValue
	alone     []uint64 // of each id the number of its turn; 0 when another write of it was under way
	all       uint64
}

// write begins a command with an effect.
func (d *documents) write(collection string, e effect) *writing {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &writing{documents: d, ids: e.ids, all: d.all.number}
	if !e.everything {
		w.kept = d.collection(collection)
	}
	w.move(1)
	switch {
	case e.everything:
		for d.used.Len() > 0 {
			d.drop(d.used.Back())
		}
	case len(e.ids) == 0:
		for _, element := range w.kept.documents {
			if e.concerns(element.Value.(*one).document) {
				d.drop(element)
			}
		}
	}
	for _, id := range e.ids {
		d.drop(w.kept.documents[keyOf(id)])
		t, number := d.turnOf(w.kept, id), uint64(0)
		if t.under == 1 && d.all.under == 0 {
			number = t.number
		}
		w.alone = append(w.alone, number)
	}
	return w
}

// move counts the write in or, by -1, out. documents.mu is held.
func (w *writing) move(by int) {
	d := w.documents
	if w.kept == nil {
		d.all.move(by)
		return
	}
	w.kept.whole.move(by)
	for _, id := range w.ids {
		d.turnOf(w.kept, id).move(by)
	}
	if len(w.ids) == 0 {
		for i := range w.kept.of {
			w.kept.of[i].move(by)
		}
	}
}

// end ends a write. now are the documents that have its ids, in the same order, nil for one that is gone; nothing when that is not known.
func (w *writing) end(now []bson.Raw) {
	d := w.documents
	d.mu.Lock()
	defer d.mu.Unlock()
	var known []int
	for i := range now {
		if w.alone[i] != 0 && d.turnOf(w.kept, w.ids[i]).number == w.alone[i] && d.all.number == w.all {
			known = append(known, i)
		}
	}
	w.move(-1)
	for _, i := range known {
		d.keep(w.kept, keyOf(w.ids[i]), now[i])
	}
}
