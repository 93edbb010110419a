package test

import (
	"context"
	"io"
	"iter"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/statusnotify"
	"github.com/drover-io/drover/test/harness"
)

// stream is a stream of a deployment's status that is read event by event.
type stream struct {
	next func() (client.Event, error, bool)
	stop func()
}

// streamOf watches a deployment, after an event that is known, "" for none. It is opened when it is read first.
func streamOf(ctx context.Context, d *client.Deployment, query url.Values, after string) *stream {
	next, stop := iter.Pull2(d.API.StreamStatus(ctx, d.Key(), query, after))
	return &stream{next, stop}
}

// Next waits for the next event; io.EOF when the server has closed the stream.
func (s *stream) Next() (client.Event, error) {
	e, err, ok := s.next()
	if !ok {
		err = io.EOF
	}
	return e, err
}

func (s *stream) Close() { s.stop() }

// followed follows a stream until its status is as wanted, and gives the id of the last event.
func followed(t *testing.T, w *stream, wanted domain.ContextStatus) (id string) {
	t.Helper()
	for {
		e, err := w.Next()
		require.NoError(t, err)
		require.Contains(t, []string{"status", "change"}, e.Kind, e.Data)
		now, err := e.Status()
		require.NoError(t, err)
		if now.Status == wanted {
			return e.ID
		}
	}
}

// notified begins a stream of notifications of a deployment.
func notified(ctx context.Context, t *testing.T, s *harness.Stack, d *client.Deployment, in *statusnotify.StatusRegistration) (statusnotify.StatusNotifyClient, grpc.ServerStreamingClient[statusnotify.StatusNotification]) {
	t.Helper()
	connection, err := grpc.NewClient(s.RPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	in.Key = &statusnotify.StatusRegistration_DigKey{DigKey: &statusnotify.DigKey{
		Project: d.Project, CompositeApp: d.CompositeApp, CompositeAppVersion: d.Version, DeploymentIntentGroup: d.Group,
	}}
	c := statusnotify.NewStatusNotifyClient(connection)
	stream, err := c.StatusRegister(ctx, in)
	require.NoError(t, err)
	return c, stream
}

// until reads notifications until one has the value.
func until(t *testing.T, stream grpc.ServerStreamingClient[statusnotify.StatusNotification], value statusnotify.StatusValue) *statusnotify.StatusNotification {
	t.Helper()
	for {
		n, err := stream.Recv()
		require.NoError(t, err)
		if n.GetStatusValue() == value {
			return n
		}
	}
}

// crowd watches in great number. Each one counts what it is told, and says how it ended.
type crowd struct {
	wait  sync.WaitGroup
	mu    sync.Mutex
	told  []int
	ended map[string]int
}

func gather(ctx context.Context, t *testing.T, d *client.Deployment, query url.Values, n int) *crowd {
	t.Helper()
	c := &crowd{told: make([]int, n), ended: map[string]int{}}
	for i := range n {
		w := streamOf(ctx, d, query, "")
		first, err := w.Next()
		require.NoError(t, err)
		require.Equal(t, "status", first.Kind)
		c.wait.Go(func() {
			defer w.Close()
			for {
				e, err := w.Next()
				c.mu.Lock()
				switch {
				case err != nil:
					c.ended[err.Error()]++
				case e.Kind == "change":
					c.told[i]++
				default:
					c.ended[e.Kind]++
				}
				c.mu.Unlock()
				if err != nil || e.Kind != "change" {
					return
				}
			}
		})
	}
	return c
}

func TestStatusIsWatched(t *testing.T) {
	t.Parallel()
	const many = 500
	ctx, s, clusters := within(t), harness.NewStack(t), twoClusters(t)
	c := clusters[0]
	d := s.On(ctx, []domain.ClusterName{register(ctx, t, s, c, "agentless")}, reportedApp(t))
	ready, summaryOfReady := url.Values{"status": {"ready"}}, url.Values{"status": {"ready"}, "output": {"summary"}}
	do(ctx, t, d, "approve")
	w := streamOf(ctx, d, nil, "")
	rpc, notifications := notified(ctx, t, s, d, &statusnotify.StatusRegistration{
		ClientId: "test", StatusType: statusnotify.StatusValue_READY, Output: statusnotify.OutputType_ALL,
	})
	_, err := notifications.Header() // comes when it is registered: the other one, on its own connection, may be first otherwise
	require.NoError(t, err)
	_, twice := notified(ctx, t, s, d, &statusnotify.StatusRegistration{
		ClientId: "test", StatusType: statusnotify.StatusValue_READY,
	})
	_, err = twice.Recv()
	require.Equal(t, codes.AlreadyExists, grpcstatus.Code(err), "%v", err)

	gate := c.Gate("", 0)
	do(ctx, t, d, "instantiate")
	followed(t, w, "Instantiating")
	gate.Open()
	id := followed(t, w, "Instantiated")
	w.Close()
	told := until(t, notifications, statusnotify.StatusValue_READY)
	require.Len(t, told.GetDetails(), 1)
	require.Equal(t, statusnotify.StatusValue_READY, told.GetDetails()[0].GetApp().GetClusters()[0].GetStatusValue())

	t.Run("many subscribers cost one evaluation a change", func(t *testing.T) {
		ctx := within(t)
		crowd := gather(ctx, t, d, ready, many)
		harness.Until(ctx, t, "all counted", func() bool { return harness.Metrics(ctx, t, s.URL())["drover_status_subscribers"] == many+1 })
		before, began := harness.Metrics(ctx, t, s.URL()), time.Now()
		reporter := streamOf(ctx, d, summaryOfReady, "")
		defer reporter.Close()
		_, err := reporter.Next()
		require.NoError(t, err)
		const replicas = 4
		scale(ctx, t, c, d, replicas)
		reports(ctx, t, s, d, "status=ready", func(r *reportedStatus) bool { return r.Ready == "Ready" && len(r.of("Pod")) == replicas })
		var told int
		harness.Until(ctx, t, "told the same, all", func() bool {
			crowd.mu.Lock()
			defer crowd.mu.Unlock()
			told = crowd.told[0]
			for _, n := range crowd.told {
				if n != told {
					return false
				}
			}
			return told > 0
		})
		after, took := harness.Metrics(ctx, t, s.URL()), time.Since(began)
		evaluations := after["drover_status_evaluations_total"] - before["drover_status_evaluations_total"]
		t.Logf("%d subscribers were told of %d changes in %s: %.0f evaluations", many, told, took.Round(time.Millisecond), evaluations)
		// A change is evaluated once, and so is what a cluster says that the documents do not show.
		require.Less(t, evaluations, 4*took.Seconds()+5, "no more than looks")
		require.Zero(t, after["drover_status_subscribers_dropped_total"])

		stopping := time.Now()
		require.NoError(t, s.API.Stop(ctx))
		crowd.wait.Wait()
		t.Logf("the API stopped after %s", time.Since(stopping).Round(time.Millisecond))
		require.Equal(t, map[string]int{"end": many}, crowd.ended)
	})
	_, err = notifications.Recv()
	for err == nil {
		_, err = notifications.Recv()
	}
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err), "%v", err)
	s.StartAPI()

	t.Run("nothing is said to be ready that nobody confirms", func(t *testing.T) {
		ctx := within(t)
		w := streamOf(ctx, d, summaryOfReady, "")
		defer w.Close()
		is := func(ready string) {
			t.Helper()
			began := time.Now()
			for {
				e, err := w.Next()
				require.NoError(t, err)
				now, err := e.Status()
				require.NoError(t, err)
				if now.Ready == ready {
					t.Logf("%s after %s", ready, time.Since(began).Round(10*time.Millisecond))
					return
				}
			}
		}
		is("Ready")
		s.Worker.Kill()
		is("NotReady")
		s.StartWorker()
		is("Ready")
	})

	t.Run("resume", func(t *testing.T) {
		ctx := within(t)
		w := streamOf(ctx, d, nil, id)
		first, err := w.Next()
		require.NoError(t, err)
		require.Equal(t, "status", first.Kind, "the API is another process")
		do(ctx, t, d, "terminate")
		before := w // for what nobody watches is soon forgotten
		w = streamOf(ctx, d, nil, first.ID)
		defer w.Close()
		next, err := w.Next()
		require.NoError(t, err)
		before.Close()
		require.Equal(t, "change", next.Kind, "what came meanwhile: %s", next.Data)
		if !strings.Contains(next.Data, `"deployedStatus":"Terminated"`) {
			followed(t, w, "Terminated")
		}
		forget(ctx, t, d)
		for next.Kind != "end" {
			next, err = w.Next()
			require.NoError(t, err)
		}
		require.Contains(t, next.Data, "NotFound")
		_, err = w.Next()
		require.ErrorIs(t, err, io.EOF)
		_, err = streamOf(ctx, d, nil, first.ID).Next()
		require.Equal(t, 404, code(t, err))
	})
	_, err = rpc.StatusDeregister(ctx, &statusnotify.StatusDeregistration{ClientId: "test"})
	require.NoError(t, err)
}
