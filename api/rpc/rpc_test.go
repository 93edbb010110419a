package rpc_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/api/rpc"
	"github.com/drover-io/drover/internal/authn"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/notify/notifytest"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/readiness"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/statusnotify"
)

type world struct {
	*testing.T
	ctx      context.Context
	statuses *notifytest.Statuses
	metrics  *prometheus.Registry
	client   statusnotify.StatusNotifyClient
	health   grpc_health_v1.HealthClient
	to       *grpc.ClientConn
	stop     func() // the server, in order
	log      *lines
	trail    *notes // of what is refused before the door
}

// newWorld serves one app with a resource on one cluster.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, 1)
}

// newWorldOf is newWorld with more resources.
func newWorldOf(t *testing.T, resources int, steps ...door.Step) *world {
	t.Helper()
	return newWorldBy(t, authn.Off, resources, steps...)
}

// newWorldBy is newWorldOf for callers whom a prover knows.
func newWorldBy(t *testing.T, prove authn.Prover, resources int, steps ...door.Step) *world {
	t.Helper()
	w := &world{T: t, statuses: notifytest.New(1, 1, resources), metrics: prometheus.NewRegistry(), log: &lines{}, trail: &notes{}}
	hub, err := notify.New(notify.Of(w.statuses), notify.Options{Interval: time.Millisecond}, w.metrics)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	d := door.New(door.Parts{Streams: hub}, steps...)
	d.Record(w.trail)
	go func() {
		ended <- rpc.Serve(ctx, l, prove, rpc.Options{Door: d, Log: slog.New(slog.NewTextHandler(w.log, nil)), Drain: time.Minute})
	}()
	stopped := false
	w.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			hub.Close()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(w.stop)
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	w.to = connection
	w.client, w.health = statusnotify.NewStatusNotifyClient(connection), grpc_health_v1.NewHealthClient(connection)
	bounded, done := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(done)
	w.ctx = bounded
	return w
}

func registration(client string, kind statusnotify.StatusValue, output statusnotify.OutputType) *statusnotify.StatusRegistration {
	return &statusnotify.StatusRegistration{
		ClientId: client, StatusType: kind, Output: output,
		Key: &statusnotify.StatusRegistration_DigKey{DigKey: &statusnotify.DigKey{
			Project: "fleet", CompositeApp: "collectd", CompositeAppVersion: "v1", DeploymentIntentGroup: "everywhere",
		}},
	}
}

type stream = grpc.ServerStreamingClient[statusnotify.StatusNotification]

// register registers, and waits until the client is told of what changes from now on.
func (w *world) register(in *statusnotify.StatusRegistration) stream {
	w.Helper()
	s, err := w.client.StatusRegister(w.ctx, in)
	require.NoError(w, err)
	header, err := s.Header()
	require.NoError(w, err)
	require.NotNil(w, header, "the registration was refused")
	return s
}

func (w *world) subscribers() float64 { w.Helper(); return w.metric("drover_status_subscribers") }

// metric is the value of a gauge or a counter, 0 where there is none.
func (w *world) metric(name string) float64 {
	w.Helper()
	families, err := w.metrics.Gather()
	require.NoError(w, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

func (w *world) told(s stream) *statusnotify.StatusNotification {
	w.Helper()
	n, err := s.Recv()
	require.NoError(w, err)
	return n
}

// refused reads how a stream ended.
func (w *world) refused(s stream, code codes.Code, text string) {
	w.Helper()
	_, err := s.Recv()
	require.Equal(w, code, grpcstatus.Code(err), "%v", err)
	require.ErrorContains(w, err, text)
}

func TestNotificationsFollowChanges(t *testing.T) {
	w := newWorld(t)
	s := w.register(registration("a", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_SUMMARY))
	w.statuses.Mark(0, 0, 0, domain.MarkApplied) // not another notification
	w.statuses.Change(func(s *status.Source) { s.Status = domain.ContextInstantiated })
	require.Equal(t, statusnotify.StatusValue_DEPLOYED, w.told(s).GetStatusValue(), "the first one is of the first change")
	w.statuses.Change(func(s *status.Source) { s.Status = domain.ContextTerminating })
	require.Equal(t, statusnotify.StatusValue_NOT_DEPLOYED, w.told(s).GetStatusValue())
	_, err := w.client.StatusDeregister(w.ctx, &statusnotify.StatusDeregistration{ClientId: "a"})
	require.NoError(t, err)
	_, err = s.Recv()
	require.ErrorIs(t, err, io.EOF)
	_, err = w.client.StatusDeregister(w.ctx, &statusnotify.StatusDeregistration{ClientId: "a"})
	require.NoError(t, err, "nor is it an error that there is none")
	require.Eventually(t, func() bool { return w.subscribers() == 0 }, time.Minute, time.Millisecond)
}

func TestDetails(t *testing.T) {
	w := newWorld(t)
	w.statuses.Report(readiness.NotReady, true)
	ready := w.register(registration("ready", statusnotify.StatusValue_READY, statusnotify.OutputType_ALL))
	is := func(n *statusnotify.StatusNotification, overall, parts string) {
		t.Helper()
		got, err := protojson.Marshal(n)
		require.NoError(t, err)
		require.JSONEq(t, `{"statusValue":"`+overall+`","details":[{"app":{"app":"app-0","statusValue":"`+parts+`","clusters":[
			{"clusterProvider":"provider","cluster":"edge-0000","statusValue":"`+parts+`","resources":[
			{"name":"component-0","gvk":{"group":"apps","version":"v1","kind":"Deployment"},"statusValue":"`+parts+`"}]}]}}]}`, string(got))
	}
	w.statuses.Report(readiness.Ready, true)
	is(w.told(ready), "NOT_READY", "READY") // the context is still instantiating
	w.statuses.Change(func(s *status.Source) { s.Status = domain.ContextInstantiated })
	is(w.told(ready), "READY", "READY")
	w.statuses.Report(readiness.Ready, false)
	is(w.told(ready), "NOT_READY", "NOT_READY")

	deployed := w.register(registration("deployed", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_ALL))
	w.statuses.Mark(0, 0, 0, domain.MarkApplied)
	is(w.told(deployed), "DEPLOYED", "DEPLOYED")
	w.statuses.Mark(0, 0, 0, domain.MarkRefused)
	is(w.told(deployed), "DEPLOYED", "NOT_DEPLOYED")
	w.statuses.Change(func(s *status.Source) { // hooks: one that is not run, and one that was deleted
		id := s.Apps[0].Resources[0]
		s.Apps[0].Resources = []plan.ResourceID{id, id, id}
		s.Apps[0].Clusters[0].Marks = domain.Marks{domain.MarkApplied, domain.MarkIdle, domain.MarkDeleted}
	})
	is(w.told(deployed), "DEPLOYED", "DEPLOYED")
}

func TestNetworksOfACluster(t *testing.T) {
	w := newWorld(t)
	w.statuses.Change(func(s *status.Source) {
		s.Subject, s.Status, s.Name = status.SubjectNetworks, domain.ContextInstantiated, "provider+edge-0000"
	})
	in := registration("networks", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_ALL)
	in.Key = &statusnotify.StatusRegistration_ClusterKey{ClusterKey: &statusnotify.ClusterKey{ClusterProvider: "provider", Cluster: "edge-0000"}}
	s := w.register(in)
	w.statuses.Mark(0, 0, 0, domain.MarkApplied)
	n := w.told(s)
	require.Equal(t, statusnotify.StatusValue_DEPLOYED, n.GetStatusValue())
	require.Len(t, n.GetDetails(), 1)
	c := n.GetDetails()[0].GetCluster()
	require.Equal(t, "edge-0000", c.GetCluster())
	require.Equal(t, statusnotify.StatusValue_DEPLOYED, c.GetResources()[0].GetStatusValue())
}

func TestALogicalCloud(t *testing.T) {
	w := newWorld(t)
	w.statuses.Change(func(s *status.Source) { s.Subject, s.Name = status.SubjectCloud, "lc" })
	in := registration("cloud", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_ALL)
	in.Key = &statusnotify.StatusRegistration_LcKey{LcKey: &statusnotify.LcKey{Project: "fleet", LogicalCloud: "lc"}}
	s := w.register(in)
	w.statuses.Change(func(s *status.Source) {
		s.Status, s.Apps[0].Clusters[0].Marks[0] = domain.ContextInstantiated, domain.MarkApplied
	})
	n := w.told(s)
	require.Equal(t, statusnotify.StatusValue_DEPLOYED, n.GetStatusValue())
	require.Len(t, n.GetDetails(), 1)
	c := n.GetDetails()[0].GetCluster()
	require.Equal(t, "edge-0000", c.GetCluster())
	require.Equal(t, statusnotify.StatusValue_DEPLOYED, c.GetResources()[0].GetStatusValue())
}

func TestRegistrationsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	good := func(change func(*statusnotify.StatusRegistration)) *statusnotify.StatusRegistration {
		r := registration("good", statusnotify.StatusValue_READY, statusnotify.OutputType_ALL)
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		registration *statusnotify.StatusRegistration
		code         codes.Code
		text         string
	}{
		"no client":       {good(func(r *statusnotify.StatusRegistration) { r.ClientId = "" }), codes.InvalidArgument, "client ID"},
		"no type":         {good(func(r *statusnotify.StatusRegistration) { r.StatusType = 0 }), codes.InvalidArgument, "STATUS_ERROR"},
		"a negative type": {good(func(r *statusnotify.StatusRegistration) { r.StatusType = 1 }), codes.InvalidArgument, "NOT_READY"},
		"unknown output":  {good(func(r *statusnotify.StatusRegistration) { r.Output = 7 }), codes.InvalidArgument, "output"},
		"no key":          {good(func(r *statusnotify.StatusRegistration) { r.Key = nil }), codes.InvalidArgument, "digKey"},
		"half a key":      {good(func(r *statusnotify.StatusRegistration) { r.GetDigKey().CompositeApp = "" }), codes.InvalidArgument, "digKey.compositeApp"},
		"bad cluster":     {good(func(r *statusnotify.StatusRegistration) { r.Clusters = []string{"c"} }), codes.InvalidArgument, "cluster query"},
		"unknown app":     {good(func(r *statusnotify.StatusRegistration) { r.Apps = []string{"none"} }), codes.InvalidArgument, "none"},
		"apps of a cloud": {good(func(r *statusnotify.StatusRegistration) {
			r.Apps, r.Key = []string{"sink"}, &statusnotify.StatusRegistration_LcKey{LcKey: &statusnotify.LcKey{Project: "p", LogicalCloud: "lc"}}
		}), codes.InvalidArgument, "apps: a logical cloud has none"},
		"half a cloud": {good(func(r *statusnotify.StatusRegistration) { r.Key = &statusnotify.StatusRegistration_LcKey{} }), codes.InvalidArgument, "lcKey.project"},
		"half a cluster": {good(func(r *statusnotify.StatusRegistration) {
			r.Key = &statusnotify.StatusRegistration_ClusterKey{ClusterKey: &statusnotify.ClusterKey{Cluster: "c"}}
		}), codes.InvalidArgument, "clusterKey.clusterProvider"},
	} {
		t.Run(name, func(t *testing.T) {
			w.T = t
			s, err := w.client.StatusRegister(w.ctx, c.registration)
			require.NoError(t, err)
			w.refused(s, c.code, c.text)
		})
	}
	w.T = t
	w.statuses.Fail(fail.New(fail.NotFound, "deployment intent group not found"))
	s, err := w.client.StatusRegister(w.ctx, good(func(*statusnotify.StatusRegistration) {}))
	require.NoError(t, err)
	w.refused(s, codes.NotFound, "deployment intent group not found")
}

func TestOneStreamAClient(t *testing.T) {
	w := newWorld(t)
	in := registration("one", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_SUMMARY)
	first := w.register(in)
	second, err := w.client.StatusRegister(w.ctx, in)
	require.NoError(t, err)
	w.refused(second, codes.AlreadyExists, "Duplicate client ID: one")
	w.statuses.Change(func(s *status.Source) { s.Status = domain.ContextInstantiated })
	w.told(first)
}

// manyResources make notifications of which a connection takes few.
const manyResources = 1000

// change makes a change, and waits until the hub has seen it.
func (w *world) change(n int) {
	w.Helper()
	_, before := w.statuses.Asked()
	w.statuses.Mark(0, 0, 0, []domain.Mark{domain.MarkApplied, domain.MarkRefused}[n%2])
	require.Eventually(w, func() bool {
		_, after := w.statuses.Asked()
		return after > before
	}, 30*time.Second, time.Millisecond)
}

func TestWhoDoesNotReadIsDropped(t *testing.T) {
	rpc.SetSendTime(t, 100*time.Millisecond)
	w := newWorldOf(t, manyResources)
	s := w.register(registration("slow", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_ALL))
	for n := 0; w.subscribers() > 0; n++ {
		w.change(n)
	}
	_, err := s.Recv()
	for err == nil {
		_, err = s.Recv()
	}
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err), "%v", err)
	require.ErrorContains(t, err, "too slowly")
	require.InDelta(t, 1, w.metric("drover_status_subscribers_dropped_total"), 0)
}

// TestASlowDatabaseIsNoTimeOfTheClients: it has set none, and comes again.
func TestASlowDatabaseIsNoTimeOfTheClients(t *testing.T) {
	w := newWorld(t)
	w.statuses.Fail(fail.New(fail.Timeout, "the database does not answer in time"))
	s, err := w.client.StatusRegister(w.ctx, registration("one", statusnotify.StatusValue_READY, statusnotify.OutputType_SUMMARY))
	require.NoError(t, err)
	_, err = s.Recv()
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err), "%v", err)
	require.ErrorContains(t, err, "the database does not answer in time")
}

// TestWhoCompressesAndDoesNotReadIsDropped as soon: of a large notification that gRPC compresses nobody sees whether it goes on.
func TestWhoCompressesAndDoesNotReadIsDropped(t *testing.T) {
	rpc.SetSendTime(t, 100*time.Millisecond)
	w := newWorldOf(t, 10*manyResources)
	s, err := w.client.StatusRegister(w.ctx, registration("slow", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_ALL), grpc.UseCompressor(gzip.Name))
	require.NoError(t, err)
	_, err = s.Header()
	require.NoError(t, err)
	for n := 0; w.subscribers() > 0; n++ {
		w.change(n)
	}
	for err == nil {
		_, err = s.Recv()
	}
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err), "%v", err)
	require.ErrorContains(t, err, "too slowly")
}

// TestALargeNotificationArrives, compressed as the client has it or in parts.
func TestALargeNotificationArrives(t *testing.T) {
	for name, options := range map[string][]grpc.CallOption{"in parts": nil, "compressed": {grpc.UseCompressor(gzip.Name)}} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, 10*manyResources)
			s, err := w.client.StatusRegister(w.ctx, registration("one", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_ALL), options...)
			require.NoError(t, err)
			_, err = s.Header()
			require.NoError(t, err)
			for n := range 2 {
				w.change(n)
				told, err := s.Recv()
				require.NoError(t, err)
				require.Greater(t, proto.Size(told), 5*64<<10)
			}
		})
	}
}

// TestALargeNotificationEndsBeforeItsStream: who has deregistered while one is on its way reads it, and then the end.
func TestALargeNotificationEndsBeforeItsStream(t *testing.T) {
	w := newWorldOf(t, 10*manyResources)
	for n, begun := 0, false; !begun; n++ {
		s := w.register(registration("one", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_ALL))
		w.change(n)
		<-time.After(time.Duration(n) * 5 * time.Millisecond) // until it is on its way, which nobody tells
		_, err := w.client.StatusDeregister(w.ctx, &statusnotify.StatusDeregistration{ClientId: "one"})
		require.NoError(t, err)
		for err == nil {
			if _, err = s.Recv(); err == nil {
				begun = true
			}
		}
		require.ErrorIs(t, err, io.EOF)
	}
}

// TestTheIDOfWhoDoesNotReadIsFree as soon as it has deregistered.
func TestTheIDOfWhoDoesNotReadIsFree(t *testing.T) {
	w := newWorldOf(t, manyResources)
	in := registration("one", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_ALL)
	w.register(in)
	for n := range 3 {
		w.change(n)
	}
	_, err := w.client.StatusDeregister(w.ctx, &statusnotify.StatusDeregistration{ClientId: "one"})
	require.NoError(t, err)
	again, err := w.client.StatusRegister(w.ctx, in)
	require.NoError(t, err)
	told := make(chan error, 1)
	go func() {
		_, err := again.Recv()
		told <- err
	}()
	for n := 3; len(told) == 0; n++ {
		w.change(n)
	}
	require.NoError(t, <-told)
	require.Eventually(t, func() bool { return w.subscribers() == 1 }, 30*time.Second, time.Millisecond, "nothing of the first one is left")
}

func TestStreamsEndInOrder(t *testing.T) {
	w := newWorld(t)
	answer, err := w.health.Check(w.ctx, &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.GetStatus())
	gone := w.register(registration("a", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_SUMMARY))
	w.statuses.Fail(fail.New(fail.NotFound, "deployment intent group not found"))
	w.refused(gone, codes.NotFound, "not found")
	w.statuses.Fail(nil)
	stopped := w.register(registration("a", statusnotify.StatusValue_DEPLOYED, statusnotify.OutputType_SUMMARY))
	w.stop()
	w.refused(stopped, codes.Unavailable, "stops")
	require.NotContains(t, w.log.String(), "level=ERROR")
}
