package rpc_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/drover-io/drover/api/rpc"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/service"
	"github.com/drover-io/drover/internal/store"
	"github.com/drover-io/drover/internal/storetest"
	"github.com/drover-io/drover/internal/universe"
)

// streams is a server in front of a real store, which has tenant1.
type streams struct {
	*testing.T
	store   *store.Store
	address string
	client  universe.WorkloadServiceClient
	log     *lines       // of the server, with all that there is
	cut     func() error // the connection
	stop    func()       // the server, in order
}

func newStreams(t *testing.T) *streams { t.Helper(); return newStreamsAt(t, 0) }

// newStreamsAt has a rate for each of its tenants.
func newStreamsAt(t *testing.T, rate int, more ...string) *streams {
	t.Helper()
	s := storetest.Open(t, store.Config{})
	for _, name := range append(more, "tenant1") {
		one := &domain.Tenant{Metadata: domain.Metadata{Name: name}, ContextID: "1234567890123456789"}
		one.Spec.Cluster = "provider+edge"
		one.Default()
		require.NoError(t, s.Create(t.Context(), one))
	}
	m := service.NewMatcher(s, nil, time.Now, "process")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	w := &streams{T: t, store: s, address: l.Addr().String(), log: &lines{}}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	go func() {
		d := door.New(door.Parts{Tenancy: m}, door.Traced(log))
		ended <- rpc.ServeTenants(ctx, l, rpc.TenantOptions{Options: rpc.Options{Door: d, Log: log, Drain: time.Minute}, Rate: rate})
	}()
	stopped := false
	w.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
			m.Close()
		}
	}
	t.Cleanup(w.stop)
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	w.cut = connection.Close
	t.Cleanup(func() { connection.Close() })
	w.client = universe.NewWorkloadServiceClient(connection)
	return w
}

type workloadStream = grpc.ClientStreamingClient[universe.WorkloadStreamRequest, universe.WorkloadStreamResponse]

func (w *streams) begin(values ...string) workloadStream {
	w.Helper()
	ctx := w.Context()
	for _, v := range values {
		ctx = metadata.AppendToOutgoingContext(ctx, "tenant-id", v)
	}
	s, err := w.client.WorkloadStream(ctx)
	require.NoError(w, err)
	return s
}

func podOf(id string, change ...func(*universe.WorkloadUpdate)) *universe.WorkloadUpdate {
	u := &universe.WorkloadUpdate{
		WorkloadMetadata: &universe.WorkloadMetadata{
			Id: id, Orchestrator: universe.OrchestratorType_ORCHESTRATOR_TYPE_KUBERNETES, ResourceType: "v1/Pod", ResourceNamespace: "default", ResourceName: id,
		},
		WorkloadState: &universe.WorkloadState{NodeName: "host-a", Ready: true, Extra: map[string]*universe.WorkloadState_ExtraData{
			"labels": {Data: map[string]string{"a.b/c": "d", "empty": ""}}, "annotations": {},
		}},
	}
	for _, c := range change {
		c(u)
	}
	return u
}

func updateOf(u *universe.WorkloadUpdate) *universe.WorkloadStreamRequest {
	return &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: u}}
}

func deleteOf(m *universe.WorkloadMetadata) *universe.WorkloadStreamRequest {
	return &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadDelete{WorkloadDelete: &universe.WorkloadDelete{WorkloadMetadata: m}}}
}

func syncOf(all ...*universe.WorkloadUpdate) *universe.WorkloadStreamRequest {
	return &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: &universe.WorkloadSync{WorkloadUpdates: all}}}
}

func (w *streams) stored() []string {
	w.Helper()
	all, err := w.store.Workloads(w.Context(), "tenant1")
	require.NoError(w, err)
	ids := []string{}
	for _, one := range all {
		ids = append(ids, one.ID)
	}
	return ids
}

func (w *streams) eventually(want ...string) {
	w.Helper()
	require.Eventually(w, func() bool { return fmt.Sprint(w.stored()) == fmt.Sprint(want) }, time.Minute, 5*time.Millisecond)
}

func (w *streams) ends(s workloadStream, code codes.Code, text string) {
	w.Helper()
	err := s.RecvMsg(&universe.WorkloadStreamResponse{})
	require.Equal(w, code, grpcstatus.Code(err), "%v", err)
	require.ErrorContains(w, err, text)
}

// TestAStreamIsAcceptedAtOnce, by its header: a library takes that for the sign not to begin the stream again by itself.
func TestAStreamIsAcceptedAtOnce(t *testing.T) {
	w := newStreams(t)
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "tenant1"), time.Minute)
	defer cancel()
	stream, err := w.client.WorkloadStream(ctx)
	require.NoError(t, err)
	header, err := stream.Header()
	require.NoError(t, err)
	require.NotNil(t, header)
	require.NoError(t, ctx.Err())
}

func TestAStreamThatIsClosedHasBeenStored(t *testing.T) {
	w := newStreams(t)
	s := w.begin("tenant1")
	for _, m := range []*universe.WorkloadStreamRequest{
		syncOf(podOf("a"), podOf("b"), podOf("a", func(u *universe.WorkloadUpdate) { u.WorkloadState.NodeName = "host-b" })),
		updateOf(podOf("c")), deleteOf(&universe.WorkloadMetadata{Id: "b"}), deleteOf(&universe.WorkloadMetadata{Id: "nobody"}),
		updateOf(podOf("svc", func(u *universe.WorkloadUpdate) { u.WorkloadMetadata.ResourceType = "v1/Service" })),
		updateOf(podOf("large", func(u *universe.WorkloadUpdate) {
			u.WorkloadState.Extra["annotations"].Data = map[string]string{"x": strings.Repeat("x", limits.Workload)}
		})),
	} {
		require.NoError(t, s.Send(m))
	}
	_, err := s.CloseAndRecv()
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, w.stored())
	got, err := w.store.Workload(t.Context(), "tenant1", "a")
	require.NoError(t, err)
	require.Equal(t, &domain.Workload{
		Tenant: "tenant1", ID: "a", Orchestrator: domain.Kubernetes, ResourceType: "v1/Pod", ResourceNamespace: "default", ResourceName: "a",
		NodeName: "host-b", Ready: true, Extra: map[string]map[string]string{"labels": {"a.b/c": "d", "empty": ""}, "annotations": {}},
	}, got, "the last one of a sync counts")
	is, err := w.store.TenantStream(t.Context(), "tenant1")
	require.NoError(t, err)
	require.False(t, is.Connected)
	require.True(t, is.Settled)
	require.Equal(t, 2, is.LeftOutCount)
}

// TestWorkloadsThatCannotBeTaken: each word of an id counts for itself. A workload of which no state is said stays as it was, and a new one has none.
func TestWorkloadsThatCannotBeTaken(t *testing.T) {
	w := newStreams(t)
	s := w.begin("tenant1")
	node := func(name string) func(*universe.WorkloadUpdate) {
		return func(u *universe.WorkloadUpdate) { u.WorkloadState.NodeName = name }
	}
	large := func(u *universe.WorkloadUpdate) {
		u.WorkloadState.Extra["annotations"].Data = map[string]string{"x": strings.Repeat("x", limits.Workload)}
	}
	stateless := func(u *universe.WorkloadUpdate) { u.WorkloadState = nil }
	service := func(u *universe.WorkloadUpdate) { u.WorkloadMetadata.ResourceType = "v1/Service" }
	for _, m := range []*universe.WorkloadStreamRequest{
		syncOf(podOf("a", node("host-1")), podOf("b", large), podOf("b", service), podOf("c", node("host-2")), podOf("c", large)),
		updateOf(podOf("a", stateless)), updateOf(podOf("d", stateless)), updateOf(podOf("e", node("host-3"))), updateOf(podOf("e", stateless)),
	} {
		require.NoError(t, s.Send(m))
	}
	_, err := s.CloseAndRecv()
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c", "d", "e"}, w.stored(), "b is too large, whatever is said of its id after that")
	for id, host := range map[string]string{"a": "host-1", "c": "host-2", "d": "", "e": "host-3"} {
		got, err := w.store.Workload(t.Context(), "tenant1", id)
		require.NoError(t, err)
		require.Equal(t, host, got.NodeName)
	}
	is, err := w.store.TenantStream(t.Context(), "tenant1")
	require.NoError(t, err)
	said := map[string]string{}
	for _, left := range is.LeftOut {
		said[left.ID] = left.Reason
	}
	require.Equal(t, map[string]string{"b": "its type is not v1/Pod of Kubernetes", "c": "it is too large"}, said)
}

// TestMessagesThatAreWrongEndTheStream: nothing of them is taken, and all that came before.
func TestMessagesThatAreWrongEndTheStream(t *testing.T) {
	w := newStreams(t)
	for text, m := range map[string]*universe.WorkloadStreamRequest{
		"message":                                                {},
		"workload_update.workload_metadata":                      updateOf(&universe.WorkloadUpdate{}),
		"workload_update":                                        updateOf(nil),
		"workload_delete.workload_metadata":                      deleteOf(nil),
		"workload_delete.workload_metadata.":                     deleteOf(&universe.WorkloadMetadata{ResourceName: "a"}),
		"workload_sync.workload_updates[1].workload_metadata.id": syncOf(podOf("b"), podOf("")),
	} {
		s := w.begin("tenant1")
		require.NoError(t, s.Send(syncOf(podOf("before"), podOf(fmt.Sprintf("p%d", len(text))))))
		require.NoError(t, s.Send(m))
		w.ends(s, codes.InvalidArgument, text)
		require.Equal(t, []string{"before", fmt.Sprintf("p%d", len(text))}, w.stored())
	}
	w.ends(w.begin(), codes.InvalidArgument, "tenant-id")
	w.ends(w.begin("nobody"), codes.FailedPrecondition, "nobody")
}

// TestWorkloadsAreInNoLog: what runs in a tenant's cluster, and what was said wrongly of it, is the tenant's business.
func TestWorkloadsAreInNoLog(t *testing.T) {
	w := newStreams(t)
	const marked = "nobodys-business"
	mark := func(u *universe.WorkloadUpdate) {
		u.WorkloadMetadata.ResourceName, u.WorkloadState.NodeName = marked+"-name", marked+"-node"
		u.WorkloadState.Extra["labels"].Data[marked+"-label"] = marked + "-value"
	}
	other := func(u *universe.WorkloadUpdate) { u.WorkloadMetadata.ResourceType = marked + "/Type" }
	first := w.begin("tenant1")
	require.NoError(t, first.Send(syncOf(podOf(marked+"-1", mark), podOf(marked+"-2", mark, other))))
	require.NoError(t, first.Send(updateOf(podOf(marked+"-3", mark))))
	w.eventually(marked+"-1", marked+"-3")
	second := w.begin("tenant1")
	require.NoError(t, second.Send(syncOf(podOf(marked+"-1", mark))))
	w.ends(first, codes.Aborted, "newer stream")
	require.NoError(t, second.Send(updateOf(&universe.WorkloadUpdate{WorkloadMetadata: &universe.WorkloadMetadata{ResourceName: marked}})))
	w.ends(second, codes.InvalidArgument, "workload_metadata.id")
	w.stop()
	require.Contains(t, w.log.String(), "WorkloadStream", "the calls are in it")
	require.NotContains(t, w.log.String(), marked)
}

// TestStreamsThatAreCutOrStopped: all that arrived is stored.
func TestStreamsThatAreCutOrStopped(t *testing.T) {
	w := newStreams(t)
	s := w.begin("tenant1")
	require.NoError(t, s.Send(syncOf(podOf("a"), podOf("b"))))
	w.eventually("a", "b")
	connected := func() bool {
		is, err := w.store.TenantStream(t.Context(), "tenant1")
		require.NoError(t, err)
		return is.Connected
	}
	require.True(t, connected())
	go w.stop()
	w.ends(s, codes.Unavailable, "stops")
	require.Equal(t, []string{"a", "b"}, w.stored())
	require.Eventually(t, func() bool { return !connected() }, time.Minute, 5*time.Millisecond)

	w = newStreams(t)
	s = w.begin("tenant1")
	for n := range 100 {
		require.NoError(t, s.Send(updateOf(podOf(fmt.Sprintf("w%02d", n)))))
	}
	require.Eventually(t, func() bool { return len(w.stored()) == 100 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, w.cut())
	require.Eventually(t, func() bool { return !connected() }, time.Minute, 5*time.Millisecond)
	require.Len(t, w.stored(), 100, "everything stays")
}

func TestTheSecondStreamOfATenantDisplacesTheFirst(t *testing.T) {
	w := newStreams(t)
	first := w.begin("tenant1")
	require.NoError(t, first.Send(syncOf(podOf("a"))))
	w.eventually("a")
	second := w.begin("tenant1")
	require.NoError(t, second.Send(syncOf(podOf("b"))))
	w.ends(first, codes.Aborted, "newer stream")
	_, err := second.CloseAndRecv()
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, w.stored())
}

// TestWhoSendsTooFastIsReadSlowly: everything is taken, in order, and no more than a part of it waits.
func TestWhoSendsTooFastIsReadSlowly(t *testing.T) {
	w := newStreams(t)
	s := w.begin("tenant1")
	const rounds = 400
	for n := range rounds {
		require.NoError(t, s.Send(updateOf(podOf(fmt.Sprintf("w%02d", n%20), func(u *universe.WorkloadUpdate) {
			u.WorkloadState.NodeName = fmt.Sprint("n", n)
			u.WorkloadState.Extra["annotations"].Data = map[string]string{"x": strings.Repeat("x", 100<<10)}
		}))))
	}
	_, err := s.CloseAndRecv()
	require.NoError(t, err)
	all, err := w.store.Workloads(t.Context(), "tenant1")
	require.NoError(t, err)
	require.Len(t, all, 20)
	for i, one := range all {
		require.Equal(t, fmt.Sprint("n", rounds-20+i), one.NodeName)
	}
}

// TestAFloodHoldsUpNobodyElse: of a tenant that says more than its share a part is read, and nothing is dropped; what another one says
// meanwhile is stored.
func TestAFloodHoldsUpNobodyElse(t *testing.T) {
	const rate = 20
	w := newStreamsAt(t, rate, "quiet")
	began, stop, said := time.Now(), make(chan struct{}), make(chan int, 1)
	noisy, quiet := w.begin("tenant1"), w.begin("quiet")
	go func() {
		n := 0
		defer func() { said <- n }()
		for ; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if noisy.Send(updateOf(podOf(fmt.Sprintf("w%07d", n)))) != nil { // it waits when it is not read
				return
			}
		}
	}()
	stored := func(tenant string) int {
		n, _, err := w.store.CountWorkloads(t.Context(), tenant)
		require.NoError(t, err)
		return n
	}
	require.Eventually(t, func() bool { return stored("tenant1") >= 10*rate-10 }, time.Minute, 5*time.Millisecond, "what it may say at once")
	for n := range 20 {
		require.NoError(t, quiet.Send(updateOf(podOf(fmt.Sprint("q", n)))))
		require.Eventually(t, func() bool { return stored("quiet") == n+1 }, time.Minute, 5*time.Millisecond)
	}
	// One message may be read on credit, and the look is not at the same time as the count.
	require.LessOrEqual(t, stored("tenant1"), 10*rate+int(time.Since(began).Seconds()*rate)+rate)
	require.NoError(t, w.cut())
	close(stop)
	require.Greater(t, <-said, stored("tenant1"), "the sender was ahead of what is read")
}
