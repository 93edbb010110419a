package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/activities"
	"github.com/drover-io/drover/internal/domain"
)

func TestEveryOwnerHasAPlanner(t *testing.T) {
	for _, n := range domain.Owners {
		require.True(t, activities.HasPlanner(n), n.Kind)
	}
}
