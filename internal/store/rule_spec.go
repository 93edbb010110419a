package store

import (
	"bytes"
	"fmt"
	"reflect"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/drover-io/drover/internal/domain"
)

// What a workload rule says is stored as BSON in one binary value: nobody queries for what is in it, and who asks for the
// rules of a tenant has the embedded database read those of all tenants, with each of their members.

var ruleSpecType = reflect.TypeFor[domain.WorkloadRuleSpec]()

// ruleSpec is what is in the value.
type ruleSpec domain.WorkloadRuleSpec

func encodeRuleSpec(ec bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
	var b bytes.Buffer
	e := bson.NewEncoder(bson.NewDocumentWriter(&b))
	e.SetRegistry(ec.Registry)
	e.UseJSONStructTags()
	if err := e.Encode(ruleSpec(v.Interface().(domain.WorkloadRuleSpec))); err != nil {
		return fmt.Errorf("encode a rule: %w", err)
	}
	return w.WriteBinary(b.Bytes())
}

func decodeRuleSpec(dc bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
	data, _, err := r.ReadBinary()
	if err != nil {
		return err
	}
	var spec ruleSpec
	d := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(data)))
	d.SetRegistry(dc.Registry)
	d.UseJSONStructTags()
	if err := d.Decode(&spec); err != nil {
		return fmt.Errorf("decode a rule: %w", err)
	}
	v.Set(reflect.ValueOf(domain.WorkloadRuleSpec(spec)))
	return nil
}
