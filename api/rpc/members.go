package rpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/universe"
)

var syncType = (&universe.WorkloadSync{}).ProtoReflect().Descriptor()

// countMembers is how many members a message has, by its bytes: one that has two bytes there takes a hundred times as much memory when
// it is read. Exhausted when there are more than may be; what is no message is found by who reads it.
func countMembers(of protoreflect.MessageDescriptor, data []byte) (int, error) {
	c := &memberCount{}
	c.count(of, data)
	switch {
	case c.workloads > limits.TenantSaid:
		return 0, fail.New(fail.Exhausted, "a sync may name %d workloads", limits.TenantSaid)
	case c.members > limits.TenantMembers:
		return 0, fail.New(fail.Exhausted, "a message may have %d members: workloads, their labels, annotations and other parts", limits.TenantMembers)
	default:
		return c.members, nil
	}
}

type memberCount struct{ members, workloads int }

// count goes down as deep as the type does, which is not recursive.
func (c *memberCount) count(of protoreflect.MessageDescriptor, data []byte) {
	for len(data) > 0 && c.members <= limits.TenantMembers && c.workloads <= limits.TenantSaid {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return
		}
		value := data[:n]
		data = data[n:]
		f := of.Fields().ByNumber(number)
		if f == nil || !f.IsList() && f.Message() == nil {
			continue
		}
		c.members++
		if of == syncType {
			c.workloads++
		}
		if f.Message() != nil && kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(value)
			c.count(f.Message(), inner)
		}
	}
}
