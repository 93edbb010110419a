package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/lease"
	"github.com/drover-io/drover/internal/policy"
)

// connection is a worker's connection to a server that answers when the test says, in time that passes when the test says.
type connection struct {
	*Leases
	t   *testing.T
	now lease.Instant
}

func connect(t *testing.T) *connection {
	t.Helper()
	c := &connection{t: t, now: lease.Instant{Boot: time.Hour, Wall: 1000 * time.Hour}}
	c.Leases = NewLeases(func() lease.Instant { return c.now })
	return c
}

// freeze lets time pass that the process does not see pass.
func (c *connection) freeze(d time.Duration) {
	c.now.Boot += d
	c.now.Wall += d
}

// pass lets time pass.
func (c *connection) pass(d time.Duration) {
	for ; d > 0; d -= policy.Alive {
		c.freeze(min(d, policy.Alive))
		c.alive.tick(c.now)
	}
}

// call asks for something; the answer is there when meanwhile returns, and is said to be err.
func (c *connection) call(request, answer any, meanwhile func(), err error) {
	c.t.Helper()
	got := c.Listen(c.t.Context(), "/", request, answer, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			meanwhile()
			return err
		})
	require.Equal(c.t, err, got)
}

const token, run = "token", "run"

func (c *connection) poll(meanwhile func()) {
	c.t.Helper()
	c.call(&workflowservice.PollActivityTaskQueueRequest{}, &workflowservice.PollActivityTaskQueueResponse{TaskToken: []byte(token)}, meanwhile, nil)
}

func (c *connection) pollWorkflow(meanwhile func()) {
	c.t.Helper()
	c.call(&workflowservice.PollWorkflowTaskQueueRequest{}, &workflowservice.PollWorkflowTaskQueueResponse{
		WorkflowExecution: &commonpb.WorkflowExecution{RunId: run},
	}, meanwhile, nil)
}

func (c *connection) beatTakes(meanwhile func(), err error) {
	c.t.Helper()
	c.call(&workflowservice.RecordActivityTaskHeartbeatRequest{TaskToken: []byte(token)}, &workflowservice.RecordActivityTaskHeartbeatResponse{}, meanwhile, err)
}

// attempt begins one; its context has the lease.
func (c *connection) attempt() context.Context {
	ctx, end := c.begin(c.t.Context(), activity.Info{TaskToken: []byte(token), HeartbeatTimeout: beatTimeout})
	c.t.Cleanup(end)
	return ctx
}

// atOnce begins one in the workflow's own task, which may take so long.
func (c *connection) atOnce(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	c.t.Cleanup(cancel)
	ctx, end := c.begin(ctx, activity.Info{IsLocalActivity: true, WorkflowExecution: workflow.Execution{RunID: run}})
	c.t.Cleanup(end)
	return ctx
}

const (
	beatTimeout = 5 * time.Second
	held        = beatTimeout - policy.LeaseMargin
)

func TestLeases(t *testing.T) {
	nothing := func() {}
	for name, c := range map[string]struct {
		do   func(c *connection) context.Context
		held bool
	}{
		"an attempt has just begun": {func(c *connection) context.Context {
			c.poll(func() { c.pass(time.Minute) })
			ctx := c.attempt()
			c.pass(held - time.Millisecond)
			return ctx
		}, true},
		"no heartbeat gets through": {func(c *connection) context.Context {
			c.poll(nothing)
			ctx := c.attempt()
			c.beatTakes(func() { c.pass(held) }, errors.New("unavailable"))
			return ctx
		}, false},
		"a heartbeat counts from when it was sent": {func(c *connection) context.Context {
			c.poll(nothing)
			ctx := c.attempt()
			c.pass(time.Second)
			c.beatTakes(func() { c.pass(time.Second) }, nil)
			c.pass(held - time.Second - time.Millisecond)
			return ctx
		}, true},
		"and not from its answer": {func(c *connection) context.Context {
			c.poll(nothing)
			ctx := c.attempt()
			c.pass(time.Second)
			c.beatTakes(func() { c.pass(time.Second) }, nil)
			c.pass(held - time.Second)
			return ctx
		}, false},
		"somebody else's heartbeat": {func(c *connection) context.Context {
			c.poll(nothing)
			ctx := c.attempt()
			c.pass(time.Second)
			c.call(&workflowservice.RecordActivityTaskHeartbeatRequest{TaskToken: []byte("other")}, &workflowservice.RecordActivityTaskHeartbeatResponse{}, nothing, nil)
			c.pass(held - time.Second)
			return ctx
		}, false},
		"Temporal does not know the attempt any more": {func(c *connection) context.Context {
			c.poll(nothing)
			ctx := c.attempt()
			c.beatTakes(nothing, status.Error(codes.NotFound, "activity task not found"))
			return ctx
		}, false},
		"frozen at work": {func(c *connection) context.Context {
			c.poll(nothing)
			ctx := c.attempt()
			c.freeze(held)
			return ctx
		}, false},
		"frozen between the task and the work": {func(c *connection) context.Context {
			c.poll(nothing)
			c.freeze(held)
			return c.attempt()
		}, false},
		"frozen while the task came": {func(c *connection) context.Context {
			c.poll(func() { c.pass(time.Second); c.freeze(held) })
			return c.attempt()
		}, false},
		"frozen twice while the task came": {func(c *connection) context.Context {
			c.poll(func() { c.freeze(held); c.pass(policy.Alive); c.freeze(2 * time.Second) })
			return c.attempt()
		}, false},
		"frozen while it waited for a task, which was found soon after": {func(c *connection) context.Context {
			c.poll(func() { c.pass(time.Second); c.freeze(held); c.pass(held + policy.Frozen) })
			return c.attempt()
		}, false},
		"frozen while it waited for a task, which was found later": {func(c *connection) context.Context {
			c.poll(func() { c.pass(time.Second); c.freeze(held); c.pass(held + policy.Frozen + 3*policy.Alive) })
			ctx := c.attempt()
			c.pass(held - time.Millisecond)
			return ctx
		}, true},
		"held up for a moment while it waited for a task, which was found at any time after": {func(c *connection) context.Context {
			c.poll(func() { c.freeze(policy.Frozen); c.pass(2 * policy.Frozen) })
			return c.attempt()
		}, true},
		"held up again and again while it waited for a task, which was found later": {func(c *connection) context.Context {
			c.poll(func() {
				for range 10 {
					c.freeze(policy.Frozen)
					c.pass(2 * policy.Alive)
				}
				c.pass(10*(policy.Frozen+2*policy.Alive) + policy.Frozen)
			})
			ctx := c.attempt()
			c.pass(held - time.Millisecond)
			return ctx
		}, true},
		"frozen before the task was asked for": {func(c *connection) context.Context {
			c.freeze(time.Minute)
			c.pass(policy.Alive)
			c.poll(nothing)
			return c.attempt()
		}, true},
		"frozen before, and then the time was set back": {func(c *connection) context.Context {
			c.freeze(time.Minute)
			c.pass(policy.Alive)
			c.now.Wall -= time.Hour
			c.poll(nothing)
			return c.attempt()
		}, true},
		"at once": {func(c *connection) context.Context {
			c.pollWorkflow(func() { c.pass(time.Minute) })
			ctx := c.atOnce(time.Minute)
			c.pass(policy.Task - policy.LeaseMargin - time.Millisecond)
			return ctx
		}, true},
		"at once, for as long as the workflow's task is waited for": {func(c *connection) context.Context {
			c.pollWorkflow(nothing)
			ctx := c.atOnce(time.Minute)
			c.freeze(policy.Task - policy.LeaseMargin)
			return ctx
		}, false},
		"at once, frozen for longer than it may take": {func(c *connection) context.Context {
			c.pollWorkflow(nothing)
			ctx := c.atOnce(time.Second)
			c.freeze(time.Second)
			return ctx
		}, false},
		"at once, frozen before": {func(c *connection) context.Context {
			c.pollWorkflow(nothing)
			c.freeze(policy.Task)
			return c.atOnce(time.Minute)
		}, false},
		"at once, frozen while the task came": {func(c *connection) context.Context {
			c.pollWorkflow(func() { c.freeze(policy.Task) })
			return c.atOnce(time.Minute)
		}, false},
		"at once, in a task that Temporal has prolonged": {func(c *connection) context.Context {
			c.pollWorkflow(nothing)
			c.pass(policy.Task)
			c.call(&workflowservice.RespondWorkflowTaskCompletedRequest{}, &workflowservice.RespondWorkflowTaskCompletedResponse{
				WorkflowTask: &workflowservice.PollWorkflowTaskQueueResponse{WorkflowExecution: &commonpb.WorkflowExecution{RunId: run}},
			}, nothing, nil)
			return c.atOnce(time.Minute)
		}, true},
		"at once, with a question in between": {func(c *connection) context.Context {
			c.pollWorkflow(nothing)
			c.freeze(policy.Task)
			c.call(&workflowservice.PollWorkflowTaskQueueRequest{}, &workflowservice.PollWorkflowTaskQueueResponse{
				WorkflowExecution: &commonpb.WorkflowExecution{RunId: run}, Query: &querypb.WorkflowQuery{},
			}, nothing, nil)
			return c.atOnce(time.Minute)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.do(connect(t))
			if c.held {
				require.NoError(t, lease.Check(ctx))
			} else {
				require.ErrorIs(t, lease.Check(ctx), lease.ErrLost)
			}
		})
	}
}
