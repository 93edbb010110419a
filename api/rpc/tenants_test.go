package rpc_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/drover-io/drover/api/rpc"
	"github.com/drover-io/drover/internal/door"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/universe"
)

// tenants serves the tenants' services in front of a door that lets nobody in, and notes who came to it.
func tenants(t *testing.T, came *[]door.Request) *grpc.ClientConn {
	t.Helper()
	return tenantsBehind(t, func(_ context.Context, r *door.Request, _ door.Next) error {
		*came = append(*came, *r)
		return fail.New(fail.Forbidden, "closed")
	})
}

// tenantsBehind serves the tenants' services in front of a door with a step.
func tenantsBehind(t *testing.T, step door.Step) *grpc.ClientConn {
	t.Helper()
	return tenantsLogging(t, slog.DiscardHandler, step)
}

// tenantsLogging is tenantsBehind with a log.
func tenantsLogging(t *testing.T, log slog.Handler, step door.Step) *grpc.ClientConn {
	t.Helper()
	return serveTenants(t, listen(t), door.New(door.Parts{}, step), log)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// serveTenants serves the tenants' services in front of a door until the test ends.
func serveTenants(t *testing.T, l net.Listener, d *door.Door, log slog.Handler) *grpc.ClientConn {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- rpc.ServeTenants(ctx, l, rpc.TenantOptions{Options: rpc.Options{Door: d, Log: slog.New(log), Drain: time.Minute}})
	}()
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		connection.Close()
		cancel()
		require.NoError(t, <-ended)
	})
	return connection
}

// TestEveryTenantsMethodPassesTheDoor as TestEveryMethodPassesTheDoor has it for the other listener.
func TestEveryTenantsMethodPassesTheDoor(t *testing.T) {
	var came []door.Request
	c := universe.NewWorkloadRuleServiceClient(tenants(t, &came))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "tenant1")
	calls := map[string]func() error{
		"Create": func() error {
			_, err := c.Create(ctx, &universe.CreateRequest{Rule: &universe.Rule{Id: "r"}})
			return err
		},
		"Update": func() error {
			_, err := c.Update(ctx, &universe.UpdateRequest{Rule: &universe.Rule{Id: "r"}})
			return err
		},
		"Delete": func() error { _, err := c.Delete(ctx, &universe.DeleteRequest{Id: "r"}); return err },
		"Get":    func() error { _, err := c.Get(ctx, &universe.GetRequest{Id: "r"}); return err },
		"List":   func() error { _, err := c.List(ctx, &universe.ListRequest{}); return err },
	}
	const one = "tenants/tenant1/workload-rules/r"
	want := map[string][2]string{
		"Create": {"create", one}, "Update": {"put", one}, "Delete": {"delete", one}, "Get": {"get", one}, "List": {"list", "tenants/tenant1"},
	}
	for _, m := range universe.WorkloadRuleService_ServiceDesc.Methods {
		require.Contains(t, calls, m.MethodName)
		came = nil
		require.Equal(t, codes.PermissionDenied, grpcstatus.Code(calls[m.MethodName]()), m.MethodName)
		require.Len(t, came, 1, m.MethodName)
		require.Equal(t, "workload-rules", came[0].Noun.Kind)
		require.Equal(t, want[m.MethodName], [2]string{string(came[0].Verb), string(came[0].Key())}, m.MethodName)
	}
	came = nil
	_, err := c.Delete(ctx, &universe.DeleteRequest{Id: strings.Repeat("x", 1<<20)})
	require.Equal(t, codes.PermissionDenied, grpcstatus.Code(err))
	require.Less(t, len(came[0].Key()), 1000, "it is logged")
}

// TestTheWorkloadStreamPassesTheDoor as the methods do.
func TestTheWorkloadStreamPassesTheDoor(t *testing.T) {
	var came []door.Request
	c := universe.NewWorkloadServiceClient(tenants(t, &came))
	require.Len(t, universe.WorkloadService_ServiceDesc.Streams, 1)
	require.Empty(t, universe.WorkloadService_ServiceDesc.Methods)
	s, err := c.WorkloadStream(metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "tenant1"))
	require.NoError(t, err)
	_, err = s.CloseAndRecv()
	require.Equal(t, codes.PermissionDenied, grpcstatus.Code(err))
	require.Len(t, came, 1)
	require.Equal(t, "report workloads tenants/tenant1", string(came[0].Verb)+" "+came[0].Noun.Kind+" "+string(came[0].Key()))
}

// TestHealthKnowsServicesByName: who probes one asks for it so.
func TestHealthKnowsServicesByName(t *testing.T) {
	health := grpc_health_v1.NewHealthClient(tenants(t, &[]door.Request{}))
	for _, name := range []string{"", universe.WorkloadService_ServiceDesc.ServiceName, universe.WorkloadRuleService_ServiceDesc.ServiceName} {
		answer, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		require.NoError(t, err, name)
		require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, answer.GetStatus(), name)
	}
	_, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "none"})
	require.Equal(t, codes.NotFound, grpcstatus.Code(err))
}

// TestWhoIsForNoTenantDoesNotComeToTheDoor: what the metadata says is looked at first.
func TestWhoIsForNoTenantDoesNotComeToTheDoor(t *testing.T) {
	var came []door.Request
	c := universe.NewWorkloadRuleServiceClient(tenants(t, &came))
	for name, values := range map[string][]string{
		"missing": nil, "empty": {""}, "twice": {"a", "a"}, "malformed": {"A_b"}, "with a slash": {"a/b"},
		"too long": {"a123456789012345678901234567890123456789012345678901234567"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			for _, v := range values {
				ctx = metadata.AppendToOutgoingContext(ctx, "tenant-id", v)
			}
			_, err := c.List(ctx, &universe.ListRequest{})
			require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err), "%v", err)
			require.ErrorContains(t, err, "tenant-id")
			require.Empty(t, came)
		})
	}
}

// TestAStoreThatDoesNotAnswerIsUnavailable, so that clients try again: DeadlineExceeded would be their own.
func TestAStoreThatDoesNotAnswerIsUnavailable(t *testing.T) {
	c := universe.NewWorkloadRuleServiceClient(tenantsBehind(t, func(context.Context, *door.Request, door.Next) error {
		return fail.New(fail.Timeout, "the database does not answer in time")
	}))
	_, err := c.List(metadata.AppendToOutgoingContext(t.Context(), "tenant-id", "tenant1"), &universe.ListRequest{})
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err), "%v", err)
	require.ErrorContains(t, err, "does not answer in time")
}
