package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/api/rpc"
	"github.com/drover-io/drover/internal/audit"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/universe"
)

// meter counts what a server has read.
type meter struct {
	net.Listener
	read atomic.Int64
}

func (m *meter) Accept() (net.Conn, error) {
	c, err := m.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &metered{c, m}, nil
}

type metered struct {
	net.Conn
	by *meter
}

func (c *metered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.by.read.Add(int64(n))
	return n, err
}

// newMetered serves the door that opens to everybody who gets there, and says how much it has read.
func newMetered(t *testing.T, step door.Step) (*grpc.ClientConn, *meter) {
	t.Helper()
	m := &meter{Listener: listen(t)}
	return serveTenants(t, m, door.New(door.Parts{}, step), slog.DiscardHandler), m
}

// TestLittleIsReadOfWhatMayNotBe: of who is not known, and of what is larger than its method takes. What a stream may have in
// memory that is not read, and what is on the way, is less than a MiB.
func TestLittleIsReadOfWhatMayNotBe(t *testing.T) {
	connection, m := newMetered(t, func(context.Context, *door.Request, door.Next) error { return nil })
	large := &universe.CreateRequest{Rule: &universe.Rule{Id: "r", Data: &universe.RuleData{RuleTemplate: make([]byte, 32<<20)}}}
	good := []string{"tenant-id", "tenant1"}
	rules, pods := universe.NewWorkloadRuleServiceClient(connection), universe.NewWorkloadServiceClient(connection)
	for name, c := range map[string]struct {
		md   []string
		call func(context.Context) error
		want codes.Code
		text string
	}{
		"a call without a tenant": {nil, func(ctx context.Context) error { _, err := rules.Create(ctx, large); return err }, codes.InvalidArgument, "tenant-id"},
		"a call with a token that is none": {append(good, "authorization", "Basic x"), func(ctx context.Context) error {
			_, err := rules.Create(ctx, large)
			return err
		}, codes.Unauthenticated, "Bearer"},
		"a large rule": {good, func(ctx context.Context) error { _, err := rules.Create(ctx, large); return err }, codes.ResourceExhausted, "WorkloadRuleService/Create may have 2097152 bytes"},
		"a large question for health": {nil, func(ctx context.Context) error {
			_, err := grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", 32<<20)})
			return err
		}, codes.ResourceExhausted, "a message of grpc.health.v1.Health/Check may have 65536 bytes"},
		"a stream without a tenant": {nil, func(ctx context.Context) error {
			s, err := pods.WorkloadStream(ctx)
			require.NoError(t, err)
			_ = s.Send(updateOf(podOf(strings.Repeat("x", 32<<20)))) // EOF when it has been refused before that
			_, err = s.CloseAndRecv()
			return err
		}, codes.InvalidArgument, "tenant-id"},
	} {
		t.Run(name, func(t *testing.T) {
			before := m.read.Load()
			err := c.call(metadata.AppendToOutgoingContext(t.Context(), c.md...))
			require.Equal(t, c.want, grpcstatus.Code(err), "%v", err)
			require.ErrorContains(t, err, c.text)
			require.Less(t, m.read.Load()-before, int64(1<<20))
		})
	}
	_, err := grpc_health_v1.NewHealthClient(connection).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.UseCompressor(gzip.Name))
	require.NoError(t, err, "compressed, and in order")
	_, err = rules.Create(metadata.AppendToOutgoingContext(t.Context(), good...), large, grpc.UseCompressor(gzip.Name))
	require.Equal(t, codes.ResourceExhausted, grpcstatus.Code(err), "%v", err)
	require.ErrorContains(t, err, "WorkloadRuleService/Create may have 2097152 bytes, and this one has more when it is expanded")
	large.Rule.Data.RuleTemplate = bytes.Repeat([]byte("x"), limits.Template)
	_, err = rules.Create(metadata.AppendToOutgoingContext(t.Context(), good...), large)
	require.NoError(t, err, "the largest template")
}

// TestMessagesOfManyMembers: they are refused by their bytes, before they are 20 times as much.
func TestMessagesOfManyMembers(t *testing.T) {
	w := newStreams(t)
	tiny, err := proto.Marshal(podOf("x", func(u *universe.WorkloadUpdate) { u.WorkloadState, u.WorkloadMetadata.ResourceName = nil, "" }))
	require.NoError(t, err)
	one := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), tiny)
	label := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil)
	extra := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), bytes.Repeat(label, limits.TenantMembers+1))
	state := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), extra)
	update := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), state)
	for text, message := range map[string][]byte{
		"workloads": protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), bytes.Repeat(one, limits.TenantSaid+1)),
		"members":   protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), update),
	} {
		s := w.begin("tenant1")
		require.NoError(t, s.SendMsg(raw(message)))
		w.ends(s, codes.ResourceExhausted, text)
		require.Empty(t, w.stored())
	}
	s := w.begin("tenant1")
	all := make([]*universe.WorkloadUpdate, 0, 1000)
	for i := range cap(all) {
		all = append(all, podOf(strings.Repeat("x", 100)+string(rune('a'+i%26))))
	}
	require.NoError(t, s.Send(syncOf(all...)))
	_, err = s.CloseAndRecv()
	require.NoError(t, err)
	require.Len(t, w.stored(), 26)
}

// TestAStopDoesNotWaitForThoseWhoSayNothing: who looks at health, reflection, or begins a call and says nothing on it, is ended.
func TestAStopDoesNotWaitForThoseWhoSayNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	closed := door.New(door.Parts{}, func(context.Context, *door.Request, door.Next) error { return nil })
	go func() {
		ended <- rpc.ServeTenants(ctx, l, rpc.TenantOptions{Options: rpc.Options{Door: closed, Log: slog.New(slog.DiscardHandler), Drain: time.Hour}})
	}()
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer connection.Close()
	watching, err := grpc_health_v1.NewHealthClient(connection).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = watching.Recv()
	require.NoError(t, err)
	reflecting, err := grpc_reflection_v1.NewServerReflectionClient(connection).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	require.NoError(t, reflecting.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}))
	_, err = reflecting.Recv()
	require.NoError(t, err)
	good := metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "tenant1")
	_, err = connection.NewStream(good, &grpc.StreamDesc{ClientStreams: true}, universe.WorkloadRuleService_Create_FullMethodName)
	require.NoError(t, err)
	silent, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(3 * time.Minute): // the drain is an hour
		require.Fail(t, "somebody is waited for")
	}
}

// notes is a trail that has room for one refusal.
type notes struct {
	door.Trail
	mu    sync.Mutex
	asked int
	taken []audit.Record
}

func (n *notes) Admits(audit.Record) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	return n.asked == 1
}

func (n *notes) Later(r audit.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taken = append(n.taken, r)
}

func (n *notes) Write(_ context.Context, r audit.Record) (int64, error) {
	n.Later(r)
	return 1, nil
}

func (n *notes) Digest([]byte) string { return "" }

func (n *notes) all() []audit.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.taken)
}

// TestWhatAStrangerSendsIsNotRepeated in errors and logs, which have one line of a flood; the audit log is told of each.
func TestWhatAStrangerSendsIsNotRepeated(t *testing.T) {
	log, trail := &lines{}, &notes{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		d := door.New(door.Parts{})
		d.Record(trail)
		ended <- rpc.ServeTenants(ctx, l, rpc.TenantOptions{Options: rpc.Options{Door: d, Log: slog.New(slog.NewTextHandler(log, nil)), Drain: time.Minute}})
	}()
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	rules := universe.NewWorkloadRuleServiceClient(connection)
	long := metadata.AppendToOutgoingContext(t.Context(), "tenant-id", strings.Repeat("x", 30_000))
	for range 10 {
		_, err := rules.List(long, &universe.ListRequest{})
		require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err), "%v", err)
		require.Less(t, len(err.Error()), 500)
	}
	connection.Close()
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, 10, trail.asked)
	require.Len(t, trail.taken, 1)
	require.Equal(t, "Invalid", trail.taken[0].Result)
	require.Equal(t, universe.WorkloadRuleService_List_FullMethodName, trail.taken[0].Key)
	require.NotEmpty(t, trail.taken[0].From)
	require.Less(t, len(log.String()), 2_000)
	require.LessOrEqual(t, strings.Count(log.String(), "WorkloadRuleService"), 3, "one in ten seconds")
}

// openTrail is a trail that has room for all.
type openTrail struct{ notes }

func (*openTrail) Admits(audit.Record) bool { return true }

// TestWhatTheEdgeRefusesAKnownCallerIsAudited: of a call that does not come to the door there is a record of who, what and why, and none of one that has come
// there, of which the door's steps have one, nor where its caller has left.
func TestWhatTheEdgeRefusesAKnownCallerIsAudited(t *testing.T) {
	trail := &openTrail{}
	d := door.New(door.Parts{}, func(context.Context, *door.Request, door.Next) error { return fail.New(fail.Forbidden, "closed") })
	d.Record(trail)
	connection := serveTenants(t, listen(t), d, slog.DiscardHandler)
	rules := universe.NewWorkloadRuleServiceClient(connection)
	good := metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "tenant1")
	const method = universe.WorkloadRuleService_Create_FullMethodName
	told := func() (records []string) {
		t.Helper()
		for _, r := range trail.all() {
			require.Equal(t, audit.Who{Kind: "tenant", Name: "tenant1", By: "this machine"}, *r.Who)
			require.NotEmpty(t, r.From)
			require.NotEmpty(t, r.Request)
			records = append(records, fmt.Sprint(r.Event, " ", r.Verb, " ", r.Key, " ", r.Result))
		}
		return records
	}
	open := func(ctx context.Context) grpc.ClientStream {
		s, err := connection.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		require.NoError(t, err)
		return s
	}
	_, err := rules.Create(good, &universe.CreateRequest{Rule: &universe.Rule{Id: "r"}})
	require.Equal(t, codes.PermissionDenied, grpcstatus.Code(err), "%v", err)
	left, leave := context.WithCancel(good)
	s := open(left)
	leave()
	require.Equal(t, codes.Canceled, grpcstatus.Code(s.RecvMsg(&universe.CreateResponse{})))
	require.Empty(t, told())

	_, err = rules.Create(good, &universe.CreateRequest{Rule: &universe.Rule{Id: "r", Data: &universe.RuleData{RuleTemplate: make([]byte, limits.TenantCall)}}})
	require.Equal(t, codes.ResourceExhausted, grpcstatus.Code(err), "%v", err)
	want := []string{"answered CALL " + method + " Exhausted"}
	require.Equal(t, want, told())
	s = open(good)
	require.NoError(t, s.CloseSend())
	require.Equal(t, codes.Internal, grpcstatus.Code(s.RecvMsg(&universe.CreateResponse{})))
	want = append(want, "answered CALL "+method+" Malformed")
	require.Equal(t, want, told())
	s = open(good)
	require.NoError(t, s.SendMsg(raw([]byte("\xff"))))
	require.NoError(t, s.CloseSend())
	require.Equal(t, codes.InvalidArgument, grpcstatus.Code(s.RecvMsg(&universe.CreateResponse{})))
	want = append(want, "answered CALL "+method+" Invalid")
	require.Equal(t, want, told())

	many, end := context.WithCancel(good)
	defer end()
	for range limits.TenantCalls {
		open(many)
	}
	require.Eventually(t, func() bool {
		_, err := rules.List(good, &universe.ListRequest{})
		if grpcstatus.Code(err) == codes.Unavailable {
			return true
		}
		open(many) // it may have had the place of one that had not begun yet, which was refused
		return false
	}, time.Minute, time.Millisecond, "all of them have begun")
	require.Contains(t, told(), "answered CALL "+universe.WorkloadRuleService_List_FullMethodName+" Unavailable")
}

// TestMessagesThatAreCutOff by a half-close: the code is that of other gRPC servers, and nothing is taken.
func TestMessagesThatAreCutOff(t *testing.T) {
	w := newStreams(t)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	message := "\x00\x00\x00\x00\x64\x0a\x62 it was to have 100 bytes"
	for name, sent := range map[string]string{"in the header": message[:3], "in the message": message[:20], "behind the header": message[:5]} {
		for _, method := range []string{universe.WorkloadService_WorkloadStream_FullMethodName, universe.WorkloadRuleService_Create_FullMethodName} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.address+method, strings.NewReader(sent))
			require.NoError(t, err)
			for key, value := range map[string]string{"Content-Type": "application/grpc", "TE": "trailers", "tenant-id": "tenant1"} {
				request.Header.Set(key, value)
			}
			answer, err := transport.RoundTrip(request)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			code := answer.Trailer.Get("Grpc-Status") + answer.Header.Get("Grpc-Status") // without a header both are one
			want := codes.Internal
			if len(sent) < 5 && method == universe.WorkloadService_WorkloadStream_FullMethodName { // gRPC takes it for the end
				want = codes.OK
			}
			require.Equal(t, strconv.Itoa(int(want)), code, "%s of %s", name, method)
		}
	}
	require.Empty(t, w.stored())
	w.stop()
	require.Contains(t, w.log.String(), "the message was cut off")
	require.NotContains(t, w.log.String(), "level=ERROR", "it is the client that has broken off")
}

// TestAFloodOfStrangersIsNotLogged, whatever comes of their calls: of each sort there is one line in ten seconds.
func TestAFloodOfStrangersIsNotLogged(t *testing.T) {
	const calls = 10
	for name, serve := range map[string]func(*testing.T) (*grpc.ClientConn, *lines, func()){
		"tenants": func(t *testing.T) (*grpc.ClientConn, *lines, func()) {
			w := newStreams(t)
			to, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			t.Cleanup(func() { to.Close() })
			return to, w.log, w.stop
		},
		"status": func(t *testing.T) (*grpc.ClientConn, *lines, func()) {
			w := newWorld(t)
			return w.to, w.log, w.stop
		},
	} {
		t.Run(name, func(t *testing.T) {
			to, log, stop := serve(t)
			health := grpc_health_v1.NewHealthClient(to)
			for range calls {
				_, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
				require.NoError(t, err)
				_, err = health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "none"})
				require.Equal(t, codes.NotFound, grpcstatus.Code(err), "%v", err)
				require.Equal(t, codes.Internal, grpcstatus.Code(sends(t, to, grpc_health_v1.Health_Check_FullMethodName, 0)), "as gRPC's own servers say it")
				require.Equal(t, codes.Internal, grpcstatus.Code(sends(t, to, grpc_health_v1.Health_Check_FullMethodName, 2)))
			}
			stop()
			require.NotContains(t, log.String(), "level=ERROR", "what a client has not sent is no defect of ours")
			require.NotZero(t, strings.Count(log.String(), "code=OK"))
			require.LessOrEqual(t, strings.Count(log.String(), "grpc.health.v1.Health"), 4, "two sorts, and a slow machine has twenty seconds for it")
		})
	}
}

// sends makes a call with one message of so many, and gives what it ends with.
func sends(t *testing.T, to *grpc.ClientConn, method string, messages int) error {
	t.Helper()
	s, err := to.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	require.NoError(t, err)
	for range messages {
		_ = s.SendMsg(&grpc_health_v1.HealthCheckRequest{}) // EOF when it has been refused before that
	}
	require.NoError(t, s.CloseSend())
	return s.RecvMsg(&grpc_health_v1.HealthCheckResponse{})
}

// raw is a message that has these bytes.
func raw(data []byte) proto.Message {
	m := &universe.WorkloadStreamRequest{}
	m.ProtoReflect().SetUnknown(data)
	return m
}
