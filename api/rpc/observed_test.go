package rpc_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/drover-io/drover/internal/caller"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/universe"
)

// metricsRead reads what is measured from its first call on.
var metricsRead = sync.OnceValue(func() *metric.ManualReader {
	reader := metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	return reader
})

// measured is how often each method has ended with which code, by metric.
func measured(t *testing.T) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, metricsRead().Collect(t.Context(), &all))
	found := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					method, _ := p.Attributes.Value("method")
					code, _ := p.Attributes.Value("code")
					found[strings.Join([]string{m.Name, method.AsString(), code.AsString()}, " ")] = int64(p.Count) // #nosec G115 -- a few calls
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					method, _ := p.Attributes.Value("method")
					code, _ := p.Attributes.Value("code")
					found[strings.Join([]string{m.Name, method.AsString(), code.AsString()}, " ")] = p.Value
				}
			}
		}
	}
	return found
}

// TestACallIsFoundByItsID in the log, in the answer and by whatever is done for it, and is counted by its method and code; so is one of who is no tenant.
func TestACallIsFoundByItsID(t *testing.T) {
	log, id, before := &kept{}, "", measured(t)
	connection := tenantsLogging(t, slog.NewTextHandler(log, nil), func(ctx context.Context, _ *door.Request, _ door.Next) error {
		id = caller.RequestID(ctx)
		return fail.New(fail.Forbidden, "closed")
	})
	const list, stream = "universe.workload.v1.WorkloadRuleService/List", "universe.workload.v1.WorkloadService/WorkloadStream"
	ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "tenant1", "x-request-id", strings.Repeat("t", 200))
	ids := map[string]bool{}
	for name, c := range map[string]struct {
		ctx context.Context
		say []string // the line has
		new bool     // the door gets it
	}{
		"a tenant":    {ctx, []string{"code=PermissionDenied", "clientRequestId=" + strings.Repeat("t", 100) + "…"}, true},
		"who is none": {t.Context(), []string{"code=InvalidArgument"}, false},
	} {
		said := len(log.String())
		var trailer metadata.MD
		_, err := universe.NewWorkloadRuleServiceClient(connection).List(c.ctx, &universe.ListRequest{}, grpc.Trailer(&trailer))
		require.Error(t, err, name)
		require.Len(t, trailer.Get("x-request-id"), 1, name)
		answered := trailer.Get("x-request-id")[0]
		require.False(t, ids[answered], "each has its own")
		ids[answered] = true
		line := log.String()[said:]
		require.Equal(t, 1, strings.Count(line, "msg=call"), line)
		for _, part := range append(c.say, "requestId="+answered, "method=/"+list) {
			require.Contains(t, line, part, name)
		}
		require.Equal(t, c.new, id == answered, name)
	}
	s, err := universe.NewWorkloadServiceClient(connection).WorkloadStream(ctx)
	require.NoError(t, err)
	_, err = s.CloseAndRecv()
	require.Error(t, err)
	now := measured(t)
	for metric, of := range map[string]string{
		"drover_grpc_call_duration_seconds " + list + " PermissionDenied": "a call", "drover_grpc_call_duration_seconds " + list + " InvalidArgument": "of who is none",
		"drover_grpc_streams_ended_total " + stream + " PermissionDenied": "a stream",
	} {
		require.Equal(t, int64(1), now[metric]-before[metric], of)
	}
}
