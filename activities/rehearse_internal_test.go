package activities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// TestOneProjectLeavesRehearsalsToOthers: its own wait, however many there are.
func TestOneProjectLeavesRehearsalsToOthers(t *testing.T) {
	r := NewRehearsal(nil, nil, nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var busy []func()
	take := func(project string) {
		t.Helper()
		release, err := r.slot(t.Context(), domain.Key("projects/"+project+"/composite-apps/a/v1/deployment-intent-groups/g"))
		require.NoError(t, err)
		busy = append(busy, release)
	}
	for range MaxProjectRehearsals {
		take("busy")
	}
	for range 10 {
		_, err := r.slot(over, "projects/busy/composite-apps/b/v1/deployment-intent-groups/g")
		require.ErrorIs(t, err, context.Canceled)
	}
	for range MaxRehearsals - MaxProjectRehearsals {
		take("other")
	}
	_, err := r.slot(over, "projects/third/composite-apps/b/v1/deployment-intent-groups/g")
	require.ErrorIs(t, err, context.Canceled)
	for _, release := range busy {
		release()
	}
	require.Empty(t, r.of)
	require.Empty(t, r.slots)
}
