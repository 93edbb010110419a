package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestAdminStatusOfEarlierContexts: what an update took over from is Updated, as of a cloud of level 1; what an instantiate came after is over.
func TestAdminStatusOfEarlierContexts(t *testing.T) {
	cloud := &domain.LogicalCloud{Spec: domain.LogicalCloudSpec{Level: domain.LevelAdmin}}
	for i, a := range []domain.Action{
		{State: domain.Instantiated, ContextID: "1"}, {State: domain.InstantiateStopped, ContextID: "1"},
		{State: domain.Updated, ContextID: "2"}, {State: domain.Updated, ContextID: "3"}, {State: domain.Terminated, ContextID: "3"},
		{State: domain.Instantiated, ContextID: "4"}, {State: domain.Updated, ContextID: "5"},
	} {
		cloud.History.Append(a.State, a.ContextID, i, time.Time{})
	}
	for id, want := range map[string]domain.ContextStatus{
		"1": domain.ContextUpdated, "2": domain.ContextUpdated, "3": domain.ContextTerminated, "4": domain.ContextUpdated, "5": domain.ContextInstantiated,
	} {
		require.Equal(t, want, adminStatus(cloud, id), id)
	}
}
