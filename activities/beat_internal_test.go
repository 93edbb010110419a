package activities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
)

// heartbeats tells of each one with its context, and keeps it on its way until it is released.
type heartbeats struct {
	interceptor.WorkerInterceptorBase
	interceptor.ActivityInboundInterceptorBase
	interceptor.ActivityOutboundInterceptorBase
	sent    chan context.Context
	release chan struct{}
}

func (h *heartbeats) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	h.ActivityInboundInterceptorBase.Next = next
	return h
}

func (h *heartbeats) Init(next interceptor.ActivityOutboundInterceptor) error {
	h.ActivityOutboundInterceptorBase.Next = next
	return h.ActivityInboundInterceptorBase.Init(h)
}

func (h *heartbeats) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	return h.ActivityInboundInterceptorBase.ExecuteActivity(ctx, in)
}

func (h *heartbeats) RecordHeartbeat(ctx context.Context, _ ...any) {
	h.sent <- ctx
	<-h.release
}

// TestAHeartbeatOnItsWayIsNotCutOff when its activity ends: what became of it in Temporal nobody would know.
func TestAHeartbeatOnItsWayIsNotCutOff(t *testing.T) {
	var s testsuite.WorkflowTestSuite
	env, h := s.NewTestActivityEnvironment(), &heartbeats{sent: make(chan context.Context), release: make(chan struct{})}
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{h}})
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		stop := beat(ctx)
		on := <-h.sent
		cancel()
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		cut := on.Err()
		close(h.release)
		<-stopped
		return cut
	}, activity.RegisterOptions{Name: "ends"})
	_, err := env.ExecuteActivity("ends")
	require.NoError(t, err)
}
