package rpc

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// answerBytes is what an answer with all rules of a tenant takes in memory while it is made: the rules, and the message.
const answerBytes = 2 * limits.TenantRuleBytes

// partBytes is how much of a large message is given to gRPC at a time.
const partBytes = 32 << 10

// answerTime is how long a client may take for a large answer, in which it has so many MiB.
var answerTime = func(mib int) time.Duration { return policy.Arrive + policy.ArriveMiB*time.Duration(mib) }

// SendMsg implements grpc.ServerStream. gRPC keeps a message until its reader takes it, however large it is and whatever has become
// of the call. So a large one is sent in parts: the next when the reader has taken most of the one before, and until then the call goes
// on, and has its memory. Timeout when the reader is too slow.
func (s *bounded) SendMsg(m any) error {
	message, ok := m.(proto.Message)
	if !ok || s.memory == nil || proto.Size(message) <= smallBytes {
		return s.ServerStream.SendMsg(m)
	}
	write, err := partsOf(s.raw)
	if err != nil {
		return err
	}
	length := proto.Size(message)
	if err := s.memory.read.have(s.ctx, 2*int64(length)); err != nil {
		return err
	}
	data, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	s.run(func() { sent <- panics.Do(s.ctx, func() error { return inParts(data, write) }) })
	late := time.NewTimer(answerTime(len(data) >> 20))
	defer late.Stop()
	select {
	case err := <-sent:
		return err
	case <-late.C:
		return fail.New(fail.Timeout, "the answer of %d bytes was not taken in time", length)
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// inParts writes a message. Each part is a copy: gRPC would keep all for the last one.
func inParts(data []byte, write func(header, part []byte) error) error {
	header := make([]byte, 5) // not compressed
	binary.BigEndian.PutUint32(header[1:], uint32(len(data)))
	for len(data) > 0 {
		n := min(len(data), partBytes)
		if err := write(header, append([]byte(nil), data[:n]...)); err != nil {
			return lost(err)
		}
		header, data = nil, data[n:]
	}
	return nil
}

// partsOf gives what writes parts of messages of a stream. As rawStream it is there, though not by gRPC's interface, and it takes an
// option of a type without a name that we could say.
func partsOf(raw rawStream) (func(header, part []byte) error, error) {
	write := reflect.ValueOf(raw).MethodByName("Write")
	if !write.IsValid() || write.Type().NumIn() != 3 || write.Type().NumOut() != 1 ||
		write.Type().In(0) != reflect.TypeFor[[]byte]() || write.Type().In(1) != reflect.TypeFor[mem.BufferSlice]() {
		return nil, fmt.Errorf("large messages cannot be sent in parts by %T", raw)
	}
	option := reflect.Zero(write.Type().In(2))
	return func(header, part []byte) error {
		err, _ := write.Call([]reflect.Value{reflect.ValueOf(header), reflect.ValueOf(mem.BufferSlice{mem.SliceBuffer(part)}), option})[0].Interface().(error)
		return err
	}, nil
}
