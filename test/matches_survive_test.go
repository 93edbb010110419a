package test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"google.golang.org/grpc/codes"

	"github.com/drover-io/drover/internal/client"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/idle"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/service"
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

// reach waits until something is reached.
func reach(ctx context.Context, t *testing.T, there <-chan struct{}) {
	t.Helper()
	select {
	case <-there:
	case <-ctx.Done():
		require.FailNow(t, "not reached", "%v", context.Cause(ctx))
	}
}

// TestMatchesMeet changes rules and workloads while they are matched and made, and has all of it come to its end: then what is in
// the cluster are the objects of the records.
func TestMatchesMeet(t *testing.T) {
	t.Parallel()
	s := harness.NewStack(t)
	for name, part := range map[string]func(*testing.T, *harness.Stack){
		"an answer that is cut off":                    lostAnswer,
		"a rule that is updated and deleted meanwhile": changedRule,
		"rules and workloads that cross":               crossing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			part(t, s)
		})
	}
}

// TestMatchesSurviveWithoutWorker kills and freezes what settles matches, and takes their cluster away, and has all of it come to
// its end: then what is in the cluster are the objects of the records.
func TestMatchesSurviveWithoutWorker(t *testing.T) {
	t.Parallel()
	s := harness.NewStack(t)
	t.Run("the worker", func(t *testing.T) { killedWorker(t, s) })
	t.Run("a cluster that is away", func(t *testing.T) { awayCluster(t, s) })
	t.Run("a worker that is frozen", func(t *testing.T) { frozenBetween(t, s) })
	t.Run("its workflows and its servers", func(t *testing.T) { killedServers(t, s) })
}

// TestMatchesSurviveWithoutAPI is TestMatchesSurviveWithoutWorker with what takes in workloads.
func TestMatchesSurviveWithoutAPI(t *testing.T) {
	t.Parallel()
	s := harness.NewStack(t)
	t.Run("between storing and settling", func(t *testing.T) { killedAPI(t, s) })
	t.Run("in a large sync", func(t *testing.T) { killedInSync(t, s) })
	t.Run("two agents", func(t *testing.T) { twoAgents(t, s) })
	t.Run("one that is frozen", func(t *testing.T) { frozenAPI(t, s) })
}

// lostAnswer cuts off the answers to a create and to a delete.
func lostAnswer(t *testing.T, s *harness.Stack) {
	t.Helper()
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
		reach(ctx, t, reached)
		release()
		e.settled(ctx, c.left)
	}
}

// changedRule updates a rule while half of its objects are made, and deletes it while they are made anew.
func changedRule(t *testing.T, s *harness.Stack) {
	t.Helper()
	ctx := within(t)
	e := newTenancy(ctx, t, s, domain.ReportNone)
	e.run(ctx, 1) // the namespace is there
	e.settled(ctx, 1)
	gate := e.cluster.Gate(http.MethodPost, 30)
	e.run(ctx, 100)
	harness.Until(ctx, t, "some are made", func() bool { return len(e.pods(ctx)) >= 20 })
	e.putRule(ctx, "nginx:2")
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
	e.settled(ctx, 0)
}

// killedServers ends the workflows of a tenant by hand, and kills Temporal and the database.
func killedServers(t *testing.T, s *harness.Stack) {
	t.Helper()
	ctx := within(t)
	e := newTenancy(ctx, t, s, domain.ReportNone)
	temporal := s.TemporalClient()
	e.run(ctx, 1) // the namespace is there
	e.settled(ctx, 1)
	gate := e.cluster.Gate(http.MethodPost, 5)
	e.run(ctx, 20)
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
	harness.Until(ctx, t, "some are gone", func() bool { return len(e.pods(ctx)) < 20 })
	s.Temporal.Kill()
	s.StartTemporal()
	s.Database.Kill()
	s.StartDatabase()
	gate.Open()
	e.settled(ctx, 0)
}

// TestMatchesThatAreCancelledByHand: a run is cancelled as the Web UI does, first one for some matches, then that of the tenant. What it
// was at stays in records, and is done by the run of the tenant, or the next one.
func TestMatchesThatAreCancelledByHand(t *testing.T) {
	t.Parallel()
	ctx, s := within(t), harness.SharedStack(t)
	e := newTenancy(ctx, t, s, domain.ReportNone)
	temporal := s.TemporalClient()
	const cancelled, completed = enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	cancel := func(id string, ends ...enumspb.WorkflowExecutionStatus) {
		t.Helper()
		harness.Until(ctx, t, id+" is there to be cancelled", func() bool { return temporal.CancelWorkflow(ctx, id, "") == nil })
		status := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		harness.Until(ctx, t, id+" has ended", func() bool {
			d, err := temporal.DescribeWorkflowExecution(ctx, id, "")
			require.NoError(t, err)
			status = d.GetWorkflowExecutionInfo().GetStatus()
			return status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		})
		require.Contains(t, ends, status, id)
		made := map[string]bool{}
		for _, r := range e.records(ctx) {
			if r.Made != nil {
				made[r.Made.Name] = true
			}
		}
		for name := range e.pods(ctx) {
			require.True(t, made[name], "%s is in the cluster without a record", name)
		}
	}
	e.run(ctx, 1) // the namespace is there
	e.settled(ctx, 1)
	gate := e.cluster.Gate(http.MethodPost, 0) // so that it is at its work
	e.run(ctx, 20)
	id, r := workflows.TenantID(e.tenant.Name), &recorder{temporal: temporal}
	var child string
	harness.Until(ctx, t, "a child", func() bool { child = childOf(r.history(ctx, t, id), ""); return child != "" })
	cancel(child, cancelled, completed) // its request may come to its end, or be given up, before it hears of it
	gate.Open()
	e.settled(ctx, 20)

	gate = e.cluster.Gate(http.MethodDelete, 5)
	e.end(ctx)
	harness.Until(ctx, t, "some are gone", func() bool { return len(e.pods(ctx)) < 20 })
	cancel(id, cancelled)
	require.NotEmpty(t, e.records(ctx), "what is due is due still")
	gate.Open()
	trigger(ctx, t, temporal, workflows.BehindSchedule)
	e.settled(ctx, 0)
}

// TestMatchesOfAClusterThatDoesNotComeBack: its tenant is abandoned, and told what is left. When the cluster comes back after all that
// is deleted. When its registration is abandoned, too, nobody looks for it any more, and it stays.
func TestMatchesOfAClusterThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	s := harness.SharedStack(t)
	abandoned := func(ctx context.Context, t *testing.T) *tenancy {
		t.Helper()
		e := newTenancy(ctx, t, s, domain.ReportNone)
		e.run(ctx, 3)
		e.settled(ctx, 3)
		e.cluster.Down()
		e.deleteRule(ctx)
		tenant := domain.KeyOf(e.tenant)
		require.ErrorContains(t, e.api.Delete(ctx, tenant), "abandon=true")
		left, err := e.api.Abandon(ctx, tenant)
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Contains(t, left[0], fmt.Sprintf("may still have 3 objects of tenant %q", e.tenant.Name))
		_, err = e.api.Get(ctx, domain.Tenants, tenant)
		require.True(t, fail.Is(err, fail.NotFound), "%v", err)
		again := &domain.Tenant{Metadata: e.tenant.Metadata, Spec: e.tenant.Spec}
		_, err = e.api.Create(ctx, again, nil)
		require.True(t, fail.Is(err, fail.Conflict), "nobody gets what is left of another one: %v", err)
		told, err := e.api.Explain(ctx, e.tenant.ClusterName().Key())
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(told.Reasons), "3 objects of tenant")
		require.NoError(t, e.api.Delete(ctx, e.tenant.ClusterName().Key().Child(domain.ClusterLabels.Collection, "edge")))
		return e
	}
	forgotten := func(ctx context.Context, e *tenancy) {
		e.Helper()
		trigger(ctx, t, s.TemporalClient(), workflows.BehindSchedule) // which comes within a minute
		harness.Until(ctx, e, "no record is left", func() bool {
			homes, err := e.store.HomesOf(ctx, e.tenant.ContextID)
			require.NoError(e, err)
			return len(homes)+len(e.records(ctx)) == 0
		})
	}
	t.Run("and comes back", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		e := abandoned(ctx, t)
		e.cluster.Up(t)
		forgotten(ctx, e)
		require.Empty(t, e.pods(ctx))
		require.NoError(t, e.api.Delete(ctx, e.tenant.ClusterName().Key()), "nothing is left there")
	})
	t.Run("and is abandoned", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		e := abandoned(ctx, t)
		cluster := e.tenant.ClusterName().Key()
		require.ErrorContains(t, e.api.Delete(ctx, cluster), "3 objects of tenant")
		left, err := e.api.Abandon(ctx, cluster)
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Contains(t, left[0], "3 objects of tenant")
		forgotten(ctx, e)
		require.Len(t, e.pods(ctx), 3)
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
			reach(ctx, t, reached)
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
	temporal := s.TemporalClient()
	waits := func() {
		t.Helper()
		harness.Until(ctx, t, "waits for the cluster", func() bool {
			d, err := temporal.DescribeWorkflowExecution(ctx, workflows.TenantID(e.tenant.Name), "")
			return err == nil && // else the workloads are stored, and it is not started yet
				slices.ContainsFunc(d.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
					return a.GetActivityType().GetName() == awaiting
				})
		})
	}
	e.cluster.Down()
	e.run(ctx, 10)
	waits()
	e.end(ctx)
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
	e.settled(ctx, 10)
	e.cluster.Down()
	e.end(ctx)
	waits()
	e.cluster.Up(t)
	e.settled(ctx, 0)
}

// madeWithin is how long it takes at most, on an idle machine, until a match is made whose API has died, with no word from the
// agent.
const madeWithin = 75 * time.Second

// settledWithin is settled, by the clock of who killed the API.
func (e *tenancy) settledWithin(ctx context.Context, since *idle.Clock, n int) {
	e.Helper()
	e.settled(ctx, n)
	quiet, wall := since.Read()
	since.Stop()
	e.Logf("%d settled %s after the API was killed, which are %s on an idle machine", n, wall, quiet)
	require.Less(e, quiet, madeWithin)
}

// killedAPI kills an API after it has stored workloads, before their matches are evaluated or settled. The agent does not come
// back.
func killedAPI(t *testing.T, s *harness.Stack) {
	t.Helper()
	t.Run("evaluating", func(t *testing.T) {
		ctx := within(t)
		e := newTenancy(ctx, t, s, domain.ReportNone)
		a := e.agent(ctx)
		for i := range 500 { // one after another they are more than can be evaluated before the first is seen
			a.update(e.workload(i))
		}
		harness.Until(ctx, t, "some are stored", func() bool {
			n, _, err := e.store.CountWorkloads(ctx, e.tenant.Name)
			require.NoError(t, err)
			return n > 0
		})
		s.API.Kill()
		killed := idle.Start(t)
		s.StartAPI()
		all, _, err := e.store.WorkloadsAt(ctx, e.tenant.Name)
		require.NoError(t, err)
		clear(e.workloads)
		for _, w := range all {
			e.workloads[w.ID] = w
		}
		e.settledWithin(ctx, killed, len(all))
	})
	t.Run("starting", func(t *testing.T) {
		ctx := within(t)
		e := newTenancy(ctx, t, s, domain.ReportNone)
		s.Temporal.Kill() // so that nobody can be started
		e.run(ctx, 1)
		s.API.Kill()
		killed := idle.Start(t)
		s.StartTemporal()
		trigger(ctx, t, s.TemporalClient(), workflows.BehindSchedule) // which comes within a minute
		e.settledWithin(ctx, killed, 1)
		s.StartAPI()
		s.Temporal.Kill()
		e.end(ctx)
		s.API.Kill()
		s.StartTemporal()
		s.StartAPI() // which starts whoever is behind
		e.settled(ctx, 0)
	})
}

// killedInSync kills an API while it takes a sync of 5,000, of which a part matches. The agent goes to another process.
func killedInSync(t *testing.T, s *harness.Stack) {
	t.Helper()
	ctx := within(t)
	e := newTenancy(ctx, t, s, domain.ReportNone)
	other := s.AddAPI(t)
	e.run(ctx, 30)
	e.settled(ctx, 30)
	for i := range 5000 {
		if w := e.workload(i); i >= 40 {
			w.ResourceNamespace = "elsewhere"
		}
	}
	delete(e.workloads, "w0")
	a := e.agent(ctx)
	a.sync()
	s.API.Kill()
	require.Equal(t, codes.Unavailable, a.ends())
	delete(e.workloads, "w1") // what it has said is not so any more
	b := e.agentAt(ctx, other.Tenants)
	b.sync()
	s.StartAPI()
	b.end()
	e.settled(ctx, 38)
	delete(e.workloads, "w2")
	a = e.agent(ctx)
	a.sync()
	require.Eventually(t, func() bool {
		n, _, err := e.store.CountWorkloads(ctx, e.tenant.Name)
		return err == nil && n == len(e.workloads)
	}, harness.Patience, time.Millisecond, "stored, and hardly evaluated")
	s.API.Kill()
	require.Equal(t, codes.Unavailable, a.ends())
	b = e.agentAt(ctx, other.Tenants)
	b.sync()
	b.end()
	s.StartAPI()
	e.settled(ctx, 37)
	e.end(ctx)
	e.settled(ctx, 0)
}

// crossing makes rules and workloads at once, each by another process of the API: none is missed.
func crossing(t *testing.T, s *harness.Stack) {
	t.Helper()
	ctx := within(t)
	e := newTenancy(ctx, t, s, domain.ReportNone)
	e.deleteRule(ctx)
	other := s.AddAPI(t)
	agents := []*tenantAgent{e.agent(ctx)}
	apis := []*client.API{other.Client.API(), e.api}
	const rounds = limits.TenantRules // each has a rule of its own
	for i := range rounds {
		if i == rounds/2 { // the other way around
			agents[0].end()
			agents, apis[0] = append(agents, e.agentAt(ctx, other.Tenants)), apis[1]
		}
		w, rule := e.workload(i), e.newRule("nginx:1")
		rule.Name = fmt.Sprint("rule-", i)
		rule.Spec.WorkloadTerms[0].MatchExpressions[0] = domain.MatchExpression{
			Key: "metadata.id", Operation: domain.OperationIn, Values: []string{w.ID},
		}
		made := make(chan error, 1)
		go func() {
			_, err := apis[0].Create(ctx, rule, nil)
			made <- err
		}()
		agents[len(agents)-1].update(w)
		require.NoError(t, <-made)
	}
	agents[1].end()
	e.settled(ctx, rounds)
}

// twoAgents has two agents for one tenant: the first is displaced. The second is killed, and started again when it has missed 30
// changes.
func twoAgents(t *testing.T, s *harness.Stack) {
	t.Helper()
	ctx := within(t)
	e := newTenancy(ctx, t, s, domain.ReportNone)
	other := s.AddAPI(t)
	e.workload(0)
	first := e.agent(ctx)
	first.sync()
	e.told(ctx)
	for i := range 40 {
		e.workload(i)
	}
	second := e.agentAt(ctx, other.Tenants)
	second.sync()
	require.Equal(t, codes.Aborted, first.ends())
	first.delete("w0") // it is not heard any more
	e.settled(ctx, 40)
	second.kill()
	status := func() *service.TenantStatus {
		got, err := e.api.TenantStatus(ctx, domain.KeyOf(e.tenant))
		require.NoError(t, err)
		return got
	}
	harness.Until(ctx, t, "stale", func() bool { return !status().Connected })
	e.settled(ctx, 40)
	for i := range 10 { // ten have ended, ten have come, ten do not match any more
		delete(e.workloads, fmt.Sprint("w", i))
		e.workload(40 + i)
		e.workload(10 + i).ResourceNamespace = "elsewhere"
	}
	third := e.agent(ctx)
	third.sync()
	e.settled(ctx, 30)
	require.True(t, status().Connected)
	third.end()
	e.end(ctx)
	e.settled(ctx, 0)
}

// awaiting is the activity that waits for a cluster that does not answer.
const awaiting = "AwaitCluster"

func isAwaiting(event *historypb.HistoryEvent) bool {
	return event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == awaiting
}
