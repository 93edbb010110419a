package rpc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"time"

	"google.golang.org/grpc/encoding"
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

// goneBytes is how much of a large message is to go within policy.ArrivePiece, 4 KiB/s: that is as slow as a body of HTTP may come, and a line of 64 kbit/s
// has it. Less than a piece that comes, as no round is waited for.
const goneBytes = 128 << 10

// SendMsg implements grpc.ServerStream. gRPC keeps a message until its reader takes it, however large it is and whatever has become
// of the call. So a large one is sent in parts: the next when the reader has taken most of the one before, and until then the call goes
// on, and has its memory. Timeout when the reader is too slow. Those whose memory is counted are answered without compression.
func (s *bounded) SendMsg(m any) error {
	message, ok := m.(proto.Message)
	if !ok || proto.Size(message) <= smallBytes {
		return s.ServerStream.SendMsg(m)
	}
	write, err := partsOf(s.raw)
	if err != nil {
		return err
	}
	if s.memory != nil {
		if err := s.memory.read.have(s.ctx, 2*int64(proto.Size(message))); err != nil {
			return err
		}
	}
	data, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	by := encoding.GetCompressor(s.raw.RecvCompress()) // which gRPC has named to the client already
	if s.memory != nil || by == nil {
		return s.send(data, false, write)
	}
	if data, err = compressed(data, by); err != nil {
		return err
	}
	return s.send(data, true, write)
}

// compressed is a message as its reader expands it.
func compressed(data []byte, by encoding.Compressor) ([]byte, error) {
	var small bytes.Buffer
	into, err := by.Compress(&small)
	if err != nil {
		return nil, err
	}
	if _, err := into.Write(data); err != nil {
		return nil, err
	}
	if err := into.Close(); err != nil {
		return nil, err
	}
	return small.Bytes(), nil
}

// send writes a message, compressed or as it is, for as long as that goes on.
func (s *bounded) send(data []byte, compressed bool, write func(header, part []byte) error) error {
	sent, goesOn := make(chan error, 1), make(chan struct{}, 1)
	s.run(func() {
		sent <- panics.Do(s.ctx, func() error { return inParts(data, compressed, write, func() { tell(goesOn) }) })
	})
	err, ok := steadily(sent, goesOn, s.ctx.Done())
	switch {
	case ok:
		return err
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	default:
		return fail.New(fail.Timeout, "the answer of %d bytes was not taken in time", len(data))
	}
}

// pieceTime is how long a piece of a large message may take. It is asked for when it begins.
var pieceTime = func() time.Duration { return policy.ArrivePiece }

// steadily waits for the end of a large message, for as long as its pieces come, or go, in time. ok is false when one of them was late, or the whole, or
// when it was over before.
func steadily[T any](ended <-chan T, goesOn, over <-chan struct{}) (end T, ok bool) {
	late, stuck := time.NewTimer(policy.ArriveWhole), time.NewTimer(pieceTime())
	defer late.Stop()
	defer stuck.Stop()
	for {
		select {
		case end = <-ended:
			return end, true
		case <-goesOn:
			stuck.Reset(pieceTime())
			continue
		case <-stuck.C:
		case <-late.C:
		case <-over:
		}
		return end, false
	}
}

// tell says that a message goes on, where that is not known already.
func tell(goesOn chan<- struct{}) {
	select {
	case goesOn <- struct{}{}:
	default:
	}
}

// inParts writes a message, and says of each goneBytes that they have gone. Each part is a copy: gRPC would keep all for the last one.
func inParts(data []byte, compressed bool, write func(header, part []byte) error, went func()) error {
	header := make([]byte, 5)
	if compressed {
		header[0] = 1
	}
	binary.BigEndian.PutUint32(header[1:], uint32(len(data)))
	for of := 0; len(data) > 0; {
		n := min(len(data), partBytes)
		if err := write(header, append([]byte(nil), data[:n]...)); err != nil {
			return lost(err)
		}
		header, data = nil, data[n:]
		if of += n; of >= goneBytes {
			of -= goneBytes
			went()
		}
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
