package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/statusnotify"
	"github.com/drover-io/drover/internal/universe"
)

// listed answers List with what it has.
type listed struct {
	universe.UnimplementedWorkloadRuleServiceServer
	answer *universe.ListResponse
}

func (l *listed) List(context.Context, *universe.ListRequest) (*universe.ListResponse, error) {
	return l.answer, nil
}

// newListed serves an answer behind the bounds of tenants.
func newListed(t *testing.T, answer *universe.ListResponse) (*bounds, *grpc.ClientConn) {
	t.Helper()
	b := newBounds(nil, newPaces(0, nil), nil)
	return b, newBounded(t, b, &listed{answer: answer})
}

// newBounded serves rules behind bounds.
func newBounded(t *testing.T, b *bounds, rules universe.WorkloadRuleServiceServer) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.ChainStreamInterceptor(streams(silent, new(strangers)), b.guard))
	universe.RegisterWorkloadRuleServiceServer(asStreams{server}, rules)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)), grpc.WithInitialWindowSize(64<<10), grpc.WithStaticStreamWindowSize(64<<10))
	require.NoError(t, err)
	t.Cleanup(func() {
		connection.Close()
		server.Stop()
		require.NoError(t, <-ended)
	})
	return connection
}

// TestCallsDoNotWaitForEachOther: requests that are padded take up all memory of two tenants, and each call wants more for its answer.
func TestCallsDoNotWaitForEachOther(t *testing.T) {
	in := &universe.ListRequest{}
	in.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, 2*smallBytes)))
	b := newBounds(nil, newPaces(0, nil), nil)
	b.read = newPool(2 * limits.TenantCalls * int64(proto.Size(in)))
	open := door.New(door.Parts{}, func(context.Context, *door.Request, door.Next) error { return nil })
	connection := newBounded(t, b, &rules{door: open})
	bound, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	as := func(tenant string) context.Context {
		return metadata.AppendToOutgoingContext(bound, tenantHeader, tenant)
	}
	var calls []grpc.ClientStream
	for _, tenant := range []string{"tenant1", "tenant2"} {
		for range limits.TenantCalls {
			s, err := connection.NewStream(as(tenant), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, universe.WorkloadRuleService_List_FullMethodName)
			require.NoError(t, err)
			require.NoError(t, s.SendMsg(in))
			calls = append(calls, s)
		}
	}
	require.Eventually(t, func() bool {
		if b.read.all.TryAcquire(1) {
			b.read.all.Release(1)
			return false
		}
		return true
	}, time.Minute, time.Millisecond, "all is taken by what has arrived")
	for _, s := range calls {
		require.NoError(t, s.CloseSend())
	}
	_, err := universe.NewWorkloadRuleServiceClient(connection).List(as("tenant3"), &universe.ListRequest{})
	require.NoError(t, err)
	for _, s := range calls {
		require.NoError(t, s.RecvMsg(&universe.ListResponse{}))
	}
}

// TestLargeAnswersAreSentInParts: they arrive as any other does, compressed requests or not.
func TestLargeAnswersAreSentInParts(t *testing.T) {
	for _, n := range []int{1, smallBytes, partBytes*3 - 20, 9<<20 + 7} {
		want := &universe.ListResponse{Rules: []*universe.Rule{{Id: "r", Data: &universe.RuleData{RuleTemplate: bytes.Repeat([]byte("x"), n)}}}}
		b, connection := newListed(t, want)
		rules := universe.NewWorkloadRuleServiceClient(connection)
		ctx := metadata.AppendToOutgoingContext(t.Context(), tenantHeader, "tenant1")
		for _, o := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
			got, err := rules.List(ctx, &universe.ListRequest{}, o...)
			require.NoError(t, err)
			require.True(t, proto.Equal(want, got))
		}
		require.Eventually(t, func() bool { return b.read.all.TryAcquire(flightBytes) }, time.Minute, time.Millisecond, "all is given back")
	}
}

// thin is a line with so many bytes a second, of a client that compresses.
type thin struct {
	slow
	rate    int
	written []byte
}

func (*thin) RecvCompress() string { return gzip.Name }

func (l *thin) Write(header []byte, data mem.BufferSlice, _ *struct{}) error {
	time.Sleep(time.Duration(len(header)+data.Len()) * time.Second / time.Duration(l.rate)) //nolint:forbidigo // of the bubble's time
	l.written = append(append(l.written, header...), data.Materialize()...)
	return nil
}

// TestAThinLineIsNoReaderThatIsGone: what is compressed goes in parts, too, and as long as it goes on.
func TestAThinLineIsNoReaderThatIsGone(t *testing.T) {
	const kbit = 1000 / 8
	chance := rand.NewChaCha8([32]byte{})
	app := make([]byte, 1<<20) // of hexadecimal digits, which become half as many bytes
	for i := range app {
		app[i] = "0123456789abcdef"[chance.Uint64()%16]
	}
	n := &statusnotify.StatusNotification{Details: []*statusnotify.StatusDetail{{StatusDetail: &statusnotify.StatusDetail_App{App: &statusnotify.AppStatus{App: string(app)}}}}}
	for rate, arrives := range map[int]bool{64 * kbit: true, 16 * kbit: false} {
		synctest.Test(t, func(t *testing.T) {
			line := &thin{rate: rate}
			err := (&bounded{ctx: t.Context(), raw: line}).SendMsg(n)
			if !arrives {
				require.True(t, fail.Is(err, fail.Timeout), "%v", err)
				time.Sleep(time.Hour) //nolint:forbidigo // of the bubble's time, in which the rest is written
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 1, line.written[0], "compressed")
			require.EqualValues(t, len(line.written)-5, binary.BigEndian.Uint32(line.written[1:]))
			require.Less(t, len(line.written), len(app)*2/3)
			plain, err := encoding.GetCompressor(gzip.Name).Decompress(bytes.NewReader(line.written[5:]))
			require.NoError(t, err)
			data, err := io.ReadAll(plain)
			require.NoError(t, err)
			got := &statusnotify.StatusNotification{}
			require.NoError(t, proto.Unmarshal(data, got))
			require.True(t, proto.Equal(n, got))
		})
	}
}

// TestAnAnswerThatNobodyTakes is the server's as long as the call goes on, which is not for ever.
func TestAnAnswerThatNobodyTakes(t *testing.T) {
	before := pieceTime
	t.Cleanup(func() { pieceTime = before })
	begun := make(chan struct{})
	pieceTime = func() time.Duration { // it is asked for once the answer is being written
		<-begun
		return time.Millisecond
	}
	b, connection := newListed(t, &universe.ListResponse{Rules: []*universe.Rule{{Data: &universe.RuleData{RuleTemplate: make([]byte, 4<<20)}}}})
	begins := sync.OnceFunc(func() { close(begun) })
	t.Cleanup(begins)
	ctx := metadata.AppendToOutgoingContext(t.Context(), tenantHeader, "tenant1")
	s, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, universe.WorkloadRuleService_List_FullMethodName)
	require.NoError(t, err)
	require.NoError(t, s.SendMsg(&universe.ListRequest{}))
	require.NoError(t, s.CloseSend())
	_, err = s.Header() // the answer has begun
	require.NoError(t, err)
	begins()
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.named) == 0
	}, time.Minute, time.Millisecond)
	err = s.RecvMsg(&universe.ListResponse{})
	require.NotEqual(t, codes.OK, status.Code(err))
	require.Eventually(t, func() bool { return b.read.all.TryAcquire(flightBytes) }, time.Minute, time.Millisecond, "all is given back")
}

// TestAnAnswerOverASlowLineArrives: it is sent for as long as that goes on, as a message is read.
func TestAnAnswerOverASlowLineArrives(t *testing.T) {
	for name, c := range map[string]struct {
		mib  int
		part time.Duration // that the reader takes for each of partBytes
		ok   bool
	}{
		"2 Mbit/s":                            {16, time.Second / 8, true},
		"one that takes next to nothing":      {4, 9 * time.Second, false},
		"one that would take a quarter hour":  {30, time.Second * 9 / 10, false},
		"a small one, over a line like these": {1, time.Second * 9 / 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data, got := bytes.Repeat([]byte("x"), c.mib<<20), 0
				ctx, leave := context.WithCancel(t.Context())
				s := &bounded{ctx: ctx}
				err := s.send(data, false, func(_, part []byte) error {
					time.Sleep(c.part) //nolint:forbidigo // of the bubble's time
					got += len(part)
					return ctx.Err()
				})
				leave()
				time.Sleep(2 * c.part) //nolint:forbidigo // of the bubble's time, in which the writer ends
				if c.ok {
					require.NoError(t, err)
					require.Equal(t, len(data), got)
					return
				}
				require.Equal(t, codes.DeadlineExceeded, toStatus(err).Code(), "%v", err)
			})
		})
	}
}
