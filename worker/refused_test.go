package worker

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"

	"github.com/drover-io/drover/activities"
)

// TestWhoIsRefusedSaysSo: the SDK polls no more when the namespace is not there any more, and tells nobody.
func TestWhoIsRefusedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := func(_ context.Context, method string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			switch method {
			case workflowservice.WorkflowService_PollActivityTaskQueue_FullMethodName, workflowservice.WorkflowService_PollWorkflowTaskQueue_FullMethodName:
				return serviceerror.ToStatus(serviceerror.NewNamespaceNotFound("deleted")).Err()
			default:
				return nil
			}
		}
		c, err := client.NewLazyClient(client.Options{
			Logger:            log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
			ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(gone)}},
		})
		require.NoError(t, err)
		var mu sync.Mutex
		var refusals []string
		w := New(c, &activities.Control{}, &activities.Kube{}, &activities.Watch{}, &activities.Match{}, Options{
			Workflows: 2, Activities: 2, Clusters: 2, Watches: 2, Waits: 2, Cache: 2, Drain: time.Second,
			Refused: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				refusals = append(refusals, err.Error())
			},
		})
		require.NoError(t, w.Start())
		time.Sleep(10 * time.Minute) //nolint:forbidigo // in synctest's time
		w.Stop()
		c.Close()
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, refusals, 4, "one for each queue")
		require.Contains(t, refusals[0], "drover-")
		require.Contains(t, refusals[0], "deleted")
	})
}
