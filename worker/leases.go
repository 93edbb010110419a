package worker

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/lru"
	"github.com/drover-io/drover/internal/policy"
)

// knownTasks bounds the tasks whose arrival is kept: those that have arrived, and those of workflows in memory.
const knownTasks = 20_000

// Leases gives every attempt that this process makes at an activity a lease. An activity's is renewed by its heartbeats,
// at the moment at which one was sent that Temporal has taken; what is done in a workflow's own task has it as long as it
// may take itself, and as Temporal waits for the task. The SDK tells nobody of what Temporal has taken, so Leases listens
// to the connection.
type Leases struct {
	clock lease.Clock
	alive alive

	arrived *lru.Cache[string, lease.Instant] // by token of a task, or run of a workflow
	mu      sync.Mutex
	of      map[string]*lease.Lease // by token of a task
}

// NewLeases makes leases by a clock.
func NewLeases(clock lease.Clock) *Leases {
	return &Leases{
		clock: clock, alive: alive{last: clock()},
		arrived: lru.New[string, lease.Instant](knownTasks), of: map[string]*lease.Lease{},
	}
}

// Listen is what has to hear of every call to Temporal.
func (l *Leases) Listen(ctx context.Context, method string, request, answer any, c *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	sent := l.clock()
	err := call(ctx, method, request, answer, c, options...)
	l.hear(sent, request, answer, err)
	return err
}

// hear takes the answer to what was sent at a moment.
func (l *Leases) hear(sent lease.Instant, request, answer any, err error) {
	switch q := request.(type) {
	case *workflowservice.RecordActivityTaskHeartbeatRequest:
		l.beat(string(q.GetTaskToken()), sent, err)
		return
	case *workflowservice.PollActivityTaskQueueRequest, *workflowservice.PollWorkflowTaskQueueRequest, *workflowservice.RespondWorkflowTaskCompletedRequest:
	default:
		return
	}
	if err != nil {
		return
	}
	at := l.alive.since(sent, l.clock())
	switch a := answer.(type) {
	case *workflowservice.PollActivityTaskQueueResponse:
		l.arrive(string(a.GetTaskToken()), at)
	case *workflowservice.PollWorkflowTaskQueueResponse:
		if a.GetQuery() == nil { // else it is no turn of the workflow's
			l.arrive(a.GetWorkflowExecution().GetRunId(), at)
		}
	case *workflowservice.RespondWorkflowTaskCompletedResponse: // it may bring what comes next
		l.arrive(a.GetWorkflowTask().GetWorkflowExecution().GetRunId(), at)
		for _, t := range a.GetActivityTasks() {
			l.arrive(string(t.GetTaskToken()), at)
		}
	}
}

func (l *Leases) arrive(task string, at lease.Instant) {
	if task != "" {
		l.arrived.Add(task, at)
	}
}

// beat takes the answer to a heartbeat. That there is no such attempt says that another one was made, or none is wanted.
func (l *Leases) beat(token string, sent lease.Instant, err error) {
	l.mu.Lock()
	known := l.of[token]
	l.mu.Unlock()
	switch {
	case known == nil:
	case err == nil:
		known.Renew(sent)
	case status.Code(err) == codes.NotFound:
		known.Lose()
	}
}

// begin gives the context of an attempt its lease, until end is called.
func (l *Leases) begin(ctx context.Context, info activity.Info) (leased context.Context, end func()) {
	now := l.clock()
	if info.IsLocalActivity {
		known, lasts := now, policy.Task-policy.LeaseMargin
		if at, ok := l.arrived.Get(info.WorkflowExecution.RunID); ok {
			known = at
		}
		if deadline, ok := ctx.Deadline(); ok {
			lasts = min(lasts, now.Since(known)+time.Until(deadline))
		}
		x := lease.New(l.clock, known, lasts)
		return lease.With(ctx, x), x.Close
	}
	token, known := string(info.TaskToken), now
	if at, ok := l.arrived.Get(token); ok {
		known = at
		l.arrived.Remove(token)
	}
	lasts := info.HeartbeatTimeout
	if lasts == 0 {
		lasts = time.Until(info.Deadline)
	}
	x := lease.New(l.clock, known, lasts-policy.LeaseMargin)
	l.mu.Lock()
	l.of[token] = x
	l.mu.Unlock()
	return lease.With(ctx, x), func() {
		l.mu.Lock()
		delete(l.of, token)
		l.mu.Unlock()
		x.Close()
	}
}

// run notes that the process is alive until ctx ends.
func (l *Leases) run(ctx context.Context) {
	t := time.NewTicker(policy.Alive)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			l.alive.tick(l.clock())
		}
	}
}

// alive knows when the process was frozen last: what comes in while it is, it finds later, and cannot tell when it came. It finds it
// soon after it runs again. When the whole machine stood still that takes as long again as it did: TCP sends what nobody confirms
// after twice as long each time. What is found after that came after the freeze. Polls last a minute, and a busy machine holds up a
// process for a second now and then; all tasks that come within that minute would be lost otherwise.
type alive struct {
	mu          sync.Mutex
	last        lease.Instant // when it was seen to run
	from, until lease.Instant // its last freeze; zero for none
}

func (a *alive) tick(now lease.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(now)
}

func (a *alive) note(now lease.Instant) {
	if now.Since(a.last) >= policy.Frozen {
		if a.until == (lease.Instant{}) || a.last.Since(a.until) >= policy.Frozen { // else the one before goes on
			a.from = a.last
		}
		a.until = now
	}
	a.last = now
}

// since is the earliest moment at which an answer may have come that is found now, to what was asked at another.
func (a *alive) since(asked, now lease.Instant) lease.Instant {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(now)
	switch {
	case !a.until.After(asked): // it was not frozen meanwhile
		return now
	case now.Since(a.until) > a.until.Since(a.from)+policy.Frozen: // it has run for long since
		return now
	case a.from.After(asked):
		return a.from
	default:
		return asked
	}
}

// leasing gives activities their leases.
type leasing struct {
	interceptor.WorkerInterceptorBase
	leases *Leases
}

// InterceptActivity wraps one activity.
func (i *leasing) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &leasingInbound{leases: i.leases}
	in.Next = next
	return in
}

type leasingInbound struct {
	interceptor.ActivityInboundInterceptorBase
	leases *Leases
}

// ExecuteActivity runs the activity with a lease.
func (i *leasingInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	ctx, end := i.leases.begin(ctx, activity.GetInfo(ctx))
	defer end()
	return i.Next.ExecuteActivity(ctx, in)
}
