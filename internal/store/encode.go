package store

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

var registry = newRegistry()

// sealed is the document of o as it is stored: its members are sealed together. Malformed when the database would
// not take it.
func (s *Store) sealed(o domain.Object) (bson.Raw, error) {
	members, err := plain(o)
	if err != nil {
		return nil, err
	}
	says, err := bson.Marshal(members)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the document cannot be stored")
	}
	members = append(members, bson.E{Key: sizeMember, Value: int64(len(says))})
	key := domain.KeyOf(o)
	document, err := s.sealDocument(o.Noun().Kind, string(key), o.Base().Revision, members, openOfNouns)
	if err != nil {
		return nil, err
	}
	data, err := bson.Marshal(document)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the document cannot be stored")
	}
	if len(data) > limits.Document {
		return nil, fail.New(fail.Malformed, "%s is too large to be stored: it takes %d bytes of %d", describe(o.Noun(), key), len(data), limits.Document)
	}
	return data, nil
}

// referred are the keys that o refers to.
func referred(o domain.Object) bson.A {
	refs := bson.A{}
	if r, ok := o.(domain.Referrer); ok {
		for _, ref := range r.References() {
			refs = append(refs, ref.Key)
		}
	}
	return refs
}

// plain is the document of o: _id, the keys that it refers to, and its members.
func plain(o domain.Object) (bson.D, error) {
	members, err := marshal(o)
	if err != nil {
		return nil, err
	}
	d := bson.D{{Key: "_id", Value: domain.KeyOf(o)}, {Key: "refs", Value: referred(o)}}
	return append(d, members...), nil
}

// marshal encodes as the client does.
func marshal(v any) (bson.D, error) {
	var b bytes.Buffer
	e := bson.NewEncoder(bson.NewDocumentWriter(&b))
	e.SetRegistry(registry)
	e.UseJSONStructTags()
	err := e.Encode(v)
	if err == nil {
		var elements []bson.RawElement
		if elements, err = bson.Raw(b.Bytes()).Elements(); err == nil {
			d := make(bson.D, len(elements))
			for i, m := range elements {
				d[i] = bson.E{Key: m.Key(), Value: m.Value()}
			}
			return d, nil
		}
	}
	return nil, fail.Wrap(err, fail.Internal, "the document cannot be stored")
}

// decode decodes as the client does.
func decode(document bson.Raw, into any) error {
	d := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(document)))
	d.SetRegistry(registry)
	d.UseJSONStructTags()
	return d.Decode(into)
}
