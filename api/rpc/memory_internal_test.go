package rpc

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	grpcgzip "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/universe"
)

// sent is a stream on which something was sent.
type sent struct{ *bytes.Buffer }

func (s sent) ReadMessageHeader(header []byte) error {
	_, err := s.Buffer.Read(header)
	return err
}

func (s sent) Read(n int) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(s.Next(n))}, nil
}

func (sent) RecvCompress() string { return grpcgzip.Name }

// TestWhatMessagesWeigh: a message has room for what it becomes in memory, and what has been read of the wire is given back, and so is what
// a compressed one could have become.
func TestWhatMessagesWeigh(t *testing.T) {
	pod := func(label string) *universe.WorkloadStreamRequest {
		return &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: &universe.WorkloadUpdate{
			WorkloadState: &universe.WorkloadState{Extra: map[string]*universe.WorkloadState_ExtraData{"labels": {Data: map[string]string{"a": label}}}},
		}}}
	}
	encoded := func(m proto.Message) []byte {
		data, err := proto.Marshal(m)
		require.NoError(t, err)
		return data
	}
	small, large := encoded(pod("b")), encoded(pod(strings.Repeat("x", 1<<20)))
	const members = 5 // the update, its state, extra, the data of that, the label
	empty := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil)
	many := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), bytes.Repeat(empty, 20_000)) // less than 64 KiB
	for name, c := range map[string]struct {
		data       []byte
		compressed bool
		weighs     int
	}{
		"small":             {small, false, 0},
		"small, compressed": {small, true, 0},
		"large":             {large, false, len(large) + members*memberBytes},
		"large, compressed": {large, true, len(large) + members*memberBytes},
		"of many members":   {many, false, len(many) + 20_001*memberBytes},
	} {
		wire, read := newPool(flightBytes), newPool(flightBytes)
		m := newMemory(wire.lease("a"), read.lease("a"))
		data, header := c.data, make([]byte, 5)
		if c.compressed {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, err := w.Write(data)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			data, header[0] = b.Bytes(), 1
		}
		binary.BigEndian.PutUint32(header[1:], uint32(len(data)))
		s := &bounded{ctx: t.Context(), raw: sent{bytes.NewBuffer(append(header, data...))}, most: limits.Tenants, memory: m}
		require.NoError(t, s.RecvMsg(&universe.WorkloadStreamRequest{}), name)
		require.EqualValues(t, c.weighs, m.read.taken, name)
		require.Zero(t, m.wire.taken, name)
		require.Equal(t, max(len(data), len(c.data)), m.noted().wire, name)
		m.leave()
		// The goroutine that has read the message leaves a moment after it has handed it over.
		for _, p := range []*pool{wire, read} {
			require.Eventually(t, func() bool { return p.all.TryAcquire(flightBytes) }, time.Minute, time.Millisecond, name)
		}
	}
}
