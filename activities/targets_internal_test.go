package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
)

func TestTooMany(t *testing.T) {
	targets := map[string][]plan.Target{"a": make([]plan.Target, 3), "b": make([]plan.Target, 2)}
	require.NoError(t, tooMany(targets, 0))
	require.NoError(t, tooMany(targets, 5))
	err := tooMany(targets, 4)
	require.True(t, fail.Is(err, fail.Malformed), "%v", err)
	require.ErrorContains(t, err, "the 2 apps of the group would go to 5 clusters in all, and may go to 4 (--group-targets)")
}
