package test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/workflows"
)

// moment is where in a request something happens to it.
type moment string

const (
	before  moment = "before it is sent"
	in      moment = "while the cluster does it"
	after   moment = "when it is answered"
	cutting moment = "its answer is cut off"
)

// at holds the first write with a method at a moment. reached is closed then, and release lets everything through.
func (e *tenancy) at(m moment, method string) (reached <-chan struct{}, release func()) {
	there, over := make(chan struct{}), make(chan struct{})
	var once sync.Once
	tell := func() { once.Do(func() { close(there) }) }
	e.cluster.Harm(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != method || !strings.Contains(r.URL.Path, "/pods") {
			next.ServeHTTP(w, r)
			return
		}
		switch m {
		case after:
			next.ServeHTTP(w, r)
			tell()
			return
		case in, cutting: // the cluster does it, whoever waits
			next.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		case before:
		}
		tell()
		if m != cutting {
			select {
			case <-r.Context().Done():
			case <-over:
			}
		}
		panic(http.ErrAbortHandler)
	})
	return there, func() { e.cluster.Harm(nil); close(over) }
}

// TestMatchesSurvive kills what settles matches, and has all of it come to its end: then what is in the cluster are the objects
// of the records.
func TestMatchesSurvive(t *testing.T) {
	t.Parallel()
	s := harness.NewStack(t)
	t.Run("the worker", func(t *testing.T) { killedWorker(t, s) })
	t.Run("an answer that is cut off", func(t *testing.T) {
		ctx := within(t)
		e := newTenancy(ctx, t, s, domain.ReportNone)
		for _, c := range []struct {
			method string
			do     func()
			left   int
		}{
			{http.MethodPost, func() { e.run(ctx, 1) }, 1},
			{http.MethodDelete, func() { e.end(ctx) }, 0},
		} {
			reached, release := e.at(cutting, c.method)
			c.do()
			e.settle(ctx)
			<-reached
			release()
			e.settled(ctx, c.left)
		}
	})
	t.Run("a rule that is updated and deleted meanwhile", func(t *testing.T) {
		ctx := within(t)
		e := newTenancy(ctx, t, s, domain.ReportNone)
		e.run(ctx, 1) // the namespace is there
		e.settle(ctx)
		e.settled(ctx, 1)
		gate := e.cluster.Gate(http.MethodPost, 30)
		e.run(ctx, 100)
		e.settle(ctx)
		harness.Until(ctx, t, "some are made", func() bool { return len(e.pods(ctx)) >= 20 })
		e.putRule(ctx, "nginx:2")
		e.settle(ctx)
		gate.Open()
		harness.Until(ctx, t, "some are made anew", func() bool {
			for _, p := range e.pods(ctx) {
				if p.Spec.Containers[0].Image == "nginx:2" {
					return true
				}
			}
			return false
		})
		e.deleteRule(ctx)
		e.settle(ctx)
		e.settled(ctx, 0)
	})
	t.Run("a cluster that is away", func(t *testing.T) { awayCluster(t, s) })
	t.Run("who was to start it", func(t *testing.T) {
		ctx := within(t)
		e := newTenancy(ctx, t, s, domain.ReportNone)
		e.run(ctx, 1)
		e.mark(ctx) // and it has died
		s.API.Kill()
		s.StartAPI()
		e.settled(ctx, 1)
		e.end(ctx)
		e.mark(ctx)
		trigger(ctx, t, s.TemporalClient(), workflows.BehindSchedule)
		e.settled(ctx, 0)
	})
	t.Run("its workflows and its servers", func(t *testing.T) {
		ctx := within(t)
		e := newTenancy(ctx, t, s, domain.ReportNone)
		temporal := s.TemporalClient()
		e.run(ctx, 1) // the namespace is there
		e.settle(ctx)
		e.settled(ctx, 1)
		gate := e.cluster.Gate(http.MethodPost, 5)
		e.run(ctx, 20)
		e.settle(ctx)
		id := workflows.TenantID(e.tenant.Name)
		harness.Until(ctx, t, "some are made", func() bool { return len(e.pods(ctx)) > 1 })
		r := &recorder{temporal: temporal}
		var child string
		harness.Until(ctx, t, "a child", func() bool { child = childOf(r.history(ctx, t, id), ""); return child != "" })
		_ = temporal.TerminateWorkflow(ctx, child, "", "by hand") // it may have ended
		require.NoError(t, temporal.TerminateWorkflow(ctx, id, "", "by hand"))
		gate.Open()
		trigger(ctx, t, temporal, workflows.BehindSchedule)
		e.settled(ctx, 20)

		gate = e.cluster.Gate(http.MethodDelete, 5)
		e.end(ctx)
		e.settle(ctx)
		harness.Until(ctx, t, "some are gone", func() bool { return len(e.pods(ctx)) < 20 })
		s.Temporal.Kill()
		s.StartTemporal()
		s.Database.Kill()
		s.StartDatabase()
		gate.Open()
		e.settled(ctx, 0)
	})
}

// killedWorker kills a worker before, in and after the requests of creates and of deletes.
func killedWorker(t *testing.T, s *harness.Stack) {
	t.Helper()
	ctx := within(t)
	moments := []moment{before, in, after}
	tenants := map[moment]*tenancy{}
	for _, m := range moments {
		tenants[m] = newTenancy(ctx, t, s, domain.ReportNone)
	}
	for _, c := range []struct {
		method string
		do     func(e *tenancy)
		left   int
	}{
		{http.MethodPost, func(e *tenancy) { e.run(ctx, 1) }, 1},
		{http.MethodDelete, func(e *tenancy) { e.end(ctx) }, 0},
	} {
		var releases []func()
		for _, m := range moments {
			e := tenants[m]
			reached, release := e.at(m, c.method)
			releases = append(releases, release)
			c.do(e)
			e.settle(ctx)
			<-reached
		}
		s.Worker.Kill()
		killed := time.Now()
		for _, release := range releases {
			release()
		}
		s.StartWorker()
		for _, m := range moments {
			tenants[m].settled(ctx, c.left)
			t.Logf("%s %s: settled %s after the worker was killed", c.method, m, time.Since(killed).Round(time.Millisecond))
		}
	}
}

// awayCluster has a match made and ended while its cluster is away: nothing ever appears. What is to be deleted while it is away
// goes when it is back.
func awayCluster(t *testing.T, s *harness.Stack) {
	t.Helper()
	ctx := within(t)
	e := newTenancy(ctx, t, s, domain.ReportNone)
	r := &recorder{temporal: s.TemporalClient()}
	waits := func() {
		t.Helper()
		harness.Until(ctx, t, "waits for the cluster", func() bool {
			scheduled := 0
			for _, event := range r.history(ctx, t, workflows.TenantID(e.tenant.Name)).GetEvents() {
				if isAwaiting(event) {
					scheduled++
				}
			}
			return scheduled == 1
		})
	}
	e.cluster.Down()
	e.run(ctx, 10)
	e.settle(ctx)
	waits()
	e.end(ctx)
	e.settle(ctx)
	s.Restart()
	var creates atomic.Int64
	e.cluster.Harm(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPost {
			creates.Add(1)
		}
		next.ServeHTTP(w, r)
	})
	e.cluster.Up(t)
	e.settled(ctx, 0)
	require.Zero(t, creates.Load())

	e.run(ctx, 10)
	e.settle(ctx)
	e.settled(ctx, 10)
	e.cluster.Down()
	e.end(ctx)
	e.settle(ctx)
	waits()
	e.cluster.Up(t)
	e.settled(ctx, 0)
}

func isAwaiting(event *historypb.HistoryEvent) bool {
	return event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == "AwaitCluster"
}
