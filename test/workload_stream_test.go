package test

import (
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/universe"
	"github.com/drover-io/drover/test/harness"
)

// otherTenant is the one of other_tenant_store.
const otherTenant = "tenant2"

// tryStream sends the messages of a case, and looks at what is stored then.
func (w *caseWorld) tryStream(c *workloadCase) {
	tenant := w.file.Defaults.TenantID
	var store []string
	if len(c.Store) > 0 {
		require.NoError(w, json.Unmarshal(c.Store, &store))
	}
	w.sync(tenant, store)
	w.sync(otherTenant, c.OtherTenantStore)

	connection := w.stack.TenantConnection("")
	stream, err := universe.NewWorkloadServiceClient(connection).WorkloadStream(harness.ForTenant(w.ctx, tenant))
	require.NoError(w, err)
	for _, m := range c.Messages {
		if err := stream.Send(w.message(m)); err != nil {
			break // the answer says why
		}
	}
	if c.End == "broken" {
		require.NotNil(w, c.Expect.Stored)
		w.eventually(func() bool { return slices.Equal(w.workloads(tenant), w.ids(*c.Expect.Stored)) })
		require.NoError(w, connection.Close())
		w.eventually(func() bool {
			status, err := w.stack.Client.API().TenantStatus(w.ctx, domain.TenantKey(tenant))
			require.NoError(w, err)
			return !status.Connected
		})
	} else {
		_, err = stream.CloseAndRecv()
		w.expectCode(c, err)
	}
	if c.Expect.Stored != nil {
		require.Equal(w, w.ids(*c.Expect.Stored), w.workloads(tenant))
	}
	if c.Expect.OtherTenantStored != nil {
		require.Equal(w, w.ids(*c.Expect.OtherTenantStored), w.workloads(otherTenant))
	}
	w.sync(tenant, nil)
	w.sync(otherTenant, nil)
}

func (w *caseWorld) eventually(is func() bool) {
	w.Helper()
	require.Eventually(w, is, harness.Patience, 20*time.Millisecond)
}

// sync gives a tenant the workloads with these names, and no others.
func (w *caseWorld) sync(tenant string, names []string) {
	w.Helper()
	stream, err := universe.NewWorkloadServiceClient(w.admin).WorkloadStream(harness.ForTenant(w.ctx, tenant))
	require.NoError(w, err)
	require.NoError(w, stream.Send(w.message(caseMessage{Sync: &names})))
	_, err = stream.CloseAndRecv()
	require.NoError(w, err)
}

// message is one of a case as the protocol has it.
func (w *caseWorld) message(m caseMessage) *universe.WorkloadStreamRequest {
	w.Helper()
	changed := func(u *universe.WorkloadUpdate) *universe.WorkloadStreamRequest {
		return &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadUpdate{WorkloadUpdate: u}}
	}
	switch {
	case m.Sync != nil:
		all := &universe.WorkloadSync{}
		for _, name := range *m.Sync {
			all.WorkloadUpdates = append(all.WorkloadUpdates, w.update(name))
		}
		return &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadSync{WorkloadSync: all}}
	case m.Update != "":
		return changed(w.update(m.Update))
	case m.Delete != "":
		gone := &universe.WorkloadDelete{WorkloadMetadata: w.update(m.Delete).GetWorkloadMetadata()}
		return &universe.WorkloadStreamRequest{Message: &universe.WorkloadStreamRequest_WorkloadDelete{WorkloadDelete: gone}}
	}
	some := &universe.WorkloadUpdate{WorkloadMetadata: &universe.WorkloadMetadata{ResourceType: domain.KindPod}}
	switch m.Raw {
	case "empty":
		return &universe.WorkloadStreamRequest{}
	case "no_metadata":
		return changed(&universe.WorkloadUpdate{})
	case "no_id":
		return changed(some)
	}
	w.Fatalf("nobody knows the message %+v", m)
	return nil
}

// ids are those of the workloads with names, sorted.
func (w *caseWorld) ids(names []string) []string {
	w.Helper()
	ids := []string{}
	for _, name := range names {
		ids = append(ids, w.update(name).GetWorkloadMetadata().GetId())
	}
	slices.Sort(ids)
	return ids
}

// workloads are the ids of what is stored of a tenant, sorted.
func (w *caseWorld) workloads(tenant string) []string {
	w.Helper()
	ids := []string{}
	for one, err := range w.stack.Client.API().Workloads(w.ctx, domain.TenantKey(tenant), url.Values{}) {
		require.NoError(w, err)
		ids = append(ids, one.ID)
	}
	return ids
}
