package test

import (
	"context"
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/universe"
	"github.com/drover-io/drover/test/harness"
)

// tenantAgent tells of a tenant's workloads, by a stream to one process of the API.
type tenantAgent struct {
	*tenancy
	connection *grpc.ClientConn
	stream     grpc.ClientStreamingClient[universe.WorkloadStreamRequest, universe.WorkloadStreamResponse]
}

// agent has a stream to the stack's API.
func (e *tenancy) agent(ctx context.Context) *tenantAgent {
	e.Helper()
	return e.agentAt(ctx, e.stack.TenantAddress())
}

// agentAt has a stream to the API at an address.
func (e *tenancy) agentAt(ctx context.Context, address string) *tenantAgent {
	e.Helper()
	a := &tenantAgent{tenancy: e, connection: e.stack.TenantConnectionAt(address, e.tenant.Name)}
	var err error
	a.stream, err = universe.NewWorkloadServiceClient(a.connection).WorkloadStream(harness.ForTenant(ctx, e.tenant.Name), grpc.WaitForReady(true))
	require.NoError(e, err)
	return a
}

// send sends a message. What is wrong is said at the end of the stream.
func (a *tenantAgent) send(m *universe.WorkloadStreamRequest) { _ = a.stream.Send(m) }

func (a *tenantAgent) update(w *domain.Workload) {
	a.send(&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: updateOf(w)}})
}

func (a *tenantAgent) delete(id string) {
	a.send(&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadDelete{
		WorkloadDelete: &universe.WorkloadDelete{WorkloadMetadata: &universe.WorkloadMetadata{Id: id}},
	}})
}

// sync tells of all workloads that there are.
func (a *tenantAgent) sync() {
	all := &universe.WorkloadSync{}
	for _, w := range a.workloads {
		all.WorkloadUpdates = append(all.WorkloadUpdates, updateOf(w))
	}
	a.send(&universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: all}})
}

// end says that this is all, and hears that all of it is stored.
func (a *tenantAgent) end() {
	a.Helper()
	_, err := a.stream.CloseAndRecv()
	require.NoError(a, err)
	require.NoError(a, a.connection.Close())
}

// ends waits until the API has ended the stream, and says with which code.
func (a *tenantAgent) ends() codes.Code {
	return grpcstatus.Code(a.stream.RecvMsg(&universe.WorkloadStreamResponse{}))
}

// kill ends the agent without a word.
func (a *tenantAgent) kill() { _ = a.connection.Close() }

func updateOf(w *domain.Workload) *universe.WorkloadUpdate {
	return &universe.WorkloadUpdate{
		WorkloadMetadata: &universe.WorkloadMetadata{
			Id: w.ID, Orchestrator: universe.OrchestratorType_ORCHESTRATOR_TYPE_KUBERNETES, ResourceType: w.ResourceType,
			ResourceNamespace: w.ResourceNamespace, ResourceName: w.ResourceName,
		},
		WorkloadState: &universe.WorkloadState{NodeName: w.NodeName, Ready: w.Ready},
	}
}

// told waits until the workloads that are stored are those that there are.
func (e *tenancy) told(ctx context.Context) {
	e.Helper()
	e.stored(ctx, slices.Sorted(maps.Keys(e.workloads)))
}

// stored waits until the workloads with these ids are stored, and no others.
func (e *tenancy) stored(ctx context.Context, ids []string) {
	e.Helper()
	harness.Until(ctx, e, "stored as it was told", func() bool {
		all, _, err := e.store.WorkloadsAt(ctx, e.tenant.Name)
		require.NoError(e, err)
		have := []string{}
		for _, w := range all {
			have = append(have, w.ID)
		}
		slices.Sort(have)
		return slices.Equal(ids, have)
	})
}
