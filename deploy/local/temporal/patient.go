package temporal

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/server/api/historyservice/v1"
	"go.temporal.io/server/client"
	"go.temporal.io/server/common"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/testing/testhooks"
	"google.golang.org/grpc"
)

// startTime is how long it may take to note that a worker has got a task.
//
// The server gives that 1 s when the task meets a waiting worker, and 10 s
// otherwise; neither is a setting. When it takes longer the worker gets nothing.
// What was noted all the same is waited for until the task has timed out, after
// 5 s, and nobody knows what was, so that the shard is acquired anew and all its
// writes fail meanwhile. So one second in which the database was busy, as on a
// machine with too much to do, became six or more of a workflow.
const startTime = 10 * time.Second

// patientClients makes the clients by which the server's services talk to each
// other, with startTime.
type patientClients struct{ client.FactoryProvider }

func (p patientClients) NewFactory(
	rpcFactory common.RPCFactory, monitor membership.Monitor, handler metrics.Handler, dc *dynamicconfig.Collection,
	hooks testhooks.TestHooks, shards int32, logger, throttled log.Logger,
) client.Factory {
	return patientFactory{p.FactoryProvider.NewFactory(rpcFactory, monitor, handler, dc, hooks, shards, logger, throttled)}
}

type patientFactory struct{ client.Factory }

func (f patientFactory) NewHistoryClientWithTimeout(timeout time.Duration) (historyservice.HistoryServiceClient, error) {
	c, err := f.Factory.NewHistoryClientWithTimeout(timeout)
	return patientHistory{c}, err
}

type patientHistory struct {
	historyservice.HistoryServiceClient
}

// Stop ends what the client runs beside its calls. Who made it looks for the method, which the interface does not name.
func (h patientHistory) Stop() {
	if s, ok := h.HistoryServiceClient.(interface{ Stop() }); ok {
		s.Stop()
	}
}

func (h patientHistory) RecordWorkflowTaskStarted(
	ctx context.Context, in *historyservice.RecordWorkflowTaskStartedRequest, opts ...grpc.CallOption,
) (*historyservice.RecordWorkflowTaskStartedResponse, error) {
	ctx, cancel := patiently(ctx)
	defer cancel()
	return h.HistoryServiceClient.RecordWorkflowTaskStarted(ctx, in, opts...)
}

func (h patientHistory) RecordActivityTaskStarted(
	ctx context.Context, in *historyservice.RecordActivityTaskStartedRequest, opts ...grpc.CallOption,
) (*historyservice.RecordActivityTaskStartedResponse, error) {
	ctx, cancel := patiently(ctx)
	defer cancel()
	return h.HistoryServiceClient.RecordActivityTaskStarted(ctx, in, opts...)
}

// patiently is ctx with startTime in the place of its deadline. It ends when ctx
// is cancelled.
func patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}
