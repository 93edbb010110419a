package ferret

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestOfTwoAtOnceNothingIsRemembered: which of two commands came first at FerretDB is not known.
func TestOfTwoAtOnceNothingIsRemembered(t *testing.T) {
	document, err := bson.Marshal(bson.D{{Key: "_id", Value: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	a := bson.Raw(document).Lookup("_id")
	of := effect{ids: []bson.RawValue{a}}
	insert := func(w *writing) { w.end([]bson.Raw{document}) }
	remove := func(w *writing) { w.end([]bson.Raw{nil}) }
	for name, x := range map[string]struct {
		do    func(d *documents)
		known bool
	}{
		"one after the other": {func(d *documents) { insert(d.write("c", of)); remove(d.write("c", of)) }, true},
		"the second ends first": {func(d *documents) {
			first, second := d.write("c", of), d.write("c", of)
			remove(second)
			insert(first)
		}, false},
		"the first ends first": {func(d *documents) {
			first, second := d.write("c", of), d.write("c", of)
			insert(first)
			remove(second)
		}, false},
		"beside one of any documents": {func(d *documents) {
			first, second := d.write("c", of), d.write("c", effect{})
			second.end(nil)
			insert(first)
		}, false},
		"in one of any documents": {func(d *documents) {
			second := d.write("c", effect{})
			insert(d.write("c", of))
			second.end(nil)
		}, false},
		"beside one of everything": {func(d *documents) {
			first, second := d.write("c", of), d.write("c", effect{everything: true})
			second.end(nil)
			insert(first)
		}, false},
		"in one of everything": {func(d *documents) {
			second := d.write("c", effect{everything: true})
			insert(d.write("c", of))
			second.end(nil)
		}, false},
		"without an answer": {func(d *documents) { d.write("c", of); insert(d.write("c", of)) }, false},
		"read meanwhile": {func(d *documents) {
			w := d.write("c", of)
			r := d.read("c", a)
			remove(w)
			r.is(a, document)
		}, true}, // as removed
		"read before": {func(d *documents) {
			r := d.read("c", a)
			w := d.write("c", of)
			r.is(a, document)
			w.end(nil)
		}, false},
		"all read meanwhile": {func(d *documents) {
			w := d.write("c", of)
			r := d.read("c", bson.RawValue{})
			w.end(nil)
			r.is(a, document)
		}, false},
		"all read after it": {func(d *documents) {
			d.write("c", of).end(nil)
			d.read("c", bson.RawValue{}).is(a, document)
		}, true},
		"of another collection": {func(d *documents) {
			other := d.write("other", effect{})
			insert(d.write("c", of))
			other.end(nil)
		}, true},
	} {
		d := newDocuments()
		x.do(d)
		if _, known := d.find("c", a); known != x.known {
			t.Errorf("%s: remembered is %v", name, known)
		}
	}
}

// TestMemoryIsBounded: what was not used for longest is forgotten, and what is counted is what is kept.
func TestMemoryIsBounded(t *testing.T) {
	d := newDocuments()
	keep := func(i int, size int) bson.RawValue {
		document, err := bson.Marshal(bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "i", Value: i}, {Key: "data", Value: make([]byte, size)}})
		if err != nil {
			t.Fatal(err)
		}
		id := bson.Raw(document).Lookup("_id")
		d.write("c", effect{ids: []bson.RawValue{id}}).end([]bson.Raw{document})
		return id
	}
	first, second := keep(0, 10), keep(1, 10)
	large := keep(2, largestOne)
	for i := range mostKept / 50_000 {
		if _, known := d.find("c", first); !known {
			t.Fatal("what is used again and again is forgotten after", i)
		}
		keep(i, 50_000)
	}
	if _, known := d.find("c", second); known {
		t.Error("what was not used for longest is kept")
	}
	if _, known := d.find("c", large); known {
		t.Error("what is too large is kept")
	}
	size := 0
	for e := d.used.Front(); e != nil; e = e.Next() {
		size += e.Value.(*one).size()
	}
	if size != d.size || size > mostKept || d.used.Len() != len(d.collections["c"].documents) {
		t.Errorf("%d bytes are counted and %d kept, of %d documents and %d", d.size, size, d.used.Len(), len(d.collections["c"].documents))
	}
	d.write("c", effect{everything: true}).end(nil)
	if d.size != 0 || d.used.Len() != 0 || len(d.collections["c"].documents) != 0 {
		t.Errorf("%d bytes of %d documents are left of nothing", d.size, d.used.Len())
	}
}
