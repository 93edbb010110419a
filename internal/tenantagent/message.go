package tenantagent

import (
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the members of WorkloadStreamRequest, and of that of WorkloadSync.
const (
	memberUpdate = 1
	memberDelete = 2
	memberSync   = 3
	memberOfSync = 1
)

// message is an encoded WorkloadStreamRequest. A sync is made of the bytes that are kept of the Pods, without a copy of them:
// as one value of 10,000 Pods it would be several times as large as they are.
type message struct{ parts mem.BufferSlice }

func updateOf(p *pod) message { return one(memberUpdate, p.said) }

func deleteOf(p *pod) message { return one(memberDelete, p.said[:p.meta]) }

func one(member protowire.Number, said []byte) message {
	return message{mem.BufferSlice{mem.SliceBuffer(head(nil, member, len(said))), mem.SliceBuffer(said)}}
}

// syncOf is the whole state.
func syncOf(pods []*pod) message {
	size := 0
	for _, p := range pods {
		size += len(head(nil, memberOfSync, len(p.said))) + len(p.said)
	}
	parts := append(make(mem.BufferSlice, 0, 1+2*len(pods)), mem.SliceBuffer(head(nil, memberSync, size)))
	for _, p := range pods {
		parts = append(parts, mem.SliceBuffer(head(nil, memberOfSync, len(p.said))), mem.SliceBuffer(p.said))
	}
	return message{parts}
}

// head is what comes before the bytes of a member.
func head(b []byte, member protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, member, protowire.BytesType), uint64(size))
}

// codec sends a message as it is, and does the rest as gRPC does.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(message); ok {
		return m.parts, nil
	}
	return c.CodecV2.Marshal(v)
}
