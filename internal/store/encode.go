package store

import (
	"bytes"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
)

var registry = newRegistry()

// encode is the document of o: _id, the keys that it refers to, and its members. Malformed when the database would not
// take it.
func encode(o domain.Object) (bson.D, error) {
	refs := bson.A{}
	if r, ok := o.(domain.Referrer); ok {
		for _, ref := range r.References() {
			refs = append(refs, ref.Key)
		}
	}
	members, err := marshal(o)
	if err != nil {
		return nil, err
	}
	d := bson.D{{Key: "_id", Value: domain.KeyOf(o)}, {Key: "refs", Value: refs}}
	head, err := bson.Marshal(d)
	if err != nil {
		return nil, fail.Wrap(err, fail.Internal, "the document cannot be stored")
	}
	size := len(head)
	for _, m := range members {
		d = append(d, bson.E{Key: m.Key(), Value: m.Value()})
		size += len(m)
	}
	if size > limits.Document {
		return nil, fail.New(fail.Malformed, "%s is too large to be stored: it takes %d bytes of %d", describe(o.Noun(), domain.KeyOf(o)), size, limits.Document)
	}
	return d, nil
}

// marshal encodes as the client does.
func marshal(v any) ([]bson.RawElement, error) {
	var b bytes.Buffer
	e := bson.NewEncoder(bson.NewDocumentWriter(&b))
	e.SetRegistry(registry)
	e.UseJSONStructTags()
	err := e.Encode(v)
	if err == nil {
		var elements []bson.RawElement
		if elements, err = bson.Raw(b.Bytes()).Elements(); err == nil {
			return elements, nil
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
