package fleet

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// id is where an object is kept in a cluster.
type id struct {
	kind            *kind
	namespace, name string // namespace is "" for a kind that has none
}

// object is one version of an object. It never changes; a write makes another.
type object struct {
	id
	raw      []byte // JSON, with the members apiVersion, kind and metadata first
	from, to int    // the metadata is raw[from:to]
	version  uint64 // its resourceVersion
	uid      types.UID
	labels   map[string]string
	owners   []types.UID
	held     bool // it has finalizers
	leaving  bool // it has a deletionTimestamp
	// applied is the digest of the manifest whose apply made this version, zero when something else did.
	applied digest
}

// seal makes an object of decoded JSON, which has to have its metadata.
func seal(at id, version uint64, content map[string]any) *object {
	metadata := member(content, "metadata")
	o := &object{id: at, version: version, uid: types.UID(text(metadata, "uid"))}
	if labels := member(metadata, "labels"); len(labels) > 0 {
		o.labels = make(map[string]string, len(labels))
		for name := range labels {
			o.labels[name] = text(labels, name)
		}
	}
	for _, owner := range list(metadata, "ownerReferences") {
		reference, _ := owner.(map[string]any)
		o.owners = append(o.owners, types.UID(text(reference, "uid")))
	}
	o.held = len(list(metadata, "finalizers")) > 0
	_, o.leaving = metadata["deletionTimestamp"]

	var b bytes.Buffer
	b.WriteString(`{"apiVersion":`)
	write(&b, at.kind.GroupVersion().String())
	b.WriteString(`,"kind":`)
	write(&b, at.kind.Kind)
	b.WriteString(`,"metadata":`)
	o.from = b.Len()
	write(&b, metadata)
	o.to = b.Len()
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if name == "apiVersion" || name == "kind" || name == "metadata" {
			continue
		}
		b.WriteByte(',')
		write(&b, name)
		b.WriteByte(':')
		write(&b, content[name])
	}
	b.WriteByte('}')
	o.raw = bytes.Clone(b.Bytes())
	return o
}

// write adds what was decoded from JSON, which can always be encoded again.
func write(b *bytes.Buffer, value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	b.Write(encoded)
}

// content is the object as decoded JSON, the caller's own.
func (o *object) content() map[string]any {
	var content map[string]any
	if err := utiljson.Unmarshal(o.raw, &content); err != nil {
		panic(err) // it was encoded here
	}
	return content
}

// encoded is the object as an answer has it: as a whole, or its metadata alone.
func (o *object) encoded(metadataOnly bool) []byte {
	if !metadataOnly {
		return o.raw
	}
	const before = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`
	b := make([]byte, 0, len(before)+o.to-o.from+1)
	b = append(b, before...)
	b = append(b, o.raw[o.from:o.to]...)
	return append(b, '}')
}

// member is a member that is an object; nil, which can be read, when it is not.
func member(of map[string]any, name string) map[string]any {
	m, _ := of[name].(map[string]any)
	return m
}

// list is a member that is a list, nil when it is not.
func list(of map[string]any, name string) []any {
	l, _ := of[name].([]any)
	return l
}

// text is a member that is a string, "" when it is not.
func text(of map[string]any, name string) string {
	s, _ := of[name].(string)
	return s
}
