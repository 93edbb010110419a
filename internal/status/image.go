package status

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/view"
)

// Image is a status document that remembers where in it what is said, to be compared with a later one of the same query:
// its own members, and the clusters of its apps as places, each with its own members and its resources.
type Image struct {
	document []byte
	target   func(domain.ClusterName) any // as the form names a cluster
	members  []member
	places   []place
}

// member is one of the document, as it is encoded.
type member struct {
	name  string
	value json.RawMessage
}

// placeID is an app on a cluster.
type placeID struct {
	app     string
	cluster domain.ClusterName
}

// place is an app on a cluster as the document has it.
type place struct {
	placeID
	span
	head      int // where its own members end, and its resources follow
	resources []said
}

// span is a part of the document.
type span struct{ from, to int }

// said is what is said of one resource.
type said struct {
	id *plan.ResourceID
	span
}

// resourceID is what a document tells resources of a cluster apart by: those of one kind and name, in several namespaces,
// it does not.
type resourceID struct {
	gvk  gvk
	name string
}

// Image writes the document of a query. Errors are those of Write.
func (s *Source) Image(q Query) (*Image, error) {
	var b bytes.Buffer
	out := newStream(&b)
	out.parts = &parts{}
	if err := write(out, q, *s); err != nil {
		return nil, err
	}
	i := &Image{document: bytes.TrimSuffix(b.Bytes(), []byte("\n")), target: s.form(q.Type).target, places: out.parts.places}
	for _, m := range out.parts.members {
		i.members = append(i.members, member{m.name, i.document[m.from:m.to]})
	}
	return i, nil
}

// ImageOf is the image of an object with the members, in lexical order.
func ImageOf[K ~string, V any](values map[K]V) (*Image, error) {
	names := make([]K, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	out := newStream(&b)
	i := &Image{}
	out.text("{")
	for n, name := range names {
		value, err := json.Marshal(values[name])
		if err != nil {
			return nil, fail.Wrap(err, fail.Internal, "%s cannot be encoded", string(name))
		}
		i.members = append(i.members, member{string(name), value})
		out.comma(n)
		out.value(string(name))
		out.text(":")
		out.bytes(value)
	}
	out.text("}")
	err := out.close()
	i.document = b.Bytes()
	return i, err
}

// Document is the document, without the newline at its end.
func (i *Image) Document() []byte { return i.document }

// Size is what the image takes in memory, about.
func (i *Image) Size() int64 {
	const perPlace, perResource = 128, 32
	n := int64(len(i.document))
	for p := range i.places {
		n += perPlace + perResource*int64(len(i.places[p].resources))
	}
	return n
}

// Known is the source itself, as a snapshot of a status.
func (s *Source) Known() *Source { return s }

// part is the piece that a span of the document is.
func (i *Image) part(s span) []byte { return i.document[s.from:s.to] }

// kindred are the encoded resources of a place by what the document tells them apart by, in its order.
func (i *Image) kindred(p *place) (ids []resourceID, entries map[resourceID][][]byte) {
	entries = make(map[resourceID][][]byte, len(p.resources))
	for _, r := range p.resources {
		id := resourceID{gvkOf(r.id), r.id.Name}
		if entries[id] == nil {
			ids = append(ids, id)
		}
		entries[id] = append(entries[id], i.part(r.span))
	}
	return ids, entries
}

// at are the places by what they are of.
func (i *Image) at() map[placeID]*place {
	at := make(map[placeID]*place, len(i.places))
	for n := range i.places {
		at[i.places[n].placeID] = &i.places[n]
	}
	return at
}

// parts are where in a document its members and places are.
type parts struct {
	members []namedSpan
	places  []place
}

type namedSpan struct {
	name string
	span
}

func (p *parts) begin(name string, at int) {
	p.members = append(p.members, namedSpan{name, span{from: at}})
}

func (p *parts) end(at int) { p.members[len(p.members)-1].to = at }

func (p *parts) enter(at *view.Place, from, head int) {
	p.places = append(p.places, place{placeID: placeID{at.App.Name, at.Cluster.ClusterName}, span: span{from: from}, head: head})
}

func (p *parts) leave(to int) { p.places[len(p.places)-1].to = to }

func (p *parts) row(r *view.Row, from, to int) {
	id := r.Resource
	if r.Rank < 0 { // the cluster's own stay only as long as the row
		id = &plan.ResourceID{}
		*id = *r.Resource
	}
	last := &p.places[len(p.places)-1]
	last.resources = append(last.resources, said{id, span{from, to}})
}

// insert adds the parts of a piece that was written before it had its place in the document.
func (p *parts) insert(piece *parts, at int) {
	for _, m := range piece.members {
		p.members = append(p.members, namedSpan{m.name, m.moved(at)})
	}
	for _, x := range piece.places {
		x.span, x.head = x.moved(at), x.head+at
		for i := range x.resources {
			x.resources[i].span = x.resources[i].moved(at)
		}
		p.places = append(p.places, x)
	}
}

func (s span) moved(by int) span { return span{s.from + by, s.to + by} }

// eachMember calls take for the members of a struct, in their order, as encoding/json writes them.
func eachMember(v reflect.Value, take func(name string, value []byte)) error {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if err := eachMember(v.Field(i), take); err != nil {
				return err
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "omitempty" && empty(v.Field(i)) {
			continue
		}
		value, err := json.Marshal(v.Field(i).Interface())
		if err != nil {
			return err
		}
		take(name, value)
	}
	return nil
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.String, reflect.Array:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}
