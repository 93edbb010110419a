package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/service"
)

// TestAChangeIsNeverSaidWithoutWhatItIs, be it that both say the same in other words.
func TestAChangeIsNeverSaidWithoutWhatItIs(t *testing.T) {
	d := &service.GroupDiff{Clusters: 1, Changes: service.DiffCounts{Change: 2}, Items: []service.DiffItem{{
		App: "web", Clusters: []string{"p+a"}, Resources: []service.DiffResource{
			{Resource: "Secret/web", Action: plan.ActionChange},
			{Resource: "Deployment/web", Action: plan.ActionChange, Replace: true, Fields: []service.DiffField{
				{Path: "spec.initContainers (order)", Before: []any{"a", "b"}, After: []any{"b", "a"}},
			}},
		},
	}}}
	require.Equal(t, []string{
		"web on p+a",
		"  ~ Secret/web", "      (it says the same, otherwise written)",
		"  ~ Deployment/web (deleted and made anew where its cluster refuses to change it)", "      spec.initContainers (order):", "        - - a", "          - b", "        + - a",
	}, differenceLines(d, false)[1:])
}
